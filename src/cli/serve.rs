//! `warmcell serve`: the background server, and its end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::args_sessions::ServeArguments;
use super::{exit, streams, surroundings};
use crate::client::{Home, READY};
use crate::config::{ProcessLimits, Settings};
use crate::folders::FolderLock;
use crate::process::{
    Pidfd, Signal, hide_memory, in_a_thread, leave_limits_of_starter, leave_nice_value_of_starter,
    leave_session, let_go_of_standard_streams, own_limits, try_descriptors,
};
use crate::server::{BackgroundServer, Ended, ServerError, TcpDoor, Token};
use crate::telemetry::log_to_file;

/// How long a server stays without a kernel.
const IDLE_EXIT: Duration = Duration::from_secs(600);
/// How long a server that was told to end may take: it gives its kernels a second.
const STOP_DEADLINE: Duration = Duration::from_secs(5);
/// Descriptors for a door and a few kernels.
const DESCRIPTORS: usize = 64;
/// Threads that serve: what they do is short.
const THREADS: usize = 2;

/// Runs the command; its exit code.
pub(super) fn main(arguments: &ServeArguments) -> ExitCode {
    if arguments.started {
        leave_session();
    }
    if !arguments.stop
        && let Some(sentence) = surroundings::hide_secrets()
    {
        say(&sentence);
    }
    // Whoever starts a server by hand may mean them for kernels whose callers send none.
    let given = (!arguments.started).then(own_limits);
    if !arguments.stop {
        leave_limits_of_starter();
    }
    if arguments.started {
        leave_nice_value_of_starter();
    }
    let built = runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => {
            return refuse(arguments, &format!("cannot start: {error}"));
        }
    };
    let code = if arguments.stop {
        hide_memory();
        runtime.block_on(stop())
    } else {
        runtime.block_on(serve(arguments, given))
    };
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}

/// A sentence of ours.
fn say(sentence: &str) {
    // With stderr closed there is nobody to tell.
    drop(writeln!(io::stderr(), "warmcell: {sentence}"));
}

/// Says why it does not serve, to whoever started it.
fn refuse(arguments: &ServeArguments, sentence: &str) -> ExitCode {
    if arguments.started {
        drop(writeln!(streams::stdout(), "{sentence}"));
    }
    say(sentence);
    ExitCode::from(exit::UNAVAILABLE)
}

async fn serve(arguments: &ServeArguments, given: Option<ProcessLimits>) -> ExitCode {
    if let Err(error) = try_descriptors(DESCRIPTORS) {
        // It would be there for all, and of use to nobody.
        return refuse(arguments, &error.to_string());
    }
    let settings = Settings {
        kernel_limits: given,
        ..surroundings::server_settings()
    };
    // A home that cannot be written to costs the log, nothing else.
    let unlogged = log_to_file(&settings.home).err();
    if let Some(error) = unlogged.filter(|_| !arguments.started) {
        say(&format!("no log is written: {error}"));
    }
    let idle_exit = arguments
        .idle_exit
        .map_or(IDLE_EXIT, |seconds| Duration::from_secs(seconds.into()));
    let owner = surroundings::user();
    let end = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return refuse(arguments, &format!("cannot watch for signals: {error}")),
    };
    let started = if arguments.started {
        match held_lock(&settings) {
            Ok(folder) => BackgroundServer::start_locked(settings, &owner, idle_exit, folder).await,
            Err(source) => Err(ServerError::System {
                what: "the lock that the client holds",
                source,
            }),
        }
    } else {
        BackgroundServer::start(settings, &owner, idle_exit).await
    };
    let server = match started {
        Ok(server) => server,
        Err(error) => return refuse(arguments, &error.to_string()),
    };
    if arguments.started {
        // The client reads to the end of the pipe.
        drop(
            streams::stdout()
                .write_all(READY)
                .and_then(|()| streams::stdout().flush()),
        );
        if let Err(error) = let_go_of_standard_streams() {
            tracing::warn!(%error, "the client may wait for ever");
        }
    } else {
        let path = server.path().display().to_string();
        say(&format!(
            "serving at {path}; Ctrl-C or `warmcell serve --stop` ends it"
        ));
    }
    let tcp = match listen(arguments, &server).await {
        Ok(tcp) => tcp,
        Err(sentence) => {
            let code = refuse(arguments, &sentence);
            server.serve(std::future::ready(())).await;
            return code;
        }
    };
    let ended = server.serve(end.come()).await;
    drop(tcp);
    match ended {
        Ended::Idle if !arguments.started => say("ended: there was nothing to do"),
        _ => {}
    }
    ExitCode::SUCCESS
}

