//! What waits to be sent to one client: bounded, and nothing is ever left out of it. A client that
//! does not read is cut off.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::budget::Budget;
use super::message::Outgoing;
use crate::session::Receipt;

/// Bytes that may wait for a client before cells are made to wait for it.
const WAITED_FOR_BYTES: usize = 1 << 20;
/// Bytes that may wait for a client at all.
const MOST_BYTES: usize = 16 << 20;
/// What one message counts towards that at most: a long one cuts nobody off who reads.
const MOST_COUNTED: usize = MOST_BYTES / 2;

/// The outbox of one client: whoever carries its messages takes them out.
#[derive(Debug)]
pub struct Outbox {
    /// What all outboxes share; `None` if it is that of a relay.
    budget: Option<Arc<Budget>>,
    state: Mutex<State>,
    /// Something is to be sent, or nothing more will be.
    added: Notify,
    /// Something was taken.
    taken: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Item>,
    /// Of all that waits, and of what is being sent.
    bytes: usize,
    /// The same, as far as it counts towards what may wait at all.
    counted: usize,
    /// Of what is being sent.
    sending: usize,
    /// It was waited for once, and has taken nothing: it is not waited for again before it does.
    stalled: bool,
    end: Option<End>,
}

/// Why nothing more is sent.
#[derive(Debug)]
enum End {
    /// The client has gone.
    Gone,
    /// It is told why, after what waits.
    Close(Why, String),
    /// It was told.
    Told,
}

/// Why a client gets nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The session has ended.
    Closed,
    /// It does not take what waits for it.
    Behind,
    /// Too much waits at this manager; it may come again.
    Crowded,
    /// It sends more than is put up with.
    Flooding,
    /// What it sends makes no sense.
    Senseless,
    /// What carries its messages is broken.
    Broken,
}

/// What is to be done next for a client.
#[derive(Debug)]
pub enum Next {
    /// Send a message.
    Send(Item),
    /// Say why nothing more comes, in a sentence, and end.
    Close(Why, String),
}

/// A message to be sent.
#[derive(Debug)]
pub struct Item {
    /// The message.
    pub message: Arc<Outgoing>,
    /// To be signed once it was sent.
    pub receipt: Option<Receipt>,
}

