//! The kernel of a session: started when it is needed, watched while nobody needs it, and what is
//! to be told when it is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Ended;
use super::census::{Census, Counted};
use super::last_words::LastWords;
use super::late::LateOutput;
use super::page::{Left, Page};
use super::restart::Sight;
use super::session::Shared;
use super::slot::{Next, NoKernel, Slot};
use super::starter::Starter;
use super::untold::{Received, Untold};
use super::worker::SessionTerms;
use crate::execution::{Gone, Interrupt, Loss, LossReason, Lost};
use crate::jupyter::Names;
use crate::kernel::{Death, Kernel, KernelState, Trigger};
use crate::provisioner::{KernelExit, ProvisionError};

/// How long an interrupt or a close waits for a kernel that is being started; forking takes a few
/// milliseconds, so longer means that an interpreter hangs.
const START_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    pub(super) starter: Starter,
    /// Of kernels of ours.
    pub(super) end_grace: Duration,
    /// Whether one that is lost is followed by the next at once.
    restarts: bool,
    census: Census,
    /// Kept while there is a kernel.
    counted: Option<Counted>,
    pub(super) slot: Slot,
    pub(super) sight: Sight,
    state: KernelState,
    /// Cells that this kernel was given.
    pub(super) count: u64,
    /// How many of them have no number.
    pub(super) unnumbered: u64,
    pub(super) generation: u64,
    pub(super) untold: Untold,
    /// What is to be told with the next result: which Python was taken instead of one that was
    /// named, what of the caller's is not in force.
    notices: Vec<String>,
    /// What a kernel printed between its last cell and its end.
    last_words: LastWords,
    /// What its kernels have held that are gone.
    pub(super) gone: Gone,
    /// What a cell has cost that was ended by a reset, until that tells it.
    pub(super) discarded: Option<Lost>,
    /// Where it is noted what would be lost with the manager.
    pub(super) page: Option<Page>,
}