/// Listens on the address that was named, if one was, and says where and with which token.
async fn listen(
    arguments: &ServeArguments,
    server: &BackgroundServer,
) -> Result<Option<TcpDoor>, String> {
    let Some(address) = &arguments.tcp else {
        return Ok(None);
    };
    let file = arguments.token_file.clone();
    let token = match file.clone() {
        None => Token::random(),
        Some(file) => in_a_thread(move || Token::from_file(&file))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?,
    };
    let door = TcpDoor::open(server.manager(), address, token.clone())
        .await
        .map_err(|error| error.to_string())?;
    let address = door.address();
    if !address.ip().is_loopback() {
        say(&format!(
            "WARNING: {address} can be reached from other machines, and nothing is encrypted: whoever \
             sees the token runs code as you"
        ));
    }
    let token = match file {
        None => format!("?token={}", token.as_str()),
        Some(_) => String::new(),
    };
    let mut stdout = streams::stdout();
    let said = writeln!(stdout, "http://{address}/{token}").and_then(|()| stdout.flush());
    said.map_err(|error| format!("cannot say where it listens: {error}"))?;
    Ok(Some(door))
}

/// The lock that came as stdin.
fn held_lock(settings: &Settings) -> io::Result<FolderLock> {
    let folder = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let folders = crate::folders::door_folders(settings.runtime_dir.as_deref(), &settings.home);
    FolderLock::from_holder(folder, &folders)
}

/// What ends the server.
struct Signals([tokio::signal::unix::Signal; 3]);

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn come(mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

/// Ends the server that runs, by its door or else by a signal.
async fn stop() -> ExitCode {
    let home = surroundings::home();
    let Some((pid, process)) = named(&home).await else {
        say("no background server runs");
        return ExitCode::SUCCESS;
    };
    let asked = match home.server().await {
        Ok(Some(server)) => server.stop().await.ok(),
        _ => None,
    };
    let signal = |signal| {
        if let Some(process) = &process {
            process.signal(signal);
        }
    };
    let mut how = "";
    if asked.is_none() {
        how = " did not answer; it was ended by a signal, and";
        signal(Signal::Terminate);
        // One that is stopped ends in good order, too.
        signal(Signal::Continue);
    }
    if !stopped(&home, process.as_ref()).await {
        how = " did not end by itself; it was killed, and";
        signal(Signal::Kill);
        if !stopped(&home, process.as_ref()).await {
            say(&format!(
                "the background server (process {pid}) does not end"
            ));
            return ExitCode::from(exit::UNAVAILABLE);
        }
    }
    let sessions = match asked {
        Some(1) => " and its session".to_owned(),
        Some(count) if count > 0 => format!(" and its {count} sessions"),
        _ => String::new(),
    };
    let which = if how.is_empty() {
        String::new()
    } else {
        format!(" (process {pid}){how}")
    };
    say(&format!("the background server{which}{sessions} has ended"));
    ExitCode::SUCCESS
}

/// The number of the server, and its process as long as that is its number.
async fn named(home: &Home) -> Option<(u32, Option<Pidfd>)> {
    loop {
        let pid = home.server_pid().await?;
        let process = Pidfd::open(pid).ok();
        if home.server_pid().await == Some(pid) {
            return Some((pid, process));
        }
        // It has ended just now, and its number may be another's. There may be a next one.
    }
}

async fn stopped(home: &Home, process: Option<&Pidfd>) -> bool {
    let Some(process) = process else {
        let home = home.clone();
        let waiting = in_a_thread(move || home.wait_until_stopped());
        return timeout(STOP_DEADLINE, waiting).await.is_ok();
    };
    timeout(STOP_DEADLINE, process.ended()).await.is_ok()
}