impl Outbox {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self::with(Some(budget))
    }

    /// The outbox of somebody who hands everything on, in bounded time, to queues with limits of their
    /// own: it is waited for, however long that takes, and never cut off.
    pub fn relay() -> Self {
        Self::with(None)
    }

    fn with(budget: Option<Arc<Budget>>) -> Self {
        Self {
            budget,
            state: Mutex::default(),
            added: Notify::new(),
            taken: Notify::new(),
        }
    }

    /// Puts a message in. Whoever has not read the 16 MiB before it is cut off, of which one message
    /// counts as 8 at most, and whoever is furthest behind if too much waits for all together.
    pub(super) fn put(&self, message: Arc<Outgoing>, receipt: Option<Receipt>) {
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        if state.counted > MOST_BYTES && self.budget.is_some() {
            drop(state);
            let sentence = "you read too slowly: more than 16 MiB waited for you";
            return self.cut_off(Why::Behind, sentence);
        }
        let bytes = message.bytes();
        state.bytes += bytes;
        state.counted += bytes.min(MOST_COUNTED);
        if let Some(budget) = &self.budget {
            budget.add(bytes);
        }
        state.waiting.push_back(Item { message, receipt });
        drop(state);
        self.added.notify_one();
        if let Some(budget) = &self.budget {
            budget.enforce();
        }
    }

    /// Bytes that wait, and are being sent.
    pub(super) fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Waits until the client has taken nearly everything, or until the deadline: then it is not
    /// waited for again before it has taken something. A relay is waited for without one.
    pub(super) async fn room(&self, deadline: Instant) {
        loop {
            let mut taken = pin!(self.taken.notified());
            taken.as_mut().enable();
            {
                let mut state = self.state();
                if state.bytes <= WAITED_FOR_BYTES || state.stalled || state.end.is_some() {
                    return;
                }
                if deadline <= Instant::now() && self.budget.is_some() {
                    state.stalled = true;
                    return;
                }
            }
            if self.budget.is_none() {
                taken.await;
            } else {
                drop(timeout_at(deadline, taken).await);
            }
        }
    }

    /// Sends nothing after what waits but the reason.
    pub(super) fn close(&self, why: Why, sentence: &str) {
        self.end(|state| {
            state
                .end
                .get_or_insert_with(|| End::Close(why, sentence.to_owned()));
        });
    }

    /// Sends the reason alone: after a gap nothing would make sense.
    pub fn cut_off(&self, why: Why, sentence: &str) {
        self.end(|state| {
            self.empty(state);
            state
                .end
                .get_or_insert_with(|| End::Close(why, sentence.to_owned()));
        });
    }

    /// The client has gone.
    pub fn gone(&self) {
        self.end(|state| {
            self.empty(state);
            state.end = Some(End::Gone);
        });
    }

    fn empty(&self, state: &mut State) {
        state.waiting.clear();
        state.sending = 0;
        state.counted = 0;
        self.give_back(std::mem::take(&mut state.bytes));
    }

    fn give_back(&self, bytes: usize) {
        if let Some(budget) = &self.budget {
            budget.take(bytes);
        }
    }

    fn end(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.added.notify_one();
        self.taken.notify_waiters();
    }

    /// Whether nothing more can be put in.
    pub(super) fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// Waits until nothing more can be put in.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn ended(&self) {
        loop {
            let mut changed = pin!(self.taken.notified());
            changed.as_mut().enable();
            if self.has_ended() {
                return;
            }
            changed.await;
        }
    }

    /// What is to be done next; `None` after the end. One task asks, and does not ask again before it
    /// has done it: so long the message counts as one that waits.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn next(&self) -> Option<Next> {
        loop {
            {
                let mut state = self.state();
                let sent = std::mem::take(&mut state.sending);
                state.bytes -= sent;
                state.counted -= sent.min(MOST_COUNTED);
                self.give_back(sent);
                if sent > 0 {
                    self.taken.notify_waiters();
                }
                if let Some(item) = state.waiting.pop_front() {
                    state.sending = item.message.bytes();
                    state.stalled = false;
                    return Some(Next::Send(item));
                }
                match state.end.take() {
                    None => {}
                    Some(End::Close(why, sentence)) => {
                        state.end = Some(End::Told);
                        return Some(Next::Close(why, sentence));
                    }
                    Some(end) => {
                        state.end = Some(end);
                        return None;
                    }
                }
            }
            self.added.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let bytes = self.bytes();
        self.give_back(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::jupyter::{Channel, RawMessage};

    fn message(bytes: usize) -> Arc<Outgoing> {
        let content = Bytes::from(vec![b' '; bytes]);
        Arc::new(Outgoing {
            msg_type: "stream",
            msg_id: String::new(),
            message: RawMessage::new(Channel::Iopub, Bytes::from_static(b"{}"), content),
        })
    }

    fn in_a_second() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    async fn why(outbox: &Outbox) -> (Why, String) {
        match outbox.next().await {
            Some(Next::Close(why, sentence)) => (why, sentence),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_waited_for_once_and_then_cut_off() {
        let outbox = Arc::new(Budget::default()).outbox();
        let message = message(WAITED_FOR_BYTES);
        outbox.put(Arc::clone(&message), None);
        let began = Instant::now();
        outbox.room(in_a_second()).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        outbox.room(in_a_second()).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        assert!(outbox.next().await.is_some());
        for _ in 0..17 {
            outbox.put(Arc::clone(&message), None);
        }
        outbox.ended().await;
        outbox.put(message, None);
        let (reason, sentence) = why(&outbox).await;
        assert_eq!(reason, Why::Behind);
        assert!(sentence.contains("too slowly"), "{sentence}");
        assert!(outbox.next().await.is_none());
    }

    #[tokio::test]
    async fn one_long_message_cuts_nobody_off_and_two_do() {
        let outbox = Arc::new(Budget::default()).outbox();
        let long = message(30 << 20);
        outbox.put(Arc::clone(&long), None);
        for _ in 0..1_000 {
            outbox.put(message(10), None);
        }
        assert!(!outbox.has_ended());
        assert!(matches!(outbox.next().await, Some(Next::Send(_))));
        outbox.put(Arc::clone(&long), None);
        // What is being sent counts until the next is asked for.
        outbox.put(message(10), None);
        assert_eq!(why(&outbox).await.0, Why::Behind);
        // Nothing is left of what was counted.
        let outbox = Arc::new(Budget::default()).outbox();
        for _ in 0..10 {
            outbox.put(Arc::clone(&long), None);
            assert!(matches!(outbox.next().await, Some(Next::Send(_))));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_is_waited_for_and_never_cut_off() {
        let outbox = Outbox::relay();
        for _ in 0..80 {
            outbox.put(message(WAITED_FOR_BYTES / 2), None);
        }
        let passed = Instant::now();
        let waited = tokio::time::timeout(Duration::from_secs(60), outbox.room(passed));
        assert!(waited.await.is_err());
        let ((), taken) = tokio::join!(outbox.room(passed), async {
            let mut taken = 0;
            while outbox.bytes() > WAITED_FOR_BYTES {
                assert!(matches!(outbox.next().await, Some(Next::Send(_))));
                taken += 1;
            }
            taken
        });
        assert!(taken >= 78, "{taken}");
    }

    #[tokio::test]
    async fn what_waits_is_sent_before_the_reason_unless_it_is_cut_off() {
        let outbox = Arc::new(Budget::default()).outbox();
        outbox.put(message(1), None);
        outbox.close(Why::Closed, "é");
        outbox.put(message(1), None);
        assert!(matches!(outbox.next().await, Some(Next::Send(_))));
        assert_eq!(why(&outbox).await, (Why::Closed, "é".to_owned()));
        assert!(outbox.next().await.is_none());

        let outbox = Arc::new(Budget::default()).outbox();
        outbox.put(message(1), None);
        outbox.cut_off(Why::Flooding, "why");
        assert_eq!(why(&outbox).await.0, Why::Flooding);
    }

    #[tokio::test]
    async fn what_waits_for_all_is_bounded_and_who_is_furthest_behind_is_cut_off() {
        let budget = Arc::new(Budget::new(10_000_000));
        let outboxes: Vec<_> = (0..6).map(|_| budget.outbox()).collect();
        let long = message(999_000);
        for (number, outbox) in outboxes.iter().enumerate() {
            // What is being sent counts until the next is asked for.
            for _ in 0..number {
                outbox.put(Arc::clone(&long), None);
            }
            assert!(budget.waiting() <= 10_000_000);
            if !outbox.has_ended() {
                drop(tokio::time::timeout(Duration::ZERO, outbox.next()).await);
            }
        }
        let left: Vec<usize> = outboxes
            .iter()
            .map(|outbox| outbox.bytes() / 990_000)
            .collect();
        assert_eq!(left, [0, 1, 2, 3, 0, 0]);
        let (reason, sentence) = why(&outboxes[5]).await;
        assert_eq!(reason, Why::Behind);
        assert!(sentence.contains("most of it for you"), "{sentence}");

        // What was sent, cut off or dropped gives its room back.
        drop(tokio::time::timeout(Duration::ZERO, outboxes[1].next()).await);
        outboxes[2].gone();
        assert_eq!(budget.waiting() / 990_000, 3);
        drop(outboxes);
        assert_eq!(budget.waiting(), 0);
    }
}
