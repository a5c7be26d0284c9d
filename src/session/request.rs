//! A cell that is asked for, and the way to its result.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::session::{CLOSED, Shared};
use super::untold::Received;
use crate::config::{Caller, Limits};
use crate::execution::{
    ErrorClass, Interrupt, KernelReport, LiveOutput, LiveSender, Outcome, Progress, ReportedState,
    TurnWatch,
};
use crate::tools::Grant;

/// The most bytes of code in a cell.
const MAX_CODE_BYTES: usize = 8 << 20;

/// What to do with a cell that is interrupted or out of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Kill its kernel and start a fresh one at once.
    #[default]
    Restart,
    /// Raise `KeyboardInterrupt` in it first; state is kept if it ends within
    /// [`Settings::interrupt_grace`](crate::config::Settings::interrupt_grace), else as `Restart`.
    Interrupt,
}

/// A cell, and the terms on which it is to run.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// The Python source; not empty, at most 8 MiB, no NUL.
    pub code: String,
    /// Discard the kernel's state first.
    pub reset: bool,
    /// The time limit; the session's default if none.
    pub timeout: Option<Duration>,
    /// The number of tool calls; the session's default if none.
    pub max_tool_calls: Option<u32>,
    /// Which tools it may call.
    pub grant: Grant,
    /// What happens when its time is up.
    pub on_timeout: Policy,
    /// What happens when it is interrupted.
    pub on_interrupt: Policy,
    /// Who hands it over; the session's first caller if none. The kernel goes to the caller's
    /// directory if that is not the one of the caller before. An interpreter that the caller names
    /// replaces the kernel if it is another one; a reset takes all from the caller. Anything else of
    /// the environment stays what it was when the kernel was started.
    pub caller: Option<Arc<Caller>>,
    /// Where it is to run, whatever the caller's directory is; relative to that.
    pub directory: Option<PathBuf>,
}

impl Cell {
    /// A cell on the default terms.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            ..Self::default()
        }
    }

    /// With a time limit of its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// With the kernel's state discarded first.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.reset = true;
        self
    }

    /// With these tools only.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self
    }

    /// Handed over by this caller.
    #[must_use]
    pub fn caller(mut self, caller: Arc<Caller>) -> Self {
        self.caller = Some(caller);
        self
    }

    /// In this directory.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// With a number of tool calls of its own.
    #[must_use]
    pub fn max_tool_calls(mut self, calls: u32) -> Self {
        self.max_tool_calls = Some(calls);
        self
    }

    /// What is wrong with it, in a sentence that says what to do.
    pub(super) fn fault(&self) -> Option<String> {
        if self.code.trim().is_empty() {
            return Some("the code is empty; give Python source".to_owned());
        }
        if self.code.len() > MAX_CODE_BYTES {
            let bytes = self.code.len();
            return Some(format!(
                "the code has {bytes} bytes, the limit is 8 MiB; put data into a file and read it"
            ));
        }
        if let Some(at) = self.code.find('\0') {
            return Some(format!(
                "the code holds a NUL character at byte {at}; remove it"
            ));
        }
        if let Some(Err(error)) = self.timeout.map(Limits::check_timeout) {
            return Some(error.to_string());
        }
        None
    }
}

/// What a caller gets back, and how it says that it got it.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) outcome: Outcome,
    /// Set when the caller has it: then a loss that it tells need not be told again.
    pub(super) received: Arc<Received>,
}

impl From<Outcome> for Delivery {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            received: Arc::default(),
        }
    }
}

/// The place of a cell that waits. Whoever takes the cell out decides what becomes of it: the
/// session runs it, its caller withdraws it.
#[derive(Debug)]
pub(super) struct Place {
    waiting: Mutex<Option<Waiting>>,
    /// It holds no cell, and asks for a kernel alone.
    pub(super) wants_kernel: bool,
    /// What it does once it runs.
    pub(super) progress: Progress,
}

#[derive(Debug)]
struct Waiting {
    cell: Cell,
    live: Option<LiveSender>,
    /// One of the 32 places.
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// A place without a cell: its turn comes when all before it have ended.
    pub(super) fn without_cell() -> Self {
        Self {
            waiting: Mutex::new(None),
            wants_kernel: false,
            progress: Progress::default(),
        }
    }

    /// A place without a cell, for which a kernel is started all the same.
    pub(super) fn for_a_kernel() -> Self {
        Self {
            wants_kernel: true,
            ..Self::without_cell()
        }
    }

    pub(super) fn new(cell: Cell, live: Option<LiveSender>, permit: OwnedSemaphorePermit) -> Self {
        Self {
            waiting: Mutex::new(Some(Waiting {
                cell,
                live,
                _permit: permit,
            })),
            wants_kernel: false,
            progress: Progress::default(),
        }
    }

