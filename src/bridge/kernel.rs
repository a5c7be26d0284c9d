//! A session as a kernel of Jupyter's: what front ends send goes to it, and what it says goes out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::listen::Listeners;
use super::routes::{Routes, socket_of};
use super::sockets::{Incoming, Sockets};
use crate::frontends::{BeforeCell, Client, Frontends, Item, Joined, Next, Outbox, Request, Why};
use crate::ids::random_hex;
use crate::jupyter::{Channel, Header, RawMessage, Signer, SocketName, header};
use crate::session::Session;

/// How long front ends may take to read the last that they are told.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Requests that no reply answers.
const WITHOUT_REPLY: [&str; 4] = ["comm_open", "comm_msg", "comm_close", "input_reply"];

/// A session that front ends reach over ZeroMQ.
///
/// All front ends of a kernel share its one shell: cells are run in the order in which they come, and
/// everybody sees everything that is published, as with Jupyter's own kernels.
pub struct JupyterKernel {
    sockets: Sockets,
    outbox: Arc<Outbox>,
    client: Arc<Client>,
    routes: Arc<Mutex<Routes>>,
    /// The session's.
    id: String,
    /// Before each topic.
    topics: String,
    /// Watched by one client: all front ends together.
    joined: Joined,
}

impl std::fmt::Debug for JupyterKernel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("JupyterKernel")
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

/// Why a kernel is not reached any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelEnd {
    /// A front end has asked for it.
    ShutDown,
    /// The session was closed another way.
    Closed,
    /// It could not go on.
    Failed(String),
}

impl JupyterKernel {
    /// Puts sockets before a session; from now on requests are answered. To be called within a
    /// runtime of tokio.
    pub fn start(
        listeners: Listeners,
        signer: Signer,
        session: Session,
        frontends: &Arc<Frontends>,
        before_cell: Option<BeforeCell>,
    ) -> Self {
        let id = session.id().to_owned();
        // What waits for whom is bounded in the queues of the sockets.
        let outbox = Arc::new(Outbox::relay());
        let joined = frontends.join(session, Arc::clone(&outbox));
        let ports = SocketName::ALL.iter().zip(listeners.ports);
        let mut ports: Map<String, Value> = ports
            .map(|(name, port)| (name.port_key().to_owned(), port.into()))
            .collect();
        ports.insert("status".to_owned(), "ok".into());
        let client = Client::start_at(&joined, Some(ports.into()), before_cell);
        let routes = Arc::new(Mutex::new(Routes::default()));
        let handler = {
            let (client, routes) = (Arc::clone(&client), Arc::clone(&routes));
            Box::new(move |incoming| take(&client, &routes, incoming))
        };
        let gone = {
            let (client, routes) = (Arc::clone(&client), Arc::clone(&routes));
            Box::new(move |name: SocketName, identity: &Bytes| {
                let is_asked = matches!(name, SocketName::Shell | SocketName::Stdin)
                    && routes
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .was_asked(std::slice::from_ref(identity));
                if is_asked {
                    // Its cell would wait for an answer for ever, and all others for the cell.
                    nobody_answers(&client);
                }
            })
        };
        let welcome = {
            let id = id.clone();
            Box::new(move |topic: &str| welcome(&id, topic))
        };
        Self {
            sockets: Sockets::serve(listeners, signer, handler, welcome, gone),
            outbox,
            client,
            routes,
            topics: format!("kernel.{id}."),
            id,
            joined,
        }
    }

