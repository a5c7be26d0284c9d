//! The answer to a cell that comes as the cell goes.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::time::{Instant, sleep_until};

use super::Manager;
use super::cells::{Vanishing, goes_on};
use super::lines::{Lines, lines};
use super::manager::Entered;
use super::wire::{Finished, Line};
use crate::execution::{KernelReport, LiveEvent, LiveOutput, Outcome, TurnWatch};
use crate::jupyter::PublishedKind;
use crate::output::Characters;
use crate::session::{Execution, Kept, Receipt, Session};

/// Bytes that go out in one line.
const TOGETHER_BYTES: usize = 256 << 10;

/// In which kernel a cell has begun is told with what it prints or its result, if that comes so soon: to
/// wake a client costs more than a short cell.
const SHORT: Duration = Duration::from_millis(5);

/// A cell whose client reads along.
pub(super) struct Cell {
    pub(super) session: Session,
    pub(super) manager: Arc<Manager>,
    /// When it begins, and on which kernel.
    pub(super) turn: TurnWatch,
    /// So many bytes of output are sent; without a limit if none.
    pub(super) room: Option<usize>,
    pub(super) execution: Execution,
    /// What it prints, if that is wanted.
    pub(super) live: Option<LiveOutput>,
    pub(super) entered: Entered,
    /// Whether its session was made for it.
    pub(super) opened: bool,
    /// How long the client waits.
    pub(super) patience: Option<Duration>,
    /// What its client's leaving does.
    pub(super) vanishing: Vanishing,
}

/// What ends the answer.
enum What {
    Vanished,
    Finished(Box<Outcome>, Receipt),
    TimeIsUp,
}

/// What has gone out of it.
struct Stream {
    lines: Lines,
    /// So many bytes of output are still sent; without a limit if none.
    room: Option<usize>,
    missed: u64,
    /// The kernel in which it has begun, and when that is told at the latest.
    unsaid: Option<(KernelReport, Instant)>,
}

/// Begins the answer.
pub(super) fn answer(cell: Cell) -> Response {
    let (lines, response) = lines();
    let stream = Stream {
        lines,
        room: cell.room,
        missed: 0,
        unsaid: None,
    };
    tokio::spawn(stream.run(cell));
    response
}

