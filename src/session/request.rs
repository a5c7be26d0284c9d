//! A cell that was handed over, and the way to its result.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

use super::Cell;
use super::session::{CLOSED, Shared};
use super::untold::Received;
use crate::execution::{
    ErrorClass, Interrupt, KernelReport, LiveOutput, LiveSender, Outcome, Progress, ReportedState,
    TurnWatch,
};

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
    /// Whoever reads along while it waits reads no more.
    fn mute(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = waiting.as_mut() {
            waiting.live = None;
        }
    }

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

    pub(super) fn received(&self) -> Arc<Received> {
        Arc::clone(&self.0)
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
    pub(super) is_refused: bool,
    /// Fires when the session is done with the cell.
    pub(super) ended: CancellationToken,
    /// What its results are to be found by, once it goes on without its caller.
    pub(super) cell_id: Option<String>,
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

    /// Ends when the cell has: it has run, or will not. Whoever holds it holds nothing else.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.ended.clone().cancelled_owned()
    }

    /// If it has not begun it prints nothing any more: what it prints has come to its end, and its result
    /// is next. For when it was interrupted, or will not run.
    pub fn end_live_if_waiting(&self) {
        if let Some(place) = &self.place {
            place.mute();
        }
    }

    /// Whether it does not run: its result, which says why, is there.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// From now on results that are handed out while it runs or later say this in `cell_id`.
    pub fn known_as(&mut self, id: impl Into<String>) {
        self.cell_id = Some(id.into());
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
            Ok(delivery) => Some((self.named(delivery.outcome), delivery.received)),
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
                    return (self.named(outcome), Arc::default());
                }
                (&mut self.result).await
            }
        };
        if let Ok(delivery) = delivered {
            return (self.named(delivery.outcome), delivery.received);
        }
        let kernel = self.shared.untouched();
        let outcome = Outcome::not_run(ErrorClass::Unavailable, CLOSED, kernel);
        (self.named(outcome), Arc::default())
    }

    fn named(&self, mut outcome: Outcome) -> Outcome {
        outcome.cell_id.clone_from(&self.cell_id);
        outcome
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
        let so_far = progress.unwrap_or(&nothing).so_far(self.shared.untouched());
        self.named(so_far)
    }

    /// Takes the cell back; false if it runs or has run.
    fn withdraw(&self) -> bool {
        let taken = self.place.as_ref().and_then(|place| place.take());
        taken.is_some()
    }
}
