//! The task of a session: runs its cells one after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use super::ask::AskJob;
use super::belongings::Belongings;
use super::census::Census;
use super::event::{OutputEvents, shown_code};
use super::following::{Following, Step};
use super::idle::IdleTimer;
use super::interrupting::Current;
use super::keeper::Keeper;
use super::page::{Left, NOTED_AS_RUNNING, Page};
use super::request::{Delivery, Place, interrupted_while_waiting};
use super::restart::Reset;
use super::session::Shared;
use super::slot::NoKernel;
use super::starter::Starter;
use super::untold::Received;
use super::{Cell, Ended, EventKind, Policy};
use crate::config::Settings;
use crate::execution::{
    Caps, CellAuthority, CellRun, CellTask, Interrupt, LiveSender, LossReason, Progress, Repeats,
    Stop, Store, run,
};
use crate::folders::OwnFolder;
use crate::ids::random_hex;
use crate::jupyter::FrameError;
use crate::kernel::Kernel;
use crate::tools::{Authority, Terms, ToolEvent, ToolServer, ToolUse};

/// What the session has to do, in order of arrival.
#[derive(Debug)]
pub(super) enum Job {
    Cell(CellJob),
    Ask(Box<AskJob>),
}

/// A cell that was handed over.
#[derive(Debug)]
pub(super) struct CellJob {
    /// The cell, while it waits: whoever takes it out decides what becomes of it.
    pub(super) place: Arc<Place>,
    pub(super) answer: oneshot::Sender<Delivery>,
    pub(super) interrupt: Interrupt,
    /// Dropped when the session is done with it.
    pub(super) _ends: DropGuard,
}

/// What is wanted of the session as a whole.
#[derive(Debug)]
pub(super) enum Control {
    Reset {
        done: oneshot::Sender<Reset>,
    },
    Close {
        done: Option<oneshot::Sender<Ended>>,
    },
}

/// What the task is told when it begins.
#[derive(Debug, Clone)]
pub(super) struct SessionTerms {
    /// Those of the manager, as they were when the cell that runs began.
    pub(super) settings: Arc<Settings>,
    /// Those of the manager, as they are.
    pub(super) changing: watch::Receiver<Arc<Settings>>,
    pub(super) store: Arc<Store>,
    /// Counts the kernels of the manager.
    pub(super) census: Census,
    pub(super) commands_environment: Arc<Vec<(String, String)>>,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) terms: SessionTerms,
    pub(super) tools: ToolServer,
    pub(super) keeper: Keeper,
    pub(super) following: Following,
    /// What cells have left in a folder that goes with their kernel.
    pub(super) belongings: Belongings,
    pub(super) id: String,
    /// Cells of the session, over all its kernels.
    cells: u64,
    /// Questions of front ends, the same.
    pub(super) questions: u64,
    /// Its latest failure.
    pub(super) repeats: Repeats,
    /// Holds the socket of the tools, so it goes after them.
    sockets: Arc<OwnFolder>,
}

/// The authority of a cell, as the running of cells knows it.
#[derive(Debug)]
struct CellTools(Arc<Authority>);

impl CellAuthority for CellTools {
    fn interrupt(&self) {
        self.0.interrupt();
    }

    fn retire(&self) -> ToolUse {
        self.0.retire()
    }

