//! `warmcell exec`: runs cells in a kernel of their own, and ends it.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::args::ExecArguments;
use super::show::Screen;
use super::{exit, source, surroundings};
use crate::execution::{ErrorClass, Outcome, Status};
use crate::session::{Cell, Registry, Session};
use crate::tools::{Grant, ToolTable};

/// A reader that takes nothing for so long does not read.
const STALLED: Duration = Duration::from_secs(1);

/// Runs the command; its exit code.
pub(super) fn main(arguments: &ExecArguments) -> ExitCode {
    // One thread: a command that mostly waits starts sooner and stays smaller.
    let code = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(exec(arguments));
            // A write to a pipe that nobody reads would hold us for ever.
            runtime.shutdown_background();
            code
        }
        Err(_) => exit::UNAVAILABLE,
    };
    ExitCode::from(code)
}

async fn exec(arguments: &ExecArguments) -> u8 {
    let mut screen = Screen::new();
    // From here on a signal interrupts cells, it does not end us.
    let Ok(mut signals) = Signals::new() else {
        screen.notice("cannot watch for signals").await;
        return exit::UNAVAILABLE;
    };
    let prepared = source::cells(arguments)
        .and_then(|cells| Ok((cells, surroundings::caller(arguments)?, grant(arguments)?)));
    let (cells, caller, grant) = match prepared {
        Ok(prepared) => prepared,
        Err(sentence) => return refuse(arguments, &mut screen, ErrorClass::Usage, sentence).await,
    };
    let registry = match Registry::start(surroundings::settings()).await {
        Ok(registry) => registry,
        Err(error) => {
            let sentence = error.to_string();
            return refuse(arguments, &mut screen, ErrorClass::Unavailable, sentence).await;
        }
    };
    for reason in registry.passed_over() {
        screen
            .notice(&format!(
                "HERMES_HOME cannot be written to ({reason}); the Python half was unpacked elsewhere"
            ))
            .await;
    }
    let session = match registry.session("exec", &caller) {
        Ok(session) => session,
        Err(error) => {
            let sentence = error.to_string();
            return refuse(arguments, &mut screen, ErrorClass::Unavailable, sentence).await;
        }
    };
    let mut code = 0;
    let mut rest = cells.len();
    // Whether somebody takes what we print.
    let mut is_read = true;
    for source in cells {
        rest -= 1;
        let cell = Cell {
            code: source,
            timeout: Some(arguments.timeout),
            max_tool_calls: Some(arguments.max_tool_calls),
            grant: grant.clone(),
            on_timeout: arguments.on_timeout.into(),
            on_interrupt: arguments.on_interrupt.into(),
            ..Cell::default()
        };
        match run(arguments, &session, cell, &mut screen, &mut signals).await {
            Ok(outcome) => code = exit::of(&outcome),
            Err(early) => {
                code = early;
                is_read = false;
            }
        }
        if code != 0 {
            break;
        }
    }
    if rest > 0 && is_read {
        let cells = if rest == 1 { "cell was" } else { "cells were" };
        screen
            .notice(&format!("{rest} further {cells} not run"))
            .await;
    }
    let ended = session.close().await;
    if is_read && !arguments.json && screen.last_words(&ended.output).await.is_err() {
        code = exit::STDOUT_CLOSED;
    }
    if ended.was_cut_off && is_read {
        let sentence = "the kernel did not end within 1 s and was killed: threads or atexit \
                        functions that were still at work were cut off";
        screen.notice(sentence).await;
    }
    registry.shut_down().await;
    code
}

