//! The requests of one client: those of the shell one after the other, those of the control channel
//! at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::ws::close_code;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::timeout;

use super::cell::{framed, run};
use super::content;
use super::hub::{Hub, Joined, Parent};
use super::outbox::Outbox;
use super::wire::Received;
use crate::jupyter::{Channel, WantedCell};

/// Requests of one client that may wait.
const MOST_WAITING: usize = 4_096;
/// How long a kernel that is asked who it is may take to start.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// A client and what it wants.
#[derive(Debug)]
pub(super) struct Client {
    hub: Arc<Hub>,
    outbox: Arc<Outbox>,
    shell: Lane,
    control: Lane,
}

/// Requests that are answered one after the other.
#[derive(Debug, Default)]
struct Lane {
    waiting: Mutex<VecDeque<Waiting>>,
    added: Notify,
}

#[derive(Debug)]
struct Waiting {
    request: Received,
    /// One before it has failed: it is not to run.
    is_aborted: bool,
    /// What it takes of the room that all have together.
    _room: OwnedSemaphorePermit,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Shutdown {
    restart: bool,
}

impl Client {
    /// A client that has joined. Its requests are answered until it is gone; a cell that runs by then
    /// goes on.
    pub(super) fn start(joined: &Joined) -> Arc<Self> {
        let client = Arc::new(Self {
            hub: Arc::clone(&joined.hub),
            outbox: Arc::clone(&joined.outbox),
            shell: Lane::default(),
            control: Lane::default(),
        });
        for channel in [Channel::Shell, Channel::Control] {
            tokio::spawn(Arc::clone(&client).serve(channel));
        }
        client
    }

    /// Takes a request. If too many wait the client is cut off.
    pub(super) fn take(self: &Arc<Self>, request: Received, room: OwnedSemaphorePermit) {
        if !matches!(request.channel, Channel::Shell | Channel::Control) {
            // Nobody is asked for input, so an answer to that is nobody's.
            tracing::debug!(channel = ?request.channel, request.msg_type, "a message for nobody");
            return;
        }
        let lane = self.lane(request.channel);
        if request.msg_type == "interrupt_request" {
            // Behind nothing; some clients know no channel but the shell.
            self.interrupt(request.channel, &Parent(request.header));
            return;
        }
        let waiting = Waiting {
            request,
            is_aborted: false,
            _room: room,
        };
        if !lane.put(waiting) {
            let reason = format!("more than {MOST_WAITING} requests wait");
            self.outbox.cut_off(close_code::POLICY, &reason);
        }
    }

    fn lane(&self, channel: Channel) -> &Lane {
        match channel {
            Channel::Control => &self.control,
            _ => &self.shell,
        }
    }

    async fn serve(self: Arc<Self>, channel: Channel) {
        while let Some(waiting) = self.next(self.lane(channel)).await {
            let Waiting {
                request,
                is_aborted,
                _room,
            } = waiting;
            let parent = Parent(request.header.clone());
            if channel == Channel::Shell && request.msg_type == "execute_request" {
                self.execute(&request, &parent, is_aborted).await;
            } else {
                self.other(&request, &parent).await;
            }
        }
    }

    /// The next request; `None` once the client is gone.
    async fn next(&self, lane: &Lane) -> Option<Waiting> {
        tokio::select! {
            biased;
            () = self.outbox.ended() => None,
            next = lane.next() => Some(next),
        }
    }

    async fn execute(&self, request: &Received, parent: &Parent, is_aborted: bool) {
        let (hub, outbox) = (&self.hub, &*self.outbox);
        if is_aborted {
            let reply = content::aborted(hub.execution_count());
            return framed(hub, outbox, Channel::Shell, parent, "execute_reply", &reply);
        }
        let wanted = match WantedCell::parse(&request.content) {
            Ok(wanted) => wanted,
            Err(error) => return outbox.cut_off(close_code::INVALID, &error.to_string()),
        };
        let stops = wanted.stops_on_error();
        if run(hub, outbox, parent, wanted).await && stops {
            for waiting in self.shell.waiting().iter_mut() {
                waiting.is_aborted = waiting.request.msg_type == "execute_request";
            }
        }
    }

    /// Everything but cells.
    async fn other(&self, request: &Received, parent: &Parent) {
        let msg_type = request.msg_type.as_str();
        if let Some((reply_type, reply)) = content::plain_reply(msg_type, &request.content) {
            return framed(
                &self.hub,
                &self.outbox,
                request.channel,
                parent,
                reply_type,
                &reply,
            );
        }
        match msg_type {
            "kernel_info_request" => self.kernel_info(request.channel, parent).await,
            // Old clients have it on the shell.
            "shutdown_request" => {
                self.shut_down(request.channel, parent, &request.content)
                    .await;
            }
            _ => tracing::debug!(msg_type, "a request that nothing here knows"),
        }
    }

    async fn kernel_info(&self, channel: Channel, parent: &Parent) {
        let session = self.hub.session();
        if session.python_version().is_none() {
            // Only a kernel knows its Python. If there is none the first cell says why.
            drop(timeout(START_PATIENCE, session.start()).await);
        }
        let info = content::kernel_info(session.python_version().as_deref());
        framed(
            &self.hub,
            &self.outbox,
            channel,
            parent,
            "kernel_info_reply",
            &info,
        );
    }

    fn interrupt(&self, channel: Channel, parent: &Parent) {
        self.hub.session().interrupt();
        let reply = json!({ "status": "ok" });
        framed(
            &self.hub,
            &self.outbox,
            channel,
            parent,
            "interrupt_reply",
            &reply,
        );
    }

    async fn shut_down(&self, channel: Channel, parent: &Parent, content: &[u8]) {
        let Shutdown { restart } = serde_json::from_slice(content).unwrap_or_default();
        // Until it is answered the hub is not closed.
        let answering = self.hub.hold();
        if restart {
            self.hub.session().reset().await;
        } else {
            drop(self.hub.session().close().await);
        }
        let reply = json!({ "status": "ok", "restart": restart });
        framed(
            &self.hub,
            &self.outbox,
            channel,
            parent,
            "shutdown_reply",
            &reply,
        );
        drop(answering);
    }
}

impl Lane {
    /// False if too many wait.
    fn put(&self, request: Waiting) -> bool {
        let mut waiting = self.waiting();
        let has_room = waiting.len() < MOST_WAITING;
        if has_room {
            waiting.push_back(request);
        }
        drop(waiting);
        self.added.notify_one();
        has_room
    }

    async fn next(&self) -> Waiting {
        loop {
            let next = self.waiting().pop_front();
            match next {
                Some(waiting) => return waiting,
                None => self.added.notified().await,
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
