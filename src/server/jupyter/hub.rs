//! What is published of one session, and to whom.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::{Instant, timeout};

use super::content;
use super::outbox::Outbox;
use super::wire::Outgoing;
use crate::execution::TurnWatch;
use crate::ids::random_hex;
use crate::jupyter::{Channel, RawMessage, header};
use crate::session::{Cell, Execution, Receipt, Session};

/// A client that takes nothing is waited for so long, once: the same as at the rest of the door.
const STALL: Duration = Duration::from_secs(1);
/// How long a cell waits until what the one before it has published is on its way.
const FLOOR_PATIENCE: Duration = Duration::from_secs(2);
/// Cells that have ended and are still known: events lag behind by no more.
const REMEMBERED: usize = 256;

/// A session that is watched.
#[derive(Debug)]
pub(super) struct Hub {
    session: Session,
    /// No other hub has it, not even a later one of the same session.
    id: String,
    state: Mutex<State>,
    /// Clients that are connected, and cells of clients that have not come to their end.
    pub(super) users: watch::Sender<Users>,
    messages: AtomicU64,
    /// Held by the cell that publishes: one is told to its end before the next begins, whichever
    /// way they came.
    floor: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    clients: Vec<Arc<Outbox>>,
    /// Cells that clients have handed over; those that have ended for as long as events may speak of
    /// them.
    own: VecDeque<OwnCell>,
    /// What is known of the latest cell: its kernel's generation, and its number in it.
    latest: Option<(u64, u64)>,
    last_activity: Timestamp,
}

#[derive(Debug)]
struct OwnCell {
    number: u64,
    turn: TurnWatch,
    has_ended: bool,
}

/// How many use a hub.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Users {
    /// WebSockets.
    pub(super) clients: usize,
    /// Cells.
    pub(super) cells: usize,
}

/// A client that is connected, until this is dropped.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) hub: Arc<Hub>,
    pub(super) outbox: Arc<Outbox>,
}

/// A cell of a client, until this is dropped.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) hub: Arc<Hub>,
    number: u64,
}

