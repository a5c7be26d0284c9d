//! `warmcell check`: the lifecycle contract against any kernel.

use std::env;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::args_kernel::CheckArguments;
use super::list::clean;
use super::{exit, streams, surroundings};
use crate::check::{CheckError, Report, Terms, check};
use crate::config::{Caller, ForeignKernel};
use crate::environment::{installed_kernel, kernel_at};
use crate::folders::private_bases;
use crate::process::{Program, Stdio, adopt_orphans, end_orphans, spawn};

/// Runs the command; its exit code.
pub(super) fn main(arguments: &CheckArguments) -> ExitCode {
    if !arguments.on_a_line
        && !streams::is_stdout_closed()
        && let Some(code) = on_a_line()
    {
        return code;
    }
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(Refused::Stdout(error)) => ExitCode::from(exit::unwritten(&error)),
        Err(Refused::Sentence(code, sentence)) => {
            let class = match code {
                exit::USAGE => "usage",
                exit::INTERRUPTED => "interrupted",
                _ => "unavailable",
            };
            if arguments.json {
                let answer = json!({ "error": sentence, "error_class": class });
                if let Err(error) = line(&answer) {
                    return ExitCode::from(exit::unwritten(&error));
                }
            } else {
                // With stderr closed there is nobody to tell.
                drop(writeln!(io::stderr(), "warmcell: {}", clean(&sentence)));
            }
            ExitCode::from(code)
        }
    }
}

/// Runs the check in a process of its own, which ends all that it has started and removes its folders
/// when this one is gone, however that went. `None` if there can be none: then this one does it.
fn on_a_line() -> Option<ExitCode> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let code = runtime.block_on(async {
        let mut signals = [
            signal(SignalKind::interrupt()).ok()?,
            signal(SignalKind::terminate()).ok()?,
            signal(SignalKind::hangup()).ok()?,
        ];
        let adopts = adopt_orphans();
        // Held until this process ends; nobody else has this end.
        let (_own, its) = StdUnixStream::pair().ok()?;
        let stdio = Stdio {
            stdin: OwnedFd::from(its),
            stdout: io::stdout().as_fd().try_clone_to_owned().ok()?,
            stderr: io::stderr().as_fd().try_clone_to_owned().ok()?,
        };
        let program = Program {
            program: env::current_exe().ok()?,
            arguments: env::args_os()
                .skip(1)
                .take(1)
                .chain(["--on-a-line".into()])
                .chain(env::args_os().skip(2))
                .collect(),
            environment: env::vars_os().collect(),
            directory: env::current_dir().ok()?,
        };
        let mut check = spawn(program, stdio).ok()?;
        let status = loop {
            let [interrupt, terminate, hang_up] = &mut signals;
            tokio::select! {
                biased;
                status = check.ended() => break status,
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            check.interrupt(false);
        };
        let code = status.and_then(|status| status.code());
        if code.is_none() {
            // It was killed: what it has started is ours now.
            end_orphans(adopts, &[]).await;
        }
        Some(code.and_then(|code| u8::try_from(code).ok()))
    })?;
    Some(ExitCode::from(code.unwrap_or(exit::UNAVAILABLE)))
}

/// Our stdin, as what it is here.
fn line_to_the_command() -> io::Result<StdUnixStream> {
    let line = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    line.set_nonblocking(true)?;
    Ok(line)
}

/// Waits until the command that was typed is gone; for ever, if it is this one.
async fn gone(line: Option<&mut UnixStream>) {
    match line {
        // Nothing is ever said on it.
        Some(line) => while matches!(line.read(&mut [0; 16]).await, Ok(count) if count > 0) {},
        None => std::future::pending().await,
    }
}

/// Why there is no report.
enum Refused {
    Sentence(u8, String),
    Stdout(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Stdout(error)
    }
}

fn unavailable(error: impl std::fmt::Display) -> Refused {
    Refused::Sentence(exit::UNAVAILABLE, error.to_string())
}

