//! `warmcell exec`: runs cells in a kernel of their own, and ends it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use tokio::time::timeout;

use super::args::ExecArguments;
use super::show::{Pieces, Screen, json_line};
use super::signals::Signals;
use super::{exit, source, surroundings};
use crate::execution::{ErrorClass, Outcome, Status};
use crate::process::{ProcessError, try_descriptors, try_thread};
use crate::session::{Cell, Registry, Session};
use crate::tools::{Grant, ToolTable};

/// What is told beside a stream that nobody reads may take so long.
const BESIDE: Duration = Duration::from_secs(1);
/// Descriptors for one kernel and a tool call.
const DESCRIPTORS: usize = 24;
/// As long as this process may live.
const FOR_EVER: Duration = Duration::from_secs(366 * 86_400);

/// Runs the command; its exit code.
pub(super) fn main(arguments: &ExecArguments) -> ExitCode {
    let unhidden = surroundings::hide_secrets();
    let code = match start() {
        Ok((runtime, screen)) => {
            let code = runtime.block_on(exec(arguments, screen, unhidden));
            // A write to a pipe that nobody reads would hold us for ever.
            runtime.shutdown_background();
            code
        }
        Err(error) => refuse_at_once(arguments, &error),
    };
    ExitCode::from(code)
}

/// What is needed of the system before anything else: later a lack of it would be a panic of the
/// runtime, or half of the work.
fn start() -> Result<(Runtime, Screen), ProcessError> {
    // Under the user's own limit: kernels get that, and need nearly as many.
    try_descriptors(DESCRIPTORS)?;
    let screen = Screen::new()?;
    try_thread()?;
    // One thread: a command that mostly waits starts sooner and stays smaller.
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(FOR_EVER)
        .build()
        .map_err(|source| ProcessError::Descriptor {
            what: "an event queue",
            source,
        })?;
    // For what blocks it has a pool, which panics where it cannot have its first thread, and waits
    // where it cannot have another.
    drop(runtime.spawn_blocking(|| ()));
    Ok((runtime, screen))
}

/// Says why nothing can be run, with the least that can be had.
fn refuse_at_once(arguments: &ExecArguments, error: &ProcessError) -> u8 {
    let outcome = Outcome::not_run(ErrorClass::Unavailable, error.to_string(), 0);
    let told = if arguments.json {
        json_line(&outcome)
    } else {
        writeln!(io::stderr(), "warmcell: {error}")
    };
    if told.is_err() && arguments.json {
        return exit::STDOUT_CLOSED;
    }
    exit::of(&outcome)
}

async fn exec(arguments: &ExecArguments, mut screen: Screen, unhidden: Option<String>) -> u8 {
    // From here on a signal interrupts cells, it does not end us.
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            let sentence = format!("cannot watch for signals: {error}");
            drop(timeout(BESIDE, screen.notice(&sentence)).await);
            return exit::UNAVAILABLE;
        }
    };
    if let Some(sentence) = unhidden
        && !told(&mut screen, &mut signals, 0, &sentence).await
    {
        return exit::INTERRUPTED;
    }
    let Some(cells) = signals.unless_one_comes(source::cells(arguments)).await else {
        let sentence = "interrupted while the code was read; no cell was run".to_owned();
        let refusal = refuse(arguments, &mut screen, ErrorClass::Interrupted, sentence);
        return timeout(BESIDE, refusal).await.unwrap_or(exit::INTERRUPTED);
    };
    let prepared = cells
        .and_then(|cells| Ok((cells, surroundings::caller(arguments)?, grant(arguments)?)))
        .map_err(|sentence| (ErrorClass::Usage, sentence));
    let started = match prepared {
        Ok((cells, caller, grant)) => match Registry::start(surroundings::settings()).await {
            Ok(registry) => Ok((registry, cells, caller, grant)),
            Err(error) => Err((ErrorClass::Unavailable, error.to_string())),
        },
        Err(refused) => Err(refused),
    };
    let (registry, cells, caller, grant) = match started {
        Ok(started) => started,
        Err((class, sentence)) => {
            let taken = screen.taken();
            let refusal = refuse(arguments, &mut screen, class, sentence);
            let code = signals.while_read(&taken, false, refusal).await;
            return code.unwrap_or(exit::INTERRUPTED);
        }
    };
    let code = match registry.session("exec", &caller) {
        Ok(session) => {
            let mut is_read = true;
            for reason in registry.passed_over() {
                let sentence = format!(
                    "HERMES_HOME cannot be written to ({reason}); the Python half was unpacked \
                     elsewhere"
                );
                is_read = is_read && told(&mut screen, &mut signals, 0, &sentence).await;
            }
            if is_read {
                row(arguments, &session, cells, grant, &mut screen, &mut signals).await
            } else {
                exit::INTERRUPTED
            }
        }
        Err(error) => {
            let taken = screen.taken();
            let sentence = error.to_string();
            let refusal = refuse(arguments, &mut screen, ErrorClass::Unavailable, sentence);
            let code = signals.while_read(&taken, false, refusal).await;
            code.unwrap_or(exit::INTERRUPTED)
        }
    };
    registry.shut_down().await;
    code
}

