//! How much memory the long requests of a manager may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All of them together: the longest, and some shorter ones beside it.
const LIMIT_BYTES: u32 = 80 << 20;

/// The bytes of long requests that are being read or worked on, of all sessions of a manager.
///
/// Who finds no room waits, in order of arrival: a long one is not overtaken for ever.
#[derive(Debug)]
pub struct RequestBudget {
    room: Arc<Semaphore>,
    limit: u32,
    waiting: AtomicUsize,
}

impl RequestBudget {
    /// A budget for one manager.
    pub fn new() -> Arc<Self> {
        Self::of(LIMIT_BYTES)
    }

    fn of(limit: u32) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(limit as usize)),
            limit,
            waiting: AtomicUsize::new(0),
        })
    }

    /// Takes room for so many bytes; waits until it is there.
    ///
    /// # Cancel safety
    ///
    /// May be dropped; the place in the queue is given up.
    pub(super) async fn reserve(&self, bytes: u32) -> Reservation {
        let _waits = Waiting::enter(&self.waiting);
        // More than there is would never come; it then has everything for itself.
        let bytes = bytes.min(self.limit);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await;
        // It is never closed.
        Reservation { _room: room.ok() }
    }

    /// Whether somebody waits for room.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}

/// Room for one request. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Reservation {
    _room: Option<OwnedSemaphorePermit>,
}

/// Somebody who waits, for as long as he does.
#[derive(Debug)]
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn at_once(budget: &RequestBudget, bytes: u32) -> Option<Reservation> {
        match poll(pin!(budget.reserve(bytes))) {
            Poll::Ready(room) => Some(room),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = RequestBudget::of(1_000);
        let first = at_once(&budget, 700).unwrap();
        let second = at_once(&budget, 300).unwrap();
        assert!(at_once(&budget, 1).is_none());
        assert!(!budget.is_wanted());
        drop(second);
        assert!(at_once(&budget, 301).is_none());
        assert!(at_once(&budget, 300).is_some());
        drop(first);
        assert!(at_once(&budget, 1_000).is_some());
    }

    #[test]
    fn who_waits_longest_is_next_and_who_goes_away_waits_no_more() {
        let budget = RequestBudget::of(1_000);
        let held = at_once(&budget, 600).unwrap();
        let mut long = pin!(budget.reserve(900));
        let mut short = Box::pin(budget.reserve(100));
        assert!(poll(long.as_mut()).is_pending() && poll(short.as_mut()).is_pending());
        assert!(budget.is_wanted());
        drop(held);
        let Poll::Ready(room) = poll(long.as_mut()) else {
            panic!("it was overtaken")
        };
        assert!(poll(short.as_mut()).is_ready());
        drop(short);
        assert!(!budget.is_wanted());
        let mut gone = Box::pin(budget.reserve(800));
        assert!(poll(gone.as_mut()).is_pending());
        drop(gone);
        drop(room);
        assert!(at_once(&budget, 1_000).is_some());
    }

    #[test]
    fn one_that_is_longer_than_everything_has_it_for_itself() {
        let budget = RequestBudget::of(1_000);
        let held = at_once(&budget, 1).unwrap();
        assert!(at_once(&budget, 5_000).is_none());
        drop(held);
        let room = at_once(&budget, 5_000).unwrap();
        assert!(at_once(&budget, 1).is_none());
        drop(room);
    }
}