    /// Serves until a front end wants the kernel to end, the session is closed, or `stop` comes.
    /// Then front ends have a second to read what they are told.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> KernelEnd {
        let end = tokio::select! {
            end = self.pump() => end,
            () = stop => KernelEnd::Closed,
        };
        self.sockets.finish(LAST_WORDS).await;
        drop(self.joined);
        end
    }

    /// Hands on what the session says.
    async fn pump(&self) -> KernelEnd {
        let mut is_ending = false;
        while let Some(next) = self.outbox.next().await {
            match next {
                Next::Send(item) => {
                    let what = item.message.msg_type;
                    self.send(item).await;
                    is_ending |= what == "shutdown_reply";
                    // The status around the reply is the last that is told: after a restart it is
                    // the next process that answers.
                    if is_ending && what == "status" {
                        return KernelEnd::ShutDown;
                    }
                }
                Next::Close(Why::Closed, _) if is_ending => return KernelEnd::ShutDown,
                Next::Close(Why::Closed, _) => return KernelEnd::Closed,
                Next::Close(_, sentence) => return KernelEnd::Failed(sentence),
            }
        }
        KernelEnd::Closed
    }

    async fn send(&self, item: Item) {
        let Item { message, receipt } = item;
        let msg_type = message.msg_type;
        let message = &message.message;
        if message.channel == Channel::Iopub {
            // With patience for those who do not keep up; the others get it at once with them.
            self.sockets.room().await;
            return self.publish(msg_type, message.clone());
        }
        let to = {
            let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
            routes.find(message.channel, &message.parent_header)
        };
        let Some(to) = to else {
            tracing::warn!(msg_type, "a reply for nobody");
            return;
        };
        let is_sent = self
            .sockets
            .send(socket_of(message.channel), &to, message.clone());
        if message.channel == Channel::Stdin && !is_sent {
            // Whoever has sent the cell has no keyboard.
            nobody_answers(&self.client);
        }
        if let Some(receipt) = receipt.filter(|_| is_sent) {
            receipt.sign();
        }
        if msg_type == "shutdown_reply" {
            // Everybody who watches is told, by a message of its own: one that comes a second time
            // looks like a forgery.
            let message = RawMessage {
                channel: Channel::Iopub,
                header: new_header(msg_type, &self.id),
                ..message.clone()
            };
            self.publish(msg_type, message);
        }
    }

    fn publish(&self, msg_type: &str, message: RawMessage) {
        let topic = Bytes::from(format!("{}{msg_type}", self.topics));
        self.sockets.publish(topic, message);
    }
}

/// Hands a request over.
fn take(client: &Arc<Client>, routes: &Mutex<Routes>, incoming: Incoming) {
    let Incoming {
        channel,
        sender,
        message,
        room,
    } = incoming;
    if channel == Channel::Stdin {
        let routes = routes.lock().unwrap_or_else(PoisonError::into_inner);
        if !routes.was_asked(&sender) {
            tracing::warn!("an answer of somebody who was not asked was dropped");
            return;
        }
    }
    let is_answered = match Header::parse(&message.header) {
        Ok(header) => !WITHOUT_REPLY.contains(&header.msg_type.as_str()),
        Err(_) => false,
    };
    let request = Request::new(channel, message.header.clone(), message.content);
    match request.map(|request| request.with(message.metadata, message.buffers)) {
        Ok(request) => {
            if is_answered {
                routes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .enter(&message.header, sender);
            }
            client.take(request, room);
        }
        Err(error) => tracing::warn!(?channel, %error, "a message was dropped"),
    }
}

/// Ends the question that waits.
fn nobody_answers(client: &Arc<Client>) {
    let header = header(&random_hex(16), "input_reply", "warmcell", "");
    // One without a value.
    let reply = Request::new(Channel::Stdin, header, Bytes::from_static(b"{}"));
    let room = Arc::new(Semaphore::new(1)).try_acquire_owned();
    if let (Ok(reply), Ok(room)) = (reply, room) {
        client.take(reply, room);
    }
}

fn new_header(msg_type: &str, session_id: &str) -> Bytes {
    let now = format!("{:.6}", Timestamp::now());
    header(&random_hex(16), msg_type, session_id, &now)
}

/// Tells a subscriber that from now on it misses nothing (JEP 65).
fn welcome(session_id: &str, topic: &str) -> RawMessage {
    let header = new_header("iopub_welcome", session_id);
    // A text alone cannot fail to be written.
    let content = serde_json::to_vec(&json!({ "subscription": topic })).unwrap_or_default();
    RawMessage::new(Channel::Iopub, header, content.into())
}