/// Says a sentence on stderr; whether somebody may have read it. A code of a cell that was killed
/// makes us wait no longer for a reader that does not read.
async fn told(screen: &mut Screen, signals: &mut Signals, code: u8, sentence: &str) -> bool {
    let gives_up = matches!(code, exit::TIMED_OUT | exit::INTERRUPTED);
    let taken = screen.taken();
    let notice = screen.notice(sentence);
    signals.while_read(&taken, gives_up, notice).await.is_some()
}

/// Runs the cells until one fails, and ends the session; the exit code.
async fn row(
    arguments: &ExecArguments,
    session: &Session,
    cells: Vec<String>,
    grant: Grant,
    screen: &mut Screen,
    signals: &mut Signals,
) -> u8 {
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
        match run(arguments, session, cell, screen, signals).await {
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
        let sentence = format!("{rest} further {cells} not run");
        is_read = told(screen, signals, code, &sentence).await;
        code = if is_read { code } else { cut_short(code) };
    }
    let ended = session.close().await;
    if is_read && !arguments.json {
        let gives_up = matches!(code, exit::TIMED_OUT | exit::INTERRUPTED);
        let taken = screen.taken();
        let words = screen.last_words(&ended.output);
        match signals.while_read(&taken, gives_up, words).await {
            Some(Ok(())) => {}
            Some(Err(_)) => code = exit::STDOUT_CLOSED,
            None => {
                is_read = false;
                code = cut_short(code);
            }
        }
    }
    let sentence = match &ended.failed {
        _ if ended.was_cut_off => Some(
            "the kernel did not end within 1 s and was killed: threads or atexit functions that \
             were still at work were cut off"
                .to_owned(),
        ),
        Some(how) => Some(format!(
            "the kernel {how} before it was at its end: atexit functions that were still to run did \
             not"
        )),
        None => None,
    };
    if let Some(sentence) = sentence.filter(|_| is_read) {
        is_read = told(screen, signals, code, &sentence).await;
        code = if is_read { code } else { cut_short(code) };
    }
    code
}

/// The exit code of a command that a signal has kept from waiting for its reader.
fn cut_short(code: u8) -> u8 {
    match code {
        exit::TIMED_OUT | exit::STDOUT_CLOSED => code,
        _ => exit::INTERRUPTED,
    }
}

/// Runs one cell and shows it. If nobody takes what it prints: the exit code with which to end.
async fn run(
    arguments: &ExecArguments,
    session: &Session,
    cell: Cell,
    screen: &mut Screen,
    signals: &mut Signals,
) -> Result<Outcome, u8> {
    let taken = screen.taken();
    if arguments.json {
        let mut execution = session.execute(cell);
        let interrupt = execution.interrupt_token();
        let outcome = signals.interrupting(&interrupt, execution.outcome()).await;
        let writing = screen.json(&outcome);
        return match signals.while_read(&taken, false, writing).await {
            Some(Ok(())) => Ok(outcome),
            Some(Err(error)) => Err(unwritten(screen, signals, &error).await),
            None => Err(exit::INTERRUPTED),
        };
    }
    let mut execution = session.execute_live(cell);
    let interrupt = execution.interrupt_token();
    let mut pieces = execution.take_live().map(Pieces::new);
    let (outcome, followed) = {
        let mut following = std::pin::pin!(async {
            let Some(pieces) = &mut pieces else {
                return Ok(());
            };
            let followed = screen.follow(pieces).await;
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
        if followed.is_none() {
            let gives_up = was_killed(&outcome);
            followed = signals.while_read(&taken, gives_up, following).await;
        }
        (outcome, followed)
    };
    match followed {
        Some(Ok(())) => {
            let gives_up = was_killed(&outcome);
            let rest = screen.rest(&outcome);
            match signals.while_read(&taken, gives_up, rest).await {
                Some(()) => Ok(outcome),
                None => Err(cut_short(exit::of(&outcome))),
            }
        }
        Some(Err(error)) => Err(unwritten(screen, signals, &error).await),
        None => {
            // It may be one stream alone that nobody reads.
            if let Some(pieces) = &mut pieces
                && was_killed(&outcome)
            {
                let leftovers = screen.leftovers(pieces);
                drop(signals.while_read(&taken, true, leftovers).await);
            }
            drop(timeout(BESIDE, screen.rest(&outcome)).await);
            Err(cut_short(exit::of(&outcome)))
        }
    }
}

fn was_killed(outcome: &Outcome) -> bool {
    matches!(outcome.status, Status::Timeout | Status::Interrupted)
}

/// Output that could not be written: said unless the reader of a pipe has simply gone away.
async fn unwritten(screen: &mut Screen, signals: &mut Signals, error: &io::Error) -> u8 {
    if error.kind() != io::ErrorKind::BrokenPipe {
        let sentence = format!("cannot write to stdout: {error}");
        told(screen, signals, exit::STDOUT_CLOSED, &sentence).await;
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
