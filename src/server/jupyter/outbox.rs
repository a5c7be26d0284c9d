//! What waits to be sent to one client: bounded, and nothing is ever left out of it. A client that
//! does not read is cut off.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::extract::ws::{CloseFrame, Message, close_code};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::wire::{Form, Outgoing};
use crate::session::Receipt;

/// Bytes that may wait for a client before cells are made to wait for it.
const WAITED_FOR_BYTES: usize = 1 << 20;
/// Bytes that may wait for a client at all.
const MOST_BYTES: usize = 16 << 20;
/// Room that a message takes beside its bytes.
const OVERHEAD_BYTES: usize = 128;
/// The longest reason in a close frame.
const MOST_REASON_BYTES: usize = 123;

/// The outbox of one client.
#[derive(Debug)]
pub(super) struct Outbox {
    form: Form,
    state: Mutex<State>,
    /// Something is to be sent, or nothing more will be.
    added: Notify,
    /// Something was taken.
    taken: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Item>,
    bytes: usize,
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
    Close(CloseFrame),
    /// It was told.
    Told,
}

/// One thing to be sent.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) message: Message,
    /// To be signed once it was sent.
    pub(super) receipt: Option<Receipt>,
}

impl Item {
    fn bytes(&self) -> usize {
        let bytes = match &self.message {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
            Message::Close(_) => 0,
        };
        bytes + OVERHEAD_BYTES
    }
}

impl Outbox {
    pub(super) fn new(form: Form) -> Self {
        Self {
            form,
            state: Mutex::default(),
            added: Notify::new(),
            taken: Notify::new(),
        }
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Puts a message in. Whoever has not read the 16 MiB before it is cut off.
    pub(super) fn put(&self, message: &Outgoing, receipt: Option<Receipt>) {
        let item = Item {
            message: message.in_form(self.form),
            receipt,
        };
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        if state.bytes > MOST_BYTES {
            // What waits is not sent any more: after a gap nothing would make sense.
            state.waiting.clear();
            state.bytes = 0;
            let reason = "you read too slowly: more than 16 MiB waited for you";
            state.end = Some(End::Close(close_frame(close_code::AGAIN, reason)));
        } else {
            state.bytes += item.bytes();
            state.waiting.push_back(item);
        }
        drop(state);
        self.added.notify_one();
        self.taken.notify_waiters();
    }

    /// Waits until the client has taken nearly everything, or until the deadline: then it is not
    /// waited for again before it has taken something.
    pub(super) async fn room(&self, deadline: Instant) {
        loop {
            let mut taken = pin!(self.taken.notified());
            taken.as_mut().enable();
            {
                let mut state = self.state();
                if state.bytes <= WAITED_FOR_BYTES || state.stalled || state.end.is_some() {
                    return;
                }
                if deadline <= Instant::now() {
                    state.stalled = true;
                    return;
                }
            }
            drop(timeout_at(deadline, taken).await);
        }
    }

    /// Sends nothing after what waits but the reason.
    pub(super) fn close(&self, code: u16, reason: &str) {
        self.end(|state| {
            state
                .end
                .get_or_insert_with(|| End::Close(close_frame(code, reason)));
        });
    }

    /// Sends the reason alone.
    pub(super) fn cut_off(&self, code: u16, reason: &str) {
        self.end(|state| {
            state.waiting.clear();
            state.bytes = 0;
        });
        self.close(code, reason);
    }

    /// The client has gone.
    pub(super) fn gone(&self) {
        self.end(|state| {
            state.waiting.clear();
            state.bytes = 0;
            state.end = Some(End::Gone);
        });
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
    pub(super) async fn ended(&self) {
        loop {
            let mut changed = pin!(self.taken.notified());
            changed.as_mut().enable();
            if self.has_ended() {
                return;
            }
            changed.await;
        }
    }

    /// What is to be sent next; `None` after the end. One task asks.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub(super) async fn next(&self) -> Option<Item> {
        loop {
            {
                let mut state = self.state();
                if let Some(item) = state.waiting.pop_front() {
                    state.bytes = state.bytes.saturating_sub(item.bytes());
                    state.stalled = false;
                    self.taken.notify_waiters();
                    return Some(item);
                }
                match state.end.take() {
                    None => {}
                    Some(End::Close(frame)) => {
                        state.end = Some(End::Told);
                        return Some(Item {
                            message: Message::Close(Some(frame)),
                            receipt: None,
                        });
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

fn close_frame(code: u16, reason: &str) -> CloseFrame {
    let mut end = reason.len().min(MOST_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let (reason, _) = reason.split_at(end);
    CloseFrame {
        code,
        reason: reason.to_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::jupyter::{Channel, RawMessage};

    fn message(bytes: usize) -> Outgoing {
        let content = Bytes::from(vec![b' '; bytes]);
        let message = RawMessage::new(Channel::Iopub, Bytes::from_static(b"{}"), content);
        Outgoing::new("stream", String::new(), message)
    }

    fn in_a_second() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_waited_for_once_and_then_cut_off() {
        let outbox = Outbox::new(Form::V1);
        let message = message(WAITED_FOR_BYTES);
        outbox.put(&message, None);
        let began = Instant::now();
        outbox.room(in_a_second()).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        outbox.room(in_a_second()).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        assert!(outbox.next().await.is_some());
        for _ in 0..17 {
            outbox.put(&message, None);
        }
        outbox.ended().await;
        outbox.put(&message, None);
        let last = outbox.next().await.unwrap();
        let Message::Close(Some(close)) = last.message else {
            panic!("{last:?}");
        };
        assert_eq!(close.code, close_code::AGAIN);
        assert!(close.reason.contains("too slowly"), "{}", close.reason);
        assert!(outbox.next().await.is_none());
    }

    #[tokio::test]
    async fn what_waits_is_sent_before_the_reason_unless_it_is_cut_off() {
        let outbox = Outbox::new(Form::V1);
        outbox.put(&message(1), None);
        outbox.close(close_code::AWAY, &"é".repeat(100));
        outbox.put(&message(1), None);
        assert!(matches!(
            outbox.next().await.unwrap().message,
            Message::Binary(_)
        ));
        let Message::Close(Some(close)) = outbox.next().await.unwrap().message else {
            panic!("no reason");
        };
        assert_eq!(close.reason.len(), 122);
        assert!(outbox.next().await.is_none());

        let outbox = Outbox::new(Form::V1);
        outbox.put(&message(1), None);
        outbox.cut_off(close_code::POLICY, "why");
        assert!(matches!(
            outbox.next().await.unwrap().message,
            Message::Close(_)
        ));
    }
}
