//! One of a kernel's sockets, as a client: the handshake of ZeroMQ, then signed messages.
//!
//! The kernel is not trusted with more than its own cells: what is not signed is dropped, what is no
//! ZMTP ends the bridge, and what it announces costs nothing before it has come.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bridge::listen::Stream;
use crate::jupyter::{
    Channel, Endpoint, Multipart, MultipartLimits, RawMessage, SeenDigests, Signer, SocketName,
    Unreadable, ZmtpCommand, ZmtpError, ZmtpItem, ZmtpLimits, ZmtpReader, greeting, pong, ready,
    zmtp_message,
};

/// Messages that wait for the loop.
const EVENTS: usize = 16;
/// Messages that wait for the kernel: a few a cell.
const OUTGOING: usize = 64;
/// How long a kernel may take to let go of a socket that is closed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What comes from the kernel.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message.
    Message(RawMessage),
    /// A message that is none, or not signed by the kernel.
    Unreadable(Unreadable),
    /// A socket has ended. It is `None` where it was closed in good order, as when the kernel ends.
    Ended(Option<String>),
}

/// The sockets of a kernel.
#[derive(Debug)]
pub(crate) struct Connections {
    shell: mpsc::Sender<Vec<Bytes>>,
    control: mpsc::Sender<Vec<Bytes>>,
    stdin: mpsc::Sender<Vec<Bytes>>,
    signer: Signer,
    /// Fires when they are to be closed; at the latest when this is dropped.
    closing: CancellationToken,
    _closed_at_the_end: DropGuard,
    /// What comes.
    pub(crate) events: mpsc::Receiver<Event>,
    /// How many of them are open.
    pub(crate) open: usize,
}