    /// Takes the cell out, if nobody has.
    pub(super) fn take(&self) -> Option<(Cell, Option<LiveSender>)> {
        let waiting = self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        waiting.map(|waiting| (waiting.cell, waiting.live))
    }
}

/// The result of a cell that was interrupted before its turn came.
pub(super) fn interrupted_while_waiting(kernel: KernelReport) -> Outcome {
    let sentence = match kernel.state {
        ReportedState::Kept => "interrupted while it waited; it did not run and state is kept",
        _ => "interrupted while it waited; it did not run",
    };
    Outcome::not_run(ErrorClass::Interrupted, sentence, kernel)
}

/// Says that a result has reached whoever asked for it. Dropped unsigned, a loss that the result
/// tells is told again with the next one.
#[derive(Debug)]
pub struct Receipt(Arc<Received>);

impl Receipt {
    pub(super) fn of(received: &Arc<Received>) -> Self {
        Self(Arc::clone(received))
    }

    /// It has been received.
    pub fn sign(self) {
        self.0.sign();
    }
}

/// A cell on its way. If it is dropped while the cell waits, the cell does not run; a cell that
/// runs goes on under its own limits.
#[derive(Debug)]
pub struct Execution {
    pub(super) result: oneshot::Receiver<Delivery>,
    pub(super) interrupt: Interrupt,
    pub(super) live: Option<LiveOutput>,
    pub(super) shared: Arc<Shared>,
    /// None if the cell was refused.
    pub(super) place: Option<Arc<Place>>,
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl Execution {
    /// Interrupts this cell, running or waiting, and no other; as its policy says, and the second
    /// time by force.
    pub fn interrupt(&self) {
        self.interrupt.cancel();
    }

    /// Something with which to interrupt the cell from elsewhere.
    pub fn interrupt_token(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// When its turn comes.
    pub fn turn(&self) -> TurnWatch {
        TurnWatch::new(self.place.as_ref().map(|place| place.progress.turn()))
    }

    /// Takes what the cell prints as it comes, if it was asked for. Whoever takes it must read it:
    /// the cell waits for its reader.
    pub fn take_live(&mut self) -> Option<LiveOutput> {
        self.live.take()
    }

    /// Waits for the result. A loss that it tells counts as told.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn outcome(&mut self) -> Outcome {
        let (outcome, received) = self.delivered().await;
        received.sign();
        outcome
    }

    /// Its result, if it is there: then [`Execution::delivered`] is not to be called any more.
    pub(super) fn delivered_now(&mut self) -> Option<(Outcome, Arc<Received>)> {
        match self.result.try_recv() {
            Ok(delivery) => Some((delivery.outcome, delivery.received)),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => {
                let kernel = self.shared.untouched();
                let outcome = Outcome::not_run(ErrorClass::Unavailable, CLOSED, kernel);
                Some((outcome, Arc::default()))
            }
        }
    }

    /// Not to be called again once it has answered.
    pub(super) async fn delivered(&mut self) -> (Outcome, Arc<Received>) {
        // Nobody reads along any more.
        self.live = None;
        let interrupt = self.interrupt.clone();
        let delivered = tokio::select! {
            biased;
            delivered = &mut self.result => delivered,
            () = interrupt.cancelled() => {
                if self.withdraw() {
                    // Its turn has not come; nobody need wait for it.
                    let outcome = interrupted_while_waiting(self.shared.untouched());
                    self.shared.finished(None, &outcome);
                    return (outcome, Arc::default());
                }
                (&mut self.result).await
            }
        };
        if let Ok(delivery) = delivered {
            return (delivery.outcome, delivery.received);
        }
        let kernel = self.shared.untouched();
        let outcome = Outcome::not_run(ErrorClass::Unavailable, CLOSED, kernel);
        (outcome, Arc::default())
    }

    /// As [`Execution::outcome`], but a loss that it tells counts as told only once the receipt is
    /// signed: for those who hand the result on.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn outcome_for_another(&mut self) -> (Outcome, Receipt) {
        let (outcome, received) = self.delivered().await;
        (outcome, Receipt(received))
    }

    /// What the cell has done up to now: status `running`.
    pub fn so_far(&self) -> Outcome {
        let progress = self.place.as_ref().map(|place| &place.progress);
        let nothing = Progress::default();
        progress.unwrap_or(&nothing).so_far(self.shared.untouched())
    }

    /// Takes the cell back; false if it runs or has run.
    fn withdraw(&self) -> bool {
        let taken = self.place.as_ref().and_then(|place| place.take());
        taken.is_some()
    }
}
