//! What is published of one session, and to whom.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::content::{self, RESTARTING};
use super::late::Late;
use super::message::Outgoing;
use super::outbox::{Outbox, Why};
use super::telling::{Own, Telling};
use crate::execution::TurnWatch;
use crate::ids::random_hex;
use crate::jupyter::{Channel, Published, PublishedKind, RawMessage, header};
use crate::session::{Attendance, Cell, Execution, Receipt, Session};

/// A client that takes nothing is waited for so long, once: the same as at the rest of the door.
const STALL: Duration = Duration::from_secs(1);
/// Cells that have ended and are still known: events lag behind by no more.
const REMEMBERED: usize = 256;

/// A session that is watched.
#[derive(Debug)]
pub(super) struct Hub {
    session: Session,
    /// Whether cells of its clients show secrets as they are.
    shows_secrets: bool,
    /// No other hub has it, not even a later one of the same session.
    id: String,
    state: Mutex<State>,
    /// Clients that are connected, and cells of clients that have not come to their end.
    pub(super) users: watch::Sender<Users>,
    messages: AtomicU64,
    /// Held by the cell that is told.
    pub(super) floor: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) clients: Vec<Arc<Outbox>>,
    /// Cells that clients have handed over; those that have ended for as long as events may speak of
    /// them.
    pub(super) own: VecDeque<OwnCell>,
    /// The number of the latest cell in its kernel.
    execution_count: u64,
    /// Cells that are being told: more than one only if one does not come to its end.
    telling: usize,
    /// How the cell that is told has begun: for those who come in the middle of it.
    current: Option<Beginning>,
    /// What the kernel has done since: told after the cell.
    kernel: Vec<&'static str>,
    /// What was printed between cells, since the last.
    pub(super) late: Late,
    /// The kernel of which it was said that secrets are masked in what it shows.
    pub(super) masked_in: Option<u64>,
    /// Nothing happens in the session any more.
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct OwnCell {
    number: u64,
    pub(super) watch: TurnWatch,
    pub(super) parent: Parent,
    /// With which it is given its turn to be told.
    turn: Option<oneshot::Sender<Telling>>,
    has_ended: bool,
}

#[derive(Debug)]
struct Beginning {
    parent: Parent,
    messages: Vec<Arc<Outgoing>>,
}

/// How many use a hub.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Users {
    /// Front ends.
    pub(super) clients: usize,
    /// Cells.
    pub(super) cells: usize,
}

/// A client that is connected, until this is dropped.
#[derive(Debug)]
pub struct Joined {
    pub(super) hub: Arc<Hub>,
    pub(super) outbox: Arc<Outbox>,
    _attendance: Attendance,
}

