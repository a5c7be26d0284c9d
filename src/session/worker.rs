//! The task of a session: runs its cells one after the other, and knows what its kernel holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::event::Texts;
use super::record::Record;
use super::request::Delivery;
use super::session::{Shared, collect};
use super::starter::Starter;
use super::{Cell, Ended, EventKind};
use crate::config::Limits;
use crate::execution::{
    BackgroundOutput, Caps, CellAuthority, CellRun, CellTask, ErrorClass, How, LiveSender, Loss,
    LossReason, Outcome, Story, live_output, outcome_of, run, shutdown_sink,
};
use crate::ids::random_hex;
use crate::jupyter::FrameError;
use crate::kernel::{Death, Kernel, KernelState, Trigger};
use crate::output::Windowed;
use crate::provisioner::{KernelExit, ProvisionError};
use crate::tools::{Authority, Terms, ToolEvent, ToolServer, ToolUse};

/// A cell that waits.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) cell: Cell,
    pub(super) answer: oneshot::Sender<Delivery>,
    pub(super) interrupt: CancellationToken,
    pub(super) live: Option<LiveSender>,
}

/// What is wanted of the session as a whole.
#[derive(Debug)]
pub(super) enum Control {
    Reset { done: oneshot::Sender<()> },
    Close { done: oneshot::Sender<Ended> },
}

/// What the task is told when it begins.
#[derive(Debug, Clone)]
pub(super) struct SessionTerms {
    pub(super) limits: Limits,
    pub(super) caps: Caps,
    pub(super) end_grace: Duration,
    pub(super) commands_environment: Arc<Vec<(String, String)>>,
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Starting(JoinHandle<Result<Kernel, ProvisionError>>),
    Ready(Kernel),
}

/// A loss that was not yet told to everyone who must know.
#[derive(Debug)]
struct Untold {
    loss: Loss,
    /// Set when a result that holds the lost names was received.
    told: Vec<Arc<AtomicBool>>,
    /// Set when a result of the new kernel was received, which says why it is new.
    announced: Vec<Arc<AtomicBool>>,
}

#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    terms: SessionTerms,
    starter: Starter,
    tools: ToolServer,
    id: String,
    slot: Slot,
    state: KernelState,
    record: Record,
    /// Cells that this kernel was given.
    count: u64,
    /// Cells of the session, over all its kernels.
    cells: u64,
    generation: u64,
    untold: Option<Untold>,
}

/// The authority of a cell, as the running of cells knows it.
#[derive(Debug)]
struct CellTools(Arc<Authority>);

