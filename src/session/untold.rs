//! Losses that were not yet told to everyone who must know.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::page::Reminder;
use crate::execution::{Loss, LossReason};

/// Whether a result has been received by whoever asked for it.
#[derive(Debug, Default)]
pub(super) struct Received {
    is_signed: AtomicBool,
    /// Whom it concerns: it tells a loss.
    page: OnceLock<Reminder>,
}

impl Received {
    /// It has been.
    pub(super) fn sign(&self) {
        self.is_signed.store(true, Ordering::Release);
        if let Some(page) = self.page.get() {
            page.look_again();
        }
    }

    fn is_signed(&self) -> bool {
        self.is_signed.load(Ordering::Acquire)
    }
}

/// What is still to be told.
#[derive(Debug, Clone, Default)]
pub(super) struct Untold(Option<Pending>);

#[derive(Debug, Clone)]
struct Pending {
    loss: Loss,
    /// Results that hold the lost names.
    told: Vec<Arc<Received>>,
    /// Results of the new kernel, which say why it is new.
    announced: Vec<Arc<Received>>,
}

impl Untold {
    /// A kernel was lost: together with what nobody has received yet it is to be told.
    pub(super) fn add(&mut self, loss: Loss) {
        let lost = match self.pending().filter(|(_, told)| !told) {
            Some((earlier, _)) => earlier.lost.and_then(&loss.lost),
            None => loss.lost.clone(),
        };
        self.set(Loss { lost, ..loss });
    }

    /// A loss of an earlier manager's; whether somebody has received what is gone.
    pub(super) fn left(loss: Loss, told: bool) -> Self {
        let mut untold = Self::default();
        untold.set(loss);
        if told {
            let received = Arc::new(Received::default());
            received.sign();
            untold.tell(&received, false, None);
        }
        untold
    }

    fn set(&mut self, loss: Loss) {
        self.0 = Some(Pending {
            loss,
            told: Vec::new(),
            announced: Vec::new(),
        });
    }

    /// The loss that is to be told with the next result, and whether its names were told already.
    pub(super) fn pending(&mut self) -> Option<(Loss, bool)> {
        let is_received = |of: &[Arc<Received>]| of.iter().any(|it| it.is_signed());
        if self.0.as_ref().is_some_and(|it| is_received(&it.announced)) {
            self.0 = None;
        }
        let pending = self.0.as_ref()?;
        Some((pending.loss.clone(), is_received(&pending.told)))
    }

    /// Why the kernel is new, if that was not said yet.
    pub(super) fn reason(&self) -> Option<LossReason> {
        let pending = self.0.as_ref()?;
        let is_said = pending.announced.iter().any(|it| it.is_signed());
        (!is_said).then_some(pending.loss.reason)
    }

    /// A result tells the loss; if it is received the loss is told. One of the new kernel also says
    /// why it is new.
    pub(super) fn tell(
        &mut self,
        received: &Arc<Received>,
        announces: bool,
        page: Option<Reminder>,
    ) {
        let Some(pending) = &mut self.0 else { return };
        if let Some(page) = page {
            // One result is told of one session.
            received.page.get_or_init(|| page);
        }
        pending.told.push(Arc::clone(received));
        if announces {
            pending.announced.push(Arc::clone(received));
        }
    }
}