/// Runs one cell and shows it. If nobody takes what it prints: the exit code with which to end.
async fn run(
    arguments: &ExecArguments,
    session: &Session,
    cell: Cell,
    screen: &mut Screen,
    signals: &mut Signals,
) -> Result<Outcome, u8> {
    if arguments.json {
        let mut execution = session.execute(cell);
        let interrupt = execution.interrupt_token();
        let outcome = signals.interrupting(&interrupt, execution.outcome()).await;
        return match signals.unless_one_comes(screen.json(&outcome)).await {
            Some(Ok(())) => Ok(outcome),
            Some(Err(error)) => Err(unwritten(screen, &error).await),
            None => Err(exit::INTERRUPTED),
        };
    }
    let mut execution = session.execute_live(cell);
    let interrupt = execution.interrupt_token();
    let live = execution.take_live();
    let progress = std::cell::Cell::new(0);
    let (outcome, followed) = {
        let mut following = std::pin::pin!(async {
            let Some(mut live) = live else { return Ok(()) };
            let followed = screen.follow(&mut live, &progress).await;
            if followed.is_err() {
                // Nobody reads any more: the cell is ended, as a program in a pipe would be.
                interrupt.cancel();
            }
            followed
        });
        let mut followed = None;
        let running = async {
            let mut outcome = std::pin::pin!(execution.outcome());
            loop {
                tokio::select! {
                    done = &mut following, if followed.is_none() => followed = Some(done),
                    outcome = &mut outcome => return outcome,
                }
            }
        };
        let outcome = signals.interrupting(&interrupt, running).await;
        // What it has printed may still be on its way.
        let killed = matches!(outcome.status, Status::Timeout | Status::Interrupted);
        while followed.is_none() {
            let before = progress.get();
            let more = signals
                .unless_one_comes(timeout(STALLED, &mut following))
                .await;
            match more {
                Some(Ok(done)) => followed = Some(done),
                // A reader that does not read would make the limit and the interrupt void.
                Some(Err(_)) if killed && progress.get() == before => break,
                Some(Err(_)) => {}
                None => break,
            }
        }
        (outcome, followed)
    };
    match followed {
        Some(Ok(())) => {
            screen.rest(&outcome).await;
            Ok(outcome)
        }
        Some(Err(error)) => Err(unwritten(screen, &error).await),
        None => {
            // It may be stderr that nobody reads.
            drop(timeout(STALLED, screen.rest(&outcome)).await);
            Err(match exit::of(&outcome) {
                exit::TIMED_OUT => exit::TIMED_OUT,
                _ => exit::INTERRUPTED,
            })
        }
    }
}

/// Output that could not be written: said unless the reader of a pipe has simply gone away.
async fn unwritten(screen: &mut Screen, error: &io::Error) -> u8 {
    if error.kind() != io::ErrorKind::BrokenPipe {
        screen
            .notice(&format!("cannot write to stdout: {error}"))
            .await;
    }
    exit::STDOUT_CLOSED
}

fn grant(arguments: &ExecArguments) -> Result<Grant, String> {
    if arguments.no_tools {
        return Ok(Grant::Only(std::collections::BTreeSet::new()));
    }
    let Some(names) = &arguments.tools else {
        return Ok(Grant::All);
    };
    let table = ToolTable::standard();
    let names: std::collections::BTreeSet<String> = names
        .iter()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    if let Some(unknown) = names.iter().find(|name| table.find(name).is_none()) {
        let known: Vec<&str> = table.iter().map(|tool| tool.spec().name).collect();
        return Err(format!(
            "--tools: there is no tool {unknown:?}; there are {}",
            known.join(", ")
        ));
    }
    Ok(Grant::Only(names))
}

async fn refuse(
    arguments: &ExecArguments,
    screen: &mut Screen,
    class: ErrorClass,
    sentence: String,
) -> u8 {
    let outcome = Outcome::not_run(class, sentence, 0);
    let code = exit::of(&outcome);
    if arguments.json {
        return if screen.json(&outcome).await.is_ok() {
            code
        } else {
            exit::STDOUT_CLOSED
        };
    }
    screen
        .notice(outcome.error.as_deref().unwrap_or_default())
        .await;
    code
}

/// The signals that interrupt a cell.
#[derive(Debug)]
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Does the work, unless a signal comes.
    async fn unless_one_comes<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            _ = self.interrupt.recv() => None,
            _ = self.terminate.recv() => None,
            _ = self.hang_up.recv() => None,
        }
    }

    /// Waits for the work; a signal meanwhile interrupts the cell.
    async fn interrupting<T>(
        &mut self,
        interrupt: &tokio_util::sync::CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = self.interrupt.recv() => interrupt.cancel(),
                _ = self.terminate.recv() => interrupt.cancel(),
                _ = self.hang_up.recv() => interrupt.cancel(),
            }
        }
    }
}
