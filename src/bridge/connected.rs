//! One connection: the handshake of ZeroMQ, and what the kind of socket makes of messages.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::coming::Arrival;
use super::listen::Stream;
use super::queue::{MOST_BYTES, Queue, Wire};
use super::sockets::{Incoming, PIECE_BYTES, Shared, Subscriber};
use crate::ids::random_hex;
use crate::jupyter::{
    Channel, Multipart, MultipartLimits, SocketName, Unreadable, ZmtpCommand, ZmtpError, ZmtpItem,
    ZmtpLimits, ZmtpReader, greeting, pong, ready, zmtp_message,
};
use crate::process::{ProcessError, in_a_thread};

/// How long a peer may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// What one connection may have sent of a message before it asks for room.
const FREE_BYTES: usize = PIECE_BYTES;
/// Signatures of so much are looked at in a thread of their own: it takes milliseconds.
const LONG_BYTES: usize = 1 << 20;
/// Subscriptions of one peer, and the longest.
const MOST_TOPICS: usize = 1_000;
const MOST_TOPIC_BYTES: usize = 1 << 10;
/// What is written at a time.
const BIT_BYTES: usize = 256 << 10;
/// What may wait for a peer of the heartbeat.
const HEARTBEAT_BYTES: usize = 1 << 20;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("it is closed")]
    Closed,
    #[error("{0}")]
    Stream(#[from] io::Error),
    #[error("{0}")]
    Zmtp(#[from] ZmtpError),
    #[error("it did not say who it is in time")]
    Silent,
    #[error("a {found:?} does not go with a {own}")]
    Pair { own: &'static str, found: String },
    #[error("something else before it said who it is")]
    Early,
    #[error("too many long messages at once")]
    Crowded,
    #[error("more or longer subscriptions than any front end has")]
    Topics,
    #[error("it has sent an error")]
    Error,
    #[error("{0}")]
    Thread(#[from] ProcessError),
}

const fn socket_type(name: SocketName) -> &'static str {
    match name {
        SocketName::Shell | SocketName::Control | SocketName::Stdin => "ROUTER",
        SocketName::Iopub => "XPUB",
        SocketName::Heartbeat => "REP",
    }
}

fn goes_with(own: &str, found: &str) -> bool {
    match own {
        "ROUTER" => ["DEALER", "REQ", "ROUTER"].contains(&found),
        "XPUB" => ["SUB", "XSUB"].contains(&found),
        _ => ["REQ", "DEALER"].contains(&found),
    }
}

const fn limits(name: SocketName) -> ZmtpLimits {
    let message = match name {
        SocketName::Shell => 80 << 20,
        SocketName::Control | SocketName::Stdin => 16 << 20,
        SocketName::Iopub | SocketName::Heartbeat => PIECE_BYTES,
    };
    ZmtpLimits {
        message,
        frames: 1_100,
    }
}

/// Serves one connection to its end.
pub(super) async fn serve(name: SocketName, stream: Box<dyn Stream>, shared: &Shared) {
    let arrival = (name == SocketName::Iopub).then(|| shared.coming.enter());
    let (reading, writing) = split(stream);
    let mut reader = Reader {
        stream: reading,
        items: ZmtpReader::new(limits(name)),
        rooms: Arc::clone(&shared.unfinished),
        unfinished: None,
    };
    let mut writing = writing;
    let shaking = timeout(HANDSHAKE, handshake(name, &mut reader, &mut writing));
    let fault = match shaking.await {
        Ok(Ok(identity)) => talk(name, reader, writing, identity, shared, arrival).await,
        Ok(Err(fault)) => fault,
        Err(_elapsed) => Fault::Silent,
    };
    match fault {
        Fault::Closed => {}
        fault => tracing::debug!(?name, %fault, "a connection was ended"),
    }
}

/// One after the other: some peers close a connection on which everything comes at once. The name of
/// the peer.
async fn handshake(
    name: SocketName,
    reader: &mut Reader,
    writing: &mut WriteHalf<Box<dyn Stream>>,
) -> Result<Bytes, Fault> {
    let own = socket_type(name);
    writing.write_all(&greeting()).await?;
    if reader.next().await? != ZmtpItem::Greeting {
        return Err(Fault::Early);
    }
    writing.write_all(&ready(own, b"")).await?;
    match reader.next().await? {
        ZmtpItem::Command(ZmtpCommand::Ready {
            socket_type,
            identity,
        }) if goes_with(own, &socket_type) => Ok(if identity.is_empty() {
            // Nobody has one that begins with a zero but by us.
            Bytes::from(format!("\0{}", random_hex(8)))
        } else {
            identity
        }),
        ZmtpItem::Command(ZmtpCommand::Ready { socket_type, .. }) => Err(Fault::Pair {
            own,
            found: socket_type.chars().take(20).collect(),
        }),
        _ => Err(Fault::Early),
    }
}

/// Reads and writes until one of the two sides has enough.
async fn talk(
    name: SocketName,
    mut reader: Reader,
    writing: WriteHalf<Box<dyn Stream>>,
    identity: Bytes,
    shared: &Shared,
    arrival: Option<Arrival>,
) -> Fault {
    let most_bytes = match name {
        SocketName::Heartbeat => HEARTBEAT_BYTES,
        _ => MOST_BYTES,
    };
    let queue = Arc::new(Queue::new(most_bytes));
    let peer = Peer {
        name,
        identity,
        subscriber: Arc::new(Subscriber {
            queue: Arc::clone(&queue),
            topics: Mutex::default(),
        }),
        shared,
        arrival: Mutex::new(arrival),
    };
    peer.enter();
    let fault = tokio::select! {
        fault = write(writing, &queue) => fault,
        fault = async {
            loop {
                let taken = match reader.next().await {
                    Ok(item) => peer.take(item).await,
                    Err(fault) => Err(fault),
                };
                if let Err(fault) = taken {
                    break fault;
                }
            }
        } => fault,
    };
    peer.leave();
    fault
}

/// Sends what waits, until there is nothing more to be sent or the peer is cut off.
async fn write(mut writing: WriteHalf<Box<dyn Stream>>, queue: &Queue) -> Fault {
    let sending = async {
        while let Some(mut batch) = queue.next().await {
            if let [wire] = &batch.wires[..] {
                let wire = Arc::clone(wire);
                // Whoever takes a long message bit by bit is seen to take it.
                for bit in wire.pieces.iter().flat_map(|piece| piece.chunks(BIT_BYTES)) {
                    writing.write_all(bit).await?;
                    queue.taken(&mut batch, bit.len());
                }
            } else {
                let pieces = batch.wires.iter().flat_map(|wire| &wire.pieces);
                let pieces: Vec<&[u8]> = pieces.map(AsRef::as_ref).collect();
                writing.write_all(&pieces.concat()).await?;
            }
            queue.sent(&batch);
        }
        writing.shutdown().await
    };
    tokio::select! {
        sent = sending => sent.map_or_else(Fault::Stream, |()| Fault::Closed),
        () = queue.cut_off() => Fault::Closed,
    }
}

/// What comes over a connection, within bounds.
struct Reader {
    stream: ReadHalf<Box<dyn Stream>>,
    items: ZmtpReader,
    /// The room that all unfinished messages have together.
    rooms: Arc<Semaphore>,
    /// The room that an unfinished message has.
    unfinished: Option<OwnedSemaphorePermit>,
}

impl Reader {
    async fn next(&mut self) -> Result<ZmtpItem, Fault> {
        loop {
            if let Some(item) = self.items.next_item()? {
                self.unfinished = None;
                return Ok(item);
            }
            self.room()?;
            if self.stream.read_buf(self.items.buffer()).await? == 0 {
                return Err(Fault::Closed);
            }
        }
    }

    /// Room for a message that does not come at once. It is given back with the message.
    fn room(&mut self) -> Result<(), Fault> {
        let held = self.items.held();
        let has = FREE_BYTES
            + self
                .unfinished
                .as_ref()
                .map_or(0, |it| it.num_permits() * PIECE_BYTES);
        if held <= has {
            return Ok(());
        }
        // It may double at once, so that it need not ask for each piece.
        let more = pieces((held - has).max(has));
        let permit = Arc::clone(&self.rooms).try_acquire_many_owned(more);
        let permit = permit.map_err(|_full| Fault::Crowded)?;
        match &mut self.unfinished {
            Some(room) => room.merge(permit),
            None => self.unfinished = Some(permit),
        }
        Ok(())
    }
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX)
}

/// Who is at the other end.
struct Peer<'a> {
    name: SocketName,
    identity: Bytes,
    subscriber: Arc<Subscriber>,
    shared: &'a Shared,
    /// Until it has subscribed to something.
    arrival: Mutex<Option<Arrival>>,
}

