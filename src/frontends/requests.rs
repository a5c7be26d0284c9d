//! The requests of one client: cells and what is asked of the kernel one after the other, whichever
//! channel they came on, and what the control channel is for at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::timeout;

use super::asking::ask;
use super::cell::{framed, passed_over, run};
use super::content::{self, Failure};
use super::hub::{Hub, Joined, Parent};
use super::keyboard::Keyboard;
use super::message::Request;
use super::outbox::{Outbox, Why};
use crate::jupyter::{Asked, Channel, ContentError};
use crate::session::{Policy, QuestionKind};

/// Requests of one client that may wait.
const MOST_WAITING: usize = 4_096;
/// What is answered at once on the control channel; what else comes there waits as on the shell.
const CONTROLS: [&str; 3] = ["kernel_info_request", "shutdown_request", "connect_request"];
/// How long a kernel that is asked who it is may take to start; one that is not ours has a minute.
const START_PATIENCE: Duration = Duration::from_secs(70);

/// A client and what it wants.
#[derive(Debug)]
pub struct Client {
    hub: Arc<Hub>,
    outbox: Arc<Outbox>,
    shell: Lane,
    control: Lane,
    keyboard: Keyboard,
    /// The ports at which the kernel is reached, by their keys in a connection file.
    ports: Option<Value>,
    /// Called before each cell.
    before_cell: Option<BeforeCell>,
}

/// What is done before a cell is handed over: whatever was meant for the one before is not to come to
/// it.
#[derive(Clone)]
pub struct BeforeCell(Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl BeforeCell {
    /// It does this. The cell waits for it.
    pub fn new(does: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(does))
    }
}

impl std::fmt::Debug for BeforeCell {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("BeforeCell")
    }
}

/// Requests that are answered one after the other.
#[derive(Debug, Default)]
struct Lane {
    waiting: Mutex<VecDeque<Waiting>>,
    added: Notify,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    /// One before it has failed: it is not to run.
    is_aborted: bool,
    /// What it takes of the room that all have together.
    _room: OwnedSemaphorePermit,
}

impl Client {
    /// A client that has joined. Its requests are answered until it is gone; a cell that runs by then
    /// goes on. To be called within a runtime of tokio.
    pub fn start(joined: &Joined) -> Arc<Self> {
        Self::start_at(joined, None, None)
    }

    /// The same for those who reach the kernel at ports: what a `connect_request` is answered with, by
    /// their keys in a connection file.
    pub fn start_at(
        joined: &Joined,
        ports: Option<Value>,
        before_cell: Option<BeforeCell>,
    ) -> Arc<Self> {
        let client = Arc::new(Self {
            hub: Arc::clone(&joined.hub),
            outbox: Arc::clone(&joined.outbox),
            shell: Lane::default(),
            control: Lane::default(),
            keyboard: Keyboard::default(),
            ports,
            before_cell,
        });
        for controls in [false, true] {
            tokio::spawn(Arc::clone(&client).serve(controls));
        }
        client
    }

