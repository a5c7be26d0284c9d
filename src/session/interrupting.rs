//! The cell that runs, and those who interrupt it: they see what comes of it.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::session::Shared;
use super::{Policy, Session};
use crate::execution::{Interrupt, KernelReport, LossReason, Outcome, ReportedState, Status};

/// The cell that runs.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) interrupt: Interrupt,
    /// Those who wait for what becomes of it.
    watchers: Vec<oneshot::Sender<Interrupted>>,
}

/// How a cell has ended that was interrupted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interrupted {
    /// `interrupted`; another one if the cell has ended before by itself, or by its time limit.
    pub status: Status,
    /// What became of the kernel.
    pub kernel: KernelReport,
    /// Both in a sentence.
    pub sentence: String,
}

impl Current {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        Self {
            interrupt,
            watchers: Vec::new(),
        }
    }

    /// It has its result.
    pub(super) fn ended(self, outcome: &Outcome) {
        for watcher in self.watchers {
            // Whoever it is may have gone.
            watcher.send(Interrupted::of(outcome)).ok();
        }
    }
}

impl Interrupted {
    fn of(outcome: &Outcome) -> Self {
        let end = outcome.beside_streams.end.as_deref();
        let sentence = match (end, outcome.kernel.state) {
            (Some(end), _) => end.trim_matches(['[', ']']).to_owned(),
            (None, ReportedState::Lost) => "its kernel is lost".to_owned(),
            (None, _) => "it had ended by itself; state is kept".to_owned(),
        };
        Self {
            status: outcome.status,
            kernel: outcome.kernel.clone(),
            sentence,
        }
    }
}

impl Policy {
    /// Interrupts a cell as this says, whatever the cell's own policy is; the second time by force.
    pub fn interrupt(self, cell: &Interrupt) {
        match self {
            Self::Restart => cell.force(),
            Self::Interrupt => cell.cancel_in_place(),
        }
    }
}

impl Shared {
    pub(super) fn asking(&self) -> MutexGuard<'_, Option<Interrupt>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a cell is ended that nobody has interrupted; `None` if the session goes on as it is.
    pub(super) fn ends_cells(&self) -> Option<LossReason> {
        if self.closed.load(Ordering::Acquire) {
            return Some(LossReason::SessionClosed);
        }
        let being_reset = self.being_reset.load(Ordering::Acquire);
        being_reset.then_some(LossReason::Reset)
    }

    /// What is to be said of the kernel with a cell that did not run.
    pub(super) fn untouched(&self) -> KernelReport {
        let generation = self.generation.load(Ordering::Relaxed);
        if self.closed.load(Ordering::Acquire) && generation > 0 {
            return KernelReport::untouched(generation, 1).lost(LossReason::SessionClosed);
        }
        KernelReport::untouched(generation, self.facts.given())
    }
}

impl Session {
    /// Whether a cell runs now.
    pub fn is_busy(&self) -> bool {
        self.shared.current().is_some()
    }

    /// Interrupts the cell that runs now, as its policy says and the second time by force; false if
    /// none does. What the kernel is asked instead is interrupted in place.
    pub fn interrupt(&self) -> bool {
        self.shared
            .asking()
            .as_ref()
            .inspect(|asking| asking.cancel());
        let current = self.shared.current();
        current
            .as_ref()
            .inspect(|current| current.interrupt.cancel())
            .is_some()
    }

    /// As [`Session::interrupt`], by another policy than the cell's own.
    pub fn interrupt_by(&self, policy: Policy) -> bool {
        let current = self.shared.current();
        current
            .as_ref()
            .inspect(|current| policy.interrupt(&current.interrupt))
            .is_some()
    }

    /// As [`Session::interrupt`], or by another policy than the cell's own; and waits for what comes of
    /// it. `None` if no cell runs; `Some(None)` if it has not ended within `patience`.
    ///
    /// # Cancel safety
    ///
    /// May be dropped: the cell is interrupted all the same.
    pub async fn interrupt_and_see(
        &self,
        policy: Option<Policy>,
        patience: Duration,
    ) -> Option<Option<Interrupted>> {
        let end = {
            let mut current = self.shared.current();
            let current = current.as_mut()?;
            let (watcher, end) = oneshot::channel();
            current.watchers.retain(|watcher| !watcher.is_closed());
            current.watchers.push(watcher);
            match policy {
                None => current.interrupt.cancel(),
                Some(policy) => policy.interrupt(&current.interrupt),
            }
            end
        };
        let ended = timeout(patience, end).await;
        Some(ended.ok().and_then(Result::ok))
    }
}
