//! Cells that go on although nobody waits for them, until somebody asks for their results.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::page::Reminder;
use super::untold::Received;
use super::{Execution, Receipt};
use crate::execution::{Outcome, Status, Unreceived};

/// Results that are kept for later: those of the cells that can wait, of one that runs, and of some
/// that have ended. Beyond it the oldest is forgotten; a loss that it tells is told again.
const MOST_KEPT: usize = 64;

/// The shelf of one session. Oldest first.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    kept: Mutex<VecDeque<Item>>,
    /// Where it is noted what would be lost with the manager.
    page: OnceLock<Reminder>,
}

#[derive(Debug)]
struct Item {
    execution: Execution,
    /// Its result, once somebody has waited for it.
    finished: Option<(Outcome, Arc<Received>)>,
}

impl Shelf {
    /// From now on what is here is noted there.
    pub(super) fn noted_in(&self, page: Reminder) {
        self.page.get_or_init(|| page);
    }

    fn has_changed(&self) {
        if let Some(page) = self.page.get() {
            page.look_again();
        }
    }

    /// Puts a cell there: it goes on without its caller.
    pub(super) fn keep(&self, mut execution: Execution) {
        // What it prints is not waited for.
        drop(execution.take_live());
        let mut kept = self.kept();
        if kept.len() == MOST_KEPT {
            drop(kept.pop_front());
        }
        kept.push_back(Item {
            execution,
            finished: None,
        });
        drop(kept);
        self.has_changed();
    }

    /// Holds a result that is on its way.
    pub(super) fn hold(
        self: &Arc<Self>,
        mut execution: Execution,
        outcome: Outcome,
        receipt: &Receipt,
    ) -> Kept {
        drop(execution.take_live());
        let item = Item {
            execution,
            finished: Some((outcome, receipt.received())),
        };
        Kept {
            item: Some(item),
            shelf: Arc::clone(self),
        }
    }

    /// Takes the oldest.
    pub(super) fn take(self: &Arc<Self>) -> Option<Kept> {
        let item = self.kept().pop_front()?;
        Some(Kept {
            item: Some(item),
            shelf: Arc::clone(self),
        })
    }

    /// What is there. What somebody waits for just now is not.
    pub(super) fn unreceived(&self) -> Vec<Unreceived> {
        let mut kept = self.kept();
        let one = |item: &mut Item| {
            if item.finished.is_none() {
                item.finished = item.execution.delivered_now();
            }
            let finished = item.finished.as_ref();
            Unreceived {
                cell: item.execution.turn().number(),
                status: finished.map_or(Status::Running, |(outcome, _)| outcome.status),
            }
        };
        kept.iter_mut().map(one).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept().is_empty()
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Item>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cell that went on without its caller. Dropped before [`Kept::done`] it can be asked for again:
/// whoever gives up waiting loses nothing.
#[derive(Debug)]
pub struct Kept {
    /// None once it is done.
    item: Option<Item>,
    shelf: Arc<Shelf>,
}

impl Kept {
    /// Waits for its result; `None` never comes before [`Kept::done`].
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn outcome(&mut self) -> Option<(Outcome, Receipt)> {
        let item = self.item.as_mut()?;
        if item.finished.is_none() {
            item.finished = Some(item.execution.delivered().await);
        }
        let (outcome, received) = item.finished.as_ref()?;
        Some((outcome.clone(), Receipt::of(received)))
    }

    /// What it has done up to now: status `running`, or its result.
    pub fn so_far(&self) -> Option<Outcome> {
        let item = self.item.as_ref()?;
        Some(match &item.finished {
            Some((outcome, _)) => outcome.clone(),
            None => item.execution.so_far(),
        })
    }

    /// Its result was received: it is not kept any longer.
    pub fn done(mut self) {
        drop(self.item.take());
        self.shelf.has_changed();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            self.shelf.kept().push_front(item);
            self.shelf.has_changed();
        }
    }
}
