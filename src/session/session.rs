//! The handle of a session.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::event::EventLog;
use super::interrupting::Current;
use super::presence::{Attendance, Presence};
use super::registry::WAITING_CELLS;
use super::request::{Delivery, Place};
use super::restart::Reset;
use super::shelf::{Kept, Shelf};
use super::status::Facts;
use super::worker::{CellJob, Control, Job};
use super::{
    Cell, EventKind, EventStream, Execution, Receipt, RunningCell, SessionName, SessionStatus,
    Variables,
};
use crate::execution::{
    ErrorClass, Interrupt, KernelReport, LiveEvent, LiveOutput, Outcome, Unreceived, live_output,
};
use crate::process::{Usage, directory_of, usage};
use crate::tools::ToolTable;

/// What is kept of what a kernel prints while it is ended.
const LAST_WORDS_BYTES: usize = 1 << 20;
/// How long a kernel that is idle may take to list its variables; it takes a millisecond.
const VARIABLES_DEADLINE: Duration = Duration::from_secs(1);
/// How long the system may take to say what a kernel uses.
const USAGE_DEADLINE: Duration = Duration::from_secs(2);
pub(super) const CLOSED: &str = "the session was closed; open it again";
const FULL: &str =
    "32 cells wait for this session already; wait for some of them, or use another session";

/// What the handles and the task of a session share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: SessionName,
    /// No other session has it, of whatever name.
    pub(super) id: String,
    pub(super) events: EventLog,
    pub(super) facts: Facts,
    /// What cells may be granted.
    pub(super) tools: ToolTable,
    pub(super) generation: AtomicU64,
    /// The cell that runs.
    pub(super) current: Mutex<Option<Current>>,
    /// The question of a front end that is being answered: interrupts it.
    pub(super) asking: Mutex<Option<Interrupt>>,
    pub(super) closed: AtomicBool,
    /// Whether its state is being discarded.
    pub(super) being_reset: AtomicBool,
    pub(super) presence: Presence,
    /// Whether it ends because its manager does.
    pub(super) is_left: AtomicBool,
    /// Fires when the manager is gone.
    pub(super) manager_gone: CancellationToken,
}

impl Shared {
    pub(super) fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cell has its result.
    pub(super) fn finished(&self, cell: Option<u64>, outcome: &Outcome) {
        if cell.is_some() {
            self.facts.finished();
        }
        if self.events.is_watched() {
            let outcome = Box::new(outcome.clone());
            self.events.emit(cell, EventKind::CellFinished { outcome });
        }
    }
}

/// A named owner of one kernel. Handles are cheap to clone; the session ends when it is closed or
/// its registry is gone.
#[derive(Debug, Clone)]
pub struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) jobs: mpsc::Sender<Job>,
    pub(super) controls: mpsc::Sender<Control>,
    /// For the cells that wait.
    pub(super) places: Arc<Semaphore>,
    /// For the questions that wait.
    pub(super) questions: Arc<Semaphore>,
    pub(super) shelf: Arc<Shelf>,
}

/// What a kernel printed while it was ended in good order.
#[derive(Debug, Default)]
pub struct Ended {
    /// The pieces.
    pub output: Vec<LiveEvent>,
    /// Whether it did not end within its time and was killed: threads or atexit functions were cut
    /// off.
    pub was_cut_off: bool,
    /// How it ended, if an end of its own came in between: an atexit function that calls `os._exit`,
    /// say, or a crash. What was still to be done then was not.
    pub failed: Option<String>,
    /// Cells whose results nobody has received, in their order.
    pub unreceived: Vec<Unreceived>,
}

impl Session {
    /// Its name.
    pub fn name(&self) -> &SessionName {
        &self.shared.name
    }

    /// 32 hex digits that no other session has, not even a later one of the same name.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// The version of its Python, as in `3.11.7`; `None` before its first kernel.
    pub fn python_version(&self) -> Option<String> {
        Some(self.status().python?.version)
    }

    /// Hands a cell over; it runs when those before it have ended. At most 32 wait.
    pub fn execute(&self, cell: Cell) -> Execution {
        self.enqueue(cell, false)
    }

    /// As [`Session::execute`], and what it prints can be read as it comes.
    pub fn execute_live(&self, cell: Cell) -> Execution {
        self.enqueue(cell, true)
    }