/// Why a socket ends.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("it is closed")]
    Closed,
    #[error("{0}")]
    Zmtp(#[from] ZmtpError),
    #[error("it is a {found:?}, which does not go with a {own}")]
    Pair { own: &'static str, found: String },
    #[error("it sent something else before it said what it is")]
    Early,
}

impl From<io::Error> for Fault {
    fn from(_gone: io::Error) -> Self {
        Self::Closed
    }
}

/// Connects to one place.
pub(super) async fn connect(endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
    Ok(match endpoint {
        Endpoint::Tcp(ip, port) => {
            let stream = TcpStream::connect((*ip, *port)).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Endpoint::Ipc(path) => Box::new(UnixStream::connect(path).await?),
    })
}

impl Connections {
    /// Speaks over streams that are connected to a kernel's sockets.
    pub(crate) fn new(
        streams: Vec<(SocketName, Box<dyn Stream>)>,
        identity: &str,
        signer: &Signer,
    ) -> Self {
        let (events, received) = mpsc::channel(EVENTS);
        let mut senders = Vec::new();
        let closing = CancellationToken::new();
        let open = streams.len();
        for (name, stream) in streams {
            let (sender, outgoing) = mpsc::channel(OUTGOING);
            let one = One {
                name,
                identity: identity.to_owned(),
                signer: signer.clone(),
                events: events.clone(),
                closing: closing.clone(),
            };
            tokio::spawn(one.run(stream, outgoing));
            senders.push((name, sender));
        }
        let sender = |name| {
            let found = senders.iter().find(|(known, _)| *known == name);
            found.map_or_else(|| mpsc::channel(1).0, |(_, sender)| sender.clone())
        };
        Self {
            shell: sender(SocketName::Shell),
            control: sender(SocketName::Control),
            stdin: sender(SocketName::Stdin),
            signer: signer.clone(),
            _closed_at_the_end: closing.clone().drop_guard(),
            closing,
            events: received,
            open,
        }
    }

    /// Sends a message to the kernel; false if it takes none.
    pub(crate) fn send(&self, message: RawMessage) -> bool {
        let sender = match message.channel {
            Channel::Control => &self.control,
            Channel::Stdin => &self.stdin,
            _ => &self.shell,
        };
        let multipart = Multipart {
            identities: Vec::new(),
            message,
        };
        let frames = multipart.encode(&self.signer);
        sender.try_send(zmtp_message(&frames)).is_ok()
    }

    /// Closes them, and waits until the kernel has let go of its ends; how many it has not.
    ///
    /// # Cancel safety
    ///
    /// If dropped, they are closed all the same.
    pub(crate) async fn close(mut self, deadline: Duration) -> usize {
        self.closing.cancel();
        let end = async {
            while self.open > 0 {
                match self.events.recv().await {
                    Some(Event::Ended(_)) => self.open -= 1,
                    Some(_) => {}
                    None => break,
                }
            }
        };
        drop(timeout(deadline, end).await);
        self.open
    }
}

/// One socket.
struct One {
    name: SocketName,
    identity: String,
    signer: Signer,
    events: mpsc::Sender<Event>,
    closing: CancellationToken,
}

impl One {
    async fn run(self, stream: Box<dyn Stream>, outgoing: mpsc::Receiver<Vec<Bytes>>) {
        let (reading, writing) = split(stream);
        let given_up = async {
            self.closing.cancelled().await;
            sleep(LAST_WORDS).await;
        };
        let fault = tokio::select! {
            fault = self.talk(reading, writing, outgoing) => fault,
            () = given_up => Fault::Closed,
        };
        let fault = match fault {
            Fault::Closed => None,
            fault => Some(format!("on its {} socket {fault}", self.channel().as_str())),
        };
        // If nobody listens the bridge has ended.
        self.events.send(Event::Ended(fault)).await.ok();
    }

    const fn channel(&self) -> Channel {
        match self.name {
            SocketName::Control => Channel::Control,
            SocketName::Stdin => Channel::Stdin,
            SocketName::Iopub => Channel::Iopub,
            SocketName::Shell | SocketName::Heartbeat => Channel::Shell,
        }
    }

    const fn limits(&self) -> ZmtpLimits {
        let message = match self.name {
            SocketName::Iopub => 192 << 20,
            SocketName::Shell => 64 << 20,
            _ => 4 << 20,
        };
        ZmtpLimits {
            message,
            frames: 1_100,
        }
    }

    async fn talk(
        &self,
        reading: ReadHalf<Box<dyn Stream>>,
        mut writing: WriteHalf<Box<dyn Stream>>,
        mut outgoing: mpsc::Receiver<Vec<Bytes>>,
    ) -> Fault {
        let mut reader = Reader {
            stream: reading,
            reader: ZmtpReader::new(self.limits()),
        };
        if let Err(fault) = self.handshake(&mut reader, &mut writing).await {
            return fault;
        }
        let (answers, mut pings) = mpsc::channel::<Bytes>(1);
        let write = async {
            loop {
                let pieces = tokio::select! {
                    biased;
                    () = self.closing.cancelled() => break,
                    // Nobody sends to a socket that publishes.
                    Some(pieces) = outgoing.recv() => pieces,
                    Some(answer) = pings.recv() => vec![answer],
                };
                for piece in pieces {
                    if writing.write_all(&piece).await.is_err() {
                        return Fault::Closed;
                    }
                }
            }
            // The kernel closes its end when it reads this, and that is the end.
            drop(writing.shutdown().await);
            std::future::pending().await
        };
        let read = async {
            let mut seen = SeenDigests::default();
            loop {
                let event = match reader.next().await {
                    Ok(ZmtpItem::Message(frames)) => self.read(frames, &mut seen),
                    Ok(ZmtpItem::Command(ZmtpCommand::Ping(context))) => {
                        // One that comes before the last is answered needs no answer.
                        answers.try_send(pong(&context)).ok();
                        continue;
                    }
                    Ok(_) => continue,
                    Err(fault) => return fault,
                };
                // The kernel is not read for as long as the loop is busy.
                if self.events.send(event).await.is_err() {
                    return Fault::Closed;
                }
            }
        };
        tokio::select! {
            fault = write => fault,
            fault = read => fault,
        }
    }

    fn read(&self, frames: Vec<Bytes>, seen: &mut SeenDigests) -> Event {
        let limits = MultipartLimits::from_kernel();
        let decoded = Multipart::decode(self.channel(), frames, &self.signer, &limits);
        let checked = decoded.and_then(|(multipart, digest)| {
            if let Some(digest) = digest {
                seen.enter(digest)?;
            }
            Ok(multipart.message)
        });
        checked.map_or_else(Event::Unreadable, Event::Message)
    }

    async fn handshake(
        &self,
        reader: &mut Reader,
        writing: &mut WriteHalf<Box<dyn Stream>>,
    ) -> Result<(), Fault> {
        let (own, theirs): (_, &[&str]) = match self.name {
            SocketName::Iopub => ("SUB", &["PUB", "XPUB"]),
            _ => ("DEALER", &["ROUTER", "DEALER", "REP"]),
        };
        writing.write_all(&greeting()).await?;
        if reader.next().await? != ZmtpItem::Greeting {
            return Err(Fault::Early);
        }
        writing
            .write_all(&ready(own, self.identity.as_bytes()))
            .await?;
        match reader.next().await? {
            ZmtpItem::Command(ZmtpCommand::Ready { socket_type, .. }) => {
                if !theirs.contains(&socket_type.as_str()) {
                    let found = socket_type.chars().take(20).collect();
                    return Err(Fault::Pair { own, found });
                }
            }
            _ => return Err(Fault::Early),
        }
        if self.name == SocketName::Iopub {
            for piece in zmtp_message(&[Bytes::from_static(b"\x01")]) {
                writing.write_all(&piece).await?;
            }
        }
        Ok(())
    }
}

struct Reader {
    stream: ReadHalf<Box<dyn Stream>>,
    reader: ZmtpReader,
}

impl Reader {
    async fn next(&mut self) -> Result<ZmtpItem, Fault> {
        loop {
            if let Some(item) = self.reader.next_item()? {
                return Ok(item);
            }
            if self.stream.read_buf(self.reader.buffer()).await? == 0 {
                return Err(Fault::Closed);
            }
        }
    }
}
