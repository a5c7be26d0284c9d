//! The kernel of a session: started when it is needed, watched while nobody needs it, and what is
//! to be told when it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Ended;
use super::record::Record;
use super::session::{Shared, collect};
use super::starter::Starter;
use crate::execution::{KernelReport, Loss, LossReason, ReportedState, live_output, shutdown_sink};
use crate::jupyter::Names;
use crate::kernel::{Death, Kernel, KernelState, Trigger};
use crate::provisioner::{KernelExit, ProvisionError};

/// How long an interrupt or a close waits for a kernel that is being started; forking takes a few
/// milliseconds, so longer means that an interpreter hangs.
const START_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes kept of what was printed between cells.
const BACKGROUND_BYTES: usize = 10_000;

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

/// Why there is no kernel.
#[derive(Debug)]
pub(super) enum NoKernel {
    /// It could not be started.
    Failed(ProvisionError),
    /// The cell was interrupted, and starting takes long.
    Interrupted,
}

/// What becomes of a session whose kernel is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next kernel is started at once.
    Restart,
    /// It is started when a cell needs it.
    Wait,
}

#[derive(Debug)]
pub(super) struct Keeper {
    shared: Arc<Shared>,
    starter: Starter,
    end_grace: Duration,
    slot: Slot,
    state: KernelState,
    record: Record,
    /// Cells that this kernel was given.
    count: u64,
    generation: u64,
    untold: Option<Untold>,
    /// Which Python was taken instead of one that was named, until it is told.
    choice: Option<String>,
    /// What a kernel printed between its last cell and its end.
    last_words: Option<(String, u64)>,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>, starter: Starter, end_grace: Duration) -> Self {
        Self {
            shared,
            starter,
            end_grace,
            slot: Slot::Empty,
            state: KernelState::Dead,
            record: Record::default(),
            count: 0,
            generation: 0,
            untold: None,
            choice: None,
            last_words: None,
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Cells that this kernel was given.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// What can be said of the kernel while a cell runs.
    pub(super) fn report(&self) -> KernelReport {
        let state = if self.count <= 1 {
            ReportedState::Fresh
        } else {
            ReportedState::Kept
        };
        KernelReport {
            execution_count: self.count,
            generation: self.generation,
            reused: self.count > 1,
            state,
            reason: None,
            lost: None,
        }
    }

    /// The kernel is given a cell.
    pub(super) fn give(&mut self) {
        self.count += 1;
        self.trigger(Trigger::CellSent, "a cell was sent");
    }

    /// A cell has ended and the kernel lives.
    pub(super) fn completed(&mut self, names: Option<&Names>) {
        self.record.completed(names);
        self.trigger(Trigger::CellEnded, "the cell has ended");
    }

    /// What was printed before a cell, by its kernel or by one that is gone.
    pub(super) fn background(&mut self, printed: Option<(String, u64)>) -> Option<(String, u64)> {
        self.keep_background(printed);
        self.last_words.take()
    }

    /// Keeps what was printed between cells until a result can tell it.
    fn keep_background(&mut self, printed: Option<(String, u64)>) {
        let Some((text, total)) = printed else { return };
        let (earlier, before) = self.last_words.take().unwrap_or_default();
        let text = earlier + &text;
        let mut from = text.len().saturating_sub(BACKGROUND_BYTES);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let (_, tail) = text.split_at(from);
        self.last_words = Some((tail.to_owned(), before + total));
    }

    /// The kernel, started if there is none.
    ///
    /// An interrupt waits for a kernel that is being forked, but not for an interpreter that hangs.
    pub(super) async fn kernel(
        &mut self,
        interrupt: &CancellationToken,
    ) -> Result<Kernel, NoKernel> {
        if let Slot::Ready(kernel) = &self.slot
            && let Some(death) = kernel.death()
        {
            self.died(&death, Next::Restart);
        }
        if matches!(self.slot, Slot::Empty) {
            self.trigger(Trigger::Start, "a cell needs a kernel");
            self.begin_start();
        }
        if let Slot::Starting(starting) = &mut self.slot {
            let impatient = async {
                interrupt.cancelled().await;
                sleep(START_PATIENCE).await;
            };
            let started = tokio::select! {
                started = starting => unless_given_up(started),
                () = impatient => {
                    self.give_up_start();
                    return Err(NoKernel::Interrupted);
                }
            };
            self.started(started).map_err(NoKernel::Failed)?;
        }
        match &self.slot {
            Slot::Ready(kernel) => Ok(kernel.clone()),
            Slot::Empty | Slot::Starting(_) => Err(NoKernel::Interrupted),
        }
    }

    /// Waits for what becomes of the kernel while no cell runs, and takes note of it.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub(super) async fn watch(&mut self) {
        match &mut self.slot {
            Slot::Empty => std::future::pending().await,
            Slot::Starting(starting) => {
                let started = unless_given_up(starting.await);
                if let Err(error) = self.started(started) {
                    // The next cell tries again, and is told if that fails too.
                    tracing::warn!(%error, "the next kernel could not be started");
                }
            }
            Slot::Ready(kernel) => {
                let death = kernel.ended().await;
                // Not started again before it is needed: what dies as it starts would go on so.
                self.died(&death, Next::Wait);
            }
        }
    }

    /// Which Python was taken instead of one that was named; once.
    pub(super) fn choice(&mut self) -> Option<String> {
        self.choice.take()
    }

    fn started(&mut self, started: Result<Kernel, ProvisionError>) -> Result<(), ProvisionError> {
        match started {
            Ok(kernel) => {
                self.starter.keep_interpreter(&kernel);
                // It is the same each time.
                let version = kernel.interpreter().version.clone();
                self.shared.python.set(version).ok();
                self.choice = kernel.choice().map(str::to_owned).or(self.choice.take());
                self.trigger(Trigger::Started, "the process was forked");
                self.slot = Slot::Ready(kernel);
                Ok(())
            }
            Err(error) => {
                self.give_up_start();
                Err(error)
            }
        }
    }

    fn begin_start(&mut self) {
        self.set_generation(self.generation + 1);
        self.record = Record::default();
        self.count = 0;
        self.slot = Slot::Starting(tokio::spawn(self.starter.clone().start()));
    }

    /// There is no kernel of this generation.
    fn give_up_start(&mut self) {
        if let Slot::Starting(starting) = std::mem::take(&mut self.slot) {
            // A process that was forked meanwhile is ended.
            starting.abort();
        }
        self.set_generation(self.generation.saturating_sub(1));
        self.trigger(Trigger::StartFailed, "it could not be started");
    }

    fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
        self.shared.generation.store(generation, Ordering::Relaxed);
        self.shared.events.set_generation(generation);
    }

    // Its end.

    /// The kernel has died by itself.
    pub(super) fn died(&mut self, death: &Death, next: Next) -> Loss {
        let detail = format!("kernel_died: it {death}");
        self.lost(LossReason::KernelDied, &detail, death, next)
    }

    /// The kernel is gone, or is being killed: says what is lost with it.
    pub(super) fn lost(
        &mut self,
        reason: LossReason,
        detail: &str,
        death: &Death,
        next: Next,
    ) -> Loss {
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
        if let Slot::Ready(kernel) = std::mem::take(&mut self.slot) {
            self.keep_background(kernel.take_background());
            self.exited(death);
        }
        self.record = Record::default();
        self.count = 0;
        match next {
            Next::Wait => self.trigger(Trigger::Ended, reason.word()),
            Next::Restart => {
                self.trigger(Trigger::Lost, reason.word());
                self.begin_start();
            }
        }
        loss
    }

    /// The loss that is to be told with this cell, and whether its names were told already.
    pub(super) fn untold(&mut self) -> Option<(Loss, bool)> {
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

    /// A result tells the loss; if it is received the loss is told. One of the new kernel also says
    /// why it is new.
    pub(super) fn tell(&mut self, received: &Arc<AtomicBool>, announces: bool) {
        if let Some(untold) = &mut self.untold {
            untold.told.push(Arc::clone(received));
            if announces {
                untold.announced.push(Arc::clone(received));
            }
        }
    }

    /// Discards the kernel's state.
    pub(super) async fn reset(&mut self) {
        if self.count == 0 {
            return;
        }
        self.shut_down().await;
        let death = self.death();
        self.lost(LossReason::Reset, "reset", &death, Next::Restart);
    }

    /// Ends the kernel for good.
    pub(super) async fn end(&mut self, reason: LossReason) -> Ended {
        if let Slot::Starting(starting) = &mut self.slot {
            match timeout(START_PATIENCE, starting).await {
                Ok(Ok(Ok(kernel))) => self.slot = Slot::Ready(kernel),
                Ok(_) => self.slot = Slot::Empty,
                Err(_elapsed) => self.give_up_start(),
            }
        }
        let ended = self.shut_down().await;
        if matches!(self.slot, Slot::Ready(_)) {
            self.exited(&self.death());
        }
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
        let (output, ()) =
            tokio::join!(collect(live), kernel.shut_down(self.end_grace, Some(sink)));
        let death = kernel.death();
        let was_cut_off = matches!(death, Some(Death::Ended));
        let in_order = Death::Exited(KernelExit::Code(0));
        let failed = death
            .filter(|death| !was_cut_off && *death != in_order)
            .map(|death| death.to_string());
        Ended {
            output,
            was_cut_off,
            failed,
        }
    }

    fn death(&self) -> Death {
        match &self.slot {
            Slot::Ready(kernel) => kernel.death().unwrap_or(Death::Ended),
            Slot::Empty | Slot::Starting(_) => Death::Ended,
        }
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

fn unless_given_up(
    started: Result<Result<Kernel, ProvisionError>, tokio::task::JoinError>,
) -> Result<Kernel, ProvisionError> {
    started.unwrap_or_else(|_the_runtime_ends| {
        Err(ProvisionError::ForkserverGone {
            reason: "was given up".to_owned(),
        })
    })
}
