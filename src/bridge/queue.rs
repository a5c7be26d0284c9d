//! What waits to be sent to one peer: bounded in bytes, and nothing is ever left out of it. A peer
//! that does not read is cut off.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Bytes that may wait for a peer before others are made to wait for it.
const WAITED_FOR_BYTES: usize = 1 << 20;
/// Bytes that may wait for a peer at all.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// Room that a message takes beside its bytes.
const OVERHEAD_BYTES: usize = 128;
/// How long a peer is waited for that takes nothing.
const PATIENCE: Duration = Duration::from_millis(500);
/// A peer that takes so much is waited for as long again: whoever reads more slowly than this, all
/// the time, is cut off in the end and does not make others as slow as itself.
const PATIENCE_BYTES: usize = 2 << 20;
/// What one message counts at most, as a part of all that may wait: a long one cuts nobody off who
/// reads.
const MOST_PART: usize = 2;
/// Small messages that go out together.
const TOGETHER_BYTES: usize = 64 << 10;

/// A message as it goes over the wire, shared by all who get it.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) pieces: Vec<Bytes>,
    bytes: usize,
}

impl Wire {
    pub(super) fn new(pieces: Vec<Bytes>) -> Arc<Self> {
        let bytes = pieces.iter().map(Bytes::len).sum::<usize>() + OVERHEAD_BYTES;
        Arc::new(Self { pieces, bytes })
    }
}

/// The queue of one peer.
#[derive(Debug)]
pub(super) struct Queue {
    most_bytes: usize,
    state: Mutex<State>,
    added: Notify,
    taken: Notify,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Arc<Wire>>,
    /// Of all that waits, and of what is being sent and was not taken yet.
    bytes: usize,
    /// The same of whole messages, as far as they count towards what may wait at all.
    counted: usize,
    patience: Duration,
    /// Since then it was waited for less than it has taken.
    taken: usize,
    end: Option<End>,
}

/// Nothing more is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// What waits is sent.
    Finished,
    /// What waits is dropped, and the connection closed.
    CutOff,
}