impl Stream {
    async fn run(mut self, cell: Cell) {
        let Cell {
            session,
            manager,
            mut turn,
            room: _,
            mut execution,
            mut live,
            entered,
            opened,
            patience,
            vanishing,
        } = cell;
        let id = entered.id().to_owned();
        self.lines.must(&Line::Accepted { id, opened }, None).await;
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut texts = Texts::default();
        let mut kernel = None;
        // One that waits holds its end of what it would print: it is over without ever having begun if
        // it is interrupted, or if its session ends.
        let (interrupt, ended) = (execution.interrupt_token(), execution.ended());
        let mut unrun = std::pin::pin!(async move {
            tokio::select! {
                () = interrupt.cancelled() => {}
                () = ended => {}
            }
        });
        let mut may_be_unrun = true;
        let what = loop {
            let due = self.unsaid.as_ref().map(|(_, due)| *due);
            let printed = live.is_none();
            let next = async {
                match &mut live {
                    Some(live) => live.next_together(TOGETHER_BYTES).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.lines.gone() => break What::Vanished,
                () = &mut unrun, if may_be_unrun => {
                    may_be_unrun = false;
                    execution.end_live_if_waiting();
                }
                begun = turn.kernel(kernel.as_ref()) => {
                    kernel = Some(begun.clone());
                    self.unsaid = Some((begun, Instant::now() + SHORT));
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.say_kernel().await;
                }
                piece = next => match piece {
                    Some(piece) if self.is_beyond(&piece) => {
                        live = None;
                        self.say_kernel().await;
                        self.lines.must(&Line::MissedBytes(piece.len() as u64), None).await;
                    }
                    Some(piece) => self.piece(&mut texts, piece).await,
                    // Everything that it has printed is on its way.
                    None => live = None,
                },
                (outcome, receipt) = execution.outcome_for_another(), if printed => {
                    break What::Finished(Box::new(outcome), receipt);
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    break What::TimeIsUp;
                }
            }
        };
        drop(live);
        match what {
            What::Vanished if vanishing.is_harmless() => goes_on(&session, execution, entered),
            What::Vanished => {
                // Dropping the guard interrupts the cell, and its result stays untold.
                drop(vanishing);
                drop(execution.outcome_for_another().await);
            }
            What::Finished(mut outcome, receipt) => {
                let then: Box<dyn FnOnce() + Send> = if vanishing.is_harmless() {
                    // Its client may be gone before it has this: then the result is kept.
                    execution.known_as(entered.id());
                    outcome.cell_id = Some(entered.id().to_owned());
                    let kept = session.hold(execution, (*outcome).clone(), &receipt);
                    Box::new(move || {
                        receipt.sign();
                        Kept::done(kept);
                    })
                } else {
                    vanishing.disarm();
                    Box::new(move || receipt.sign())
                };
                let finished = Finished::new(*outcome);
                self.finish(&mut texts, finished, Some(then)).await;
            }
            What::TimeIsUp => {
                vanishing.disarm();
                execution.known_as(entered.id());
                let outcome = execution.so_far();
                goes_on(&session, execution, entered);
                self.finish(&mut texts, Finished::new(outcome), None).await;
            }
        }
        manager.settle(&session);
    }

    async fn say_kernel(&mut self) {
        if let Some((kernel, _)) = self.unsaid.take() {
            self.lines.must(&Line::Started { kernel }, None).await;
        }
    }

    async fn finish(
        &mut self,
        texts: &mut Texts,
        finished: Box<Finished>,
        then: Option<Box<dyn FnOnce() + Send>>,
    ) {
        self.say_kernel().await;
        for line in texts.rest() {
            self.lines.must(&line, None).await;
        }
        if self.missed > 0 {
            let missed = Line::MissedBytes(self.missed);
            self.lines.must(&missed, None).await;
        }
        self.lines.must(&Line::Finished(finished), then).await;
    }

    /// Whether a piece, and what comes after it, is not sent any more.
    fn is_beyond(&mut self, piece: &LiveEvent) -> bool {
        let Some(room) = &mut self.room else {
            return false;
        };
        let left = room.checked_sub(piece.len());
        *room = left.unwrap_or_default();
        left.is_none()
    }

    async fn piece(&mut self, texts: &mut Texts, piece: LiveEvent) {
        self.say_kernel().await;
        let bytes = piece.len() as u64;
        if self.missed > 0 {
            if !self.lines.may_miss(&Line::MissedBytes(self.missed)).await {
                self.missed += bytes;
                return;
            }
            self.missed = 0;
        }
        if let Some(line) = texts.line(piece)
            && !self.lines.may_miss(&line).await
        {
            self.missed += bytes;
        }
    }
}

/// Characters that were cut between two pieces of a stream are put together.
#[derive(Debug, Default)]
struct Texts {
    stdout: Characters,
    stderr: Characters,
}

impl Texts {
    fn line(&mut self, piece: LiveEvent) -> Option<Line> {
        match piece {
            LiveEvent::Stdout(bytes) => {
                line(self.stdout.whole(&bytes), Line::Stdout, Line::StdoutBase64)
            }
            LiveEvent::Stderr(bytes) => {
                line(self.stderr.whole(&bytes), Line::Stderr, Line::StderrBase64)
            }
            LiveEvent::Result(text) => Some(Line::Result(text)),
            LiveEvent::Published(shown) => {
                let line = match shown.kind {
                    PublishedKind::Result => Line::Result,
                    _ => Line::Display,
                };
                shown.text().map(line)
            }
        }
    }

    /// What no character was made of.
    fn rest(&mut self) -> impl Iterator<Item = Line> {
        let stdout = line(self.stdout.rest(), Line::Stdout, Line::StdoutBase64);
        let stderr = line(self.stderr.rest(), Line::Stderr, Line::StderrBase64);
        stdout.into_iter().chain(stderr)
    }
}

fn line(bytes: Vec<u8>, text: fn(String) -> Line, base64: fn(String) -> Line) -> Option<Line> {
    if bytes.is_empty() {
        return None;
    }
    Some(match String::from_utf8(bytes) {
        Ok(valid) => text(valid),
        Err(error) => base64(BASE64.encode(error.as_bytes())),
    })
}
