//! What a bridge is handed, and how it ends.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::ExitCode;

use bytes::Bytes;
use serde_json::json;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::outlet::Outlet;
use super::serve::{Bridge, End, Signals};
use super::start::{exit_of, start};
use crate::jupyter::{Channel, Limits, RawMessage, encode, header};
use crate::process::{InterruptNumber, taken_over};
use crate::provisioner::{BridgeEnd, BridgeFailure, BridgeReady, BridgeSetup};

/// The longest setup, in bytes.
const MOST_SETUP: usize = 4 << 20;
/// Said on stderr, and by the exit code, where no manager is at the other end.
const NOT_BY_HAND: u8 = 2;
/// The link is lost; as our own kernels end then.
const LINK_LOST: u8 = 72;

/// Runs a bridge whose link is this process's stdin; its exit code. The environment is that of the
/// kernel.
///
/// # Errors
///
/// If nothing of what a bridge needs was handed to it: it is not to be started by hand.
pub fn run(environment: Vec<(OsString, OsString)>) -> io::Result<ExitCode> {
    let link: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let [page, setup] = taken_over::<2>(&link)?;
    let setup = read(&File::from(setup))?;
    let link = StdUnixStream::from(link);
    link.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let end = runtime.block_on(serve(environment, link, page, setup))?;
    runtime.shutdown_background();
    Ok(match end {
        // How that ended was told.
        End::Kernel(_) => ExitCode::SUCCESS,
        End::Manager => ExitCode::from(LINK_LOST),
        End::Fault => ExitCode::from(NOT_BY_HAND),
    })
}

fn read(file: &File) -> io::Result<BridgeSetup> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if length > MOST_SETUP {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(serde_json::from_slice(&bytes)?)
}

async fn serve(
    environment: Vec<(OsString, OsString)>,
    link: StdUnixStream,
    page: OwnedFd,
    setup: BridgeSetup,
) -> io::Result<End> {
    // From here on an interrupt is not lost.
    let signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        child: signal(SignalKind::child())?,
    };
    let reading = UnixStream::from_std(link.try_clone()?)?;
    let outlet = Outlet::new(link)?;
    let say = |msg_type: &str, content: String| {
        let header = header("b_0", msg_type, "", "");
        let message = RawMessage::new(Channel::Control, header, Bytes::from(content));
        if let Ok(frame) = encode(&message, &Limits::from_kernel()) {
            outlet.reply(frame);
        }
    };
    let own = env!("CARGO_PKG_VERSION");
    let started = if setup.version == own {
        let again = || say(BridgeSetup::AGAIN, "{}".to_owned());
        tokio::select! {
            started = start(&setup, &environment, again) => started,
            () = gone(&reading) => return Ok(End::Manager),
        }
    } else {
        let other = &setup.version;
        Err(format!(
            "cannot be started: its bridge is of version {own}, the manager of {other}"
        ))
    };
    let started = match started {
        Ok(started) => started,
        Err(reason) => {
            let failure = BridgeFailure { reason };
            say(BridgeSetup::FAILED, json!(failure).to_string());
            outlet.flush().await;
            return Ok(End::Fault);
        }
    };
    let ready = BridgeReady {
        transport: started.transport,
        info: started.info.clone(),
    };
    say(BridgeSetup::READY, serde_json::to_string(&ready)?);
    let by_message = setup.kernel.interrupted_by_message;
    let page = InterruptNumber::new(page);
    let (mut bridge, mut process) = Bridge::new(page, outlet, started, by_message);
    bridge.started_in = setup.cwd;
    let end = bridge.serve(&mut process, reading, signals).await;
    if let End::Kernel(status) = &end {
        let ended = BridgeEnd::from(exit_of(*status));
        bridge.tell_end(BridgeSetup::ENDED, &json!(ended)).await;
    }
    Ok(end)
}

/// Waits until the manager is gone; it says nothing before the kernel is there.
async fn gone(link: &UnixStream) {
    if link.readable().await.is_ok() {
        let mut byte = [0; 1];
        if matches!(link.try_read(&mut byte), Ok(0)) {
            return;
        }
    }
    std::future::pending::<()>().await;
}