    fn so_far(&self) -> ToolUse {
        self.0.so_far()
    }
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        terms: SessionTerms,
        starter: Starter,
        page: Option<(Page, Left)>,
        following: Following,
        tools: ToolServer,
        sockets: Arc<OwnFolder>,
    ) -> Self {
        Self {
            keeper: Keeper::new(Arc::clone(&shared), starter, page, &terms),
            shared,
            terms,
            tools,
            following,
            belongings: Belongings::default(),
            id: random_hex(8),
            cells: 0,
            questions: 0,
            repeats: Repeats::default(),
            sockets,
        }
    }

    /// Runs until the session is closed or its manager is gone.
    pub(super) async fn run(
        mut self,
        mut jobs: mpsc::Receiver<Job>,
        mut controls: mpsc::Receiver<Control>,
    ) {
        let manager_gone = self.shared.manager_gone.clone();
        let clients = self.shared.presence.watch();
        let mut idle = IdleTimer::new(self.terms.settings.kernel_idle_timeout, clients);
        let mut wanted = None;
        loop {
            let control = if let Some(control) = wanted.take() {
                control
            } else {
                tokio::select! {
                    biased;
                    control = next_control(&mut controls, &manager_gone) => control,
                    job = jobs.recv() => match job {
                        Some(job) => {
                            self.terms.follow();
                            idle.limit(self.terms.settings.kernel_idle_timeout);
                            let before = (self.cells, self.keeper.generation());
                            wanted = self.serve(job, &mut controls, &manager_gone).await;
                            self.keeper.note();
                            if before != (self.cells, self.keeper.generation()) {
                                idle.restart();
                            }
                            continue;
                        }
                        None => Control::Close { done: None },
                    },
                    () = self.keeper.watch() => {
                        self.keeper.note();
                        continue;
                    }
                    () = changed(&mut self.terms.changing) => {
                        self.terms.follow();
                        idle.limit(self.terms.settings.kernel_idle_timeout);
                        continue;
                    }
                    limit = idle.due(), if self.keeper.is_ready() => {
                        self.keeper.reap(limit).await;
                        self.keeper.note();
                        continue;
                    }
                }
            };
            match control {
                Control::Reset { done } => {
                    let reset = self.keeper.reset_and_look().await;
                    self.shared.being_reset.store(false, Ordering::Release);
                    self.keeper.note();
                    // Whoever asked may be gone.
                    drop(done.send(reset));
                }
                Control::Close { done } => {
                    self.shared.closed.store(true, Ordering::Release);
                    jobs.close();
                    // Those who wait are told at once.
                    while jobs.try_recv().is_ok() {}
                    let ended = self.keeper.end(LossReason::SessionClosed).await;
                    // What ends with its manager, not by itself, is to be told by the next one.
                    let stays = done.is_none() || self.shared.is_left.load(Ordering::Acquire);
                    self.keeper.end_page(stays).await;
                    self.shared.events.end();
                    // Its socket goes before anybody hears of the end: a folder can be removed then.
                    drop(self);
                    if let Some(done) = done {
                        drop(done.send(ended));
                    }
                    return;
                }
            }
        }
    }

    /// Runs one cell. What is wanted of the session meanwhile ends the cell as interrupted, and is
    /// returned: it comes before the cells that wait.
    async fn serve(
        &mut self,
        job: Job,
        controls: &mut mpsc::Receiver<Control>,
        manager_gone: &CancellationToken,
    ) -> Option<Control> {
        let interrupt = match &job {
            Job::Cell(job) => job.interrupt.clone(),
            Job::Ask(job) => job.interrupt.clone(),
        };
        let shared = Arc::clone(&self.shared);
        let mut wanted = None;
        let page = self.keeper.reminder();
        let mut noting = std::pin::pin!(async {
            if let Some(page) = page {
                sleep(NOTED_AS_RUNNING).await;
                page.is_running(shared.generation.load(Ordering::Relaxed));
            }
            std::future::pending::<()>().await;
        });
        let mut running = std::pin::pin!(async {
            match job {
                Job::Cell(job) => self.serve_alone(job).await,
                Job::Ask(job) => self.answer(*job).await,
            }
        });
        loop {
            tokio::select! {
                biased;
                () = &mut running => return wanted,
                control = next_control(controls, manager_gone), if wanted.is_none() => {
                    let flag = match control {
                        Control::Close { .. } => &shared.closed,
                        Control::Reset { .. } => &shared.being_reset,
                    };
                    flag.store(true, Ordering::Release);
                    wanted = Some(control);
                    interrupt.force();
                }
                () = &mut noting => {}
            }
        }
    }

    /// Runs one cell and delivers its result.
    async fn serve_alone(&mut self, job: CellJob) {
        let CellJob {
            place,
            answer,
            interrupt,
            _ends,
        } = job;
        let Some((cell, live)) = place.take() else {
            // It was interrupted or its caller has gone away while it waited: it does not run.
            if place.wants_kernel
                && let Err(error @ NoKernel::Failed(_)) = self.keeper.kernel(&interrupt).await
            {
                drop(answer.send(self.without_kernel(error, false).into()));
            }
            return;
        };
        let received = Arc::new(Received::default());
        let before = self.cells;
        let outcome = if interrupt.is_cancelled() || self.shared.closed.load(Ordering::Acquire) {
            interrupted_while_waiting(self.shared.untouched())
        } else {
            *self.shared.current() = Some(Current::new(interrupt.clone()));
            let outcome = self
                .execute(&cell, &place.progress, &interrupt, live, &received)
                .await;
            let current = self.shared.current().take();
            if let Some(current) = current {
                current.ended(&outcome);
            }
            outcome
        };
        let number = (self.cells > before).then_some(self.cells);
        self.shared.finished(number, &outcome);
        // If the caller is gone the loss stays untold.
        drop(answer.send(Delivery { outcome, received }));
    }

    pub(super) async fn run_cell(
        &mut self,
        kernel: &Kernel,
        cell: &Cell,
        step: &Step,
        progress: &Progress,
        interrupt: &Interrupt,
        live: Option<LiveSender>,
    ) -> Result<CellRun, FrameError> {
        let timeout = self.timeout_of(cell);
        self.cells += 1;
        let number = self.cells;
        let shared = Arc::clone(&self.shared);
        let settings = Arc::clone(&self.terms.settings);
        let in_place_grace = settings.interrupt_grace;
        let grace = |policy| (policy == Policy::Interrupt).then_some(in_place_grace);
        let timeout_grace = grace(cell.on_timeout.unwrap_or(settings.on_timeout));
        let interrupt_grace = grace(cell.on_interrupt.unwrap_or(settings.on_interrupt));
        let authority = Authority::new(Terms {
            cell: number,
            grant: cell.grant.clone(),
            max_calls: cell
                .max_tool_calls
                .unwrap_or(settings.limits.max_tool_calls),
            // What cleans up after its time was up may call tools.
            deadline: Instant::now()
                .checked_add(timeout.saturating_add(timeout_grace.unwrap_or_default())),
            jobs: kernel.jobs(),
            environment: Arc::clone(&self.terms.commands_environment),
            terminal_timeout: Some(settings.terminal_timeout),
            // Somebody may come to watch in the middle of the cell.
            observer: Some(tool_observer(Arc::clone(&shared), number)),
        });
        self.tools.stand(&self.sockets);
        self.tools.open(Arc::clone(&authority));
        let (code, execution_count) = (shown_code(&cell.code), self.keeper.count() + 1);
        let started = EventKind::CellStarted {
            execution_count,
            code: Arc::clone(&code),
        };
        let facts = &shared.facts;
        facts.begins(number, execution_count, code, Arc::clone(&authority));
        let authority: Arc<dyn CellAuthority> = Arc::new(CellTools(authority));
        // Known before it is told: those who see the event know whose cell it is.
        progress.number(number);
        shared.events.emit(Some(number), started);
        self.keeper.give(cell.wishes.stores_history());
        progress.kernel(self.keeper.report());
        if let Some(page) = self.keeper.reminder() {
            page.has_begun();
        }
        let watcher = OutputEvents::new(shared, number);
        let rules = self.keeper.starter.rules_for(cell.caller.as_deref());
        let msg_id = format!("{}_{number}", self.id);
        let span = tracing::debug_span!("cell", cell = number, msg_id, execution_count);
        let keeper = &mut self.keeper;
        let mut interrupting = |stop: Stop| keeper.interrupted(stop.reason());
        run(CellTask {
            kernel,
            code: &cell.code,
            cell: number,
            cwd: step.directory.as_deref(),
            msg_id: &msg_id,
            session: &self.id,
            date: &Timestamp::now().to_string(),
            timeout,
            timeout_grace,
            interrupt_grace,
            in_place_grace,
            interrupt,
            interrupting: &mut interrupting,
            authority: &authority,
            progress,
            caps: Caps {
                stdout: cell.max_stdout_bytes.unwrap_or(settings.max_stdout_bytes),
                stderr: settings.max_stderr_bytes,
            },
            store: &self.terms.store,
            files: cell.files,
            spill_bytes: settings.max_spill_bytes,
            rules: (!cell.unmasked).then_some(rules),
            live,
            watcher: Some(Box::new(watcher)),
            wishes: &cell.wishes,
        })
        .instrument(span)
        .await
    }
}

