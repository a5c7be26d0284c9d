//! The five sockets of a kernel: who is connected to which, what comes in, and what goes out.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::coming::Coming;
use super::connected;
use super::listen::{Listener, Listeners};
use super::queue::{End, Queue, Wire};
use crate::jupyter::{
    Channel, Multipart, RawMessage, SeenDigest, SeenDigests, SignatureError, Signer, SocketName,
    zmtp_message,
};
use crate::process::until_worth_another_try;

/// Connections to one socket; those beyond are closed.
const MOST_CONNECTIONS: usize = 256;
/// Requests are counted in pieces of so many bytes, each as one at least.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// Pieces of requests that wait to be answered, of each channel: 96 MiB, and 1,536 requests.
const MOST_WAITING: usize = 1_536;
/// Pieces of messages that are not whole yet, of all connections: 128 MiB.
const MOST_UNFINISHED: usize = 2_048;

/// What a front end has sent.
#[derive(Debug)]
pub(super) struct Incoming {
    /// On which of shell, control and stdin.
    pub(super) channel: Channel,
    /// By which it is answered.
    pub(super) sender: Sender,
    /// The message, as it was sent.
    pub(super) message: RawMessage,
    /// Kept until it is answered: whoever sends more than is answered waits.
    pub(super) room: OwnedSemaphorePermit,
}

/// Who has sent a message: the identity of the connection, and those of relays before it.
pub(super) type Sender = Vec<Bytes>;

/// Takes what comes in. It does not wait.
pub(super) type Handler = Box<dyn Fn(Incoming) + Send + Sync>;
/// Makes the message with which a subscriber is welcomed, from what it has subscribed to.
pub(super) type Welcome = Box<dyn Fn(&str) -> RawMessage + Send + Sync>;

/// Is told of a connection that has ended: of which socket, and the identity it had.
pub(super) type Gone = Box<dyn Fn(SocketName, &Bytes) + Send + Sync>;

/// The sockets, as their connections see them.
pub(super) struct Shared {
    pub(super) signer: Signer,
    seen: Mutex<SeenDigests>,
    peers: Mutex<HashMap<(SocketName, Bytes), Arc<Queue>>>,
    subscribers: Mutex<Vec<Arc<Subscriber>>>,
    pub(super) handler: Handler,
    pub(super) welcome: Welcome,
    gone: Gone,
    pub(super) coming: Arc<Coming>,
    shell: Arc<Semaphore>,
    control: Arc<Semaphore>,
    pub(super) unfinished: Arc<Semaphore>,
}

/// One who gets what is published.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) queue: Arc<Queue>,
    pub(super) topics: Mutex<Vec<Bytes>>,
}

impl Subscriber {
    fn wants(&self, topic: &[u8]) -> bool {
        self.topics().iter().any(|it| topic.starts_with(it))
    }

    pub(super) fn topics(&self) -> MutexGuard<'_, Vec<Bytes>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sockets of a kernel. Dropping them closes everything at once.
pub(super) struct Sockets {
    shared: Arc<Shared>,
    accepting: Vec<JoinHandle<()>>,
    connections: TaskTracker,
}

impl Sockets {
    /// Begins to serve.
    pub(super) fn serve(
        listeners: Listeners,
        signer: Signer,
        handler: Handler,
        welcome: Welcome,
        gone: Gone,
    ) -> Self {
        let shared = Arc::new(Shared {
            signer,
            seen: Mutex::default(),
            peers: Mutex::default(),
            subscribers: Mutex::default(),
            handler,
            welcome,
            gone,
            coming: Arc::default(),
            shell: Arc::new(Semaphore::new(MOST_WAITING)),
            control: Arc::new(Semaphore::new(MOST_WAITING)),
            unfinished: Arc::new(Semaphore::new(MOST_UNFINISHED)),
        });
        let connections = TaskTracker::new();
        let accept = |(name, listener): (SocketName, Listener)| {
            let accepting = accept(name, listener, Arc::clone(&shared), connections.clone());
            tokio::spawn(accepting)
        };
        let accepting = listeners.sockets.into_iter().map(accept).collect();
        Self {
            shared,
            accepting,
            connections,
        }
    }