impl Peer<'_> {
    fn queue(&self) -> &Arc<Queue> {
        &self.subscriber.queue
    }

    fn enter(&self) {
        if self.name == SocketName::Iopub {
            return self.shared.subscribe(&self.subscriber);
        }
        let identity = self.identity.clone();
        self.shared.join(self.name, identity, self.queue());
    }

    fn leave(&self) {
        if self.name == SocketName::Iopub {
            return self.shared.unsubscribe(&self.subscriber);
        }
        let identity = self.identity.clone();
        self.shared.leave(self.name, identity, self.queue());
    }

    async fn take(&self, item: ZmtpItem) -> Result<(), Fault> {
        match item {
            ZmtpItem::Message(frames) => match self.name {
                SocketName::Shell => self.request(Channel::Shell, frames).await,
                SocketName::Control => self.request(Channel::Control, frames).await,
                SocketName::Stdin => self.request(Channel::Stdin, frames).await,
                SocketName::Iopub => self.subscription(&frames),
                SocketName::Heartbeat => {
                    self.put(zmtp_message(&frames));
                    Ok(())
                }
            },
            ZmtpItem::Command(ZmtpCommand::Ping(context)) => {
                self.put(vec![pong(&context)]);
                Ok(())
            }
            ZmtpItem::Command(ZmtpCommand::Subscribe(topic)) => self.subscribe(topic),
            ZmtpItem::Command(ZmtpCommand::Cancel(topic)) => {
                self.cancel(&topic);
                Ok(())
            }
            ZmtpItem::Command(ZmtpCommand::Error(_)) => Err(Fault::Error),
            ZmtpItem::Command(_) | ZmtpItem::Greeting | ZmtpItem::PassedOver(_) => Ok(()),
        }
    }

    fn put(&self, pieces: Vec<Bytes>) {
        self.queue().put(&Wire::new(pieces));
    }

    /// A message of Jupyter's. One that is none, or forged, or comes again, is dropped, as kernels do:
    /// what is behind it may be right.
    async fn request(&self, channel: Channel, frames: Vec<Bytes>) -> Result<(), Fault> {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        let signer = self.shared.signer.clone();
        let decode =
            move || Multipart::decode(channel, frames, &signer, &MultipartLimits::from_front_end());
        let decoded = if bytes > LONG_BYTES {
            in_a_thread(decode).await?
        } else {
            decode()
        };
        let checked = decoded.and_then(|(multipart, digest)| {
            self.shared.enter(digest).map_err(Unreadable::from)?;
            Ok(multipart)
        });
        let multipart = match checked {
            Ok(multipart) => multipart,
            Err(error) => {
                tracing::warn!(?channel, %error, "a message was dropped");
                return Ok(());
            }
        };
        if channel != Channel::Stdin {
            self.shared.coming.settled().await;
        }
        // Whoever sends faster than it is answered is not read for so long.
        let waiting = self
            .shared
            .waiting(channel)
            .acquire_many_owned(pieces(bytes.max(1)));
        let Ok(room) = waiting.await else {
            return Err(Fault::Closed);
        };
        let mut sender = vec![self.identity.clone()];
        sender.extend(multipart.identities);
        (self.shared.handler)(Incoming {
            channel,
            sender,
            message: multipart.message,
            room,
        });
        Ok(())
    }

    /// As ZMTP 3.0 has it: a message of one frame, 1 and the topic, or 0 and the topic.
    fn subscription(&self, frames: &[Bytes]) -> Result<(), Fault> {
        let [frame] = frames else {
            return Ok(());
        };
        match frame.split_first() {
            Some((1, topic)) => self.subscribe(frame.slice_ref(topic)),
            Some((0, topic)) => {
                self.cancel(topic);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn subscribe(&self, topic: Bytes) -> Result<(), Fault> {
        if self.name != SocketName::Iopub {
            return Ok(());
        }
        {
            let mut topics = self.subscriber.topics();
            if topics.len() >= MOST_TOPICS || topic.len() > MOST_TOPIC_BYTES {
                return Err(Fault::Topics);
            }
            topics.push(topic.clone());
        }
        let arrival = self.arrival.lock();
        drop(arrival.unwrap_or_else(PoisonError::into_inner).take());
        // A topic that is no text is not ours to name.
        if let Ok(text) = std::str::from_utf8(&topic) {
            let message = (self.shared.welcome)(text);
            let identities = if topic.is_empty() {
                vec![]
            } else {
                vec![topic]
            };
            let wire = self.shared.wire(&Multipart {
                identities,
                message,
            });
            self.queue().put(&wire);
        }
        Ok(())
    }

    fn cancel(&self, topic: &[u8]) {
        let mut topics = self.subscriber.topics();
        if let Some(at) = topics.iter().position(|it| it == topic) {
            topics.swap_remove(at);
        }
    }
}