impl SessionTerms {
    /// Takes over what was changed.
    fn follow(&mut self) {
        self.settings = Arc::clone(&self.changing.borrow_and_update());
    }
}

/// Waits until the manager's settings are others.
async fn changed(changing: &mut watch::Receiver<Arc<Settings>>) {
    if changing.changed().await.is_err() {
        // The manager is gone, which is told otherwise.
        std::future::pending::<()>().await;
    }
}

/// What is wanted next of the session; its end, if nobody can want anything any more.
async fn next_control(
    controls: &mut mpsc::Receiver<Control>,
    manager_gone: &CancellationToken,
) -> Control {
    tokio::select! {
        biased;
        control = controls.recv() => control.unwrap_or(Control::Close { done: None }),
        () = manager_gone.cancelled() => Control::Close { done: None },
    }
}

fn tool_observer(shared: Arc<Shared>, cell: u64) -> Arc<dyn Fn(ToolEvent) + Send + Sync> {
    Arc::new(move |event| {
        if let ToolEvent::Finished { id, ok, ms } = &event {
            let session = shared.name.as_str();
            tracing::debug!(
                session,
                cell,
                call_id = id,
                ok,
                elapsed_ms = ms,
                "a tool call has ended"
            );
        }
        let kind = match event {
            ToolEvent::Started { id, tool } => EventKind::ToolStarted { id, tool },
            ToolEvent::Finished { id, ok, ms } => EventKind::ToolFinished { id, ok, ms },
        };
        shared.events.emit(Some(cell), kind);
    })
}