    /// Waits for subscribers that do not keep up, as far as there is patience with them.
    pub(super) async fn room(&self) {
        let queues: Vec<Arc<Queue>> = self
            .shared
            .subscribers()
            .iter()
            .map(|it| Arc::clone(&it.queue))
            .collect();
        futures_util::future::join_all(queues.iter().map(|queue| queue.room())).await;
    }

    /// Publishes a message to all who want its topic.
    pub(super) fn publish(&self, topic: Bytes, message: RawMessage) {
        let wanted: Vec<Arc<Subscriber>> = self
            .shared
            .subscribers()
            .iter()
            .filter(|it| it.wants(&topic))
            .cloned()
            .collect();
        if wanted.is_empty() {
            return;
        }
        let wire = self.shared.wire(&Multipart {
            identities: vec![topic],
            message,
        });
        for subscriber in wanted {
            subscriber.queue.put(&wire);
        }
    }

    /// Sends a message to one front end; false if it is not there any more.
    pub(super) fn send(&self, name: SocketName, to: &[Bytes], message: RawMessage) -> bool {
        let Some((peer, relays)) = to.split_first() else {
            return false;
        };
        let queue = self.shared.peers().get(&(name, peer.clone())).cloned();
        queue.is_some_and(|queue| {
            queue.put(&self.shared.wire(&Multipart {
                identities: relays.to_vec(),
                message,
            }))
        })
    }

    /// Nobody comes in any more; what waits is sent, as far as it is taken in time.
    pub(super) async fn finish(self, patience: Duration) {
        for accepting in &self.accepting {
            accepting.abort();
        }
        self.shared.end_all(End::Finished);
        self.connections.close();
        drop(timeout(patience, self.connections.wait()).await);
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for accepting in &self.accepting {
            accepting.abort();
        }
        self.shared.end_all(End::CutOff);
    }
}

impl Shared {
    /// A message as it goes over the wire, signed.
    pub(super) fn wire(&self, multipart: &Multipart) -> Arc<Wire> {
        Wire::new(zmtp_message(&multipart.encode(&self.signer)))
    }

    /// Enters a message whose signature was right.
    pub(super) fn enter(&self, digest: Option<SeenDigest>) -> Result<(), SignatureError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        digest.map_or(Ok(()), |digest| seen.enter(digest))
    }

    /// The room that waiting requests of a channel have together.
    pub(super) fn waiting(&self, channel: Channel) -> Arc<Semaphore> {
        Arc::clone(match channel {
            Channel::Shell => &self.shell,
            _ => &self.control,
        })
    }

    /// Enters a peer; one that had its name before makes room for it, as it does in ZeroMQ's own
    /// kernels (`ROUTER_HANDOVER`).
    pub(super) fn join(&self, name: SocketName, identity: Bytes, queue: &Arc<Queue>) {
        let before = self.peers().insert((name, identity), Arc::clone(queue));
        if let Some(before) = before {
            before.end(End::CutOff);
        }
    }

    /// Takes a peer out, unless another has its name by now.
    pub(super) fn leave(&self, name: SocketName, identity: Bytes, queue: &Arc<Queue>) {
        let key = (name, identity);
        let is_gone = {
            let mut peers = self.peers();
            let is_there = peers.get(&key).is_some_and(|it| Arc::ptr_eq(it, queue));
            is_there && peers.remove(&key).is_some()
        };
        if is_gone {
            (self.gone)(key.0, &key.1);
        }
    }

    pub(super) fn subscribe(&self, subscriber: &Arc<Subscriber>) {
        self.subscribers().push(Arc::clone(subscriber));
    }

    pub(super) fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        self.subscribers().retain(|it| !Arc::ptr_eq(it, subscriber));
    }

    fn end_all(&self, end: End) {
        for queue in self.peers().values() {
            queue.end(end);
        }
        for subscriber in self.subscribers().iter() {
            subscriber.queue.end(end);
        }
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<(SocketName, Bytes), Arc<Queue>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<Arc<Subscriber>>> {
        self.subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(
    name: SocketName,
    listener: Listener,
    shared: Arc<Shared>,
    connections: TaskTracker,
) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    tracing::warn!("a connection was turned away: {MOST_CONNECTIONS} are open");
                    continue;
                };
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    connected::serve(name, stream, &shared).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                until_worth_another_try(pending()).await;
            }
        }
    }
}