    fn enqueue(&self, cell: Cell, is_live: bool) -> Execution {
        let (answer, result) = oneshot::channel();
        let interrupt = Interrupt::new();
        let (sender, live) = if is_live {
            let (sender, receiver) = live_output();
            (Some(sender), Some(receiver))
        } else {
            (None, None)
        };
        let ended = CancellationToken::new();
        let ends = ended.clone().drop_guard();
        let fault = cell.check(&self.shared.tools).err();
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(permit) if fault.is_none() => Some(Arc::new(Place::new(cell, sender, permit))),
            Ok(_) | Err(_) => None,
        };
        let mut execution = Execution {
            result,
            interrupt: interrupt.clone(),
            live,
            shared: Arc::clone(&self.shared),
            place: place.clone(),
            is_refused: true,
            ended,
            cell_id: None,
        };
        let refuse = |answer: oneshot::Sender<Delivery>, class, sentence: &str| {
            let outcome = Outcome::not_run(class, sentence, self.shared.untouched());
            // The caller may be gone already.
            drop(answer.send(Delivery {
                outcome,
                received: Arc::default(),
            }));
        };
        if let Some(fault) = fault {
            refuse(answer, ErrorClass::Usage, &fault.to_string());
            return execution;
        }
        if self.is_closed() {
            refuse(answer, ErrorClass::Unavailable, CLOSED);
            return execution;
        }
        let Some(place) = place else {
            refuse(answer, ErrorClass::Busy, FULL);
            return execution;
        };
        // Told first: it may start on another thread before this one goes on.
        self.shared.events.emit(None, EventKind::CellQueued);
        let job = CellJob {
            place,
            answer,
            interrupt,
            _ends: ends,
        };
        match self.jobs.try_send(Job::Cell(job)) {
            Ok(()) => execution.is_refused = false,
            Err(TrySendError::Full(Job::Ask(_)) | TrySendError::Closed(Job::Ask(_))) => {}
            Err(TrySendError::Full(Job::Cell(job))) => {
                job.place.take();
                refuse(job.answer, ErrorClass::Busy, FULL);
            }
            Err(TrySendError::Closed(Job::Cell(job))) => {
                job.place.take();
                refuse(job.answer, ErrorClass::Unavailable, CLOSED);
            }
        }
        execution
    }

    /// Lets a cell go on without its caller, under its own limits; its result waits for
    /// [`Session::kept`]. At most 64 are kept, beyond that the oldest is forgotten.
    pub fn keep(&self, execution: Execution) {
        self.shelf.keep(execution);
    }

    /// Holds a result on its way to a caller who may have gone: dropped before [`Kept::done`] it is kept
    /// as if the cell had gone on by itself.
    pub fn hold(&self, execution: Execution, outcome: Outcome, receipt: &Receipt) -> Kept {
        self.shelf.hold(execution, outcome, receipt)
    }

    /// The oldest cell that goes on, or has ended, without its caller.
    pub fn kept(&self) -> Option<Kept> {
        self.shelf.take()
    }

    /// Cells that go on, or have ended, without their callers, and whose results nobody has received
    /// or waits for; in their order.
    pub fn unreceived(&self) -> Vec<Unreceived> {
        self.shelf.unreceived()
    }

    /// Whether it has or had a kernel; not one of an earlier manager.
    pub fn had_kernel(&self) -> bool {
        self.shared.facts.had_kernel()
    }

    /// What is to be said of its kernel with a cell that does not run.
    pub fn kernel(&self) -> KernelReport {
        self.shared.untouched()
    }

    /// Whether it never had a kernel, also in an earlier manager, no cell runs or waits, and no result
    /// waits for somebody: it holds nothing.
    pub fn is_unused(&self) -> bool {
        self.shared.generation.load(Ordering::Relaxed) == 0
            && self.places.available_permits() == WAITING_CELLS
            && !self.is_busy()
            && self.shelf.is_empty()
    }

    /// Waits until all cells that were handed over before have ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn settled(&self) {
        let (answer, turn) = oneshot::channel();
        let marker = CellJob {
            place: Arc::new(Place::without_cell()),
            answer,
            interrupt: Interrupt::new(),
            _ends: CancellationToken::new().drop_guard(),
        };
        if self.jobs.send(Job::Cell(marker)).await.is_ok() {
            // The session drops it in its turn.
            drop(turn.await);
        }
    }

    /// Starts its kernel, if it has none, after the cells that wait; otherwise the next cell does.
    ///
    /// # Errors
    ///
    /// If no kernel can be had: the result that a cell would have had.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn start(&self) -> Result<(), Box<Outcome>> {
        let (answer, turn) = oneshot::channel();
        let marker = CellJob {
            place: Arc::new(Place::for_a_kernel()),
            answer,
            interrupt: Interrupt::new(),
            _ends: CancellationToken::new().drop_guard(),
        };
        if self.jobs.send(Job::Cell(marker)).await.is_err() {
            let kernel = self.shared.untouched();
            let outcome = Outcome::not_run(ErrorClass::Unavailable, CLOSED, kernel);
            return Err(Box::new(outcome));
        }
        // An answer is a refusal.
        match turn.await {
            Ok(delivery) => Err(Box::new(delivery.outcome)),
            Err(_dropped) => Ok(()),
        }
    }

    /// Waits until it takes no more cells: it is being closed, or its manager is gone.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn closed(&self) {
        self.jobs.closed().await;
    }

    /// Discards the kernel's state. A cell that runs is ended as interrupted; those that wait run
    /// afterwards, on a fresh kernel. What was discarded, and what is seen of the fresh kernel within
    /// a second.
    pub async fn reset(&self) -> Reset {
        let (done, finished) = oneshot::channel();
        if self.controls.send(Control::Reset { done }).await.is_ok() {
            // The task answers or is gone; either way it is done.
            return finished.await.unwrap_or_default();
        }
        Reset::default()
    }

    /// Ends the session: a cell that runs is ended as interrupted, those that wait do not run, the
    /// kernel has a second to end in good order. Waits until everything it started is gone.
    pub async fn close(&self) -> Ended {
        self.shared.closed.store(true, Ordering::Release);
        let (done, finished) = oneshot::channel();
        let close = Control::Close { done: Some(done) };
        let ended = match self.controls.send(close).await {
            Ok(()) => finished.await.unwrap_or_default(),
            Err(_ended_before) => Ended::default(),
        };
        Ended {
            unreceived: self.shelf.unreceived(),
            ..ended
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
            || self.jobs.is_closed()
            || self.shared.manager_gone.is_cancelled()
    }

    /// What it is doing, as far as that is known without asking its kernel: at once.
    pub fn status(&self) -> SessionStatus {
        let generation = self.shared.generation.load(Ordering::Relaxed);
        let waiting = WAITING_CELLS.saturating_sub(self.places.available_permits());
        let name = self.shared.name.to_string();
        let mut status = self.shared.facts.status(name, generation, waiting);
        if let Some(pid) = status.kernel_pid
            && let Some(directory) = directory_of(pid)
            // Its number may be somebody else's, if it has ended meanwhile.
            && self.shared.facts.pid() == Some(pid)
        {
            status.cwd = directory;
        }
        status
    }

    /// The cell that is in the kernel's hands now, with its code.
    pub fn running(&self) -> Option<RunningCell> {
        self.shared.facts.running()
    }

    /// When something was last done with it: a cell began or ended, or a front end has [said
    /// so](Session::touch).
    pub fn last_activity(&self) -> jiff::Timestamp {
        self.shared.facts.last_activity()
    }

    /// Something is being done with it.
    pub fn touch(&self) {
        self.shared.facts.touch();
    }

    /// A client is connected to it, until what is returned is dropped: so long its kernel is not
    /// ended for want of cells, and after that not before
    /// [`Settings::kernel_idle_timeout`](crate::config::Settings::kernel_idle_timeout) has gone by
    /// again.
    pub fn attend(&self) -> Attendance {
        self.shared.presence.enter()
    }

    /// Whether a client is connected to it.
    pub fn is_attended(&self) -> bool {
        self.shared.presence.is_anybody_there()
    }

    /// The variables of its kernel, with type and size: listed by the kernel if it is idle and answers
    /// within a second, else those that are known since the last cell. No cell is held up by it.
    ///
    /// # Cancel safety
    ///
    /// May be dropped.
    pub async fn variables(&self) -> Variables {
        let listed = match self.shared.facts.idle_kernel() {
            Some(kernel) => kernel.variables(VARIABLES_DEADLINE).await,
            None => None,
        };
        listed.map_or_else(
            || self.shared.facts.record().as_variables(),
            Variables::from,
        )
    }

    /// Memory and processor time of its kernel and what that has started; commands of `terminal` run
    /// beside it and do not count. `None` if there is no kernel, or the system takes longer than two
    /// seconds.
    ///
    /// # Cancel safety
    ///
    /// May be dropped.
    pub async fn usage(&self) -> Option<Usage> {
        let pid = self.shared.facts.pid()?;
        let used = usage(pid, USAGE_DEADLINE).await?;
        // Its number may be somebody else's, if it has ended meanwhile.
        (self.shared.facts.pid() == Some(pid)).then_some(used)
    }

    /// What happens in it from now on.
    pub fn events(&self) -> EventStream {
        self.shared.events.watch()
    }
}

/// Reads a live output to its end; of a flood only the beginning is kept.
pub(super) async fn collect(mut live: LiveOutput) -> Vec<LiveEvent> {
    let mut pieces = Vec::new();
    let mut bytes = 0;
    while let Some(piece) = live.next().await {
        if bytes < LAST_WORDS_BYTES {
            bytes += piece.len();
            pieces.push(piece);
        }
    }
    pieces
}
