//! Runs a row of cells and shows what they print.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;

use super::args::ExecArguments;
use super::exit;
use super::kernels::Kernels;
use super::show::Screen;
use super::signals::Signals;
use super::streams;
use super::terms::CellTerms;
use crate::execution::{Files, Outcome, ReportedState, Status};
use crate::session::Cell;
use crate::tools::Grant;
use crate::words::{agreeing, counted};

/// What is told beside a stream that nobody reads may take so long.
pub(super) const BESIDE: Duration = Duration::from_secs(1);

/// Says a sentence on stderr; whether somebody may have read it. A code of a cell that was killed
/// makes us wait no longer for a reader that does not read.
pub(super) async fn told(
    screen: &mut Screen,
    signals: &mut Signals,
    code: u8,
    sentence: &str,
) -> bool {
    let gives_up = matches!(code, exit::TIMED_OUT | exit::INTERRUPTED);
    let taken = screen.taken();
    let notice = screen.notice(sentence);
    signals.while_read(&taken, gives_up, notice).await.is_some()
}

/// What is to be run, and how.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) cells: Vec<String>,
    pub(super) grant: Grant,
    /// Where the first cell runs, if a place was named.
    pub(super) place: Option<PathBuf>,
    pub(super) terms: CellTerms,
    /// What the first result is to say too.
    pub(super) warnings: Vec<String>,
}

/// Runs the cells until one fails, and ends the session; the exit code.
pub(super) async fn row(
    arguments: &ExecArguments,
    kernels: &Kernels,
    order: Order,
    screen: &mut Screen,
    signals: &mut Signals,
) -> u8 {
    let Order {
        cells,
        grant,
        place,
        terms,
        mut warnings,
    } = order;
    let mut code = 0;
    let mut rest = cells.len();
    // Whether somebody takes what we print.
    let mut is_read = true;
    let mut is_first = true;
    for source in cells {
        rest -= 1;
        let cell = Cell {
            code: source,
            timeout: Some(terms.timeout),
            max_tool_calls: Some(terms.max_tool_calls),
            max_stdout_bytes: Some(terms.max_stdout_bytes),
            grant: grant.clone(),
            reset: arguments.reset && is_first,
            // Later ones stay where it goes.
            directory: place.clone().filter(|_| is_first),
            on_timeout: Some(terms.on_timeout),
            on_interrupt: Some(terms.on_interrupt),
            unmasked: arguments.no_redact,
            // Without --json all of its output is printed.
            files: if arguments.json {
                Files::All
            } else {
                Files::Artifacts
            },
            ..Cell::default()
        };
        is_first = false;
        let warnings = std::mem::take(&mut warnings);
        match run(arguments, kernels, (cell, warnings), screen, signals).await {
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
        let rest = rest as u64;
        let (cells, were) = (counted(rest, "further cell"), agreeing(rest, "was", "were"));
        let sentence = format!("{cells} {were} not run");
        is_read = told(screen, signals, code, &sentence).await;
        code = if is_read { code } else { cut_short(code) };
    }
    let Some(ended) = kernels.close().await else {
        // The session lives on.
        return code;
    };
    if is_read && !arguments.json {
        let gives_up = matches!(code, exit::TIMED_OUT | exit::INTERRUPTED);
        let taken = screen.taken();
        let words = screen.last_words(&ended.output);
        match signals.while_read(&taken, gives_up, words).await {
            Some(Ok(())) => {}
            Some(Err(error)) => code = unwritten(screen, signals, &error).await,
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
    kernels: &Kernels,
    (cell, mut warnings): (Cell, Vec<String>),
    screen: &mut Screen,
    signals: &mut Signals,
) -> Result<Outcome, u8> {
    let taken = screen.taken();
    if arguments.json {
        let running = kernels.begin(arguments, cell, false);
        let mut outcome = signals
            .interrupting(&running.interrupt, running.outcome)
            .await;
        if !warnings.is_empty() {
            warnings.extend(outcome.warning.take());
            outcome.warning = Some(warnings.join("; "));
        }
        if let Some(sentence) = kernels.announcement() {
            told(screen, signals, exit::of(&outcome), &sentence).await;
        }
        let writing = screen.json(&outcome);
        return match signals.while_read(&taken, false, writing).await {
            Some(Ok(())) => Ok(outcome),
            Some(Err(error)) => Err(unwritten(screen, signals, &error).await),
            None => Err(exit::INTERRUPTED),
        };
    }
    let running = kernels.begin(arguments, cell, true);
    let interrupt = running.interrupt;
    let mut pieces = running.live;
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
            let mut outcome = running.outcome;
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
        Some(Err(error)) => {
            if kernels.live_on() && outcome.kernel.state == ReportedState::Lost {
                // The session goes on without what it had: that is not to be learnt by the next cell.
                drop(timeout(BESIDE, screen.rest(&outcome)).await);
            }
            Err(unwritten(screen, signals, &error).await)
        }
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
    if let Some(sentence) = streams::unwritten(error) {
        told(screen, signals, exit::STDOUT_CLOSED, &sentence).await;
    }
    exit::STDOUT_CLOSED
}
