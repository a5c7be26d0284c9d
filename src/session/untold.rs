//! Losses that were not yet told to everyone who must know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::execution::Loss;

/// What is still to be told.
#[derive(Debug, Default)]
pub(super) struct Untold(Option<Pending>);

#[derive(Debug)]
struct Pending {
    loss: Loss,
    /// Set when a result that holds the lost names was received.
    told: Vec<Arc<AtomicBool>>,
    /// Set when a result of the new kernel was received, which says why it is new.
    announced: Vec<Arc<AtomicBool>>,
}

impl Untold {
    /// A kernel was lost: together with what nobody has received yet it is to be told.
    pub(super) fn add(&mut self, loss: Loss) {
        let lost = match self.pending().filter(|(_, told)| !told) {
            Some((earlier, _)) => earlier.lost.and_then(&loss.lost),
            None => loss.lost.clone(),
        };
        self.0 = Some(Pending {
            loss: Loss { lost, ..loss },
            told: Vec::new(),
            announced: Vec::new(),
        });
    }

    /// The loss that is to be told with the next result, and whether its names were told already.
    pub(super) fn pending(&mut self) -> Option<(Loss, bool)> {
        if self.0.as_ref().is_some_and(|it| is_set(&it.announced)) {
            self.0 = None;
        }
        let pending = self.0.as_ref()?;
        Some((pending.loss.clone(), is_set(&pending.told)))
    }

    /// A result tells the loss; if it is received the loss is told. One of the new kernel also says
    /// why it is new.
    pub(super) fn tell(&mut self, received: &Arc<AtomicBool>, announces: bool) {
        if let Some(pending) = &mut self.0 {
            pending.told.push(Arc::clone(received));
            if announces {
                pending.announced.push(Arc::clone(received));
            }
        }
    }
}

fn is_set(flags: &[Arc<AtomicBool>]) -> bool {
    flags.iter().any(|it| it.load(Ordering::Acquire))
}