impl Queue {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                bytes: 0,
                counted: 0,
                patience: PATIENCE,
                taken: 0,
                end: None,
            }),
            added: Notify::new(),
            taken: Notify::new(),
        }
    }

    /// Puts a message in; false if there is an end to it. Whoever has not taken what is before it is
    /// cut off, if that is too much: a gap could not be seen.
    pub(super) fn put(&self, wire: &Arc<Wire>) -> bool {
        let mut state = self.state();
        if state.end.is_some() {
            return false;
        }
        if state.counted > self.most_bytes {
            drop(state);
            tracing::warn!(
                bytes = self.most_bytes,
                "a front end that does not read was cut off"
            );
            self.end(End::CutOff);
            return false;
        }
        state.bytes += wire.bytes;
        state.counted += self.counted(wire);
        state.waiting.push_back(Arc::clone(wire));
        drop(state);
        self.added.notify_one();
        true
    }

    fn counted(&self, wire: &Wire) -> usize {
        wire.bytes.min(self.most_bytes / MOST_PART)
    }

    /// Waits until the peer has taken nearly everything, or patience with it is at an end.
    pub(super) async fn room(&self) {
        let began = Instant::now();
        loop {
            let mut taken = pin!(self.taken.notified());
            taken.as_mut().enable();
            let deadline = {
                let mut state = self.state();
                let waited = began.elapsed();
                if state.bytes <= WAITED_FOR_BYTES || state.end.is_some() {
                    state.patience = state.patience.saturating_sub(waited);
                    return;
                }
                if waited >= state.patience {
                    state.patience = Duration::ZERO;
                    return;
                }
                began + state.patience
            };
            drop(timeout_at(deadline, taken).await);
        }
    }

    pub(super) fn end(&self, end: End) {
        let mut state = self.state();
        // One that was cut off is not finished any more.
        if state.end != Some(End::CutOff) {
            state.end = Some(end);
        }
        if end == End::CutOff {
            state.waiting.clear();
            state.bytes = 0;
            state.counted = 0;
        }
        drop(state);
        self.added.notify_one();
        self.taken.notify_waiters();
    }

    /// Waits until the peer is cut off.
    pub(super) async fn cut_off(&self) {
        loop {
            let mut changed = pin!(self.taken.notified());
            changed.as_mut().enable();
            if self.state().end == Some(End::CutOff) {
                return;
            }
            changed.await;
        }
    }

    /// What is to be sent next; `None` after the end. One task asks.
    pub(super) async fn next(&self) -> Option<Batch> {
        loop {
            {
                let mut state = self.state();
                let mut batch = Batch::default();
                while let Some(wire) = state.waiting.front()
                    && (batch.wires.is_empty() || batch.bytes + wire.bytes <= TOGETHER_BYTES)
                    && let Some(wire) = state.waiting.pop_front()
                {
                    batch.bytes += wire.bytes;
                    batch.wires.push(wire);
                }
                if !batch.wires.is_empty() {
                    return Some(batch);
                }
                if state.end.is_some() {
                    return None;
                }
            }
            self.added.notified().await;
        }
    }

    /// The peer has taken so many bytes of a batch.
    pub(super) fn taken(&self, batch: &mut Batch, bytes: usize) {
        batch.taken += bytes;
        self.count(bytes, 0);
    }

    /// A batch was sent.
    pub(super) fn sent(&self, batch: &Batch) {
        let counted = batch.wires.iter().map(|wire| self.counted(wire)).sum();
        self.count(batch.bytes.saturating_sub(batch.taken), counted);
    }

    fn count(&self, bytes: usize, counted: usize) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.counted = state.counted.saturating_sub(counted);
        state.taken += bytes;
        if state.taken >= PATIENCE_BYTES || state.bytes == 0 {
            state.taken = 0;
            state.patience = PATIENCE;
        }
        drop(state);
        self.taken.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages that go out together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) wires: Vec<Arc<Wire>>,
    bytes: usize,
    /// What was said of it with [`Queue::taken`].
    taken: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(bytes: usize) -> Arc<Wire> {
        Wire::new(vec![Bytes::from(vec![0; bytes])])
    }

    async fn take(queue: &Queue) -> usize {
        let batch = queue.next().await.unwrap();
        queue.sent(&batch);
        batch.wires.len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_waited_for_once() {
        let queue = Queue::new(MOST_BYTES);
        let began = Instant::now();
        queue.put(&wire(WAITED_FOR_BYTES));
        queue.room().await;
        assert_eq!(began.elapsed(), PATIENCE);
        queue.room().await;
        assert_eq!(began.elapsed(), PATIENCE);
        // Whoever has taken all has earned it again.
        take(&queue).await;
        queue.room().await;
        queue.put(&wire(WAITED_FOR_BYTES));
        queue.room().await;
        assert_eq!(began.elapsed(), 2 * PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_drips_does_not_hold_up_others_for_ever() {
        let queue = Queue::new(MOST_BYTES);
        for _ in 0..40 {
            queue.put(&wire(100 << 10));
        }
        let began = Instant::now();
        let dripping = async {
            for _ in 0..15 {
                tokio::time::sleep(Duration::from_millis(300)).await;
                take(&queue).await;
            }
        };
        let waiting = async {
            for _ in 0..15 {
                queue.room().await;
            }
            began.elapsed()
        };
        let (waited, ()) = tokio::join!(waiting, dripping);
        assert_eq!(waited, PATIENCE);
    }

    #[tokio::test]
    async fn who_has_not_taken_sixteen_mebibytes_is_cut_off_and_nothing_is_left_out_before() {
        let queue = Queue::new(MOST_BYTES);
        let piece = wire(1 << 20);
        let mut put = 0;
        while queue.put(&piece) {
            put += 1;
        }
        assert_eq!(put, 16);
        queue.cut_off().await;
        assert!(queue.next().await.is_none());

        let queue = Queue::new(1_000);
        assert!(queue.put(&wire(1 << 20)), "one message is always taken");
        while queue.put(&wire(0)) {}
        queue.cut_off().await;
    }

    #[tokio::test]
    async fn one_long_message_cuts_nobody_off_and_two_do() {
        let queue = Queue::new(MOST_BYTES);
        let long = wire(30 << 20);
        assert!(queue.put(&long));
        for _ in 0..1_000 {
            assert!(queue.put(&wire(10)));
        }
        assert_eq!(take(&queue).await, 1);
        assert!(queue.put(&long));
        assert!(queue.put(&long));
        assert!(!queue.put(&wire(10)));
        // Nothing is left of what was counted.
        let queue = Queue::new(MOST_BYTES);
        for _ in 0..10 {
            assert!(queue.put(&long));
            take(&queue).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_a_long_message_bit_by_bit_is_waited_for() {
        let queue = Queue::new(MOST_BYTES);
        queue.put(&wire(30 << 20));
        let taking = async {
            let mut batch = queue.next().await.unwrap();
            for _ in 0..30 {
                tokio::time::sleep(PATIENCE / 4).await;
                queue.taken(&mut batch, 1 << 20);
            }
            queue.sent(&batch);
        };
        let began = Instant::now();
        let waiting = async {
            queue.room().await;
            tokio::time::sleep(PATIENCE).await;
            // It has earned it again.
            queue.room().await;
            began.elapsed()
        };
        let (waited, ()) = tokio::join!(waiting, taking);
        assert!(waited >= 3 * PATIENCE, "{waited:?}");
        assert_eq!(queue.state().bytes, 0);
    }

    #[tokio::test]
    async fn small_messages_go_out_together_and_what_waits_is_sent_at_the_end() {
        let queue = Queue::new(MOST_BYTES);
        for _ in 0..10 {
            queue.put(&wire(10 << 10));
        }
        assert_eq!(take(&queue).await, 6);
        queue.end(End::Finished);
        assert!(!queue.put(&wire(1)));
        assert_eq!(take(&queue).await, 4);
        assert!(queue.next().await.is_none());
    }
}