fn run(arguments: &CheckArguments) -> Result<u8, Refused> {
    let caller = surroundings::any_caller();
    let kernel = kernel(&arguments.kernel, &caller)
        .map_err(|sentence| Refused::Sentence(exit::USAGE, sentence))?;
    let settings = surroundings::settings();
    let (runtime_dir, temp_dir) = (
        settings.runtime_dir.as_deref(),
        settings.temp_dir.as_deref(),
    );
    let terms = Terms {
        // It starts nothing else.
        adopts: adopt_orphans(),
        only: arguments.only.clone(),
        start: arguments.start_timeout,
        ..Terms::new(
            // As a front end of Jupyter's gives it.
            env::vars_os().collect(),
            private_bases(runtime_dir, temp_dir),
            settings.temp_dir.clone().unwrap_or_else(env::temp_dir),
        )
    };
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| unavailable(format!("cannot start: {error}")))?;
    if !arguments.json {
        let argv = kernel.argv.join(" ");
        let sentence = format!("the kernel {}: {argv}", kernel.name);
        writeln!(streams::stdout(), "{}", clean(&sentence))?;
    }
    let typed = arguments.on_a_line.then(line_to_the_command).transpose();
    let typed = typed.map_err(|error| unavailable(format!("no command to check for: {error}")))?;
    let report = runtime.block_on(checked(kernel, terms, arguments.json, typed));
    runtime.shutdown_timeout(Duration::from_millis(100));
    let report = report?;
    if arguments.json {
        line(&json!(report))?;
    } else {
        writeln!(streams::stdout(), "{}", report.summary())?;
    }
    Ok(u8::from(!report.is_good()))
}

/// The kernel that was named: by the name of a kernelspec, or by a path.
fn kernel(named: &str, caller: &Caller) -> Result<ForeignKernel, String> {
    if named.contains('/') || [".", "..", "kernel.json"].contains(&named) {
        let path = caller.cwd.join(named);
        return kernel_at(&path).map_err(|error| format!("no kernel can be checked: {error}"));
    }
    installed_kernel(named, caller).map_err(|error| {
        let hint = if Path::new(named).exists() {
            format!("; the path of a kernelspec has a / in it: ./{named}")
        } else {
            String::new()
        };
        format!("{error}{hint}")
    })
}

async fn checked(
    kernel: ForeignKernel,
    terms: Terms,
    is_json: bool,
    line: Option<StdUnixStream>,
) -> Result<Report, Refused> {
    let mut line = line
        .map(UnixStream::from_std)
        .transpose()
        .map_err(unavailable)?;
    let watched = |kind| signal(kind).map_err(|it| unavailable(format!("no signals: {it}")));
    let mut signals = [
        watched(SignalKind::interrupt())?,
        watched(SignalKind::terminate())?,
        watched(SignalKind::hangup())?,
    ];
    let (closed, mut stdout_closed) = tokio::sync::mpsc::channel(1);
    let mut failed = None;
    let stop = async {
        let [interrupt, terminate, hang_up] = &mut signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
            _ = stdout_closed.recv() => {}
            () = gone(line.as_mut()) => {}
        }
    };
    let report = check(kernel, terms, stop, |finding| {
        if !is_json
            && failed.is_none()
            && let Err(error) = writeln!(streams::stdout(), "{finding}")
        {
            // Nobody reads on.
            failed = Some(error);
            closed.try_send(()).ok();
        }
    })
    .await;
    if let Some(error) = failed {
        return Err(Refused::Stdout(error));
    }
    report.map_err(|error| match error {
        CheckError::Stopped => Refused::Sentence(exit::INTERRUPTED, error.to_string()),
        error => unavailable(error),
    })
}

fn line(value: &serde_json::Value) -> io::Result<()> {
    let mut stdout = streams::stdout();
    writeln!(stdout, "{value}")?;
    stdout.flush()
}