/// A date as Jupyter's own readers take it: in microseconds.
pub(super) fn date(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// What caused a message: the header of a request, `{}` if none did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parent(pub(super) Bytes);

impl Parent {
    pub(super) fn none() -> Self {
        Self(Bytes::from_static(b"{}"))
    }
}

impl Hub {
    pub(super) fn new(session: Session, shows_secrets: bool) -> Arc<Self> {
        Arc::new(Self {
            session,
            shows_secrets,
            id: random_hex(8),
            state: Mutex::default(),
            users: watch::Sender::new(Users::default()),
            messages: AtomicU64::new(0),
            floor: Arc::default(),
        })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn shows_secrets(&self) -> bool {
        self.shows_secrets
    }

    pub(super) fn clients(&self) -> usize {
        self.state().clients.len()
    }

    /// From now on a client gets what is published.
    pub(super) fn join(self: &Arc<Self>, outbox: Arc<Outbox>) -> Joined {
        let mut state = self.state();
        // Under the lock nothing is published in between.
        for message in state.current.iter().flat_map(|it| &it.messages) {
            outbox.put(Arc::clone(message), None);
        }
        state.clients.push(Arc::clone(&outbox));
        drop(state);
        self.users.send_modify(|users| users.clients += 1);
        Joined {
            hub: Arc::clone(self),
            outbox,
            _attendance: self.session.attend(),
        }
    }

    // Cells of clients.

    /// Hands a cell over. The events of the session are known to be its from the first on.
    pub(super) fn execute(self: &Arc<Self>, cell: Cell, parent: &Parent) -> (Execution, Own) {
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        // Under the lock nobody looks at the list before the cell is in it.
        let mut state = self.state();
        let execution = self.session.execute_live(cell);
        let turn = (!state.is_over).then_some(sender);
        state.own.push_back(OwnCell {
            number,
            watch: execution.turn(),
            parent: parent.clone(),
            turn,
            has_ended: false,
        });
        drop(state);
        (execution, self.own(number, Some(receiver)))
    }

    /// Keeps it from being closed before an answer is on its way.
    pub(super) fn hold(self: &Arc<Self>) -> Own {
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        self.own(number, None)
    }

    fn own(self: &Arc<Self>, number: u64, turn: Option<oneshot::Receiver<Telling>>) -> Own {
        self.users.send_modify(|users| users.cells += 1);
        Own {
            hub: Arc::clone(self),
            number,
            turn,
        }
    }

    pub(super) fn end_own(&self, number: u64) {
        let mut state = self.state();
        if let Some(own) = state.own.iter_mut().find(|own| own.number == number) {
            own.has_ended = true;
            own.turn = None;
        }
        while state.own.len() > REMEMBERED && state.own.front().is_some_and(|own| own.has_ended) {
            state.own.pop_front();
        }
        drop(state);
        self.users.send_modify(|users| users.cells -= 1);
    }

    /// With which a cell is given its turn, once; `None` if no client of ours has handed it over.
    #[expect(
        clippy::option_option,
        reason = "whether it is a client's, and whether it waits for its turn"
    )]
    pub(super) fn take_turn(&self, cell: u64) -> Option<Option<oneshot::Sender<Telling>>> {
        let mut state = self.state();
        let own = state.own.iter_mut().find(|own| own.watch.is(cell))?;
        Some(own.turn.take())
    }

    /// Nothing happens in the session any more: no cell waits for its turn.
    pub(super) fn is_over(&self) {
        let mut state = self.state();
        state.is_over = true;
        for own in &mut state.own {
            own.turn = None;
        }
    }

    /// A cell has this number in its kernel.
    pub(super) fn note(&self, execution_count: u64) {
        if execution_count > 0 {
            self.state().execution_count = execution_count;
        }
    }

    /// The number of the latest cell in its kernel; 0 if there was none.
    pub(super) fn execution_count(&self) -> u64 {
        self.state().execution_count
    }

    // What is published.

    /// With patience for those who do not keep up, up to a second.
    pub(super) async fn room(&self) {
        let clients = self.state().clients.clone();
        let deadline = Instant::now() + STALL;
        for client in &clients {
            client.room(deadline).await;
        }
    }

    /// Publishes to all, with patience.
    pub(super) async fn publish(&self, msg_type: &'static str, parent: &Parent, content: &Value) {
        self.room().await;
        self.publish_now(msg_type, parent, content);
    }

    /// Publishes to all; nobody is waited for.
    pub(super) fn publish_now(&self, msg_type: &'static str, parent: &Parent, content: &Value) {
        let message = self.published(msg_type, parent, content);
        put(&self.state(), &message);
    }

    /// Publishes what a cell shows, as it came, with patience.
    pub(super) async fn publish_shown(
        &self,
        shown: &Published,
        parent: &Parent,
        execution_count: Option<u64>,
    ) {
        self.room().await;
        let count = execution_count.filter(|_| shown.kind == PublishedKind::Result);
        let content = Bytes::from(shown.content(count));
        let msg_type = shown.kind.msg_type();
        let mut message = self.plain_message(msg_type, Channel::Iopub, parent, content);
        message.message.metadata = shown.metadata.clone();
        message.message.buffers.clone_from(&shown.buffers);
        put(&self.state(), &Arc::new(message));
    }

    /// A cell has begun: all are told, and those who come before its end.
    pub(super) fn begin_cell(&self, parent: &Parent, input: Option<&Value>) {
        let mut messages = vec![self.published("status", parent, &content::status("busy"))];
        messages.extend(input.map(|input| self.published("execute_input", parent, input)));
        let mut state = self.state();
        for message in &messages {
            put(&state, message);
        }
        state.current = Some(Beginning {
            parent: parent.clone(),
            messages,
        });
    }

    /// A cell has ended.
    pub(super) fn end_cell(&self, parent: &Parent) {
        let message = self.published("status", parent, &content::status("idle"));
        let mut state = self.state();
        put(&state, &message);
        state.current.take_if(|current| current.parent == *parent);
    }

    pub(super) fn begin_telling(&self) {
        self.state().telling += 1;
    }

    pub(super) fn end_telling(&self) {
        let mut state = self.state();
        state.telling -= 1;
        if state.telling == 0 {
            let states = std::mem::take(&mut state.kernel);
            self.put_states(&state, &states);
        }
    }

    /// What the kernel does: caused by nothing, and told after the cell that is being told.
    pub(super) fn kernel_does(&self, states: &[&'static str]) {
        let mut state = self.state();
        if state.telling == 0 {
            return self.put_states(&state, states);
        }
        if states.first() == Some(&RESTARTING) {
            // What it has done before is of no interest any more.
            state.kernel.clear();
        }
        state.kernel.extend(states);
    }

    fn put_states(&self, state: &State, states: &[&'static str]) {
        for it in states {
            let content = content::status(it);
            put(state, &self.published("status", &Parent::none(), &content));
        }
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
        client.put(message, receipt);
    }

    /// Answers one client's cell, with what is to be known of it beside.
    pub(super) fn answer_about(
        &self,
        client: &Outbox,
        channel: Channel,
        parent: &Parent,
        content: &Value,
        about: &Value,
        receipt: Receipt,
    ) {
        let mut message = self.plain_message("execute_reply", channel, parent, bytes_of(content));
        message.message.metadata = bytes_of(about);
        client.put(Arc::new(message), Some(receipt));
    }

    /// Answers one client with what a kernel has said.
    pub(super) fn answer_raw(
        &self,
        client: &Outbox,
        channel: Channel,
        msg_type: &'static str,
        parent: &Parent,
        content: Bytes,
    ) {
        let message = self.plain_message(msg_type, channel, parent, content);
        client.put(Arc::new(message), None);
    }

    /// Nothing more is published.
    pub(super) fn close(&self, sentence: &str) {
        for client in &self.state().clients {
            client.close(Why::Closed, sentence);
        }
    }

    fn published(&self, msg_type: &'static str, parent: &Parent, content: &Value) -> Arc<Outgoing> {
        self.message(msg_type, Channel::Iopub, parent, content)
    }

    fn message(
        &self,
        msg_type: &'static str,
        channel: Channel,
        parent: &Parent,
        content: &Value,
    ) -> Arc<Outgoing> {
        Arc::new(self.plain_message(msg_type, channel, parent, bytes_of(content)))
    }

    fn plain_message(
        &self,
        msg_type: &'static str,
        channel: Channel,
        parent: &Parent,
        content: Bytes,
    ) -> Outgoing {
        self.session.touch();
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        let msg_id = format!("{}_{number}", self.id);
        let header = header(
            &msg_id,
            msg_type,
            self.session.id(),
            &date(Timestamp::now()),
        );
        Outgoing {
            msg_type,
            msg_id,
            message: RawMessage {
                parent_header: parent.0.clone(),
                ..RawMessage::new(channel, header, content)
            },
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value as bytes; one of ours has no key that is no string, so this does not fail.
fn bytes_of(value: &Value) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// Puts a message into the outboxes of all clients. Under the lock, so that all see the same order.
fn put(state: &State, message: &Arc<Outgoing>) {
    for client in &state.clients {
        client.put(Arc::clone(message), None);
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
