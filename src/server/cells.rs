//! A cell that comes through the door, and its way back.

use std::future::pending;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::time::{Instant, sleep_until, timeout};

use super::Manager;
use super::body;
use super::lines::{Lines, lines};
use super::manager::Entered;
use super::refusal::Refusal;
use super::wire::{CellOrder, Finished, InterruptOrder, Line};
use crate::execution::{
    ErrorClass, Interrupt, KernelReport, LiveEvent, LiveOutput, Outcome, TurnWatch,
};
use crate::output::Characters;
use crate::session::{Execution, Receipt, Session, SessionName};

/// Bytes that go out in one line.
const TOGETHER_BYTES: usize = 256 << 10;

/// Bytes of output that are sent where nobody reads along: the cell is not to wait for it.
const QUIET_BYTES: usize = 256 << 10;

/// `POST /sessions/NAME/cells`
pub(super) async fn run(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    match ask(Arc::clone(&manager), &name, body).await {
        Ok(response) => response,
        Err(refusal) => {
            let name = SessionName::parse(&name).ok();
            let session = name.and_then(|name| manager.registry().find(&name));
            let kernel = session.map_or_else(KernelReport::none, |session| session.kernel());
            refusal.into_outcome(kernel)
        }
    }
}

/// `POST /cells/ID/interrupt`
pub(super) async fn interrupt(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, Refusal> {
    let order: InterruptOrder = body::json(&manager, body).await?;
    let interrupted = manager.interrupt(&id, order.policy());
    Ok(Json(serde_json::json!({ "interrupted": interrupted })).into_response())
}

async fn ask(manager: Arc<Manager>, name: &str, body: Body) -> Result<Response, Refusal> {
    let name = SessionName::parse(name).map_err(|error| Refusal::usage(error.to_string()))?;
    let order: CellOrder = body::json(&manager, body).await?;
    if order.command.is_some() && order.code.is_empty() {
        return Err(Refusal::usage(
            "give Python source as `code`, not a `command`; a shell command runs in a cell as \
             terminal(\"...\")",
        ));
    }
    manager.takes_work()?;
    let (session, opened) = session_for(&manager, &name, &order)?;
    let cell = order.cell();
    let patience = order.patience();
    if order.stream {
        let mut execution = session.execute_live(cell);
        let entered = manager.enter(execution.interrupt_token());
        let (lines, response) = lines();
        let live = execution.take_live();
        let vanishing = Vanishing(Some(execution.interrupt_token()));
        let stream = Stream {
            lines,
            session,
            manager,
            turn: execution.turn(),
            room: order.quiet.then_some(QUIET_BYTES),
            missed: 0,
        };
        tokio::spawn(stream.run(execution, live, entered, opened, patience, vanishing));
        return Ok(response);
    }
    let execution = session.execute(cell);
    let answer = answer(&session, execution, patience).await;
    manager.settle(&session);
    Ok(answer)
}

fn session_for(
    manager: &Manager,
    name: &SessionName,
    order: &CellOrder,
) -> Result<(Session, bool), Refusal> {
    if let Some(session) = manager.registry().find(name) {
        return Ok((session, false));
    }
    let Some(caller) = &order.caller else {
        return Err(Refusal::not_found(format!(
            "there is no session {name}; to open one say in `caller` with which environment and \
             directory"
        )));
    };
    let made = manager
        .registry()
        .session_or_new(name.as_str(), &caller.caller())
        .map_err(|error| Refusal::unavailable(error.to_string()))?;
    if made.1 {
        manager.try_out(&made.0);
    }
    Ok(made)
}

/// Answers with the result alone. If the client vanishes the cell is interrupted.
async fn answer(
    session: &Session,
    mut execution: Execution,
    patience: Option<std::time::Duration>,
) -> Response {
    let vanishing = Vanishing(Some(execution.interrupt_token()));
    let Some(patience) = patience else {
        let (outcome, receipt) = execution.outcome_for_another().await;
        disarm(vanishing);
        receipt.sign();
        return told(outcome);
    };
    let waited = timeout(patience, execution.outcome_for_another()).await;
    disarm(vanishing);
    match waited {
        Ok((outcome, receipt)) => {
            receipt.sign();
            told(outcome)
        }
        Err(_elapsed) => {
            let outcome = execution.so_far();
            session.keep(execution);
            told(outcome)
        }
    }
}

/// A result as an answer: that of a cell which did not run is none that a client may take for done.
fn told(outcome: Outcome) -> Response {
    let status = match outcome.error_class {
        Some(ErrorClass::Usage) => StatusCode::BAD_REQUEST,
        Some(ErrorClass::Busy | ErrorClass::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    (status, Json(outcome)).into_response()
}

/// Interrupts a cell when it is dropped: its client has gone.
struct Vanishing(Option<Interrupt>);

impl Drop for Vanishing {
    fn drop(&mut self) {
        if let Some(interrupt) = &self.0 {
            interrupt.cancel();
        }
    }
}

/// The cell has its result, or goes on without its client.
fn disarm(mut vanishing: Vanishing) {
    vanishing.0 = None;
}

/// What ends the answer.
enum What {
    Vanished,
    Finished(Box<Outcome>, Receipt),
    TimeIsUp,
}

/// An answer that comes as the cell goes.
struct Stream {
    lines: Lines,
    session: Session,
    manager: Arc<Manager>,
    turn: TurnWatch,
    /// So many bytes of output are still sent; without a limit if none.
    room: Option<usize>,
    missed: u64,
}

impl Stream {
    async fn run(
        mut self,
        mut execution: Execution,
        mut live: Option<LiveOutput>,
        entered: Entered,
        opened: bool,
        patience: Option<std::time::Duration>,
        vanishing: Vanishing,
    ) {
        let id = entered.id.clone();
        self.lines.must(&Line::Accepted { id, opened }, None).await;
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut texts = Texts::default();
        let mut kernel = None;
        let what = loop {
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
                begun = self.turn.kernel(kernel.as_ref()) => {
                    kernel = Some(begun.clone());
                    self.lines.must(&Line::Started { kernel: begun }, None).await;
                }
                piece = next => match piece {
                    Some(piece) if self.is_beyond(&piece) => {
                        live = None;
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
        match what {
            What::Vanished => {
                // Dropping the guard interrupts the cell, and its result stays untold.
                drop(vanishing);
                drop(live);
                drop(execution.outcome_for_another().await);
            }
            What::Finished(outcome, receipt) => {
                disarm(vanishing);
                let then = Box::new(move || receipt.sign());
                self.finish(&mut texts, Finished::new(*outcome), Some(then))
                    .await;
            }
            What::TimeIsUp => {
                disarm(vanishing);
                let outcome = execution.so_far();
                self.session.keep(execution);
                self.finish(&mut texts, Finished::new(outcome), None).await;
            }
        }
        self.manager.settle(&self.session);
    }

    async fn finish(
        &mut self,
        texts: &mut Texts,
        finished: Box<Finished>,
        then: Option<Box<dyn FnOnce() + Send>>,
    ) {
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