/// A date as Jupyter's own readers take it: in microseconds.
pub(super) fn date(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// What caused a message: the header of a request, `{}` if none did.
#[derive(Debug, Clone)]
pub(super) struct Parent(pub(super) Bytes);

impl Parent {
    pub(super) fn none() -> Self {
        Self(Bytes::from_static(b"{}"))
    }
}

impl Hub {
    pub(super) fn new(session: Session) -> Arc<Self> {
        Arc::new(Self {
            session,
            id: random_hex(8),
            state: Mutex::new(State {
                last_activity: Timestamp::now(),
                ..State::default()
            }),
            users: watch::Sender::new(Users::default()),
            messages: AtomicU64::new(0),
            floor: Arc::default(),
        })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn last_activity(&self) -> Timestamp {
        self.state().last_activity
    }

    pub(super) fn clients(&self) -> usize {
        self.state().clients.len()
    }

    /// From now on a client gets what is published.
    pub(super) fn join(self: &Arc<Self>, outbox: Arc<Outbox>) -> Joined {
        self.state().clients.push(Arc::clone(&outbox));
        self.users.send_modify(|users| users.clients += 1);
        Joined {
            hub: Arc::clone(self),
            outbox,
        }
    }

    /// Hands a cell over. The events of the session are known to be its from the first on.
    pub(super) fn execute(self: &Arc<Self>, cell: Cell) -> (Execution, Own) {
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        // Under the lock nobody looks at the list before the cell is in it.
        let mut state = self.state();
        let execution = self.session.execute_live(cell);
        state.own.push_back(OwnCell {
            number,
            turn: execution.turn(),
            has_ended: false,
        });
        drop(state);
        self.users.send_modify(|users| users.cells += 1);
        let own = Own {
            hub: Arc::clone(self),
            number,
        };
        (execution, own)
    }

    /// Keeps it from being closed before an answer is on its way.
    pub(super) fn hold(self: &Arc<Self>) -> Own {
        self.users.send_modify(|users| users.cells += 1);
        Own {
            hub: Arc::clone(self),
            number: self.messages.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether a client of ours has handed this cell over.
    pub(super) fn is_own(&self, cell: u64) -> bool {
        self.state().own.iter().any(|own| own.turn.is(cell))
    }

    /// The right to publish a cell. If whoever has it does not let go in time it is not waited for:
    /// then the two are told one through the other.
    pub(super) async fn floor(&self) -> Option<OwnedMutexGuard<()>> {
        let taking = Arc::clone(&self.floor).lock_owned();
        timeout(FLOOR_PATIENCE, taking).await.ok()
    }

    /// A cell has this number in this kernel.
    pub(super) fn note(&self, generation: u64, execution_count: u64) {
        if execution_count > 0 {
            self.state().latest = Some((generation, execution_count));
        }
    }

    /// The number of the latest cell in its kernel; 0 if there was none.
    pub(super) fn execution_count(&self) -> u64 {
        self.state().latest.map_or(0, |(_, count)| count)
    }

    /// The number of a cell that begins now; `None` if nothing is known of those before.
    pub(super) fn next_execution_count(&self, generation: u64) -> Option<u64> {
        let (known, count) = self.state().latest?;
        Some(if known == generation { count + 1 } else { 1 })
    }

    /// Publishes to all; with patience for those who do not keep up, up to a second.
    pub(super) async fn publish(&self, msg_type: &'static str, parent: &Parent, content: &Value) {
        let clients = self.state().clients.clone();
        let deadline = Instant::now() + STALL;
        for client in &clients {
            client.room(deadline).await;
        }
        self.publish_now(msg_type, parent, content);
    }

    /// Publishes to all; nobody is waited for.
    pub(super) fn publish_now(&self, msg_type: &'static str, parent: &Parent, content: &Value) {
        let clients = {
            let mut state = self.state();
            state.last_activity = Timestamp::now();
            state.clients.clone()
        };
        if clients.is_empty() {
            return;
        }
        let message = self.message(msg_type, Channel::Iopub, parent, content);
        for client in clients {
            client.put(&message, None);
        }
    }

    /// Says to all what the kernel does, caused by nothing.
    pub(super) fn publish_state(&self, state: &str) {
        self.publish_now("status", &Parent::none(), &content::status(state));
    }

    /// Answers one client.
    pub(super) fn answer(
        &self,
        client: &Outbox,
        channel: Channel,
        msg_type: &'static str,
        parent: &Parent,
        content: &Value,
        receipt: Option<Receipt>,
    ) {
        let message = self.message(msg_type, channel, parent, content);
        client.put(&message, receipt);
    }

    /// Nothing more is published.
    pub(super) fn close(&self, code: u16, reason: &str) {
        for client in &self.state().clients {
            client.close(code, reason);
        }
    }

    fn message(
        &self,
        msg_type: &'static str,
        channel: Channel,
        parent: &Parent,
        content: &Value,
    ) -> Outgoing {
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        let msg_id = format!("{}_{number}", self.id);
        let header = header(
            &msg_id,
            msg_type,
            self.session.id(),
            &date(Timestamp::now()),
        );
        // Values of ours have no key that is no string, so this does not fail.
        let content = serde_json::to_vec(content).unwrap_or_default();
        let message = RawMessage {
            parent_header: parent.0.clone(),
            ..RawMessage::new(channel, header, content.into())
        };
        Outgoing::new(msg_type, msg_id, message)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.outbox.gone();
        self.hub
            .state()
            .clients
            .retain(|client| !Arc::ptr_eq(client, &self.outbox));
        self.hub.users.send_modify(|users| users.clients -= 1);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        if let Some(own) = state.own.iter_mut().find(|own| own.number == self.number) {
            own.has_ended = true;
        }
        while state.own.len() > REMEMBERED && state.own.front().is_some_and(|own| own.has_ended) {
            state.own.pop_front();
        }
        drop(state);
        self.hub.users.send_modify(|users| users.cells -= 1);
    }
}
