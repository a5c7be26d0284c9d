//! How much memory the requests of one session may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All of them together: two of the longest.
const LIMIT_BYTES: usize = 128 << 20;
/// So much of each connection is free, so that short requests are never refused.
const FREE_BYTES: usize = 64 << 10;

/// The bytes of requests that are being read or worked on.
#[derive(Debug)]
pub(super) struct RequestBudget {
    used: AtomicUsize,
    limit: usize,
}

impl RequestBudget {
    pub(super) fn new() -> Arc<Self> {
        Self::of(LIMIT_BYTES)
    }

    pub(super) fn of(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            limit,
        })
    }
}

/// A part of the budget. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<RequestBudget>,
    bytes: usize,
}

impl Charge {
    pub(super) fn new(budget: &Arc<RequestBudget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: 0,
        }
    }

    /// Makes it so many bytes; false, and nothing is changed, if there is no room for them.
    pub(super) fn set(&mut self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(FREE_BYTES);
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let limit = self.budget.limit;
            let taken =
                self.budget
                    .used
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                        used.checked_add(more).filter(|sum| *sum <= limit)
                    });
            if taken.is_err() {
                return false;
            }
        } else {
            self.budget
                .used
                .fetch_sub(self.bytes - bytes, Ordering::AcqRel);
        }
        self.bytes = bytes;
        true
    }

    /// Keeps what so many bytes need, and hands the rest over.
    pub(super) fn split(&mut self, keep: usize) -> Self {
        let keep = keep.saturating_sub(FREE_BYTES).min(self.bytes);
        let rest = self.bytes - keep;
        self.bytes = keep;
        Self {
            budget: Arc::clone(&self.budget),
            bytes: rest,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = RequestBudget::of(1_000);
        let mut one = Charge::new(&budget);
        let mut other = Charge::new(&budget);
        assert!(one.set(FREE_BYTES));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        assert!(one.set(FREE_BYTES + 700));
        assert!(!other.set(FREE_BYTES + 301));
        assert!(other.set(FREE_BYTES + 300));
        let call = one.split(0);
        assert!(!other.set(FREE_BYTES + 301));
        drop(call);
        assert!(other.set(FREE_BYTES + 1_000));
        assert!(one.set(FREE_BYTES) && !one.set(FREE_BYTES + 1));
        drop((one, other));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
