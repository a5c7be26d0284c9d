//! What waits for all clients together: bounded, and whoever is furthest behind is cut off.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::outbox::{Outbox, Why};

/// Bytes that may wait for all clients of a manager.
const MOST_BYTES: usize = 64 << 20;

/// What the outboxes of a manager have in common.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    waiting: AtomicUsize,
    /// Held while it is found out who is furthest behind.
    outboxes: Mutex<Vec<Weak<Outbox>>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MOST_BYTES)
    }
}

impl Budget {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            waiting: AtomicUsize::new(0),
            outboxes: Mutex::default(),
        }
    }

    /// An outbox whose bytes count.
    pub(super) fn outbox(self: &Arc<Self>) -> Arc<Outbox> {
        let outbox = Arc::new(Outbox::new(Arc::clone(self)));
        let mut outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
        outboxes.retain(|outbox| outbox.strong_count() > 0);
        outboxes.push(Arc::downgrade(&outbox));
        outbox
    }

    pub(super) fn add(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn take(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Cuts off whoever is furthest behind, as long as too much waits. Not to be called with an outbox
    /// locked.
    pub(super) fn enforce(&self) {
        if self.waiting() <= self.most {
            return;
        }
        let outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
        while self.waiting() > self.most {
            let behind = outboxes
                .iter()
                .filter_map(Weak::upgrade)
                .max_by_key(|outbox| outbox.bytes())
                .filter(|outbox| outbox.bytes() > 0);
            // Whoever it was has caught up meanwhile.
            let Some(behind) = behind else { return };
            let mebibytes = self.most >> 20;
            let sentence = format!(
                "you read too slowly: more than {mebibytes} MiB waited for all clients together, \
                 and most of it for you"
            );
            behind.cut_off(Why::Behind, &sentence);
        }
    }
}