    /// Takes a request; the permit is kept until it has been answered. If more than 4,096 wait the
    /// client is cut off.
    pub fn take(self: &Arc<Self>, request: Request, room: OwnedSemaphorePermit) {
        if !matches!(request.channel, Channel::Shell | Channel::Control) {
            if request.channel == Channel::Stdin
                && request.msg_type == "input_reply"
                && self.keyboard.answer(&request.content)
            {
                return;
            }
            // An answer to what was not asked.
            tracing::debug!(channel = ?request.channel, request.msg_type, "a message for nobody");
            return;
        }
        let controls =
            request.channel == Channel::Control && CONTROLS.contains(&request.msg_type.as_str());
        let lane = self.lane(controls);
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
            self.outbox.cut_off(Why::Flooding, &reason);
        }
    }

    fn lane(&self, controls: bool) -> &Lane {
        if controls { &self.control } else { &self.shell }
    }

    async fn serve(self: Arc<Self>, controls: bool) {
        while let Some(waiting) = self.next(self.lane(controls)).await {
            let Waiting {
                request,
                is_aborted,
                _room,
            } = waiting;
            let parent = Parent(request.header.clone());
            if request.msg_type == "execute_request" {
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

    async fn execute(&self, request: &Request, parent: &Parent, is_aborted: bool) {
        let (hub, outbox) = (&self.hub, &*self.outbox);
        let channel = request.channel;
        if is_aborted {
            let reply = content::aborted(hub.execution_count());
            return framed(hub, outbox, channel, parent, "execute_reply", &reply);
        }
        match Asked::parse(&request.msg_type, &request.content) {
            Ok(asked) => {
                if let Some(BeforeCell(does)) = &self.before_cell {
                    does().await;
                }
                let wanted = asked.cell();
                let stops = wanted.stops_on_error;
                let failed = || {
                    if stops {
                        self.abort_waiting();
                    }
                };
                let asked_by = (channel, parent);
                run(hub, outbox, asked_by, wanted, &self.keyboard, failed).await;
            }
            Err(error) => {
                self.abort_waiting();
                self.refuse_cell(channel, parent, &error);
            }
        }
    }

    /// The cells that wait are not to run.
    fn abort_waiting(&self) {
        for waiting in self.shell.waiting().iter_mut() {
            waiting.is_aborted = waiting.request.msg_type == "execute_request";
        }
    }

    /// A cell that makes no sense: nobody else is told of it.
    fn refuse_cell(&self, channel: Channel, parent: &Parent, error: &ContentError) {
        let (hub, outbox) = (&self.hub, &*self.outbox);
        let failure = Failure::senseless(error);
        let published = |msg_type: &'static str, content| {
            hub.answer(outbox, Channel::Iopub, msg_type, parent, &content, None);
        };
        published("status", content::status("busy"));
        published("error", failure.error());
        let reply = content::execute_reply(Some(&failure), hub.execution_count());
        hub.answer(outbox, channel, "execute_reply", parent, &reply, None);
        published("status", content::status("idle"));
    }

    /// Everything but cells.
    async fn other(&self, request: &Request, parent: &Parent) {
        let (msg_type, channel) = (request.msg_type.as_str(), request.channel);
        let (hub, outbox) = (&self.hub, &*self.outbox);
        if msg_type == "kernel_info_request" {
            return self.kernel_info(channel, parent).await;
        }
        if let ("connect_request", Some(ports)) = (msg_type, &self.ports) {
            return framed(hub, outbox, channel, parent, "connect_reply", ports);
        }
        let asked = Asked::parse(msg_type, &request.content);
        if let (Some(kind), Ok(asked)) = (QuestionKind::parse(msg_type), &asked) {
            return ask(hub, outbox, parent, kind, request, asked).await;
        }
        let known = match &asked {
            Ok(asked) => content::plain_reply(msg_type, asked),
            Err(error) => content::plain_reply(msg_type, &Asked::default())
                .map(|(reply_type, _)| (reply_type, Failure::senseless(error).reply())),
        };
        if let Some((reply_type, reply)) = known {
            return framed(hub, outbox, channel, parent, reply_type, &reply);
        }
        if msg_type != "shutdown_request" {
            tracing::debug!(msg_type, "a request that nothing here knows");
            // Whoever waits for its end sees it.
            return passed_over(hub, outbox, parent);
        }
        // Old clients have it on the shell.
        match asked {
            Ok(asked) => self.shut_down(channel, parent, asked.wants_restart()).await,
            Err(error) => {
                let reply = Failure::senseless(&error).reply();
                framed(hub, outbox, channel, parent, "shutdown_reply", &reply);
            }
        }
    }

    async fn kernel_info(&self, channel: Channel, parent: &Parent) {
        let session = self.hub.session();
        if session.python_version().is_none() {
            // Only a kernel knows what it is. If there is none the first cell says why.
            drop(timeout(START_PATIENCE, session.start()).await);
        }
        let info = match session.kernel_info() {
            Some(info) => content::foreign_kernel_info(&info),
            None => content::kernel_info(session.python_version().as_deref()),
        };
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
        // As people mean it, whoever has handed the cell over.
        self.hub.session().interrupt_by(Policy::Interrupt);
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

    async fn shut_down(&self, channel: Channel, parent: &Parent, restart: bool) {
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