impl Keeper {
    pub(super) fn new(
        shared: Arc<Shared>,
        starter: Starter,
        page: Option<(Page, Left)>,
        terms: &SessionTerms,
    ) -> Self {
        let (page, left) = page.unzip();
        let mut left = left.unwrap_or_default();
        let mut gone = Gone::default();
        if let Some((loss, _)) = left.untold.pending() {
            gone.add(loss.lost.names, &loss.detail);
        }
        let mut keeper = Self {
            shared,
            starter,
            end_grace: terms.settings.end_grace,
            restarts: terms.settings.restarts,
            census: terms.census.clone(),
            counted: None,
            slot: Slot::Empty,
            sight: Sight::default(),
            state: KernelState::Dead,
            count: 0,
            unnumbered: 0,
            generation: 0,
            untold: left.untold,
            notices: Vec::new(),
            last_words: LastWords::default(),
            gone,
            discarded: None,
            page,
        };
        // Numbers go on where an earlier manager has left them.
        keeper.set_generation(left.generation);
        keeper
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Cells that this kernel was given.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The cell is to end, and the kernel is left alive for now.
    pub(super) fn interrupted(&mut self, why: LossReason) {
        self.trigger(Trigger::Interrupted, why.word());
    }

    /// A cell has ended and the kernel lives.
    pub(super) fn completed(&mut self, names: Option<&Names>) {
        self.shared.facts.record().completed(names);
        self.trigger(Trigger::CellEnded, "the cell has ended");
    }

    /// What was printed before a cell, by its kernel or by one that is gone, and how many secrets were
    /// masked in it.
    pub(super) fn background(&mut self, printed: Option<(String, u64)>) -> LastWords {
        self.keep_background(printed);
        std::mem::take(&mut self.last_words)
    }

    /// Keeps what was printed between cells until a result can tell it.
    pub(super) fn keep_background(&mut self, printed: Option<(String, u64)>) {
        if let Some((text, total)) = printed {
            self.last_words.keep(&text, total, self.starter.rules());
        }
    }

    /// The kernel, started if there is none.
    ///
    /// An interrupt waits for a kernel that is being forked, but not for an interpreter that hangs.
    pub(super) async fn kernel(&mut self, interrupt: &Interrupt) -> Result<Kernel, NoKernel> {
        self.starter.stand().await;
        if let Slot::Ready(kernel) = &self.slot
            && let Some(death) = kernel.death()
        {
            self.died(&death, Next::Restart);
        }
        // One that was begun before may fail for what is no longer so, a directory that has gone.
        let mut may_try_again = matches!(self.slot, Slot::Starting(_));
        loop {
            if matches!(self.slot, Slot::Empty) {
                self.trigger(Trigger::Start, "a cell needs a kernel");
                self.begin_start();
            }
            let Slot::Starting(starting) = &mut self.slot else {
                break;
            };
            let Some(started) = patiently(starting, interrupt).await else {
                self.give_up_start();
                return Err(NoKernel::Interrupted);
            };
            let again = may_try_again;
            may_try_again = false;
            match self.started(started) {
                Ok(()) => break,
                Err(error) if again => self.sight.failed(&error),
                Err(error) => {
                    drop(self.sight.tried_again(false));
                    return Err(NoKernel::Failed(error));
                }
            }
        }
        self.notices.extend(self.sight.tried_again(true));
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
                    self.sight.failed(&error);
                }
            }
            Slot::Ready(kernel) => {
                let death = kernel.ended().await;
                // Not started again before it is needed: what dies as it starts would go on so.
                self.died(&death, Next::Wait);
            }
        }
    }

    /// What is to be told with the next result; once.
    pub(super) fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Something to be told with the next result.
    pub(super) fn notice(&mut self, sentence: String) {
        self.notices.push(sentence);
    }

    pub(super) fn started(
        &mut self,
        started: Result<Kernel, ProvisionError>,
    ) -> Result<(), ProvisionError> {
        match started {
            Ok(kernel) => {
                self.notices.extend(self.starter.keep_interpreter(&kernel));
                self.shared.facts.started(&kernel, self.starter.foreign());
                self.notices.extend(kernel.choice().map(str::to_owned));
                tracing::info!(
                    generation = self.generation,
                    pid = kernel.pid(),
                    python = %kernel.interpreter().executable.display(),
                    foreign = self.starter.foreign(),
                    "a kernel was started"
                );
                self.trigger(Trigger::Started, "the process was forked");
                self.slot = Slot::Ready(kernel);
                self.recount();
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
        self.shared.facts.record().clear();
        self.count = 0;
        self.unnumbered = 0;
        let starting = self.sight.of(self
            .starter
            .clone()
            .start(LateOutput::of(&self.shared, self.starter.rules())));
        self.slot = Slot::Starting(tokio::spawn(starting));
        self.recount();
    }

    /// There is no kernel of this generation.
    pub(super) fn give_up_start(&mut self) {
        if let Slot::Starting(starting) = std::mem::take(&mut self.slot) {
            // A process that was forked meanwhile is ended.
            starting.abort();
        }
        self.recount();
        self.set_generation(self.generation.saturating_sub(1));
        self.trigger(Trigger::StartFailed, "it could not be started");
    }

    pub(super) fn set_generation(&mut self, generation: u64) {
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
            lost: self.shared.facts.record().as_lost(),
        };
        let generation = self.generation;
        let (cells, names) = (loss.lost.cells, loss.lost.names_total);
        if reason == LossReason::KernelDied {
            tracing::warn!(generation, detail, cells, names, "a kernel has died");
        } else {
            tracing::info!(generation, detail, cells, names, "a kernel was ended");
        }
        self.untold.add(loss.clone());
        self.gone.add(self.shared.facts.record().names(), detail);
        // The handle goes: whatever is left of the kernel ends.
        if let Slot::Ready(kernel) = std::mem::take(&mut self.slot) {
            self.keep_background(kernel.take_background());
            self.exited(death);
        }
        self.shared.facts.record().clear();
        self.count = 0;
        self.unnumbered = 0;
        if next == Next::Restart && self.restarts {
            self.trigger(Trigger::Lost, reason.word());
            self.begin_start();
        } else {
            self.trigger(Trigger::Ended, reason.word());
        }
        self.recount();
        loss
    }

    /// The loss that is to be told with this cell, and whether its names were told already.
    pub(super) fn untold(&mut self) -> Option<(Loss, bool)> {
        self.untold.pending()
    }

    /// A result tells the loss; if it is received the loss is told. One of the new kernel also says
    /// why it is new.
    pub(super) fn tell(&mut self, received: &Arc<Received>, announces: bool) {
        let page = self.reminder();
        self.untold.tell(received, announces, page);
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
        self.recount();
        // What it has held may be for the next manager to tell.
        self.note();
        self.shared.facts.record().clear();
        self.trigger(Trigger::Ended, reason.word());
        ended
    }

    pub(super) fn death(&self) -> Death {
        match &self.slot {
            Slot::Ready(kernel) => kernel.death().unwrap_or(Death::Ended),
            Slot::Empty | Slot::Starting(_) => Death::Ended,
        }
    }

    /// The working directory that goes with the kernel, if it has one of its own.
    pub(super) fn kernel_folder(&self) -> Option<PathBuf> {
        match &self.slot {
            Slot::Ready(kernel) => kernel.scratch().map(Path::to_owned),
            Slot::Empty | Slot::Starting(_) => None,
        }
    }

    /// Whether a kernel that is lost is followed by the next at once.
    pub(super) fn restarts(&self) -> bool {
        self.restarts
    }

    /// Whether there is a kernel that could be given a cell.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.slot, Slot::Ready(_))
    }

    /// After each change of the slot.
    pub(super) fn recount(&mut self) {
        match (&self.slot, &self.counted) {
            (Slot::Empty, _) => self.counted = None,
            (_, None) => self.counted = Some(self.census.enter()),
            (_, Some(_)) => {}
        }
    }

    // What is told.

    pub(super) fn trigger(&mut self, trigger: Trigger, reason: &str) {
        let transition = self.state.apply(trigger);
        self.shared.facts.enter(self.state, self.count);
        self.shared.events.transition(transition, reason);
    }

    pub(super) fn exited(&self, death: &Death) {
        match death {
            Death::Exited(exit) => self.shared.events.exited(exit),
            _ => self.shared.events.exited(&KernelExit::Signal(9)),
        }
    }
}

/// Waits for a start, after an interrupt not much longer; `None` if that was not long enough.
pub(super) async fn patiently(
    starting: &mut JoinHandle<Result<Kernel, ProvisionError>>,
    interrupt: &Interrupt,
) -> Option<Result<Kernel, ProvisionError>> {
    let impatient = async {
        interrupt.cancelled().await;
        sleep(START_PATIENCE).await;
    };
    tokio::select! {
        started = starting => Some(unless_given_up(started)),
        () = impatient => None,
    }
}

pub(super) fn unless_given_up(
    started: Result<Result<Kernel, ProvisionError>, tokio::task::JoinError>,
) -> Result<Kernel, ProvisionError> {
    started.unwrap_or_else(|_the_runtime_ends| {
        Err(ProvisionError::ForkserverGone {
            reason: "was given up".to_owned(),
        })
    })
}