impl CellAuthority for CellTools {
    fn retire(&self) -> ToolUse {
        self.0.retire()
    }
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        terms: SessionTerms,
        starter: Starter,
        tools: ToolServer,
    ) -> Self {
        Self {
            shared,
            terms,
            starter,
            tools,
            id: random_hex(8),
            slot: Slot::Empty,
            state: KernelState::Dead,
            record: Record::default(),
            count: 0,
            cells: 0,
            generation: 0,
            untold: None,
        }
    }

    /// Runs until the session is closed or nobody holds it any more.
    pub(super) async fn run(
        mut self,
        mut jobs: mpsc::Receiver<Job>,
        mut controls: mpsc::Receiver<Control>,
    ) {
        loop {
            tokio::select! {
                biased;
                control = controls.recv() => match control {
                    Some(Control::Reset { done }) => {
                        self.reset().await;
                        // Whoever asked may be gone.
                        done.send(()).ok();
                    }
                    Some(Control::Close { done }) => {
                        jobs.close();
                        let ended = self.end_kernel(LossReason::SessionClosed).await;
                        drop(done.send(ended));
                        return;
                    }
                    None => break,
                },
                job = jobs.recv() => match job {
                    Some(job) => self.serve(job).await,
                    None => break,
                },
            }
        }
        self.end_kernel(LossReason::SessionClosed).await;
    }

    /// Runs one cell and delivers its result.
    async fn serve(&mut self, job: Job) {
        let Job {
            cell,
            answer,
            interrupt,
            live,
        } = job;
        if answer.is_closed() {
            // Its caller has gone away while it waited: it does not run.
            return;
        }
        let received = Arc::new(AtomicBool::new(false));
        let outcome = if interrupt.is_cancelled() || self.shared.closed.load(Ordering::Acquire) {
            let sentence = "interrupted while it waited; it did not run and state is kept";
            Outcome::not_run(ErrorClass::Interrupted, sentence, self.generation)
        } else {
            *self.shared.current() = Some(interrupt.clone());
            let outcome = self.execute(&cell, &interrupt, live, &received).await;
            *self.shared.current() = None;
            outcome
        };
        let number = Some(self.cells);
        if self.shared.events.is_watched() {
            let outcome = Box::new(outcome.clone());
            self.shared
                .events
                .emit(number, EventKind::CellFinished { outcome });
        }
        // If the caller is gone the loss stays untold.
        drop(answer.send(Delivery { outcome, received }));
    }

    async fn execute(
        &mut self,
        cell: &Cell,
        interrupt: &CancellationToken,
        live: Option<LiveSender>,
        received: &Arc<AtomicBool>,
    ) -> Outcome {
        if cell.reset && self.count > 0 {
            self.reset().await;
        }
        let timeout = cell.timeout.unwrap_or(self.terms.limits.timeout);
        // The second time it is the kernel that was started for this cell.
        for last in [false, true] {
            let kernel = match self.kernel().await {
                Ok(kernel) => kernel,
                Err(error) => {
                    let sentence = format!("no kernel could be started: {error}");
                    return Outcome::not_run(ErrorClass::Unavailable, sentence, self.generation);
                }
            };
            let background = kernel.take_background();
            let ran = if interrupt.is_cancelled() {
                // It was interrupted while its kernel was started.
                kernel.kill();
                Ok(nothing_ran(How::Interrupted))
            } else {
                self.run_cell(&kernel, cell, timeout, interrupt, live.clone())
                    .await
            };
            match ran {
                Ok(CellRun {
                    how: How::NotStarted(death),
                    ..
                }) if !last => {
                    // It died while nobody looked; the cell has not run yet.
                    self.lost(LossReason::KernelDied, &format!("kernel_died: it {death}"));
                }
                Ok(run) => return self.finish(run, timeout, background, received),
                Err(error) => {
                    return Outcome::not_run(ErrorClass::Usage, error.to_string(), self.generation);
                }
            }
        }
        Outcome::not_run(
            ErrorClass::KernelDied,
            "the kernel died as it started",
            self.generation,
        )
    }

    async fn run_cell(
        &mut self,
        kernel: &Kernel,
        cell: &Cell,
        timeout: Duration,
        interrupt: &CancellationToken,
        live: Option<LiveSender>,
    ) -> Result<CellRun, FrameError> {
        self.cells += 1;
        self.count += 1;
        let number = self.cells;
        let shared = Arc::clone(&self.shared);
        let watched = shared.events.is_watched();
        let authority = Authority::new(Terms {
            cell: number,
            grant: cell.grant.clone(),
            max_calls: cell
                .max_tool_calls
                .unwrap_or(self.terms.limits.max_tool_calls),
            deadline: Some(Instant::now() + timeout),
            jobs: kernel.jobs(),
            environment: Arc::clone(&self.terms.commands_environment),
            observer: watched.then(|| tool_observer(Arc::clone(&shared), number)),
        });
        self.tools.open(Arc::clone(&authority));
        shared.events.emit(Some(number), EventKind::CellStarted);
        self.trigger(Trigger::CellSent, "a cell was sent");
        let mut texts = Texts::default();
        let observer = watched.then(|| {
            Box::new(move |event: &_| shared.events.output(number, &mut texts, event)) as _
        });
        run(CellTask {
            kernel,
            code: &cell.code,
            cell: number,
            msg_id: &format!("{}_{number}", self.id),
            session: &self.id,
            date: &Timestamp::now().to_string(),
            timeout,
            interrupt,
            authority: &CellTools(authority),
            caps: self.terms.caps,
            live,
            observer,
        })
        .await
    }

    /// Draws the consequences of how the cell ended, and makes its result.
    fn finish(
        &mut self,
        run: CellRun,
        timeout: Duration,
        background: Option<(String, u64)>,
        received: &Arc<AtomicBool>,
    ) -> Outcome {
        let (count, generation) = (self.count, self.generation);
        let earlier_loss = self.untold();
        let mut warnings = Vec::new();
        let loss = match &run.how {
            How::Replied(reply) => {
                let report = reply.warmcell.as_ref();
                self.record.completed(report.map(|report| &report.names));
                if let Some(report) = report {
                    warnings.extend(report.warnings.iter().take(10).cloned());
                }
                self.trigger(Trigger::CellEnded, "the cell has ended");
                None
            }
            How::TimedOut => {
                let detail = format!("timeout {} s", timeout.as_secs_f64());
                Some(self.lost(LossReason::Timeout, &detail))
            }
            How::Interrupted if self.shared.closed.load(Ordering::Acquire) => {
                Some(self.lost(LossReason::SessionClosed, "session_closed"))
            }
            How::Interrupted => Some(self.lost(LossReason::Interrupt, "interrupt")),
            How::Died(death) | How::NotStarted(death) => {
                self.exited(death);
                let detail = format!("kernel_died: it {death}");
                Some(self.lost(LossReason::KernelDied, &detail))
            }
        };
        match (&mut self.untold, &loss) {
            (Some(untold), Some(_)) => untold.told.push(Arc::clone(received)),
            (Some(untold), None) => {
                untold.told.push(Arc::clone(received));
                untold.announced.push(Arc::clone(received));
            }
            (None, _) => {}
        }
        let story = Story {
            execution_count: count.max(1),
            generation,
            reused: count > 1,
            first_cell: count <= 1,
            timeout,
            earlier_loss,
            loss,
            background: background
                .map(|(text, bytes_total)| BackgroundOutput { text, bytes_total }),
            warnings,
        };
        outcome_of(run, story)
    }

    /// The loss that is to be told with this cell, and whether its names were told already.
    fn untold(&mut self) -> Option<(Loss, bool)> {
        let is_set = |flags: &[Arc<AtomicBool>]| flags.iter().any(|it| it.load(Ordering::Acquire));
        if self
            .untold
            .as_ref()
            .is_some_and(|untold| is_set(&untold.announced))
        {
            self.untold = None;
        }
        let untold = self.untold.as_ref()?;
        Some((untold.loss.clone(), is_set(&untold.told)))
    }

    // The kernel.

    /// The kernel, started if there is none.
    async fn kernel(&mut self) -> Result<Kernel, ProvisionError> {
        if let Slot::Ready(kernel) = &self.slot {
            match kernel.death() {
                None => return Ok(kernel.clone()),
                Some(death) => {
                    self.exited(&death);
                    self.lost(LossReason::KernelDied, &format!("kernel_died: it {death}"));
                }
            }
        }
        if matches!(self.slot, Slot::Empty) {
            self.trigger(Trigger::Start, "a cell needs a kernel");
            self.begin_start();
        }
        let Slot::Starting(starting) = &mut self.slot else {
            return Err(ProvisionError::ForkserverGone {
                reason: "is gone".to_owned(),
            });
        };
        let started = starting.await.unwrap_or_else(|_the_runtime_ends| {
            Err(ProvisionError::ForkserverGone {
                reason: "was given up".to_owned(),
            })
        });
        match started {
            Ok(kernel) => {
                self.starter.keep_interpreter(&kernel);
                self.tools.admit(kernel.pid());
                self.trigger(Trigger::Started, "the process was forked");
                self.slot = Slot::Ready(kernel.clone());
                Ok(kernel)
            }
            Err(error) => {
                self.slot = Slot::Empty;
                self.trigger(Trigger::StartFailed, "it could not be started");
                Err(error)
            }
        }
    }

    fn begin_start(&mut self) {
        self.generation += 1;
        self.shared
            .generation
            .store(self.generation, Ordering::Relaxed);
        self.shared.events.set_generation(self.generation);
        self.record = Record::default();
        self.count = 0;
        self.slot = Slot::Starting(tokio::spawn(self.starter.clone().start()));
    }

    /// The kernel is gone, or is being killed: says what is lost with it and starts the next one.
    fn lost(&mut self, reason: LossReason, detail: &str) -> Loss {
        let loss = Loss {
            reason,
            detail: detail.to_owned(),
            lost: self.record.as_lost(),
        };
        let earlier = self
            .untold()
            .filter(|(_, told)| !told)
            .map(|(earlier, _)| earlier.lost);
        let lost = match earlier {
            Some(earlier) => earlier.and_then(&loss.lost),
            None => loss.lost.clone(),
        };
        self.untold = Some(Untold {
            loss: Loss {
                lost,
                ..loss.clone()
            },
            told: Vec::new(),
            announced: Vec::new(),
        });
        // The handle goes: whatever is left of the kernel ends.
        self.slot = Slot::Empty;
        if reason == LossReason::SessionClosed {
            self.trigger(Trigger::Ended, reason.word());
        } else {
            self.trigger(Trigger::Lost, reason.word());
            self.begin_start();
        }
        loss
    }

    async fn reset(&mut self) {
        if self.count == 0 {
            return;
        }
        self.shut_down().await;
        self.lost(LossReason::Reset, "reset");
    }

    /// Ends the kernel for good.
    async fn end_kernel(&mut self, reason: LossReason) -> Ended {
        if let Slot::Starting(starting) = &mut self.slot
            && let Ok(Ok(kernel)) = starting.await
        {
            self.slot = Slot::Ready(kernel);
        }
        let ended = self.shut_down().await;
        self.slot = Slot::Empty;
        self.trigger(Trigger::Ended, reason.word());
        ended
    }

    /// Gives the kernel its time to end in good order, and waits until it is gone.
    async fn shut_down(&mut self) -> Ended {
        let Slot::Ready(kernel) = &self.slot else {
            return Ended::default();
        };
        let (sender, live) = live_output();
        let sink = shutdown_sink(sender);
        let (output, ()) = tokio::join!(
            collect(live),
            kernel.shut_down(self.terms.end_grace, Some(sink))
        );
        Ended { output }
    }

    // What is told.

    fn trigger(&mut self, trigger: Trigger, reason: &str) {
        let transition = self.state.apply(trigger);
        self.shared.events.transition(transition, reason);
    }

    fn exited(&self, death: &Death) {
        match death {
            Death::Exited(exit) => self.shared.events.exited(exit),
            _ => self.shared.events.exited(&KernelExit::Signal(9)),
        }
    }
}

fn tool_observer(shared: Arc<Shared>, cell: u64) -> Arc<dyn Fn(ToolEvent) + Send + Sync> {
    Arc::new(move |event| {
        let kind = match event {
            ToolEvent::Started { id, tool } => EventKind::ToolStarted { id, tool },
            ToolEvent::Finished { id, ok, ms } => EventKind::ToolFinished { id, ok, ms },
        };
        shared.events.emit(Some(cell), kind);
    })
}

/// The run of a cell that was ended before it began.
fn nothing_ran(how: How) -> CellRun {
    let nothing = || Windowed {
        text: String::new(),
        total: 0,
        captured: 0,
        omitted: 0,
    };
    CellRun {
        how,
        stdout: nothing(),
        stderr: nothing(),
        result: None,
        duration: Duration::ZERO,
        tool_use: ToolUse::default(),
        dropped_messages: 0,
    }
}
