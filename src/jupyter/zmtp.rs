//! ZMTP 3.0, the transport of ZeroMQ, as bytes: greetings, commands, and messages of frames.
//!
//! ```text
//! greeting: ff 8 bytes 7f | major minor | mechanism, 20 bytes | as-server | 31 zeros
//! frame:    flags (1 MORE, 2 LONG, 4 COMMAND) | length, 1 byte or 8 big-endian | body
//! command:  length of name, name, data; READY has properties: length, name, u32 BE, value
//! ```
//!
//! Only the mechanism NULL is known. Memory follows what has arrived, never a length that is
//! announced: anybody who reaches the socket sends these bytes, before any key is asked for.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::zmtp_error::ZmtpError;

const GREETING_BYTES: usize = 64;
const MECHANISM_BYTES: usize = 20;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// The oldest version whose framing this is.
const LEAST_MAJOR: u8 = 3;
/// The longest command: none that is known has more than a few hundred bytes.
const MOST_COMMAND_BYTES: usize = 8 << 10;
/// The longest identity of a peer.
pub const MOST_IDENTITY_BYTES: usize = 255;
/// Room that is kept ready for one read.
const READ_CHUNK: usize = 64 << 10;
/// Frames up to this length are copied out of the read buffer, so that one that is kept does not keep
/// the buffer too.
const COPIED_FRAME: usize = 16 << 10;

/// How much a peer may send in one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZmtpLimits {
    /// All its frames together, in bytes.
    pub message: usize,
    /// The number of its frames.
    pub frames: usize,
}

/// What comes over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZmtpItem {
    /// The first thing: the peer speaks our protocol.
    Greeting,
    /// A command.
    Command(ZmtpCommand),
    /// A whole message.
    Message(Vec<Bytes>),
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZmtpCommand {
    /// The peer is there.
    Ready {
        /// What kind of socket it is: `DEALER`, `SUB`, ...
        socket_type: String,
        /// By which messages are addressed to it; empty where it has none.
        identity: Bytes,
    },
    /// It wants messages with this beginning.
    Subscribe(Bytes),
    /// It does not want them any more.
    Cancel(Bytes),
    /// It wants to know whether we are there; the context is to be sent back.
    Ping(Bytes),
    /// We were there.
    Pong,
    /// It has had enough.
    Error(Bytes),
    /// Another one, which may be ignored.
    Unknown,
}

/// The greeting of a peer without security.
pub fn greeting() -> Bytes {
    let mut bytes = BytesMut::with_capacity(GREETING_BYTES);
    bytes.put_u8(0xff);
    bytes.put_bytes(0, 8);
    bytes.put_u8(0x7f);
    // 3.0: then subscriptions come as messages too, which every peer can.
    bytes.put_slice(&[3, 0]);
    bytes.put_slice(b"NULL");
    bytes.put_bytes(0, GREETING_BYTES - bytes.len());
    bytes.freeze()
}

/// The command READY, as a frame.
pub fn ready(socket_type: &str, identity: &[u8]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_slice(b"\x05READY");
    for (name, value) in [
        ("Socket-Type", socket_type.as_bytes()),
        ("Identity", identity),
    ] {
        body.put_u8(u8::try_from(name.len()).unwrap_or_default());
        body.put_slice(name.as_bytes());
        // No value of ours is that long.
        body.put_u32(u32::try_from(value.len()).unwrap_or_default());
        body.put_slice(value);
    }
    command(&body)
}

/// The answer to a ping, as a frame.
pub fn pong(context: &[u8]) -> Bytes {
    command(&[b"\x04PONG", context].concat())
}

fn command(body: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    put_head(&mut frame, COMMAND, body.len());
    frame.put_slice(body);
    frame.freeze()
}

/// A message as pieces that are to be sent one after the other: short frames together, long ones as
/// they are.
pub fn message(frames: &[Bytes]) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let mut short = BytesMut::new();
    for (place, frame) in frames.iter().enumerate() {
        let flags = if place + 1 < frames.len() { MORE } else { 0 };
        put_head(&mut short, flags, frame.len());
        if frame.len() <= COPIED_FRAME {
            short.put_slice(frame);
        } else {
            pieces.push(short.split().freeze());
            pieces.push(frame.clone());
        }
    }
    if !short.is_empty() {
        pieces.push(short.freeze());
    }
    pieces
}

fn put_head(out: &mut BytesMut, flags: u8, length: usize) {
    if let Ok(short) = u8::try_from(length) {
        out.put_slice(&[flags, short]);
    } else {
        out.put_u8(flags | LONG);
        out.put_u64(u64::try_from(length).unwrap_or(u64::MAX));
    }
}

/// Puts what comes over a connection together, however it is cut up. After the first fault it gives
/// that fault again and takes nothing more.
#[derive(Debug)]
pub struct ZmtpReader {
    limits: ZmtpLimits,
    buffer: BytesMut,
    is_greeted: bool,
    /// The frames of a message that is not whole yet.
    frames: Vec<Bytes>,
    /// Their bytes.
    gathered: usize,
    fault: Option<ZmtpError>,
}

/// The head of a frame.
struct Head {
    flags: u8,
    bytes: usize,
    body: usize,
}

impl ZmtpReader {
    /// A reader at the beginning of a connection.
    pub fn new(limits: ZmtpLimits) -> Self {
        Self {
            limits,
            buffer: BytesMut::new(),
            is_greeted: false,
            frames: Vec::new(),
            gathered: 0,
            fault: None,
        }
    }

    /// Where a read may put bytes: append to it, never take from it. At least 64 KiB are free.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_CHUNK);
        &mut self.buffer
    }

    /// How many bytes it holds of what is not whole yet.
    pub fn held(&self) -> usize {
        self.buffer.len() + self.gathered
    }

    /// The next thing that is whole; `None` until more bytes have come.
    ///
    /// # Errors
    ///
    /// If the bytes are not ZMTP within the limits. The connection cannot be read any further.
    pub fn next_item(&mut self) -> Result<Option<ZmtpItem>, ZmtpError> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let item = if self.is_greeted {
            self.frame()
        } else {
            self.greeting()
        };
        if let Err(fault) = &item {
            self.fault = Some(fault.clone());
            self.buffer = BytesMut::new();
            self.frames = Vec::new();
        }
        item
    }

    fn greeting(&mut self) -> Result<Option<ZmtpItem>, ZmtpError> {
        // What cannot become a greeting is told at once: it may be somebody who waits for an answer.
        let seen = self.buffer.as_ref();
        let signature = [(0, 0xff), (9, 0x7f)];
        if signature
            .iter()
            .any(|(at, byte)| seen.get(*at).is_some_and(|found| found != byte))
        {
            return Err(ZmtpError::NoGreeting);
        }
        let Some(greeting) = seen.get(..GREETING_BYTES) else {
            return Ok(None);
        };
        let major = greeting.get(10).copied().unwrap_or_default();
        if major < LEAST_MAJOR {
            return Err(ZmtpError::Version { major });
        }
        let name = greeting.get(12..12 + MECHANISM_BYTES).unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        let name = name.trim_end_matches('\0');
        if name != "NULL" {
            return Err(ZmtpError::Mechanism {
                name: name.to_owned(),
            });
        }
        self.buffer.advance(GREETING_BYTES);
        self.is_greeted = true;
        Ok(Some(ZmtpItem::Greeting))
    }

    fn frame(&mut self) -> Result<Option<ZmtpItem>, ZmtpError> {
        loop {
            let Some(head) = self.head()? else {
                return Ok(None);
            };
            if self.buffer.len() - head.bytes < head.body {
                return Ok(None);
            }
            self.buffer.advance(head.bytes);
            let body = self.take(head.body);
            if head.flags & COMMAND != 0 {
                return parse_command(&body).map(|it| Some(ZmtpItem::Command(it)));
            }
            self.gathered += body.len();
            self.frames.push(body);
            if head.flags & MORE == 0 {
                self.gathered = 0;
                return Ok(Some(ZmtpItem::Message(std::mem::take(&mut self.frames))));
            }
        }
    }

    /// The head of the next frame, within the limits.
    fn head(&self) -> Result<Option<Head>, ZmtpError> {
        let Some(flags) = self.buffer.first().copied() else {
            return Ok(None);
        };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
            return Err(ZmtpError::Flags { flags });
        }
        let behind = self.buffer.get(1..).unwrap_or_default();
        let (announced, bytes) = if flags & LONG == 0 {
            match behind.first() {
                Some(length) => (u64::from(*length), 2),
                None => return Ok(None),
            }
        } else {
            match behind.first_chunk::<8>() {
                Some(length) => (u64::from_be_bytes(*length), 9),
                None => return Ok(None),
            }
        };
        let limit = if flags & COMMAND == 0 {
            if self.frames.len() >= self.limits.frames {
                return Err(ZmtpError::Frames {
                    limit: self.limits.frames,
                });
            }
            self.limits.message - self.gathered
        } else {
            MOST_COMMAND_BYTES
        };
        let body = usize::try_from(announced)
            .ok()
            .filter(|body| *body <= limit)
            .ok_or(ZmtpError::TooLong { announced, limit })?;
        Ok(Some(Head { flags, bytes, body }))
    }

    fn take(&mut self, length: usize) -> Bytes {
        if length <= COPIED_FRAME {
            let body = self.buffer.get(..length).unwrap_or_default();
            let body = Bytes::copy_from_slice(body);
            self.buffer.advance(length);
            return body;
        }
        let body = self.buffer.split_to(length).freeze();
        // The frame alone is to own the memory that grew for it.
        if self.buffer.len() <= length {
            self.buffer = BytesMut::from(self.buffer.as_ref());
        }
        body
    }
}

fn parse_command(body: &Bytes) -> Result<ZmtpCommand, ZmtpError> {
    let senseless = ZmtpError::Command;
    let (length, rest) = body.split_first().ok_or(senseless.clone())?;
    let length = usize::from(*length);
    let name = rest.get(..length).ok_or(senseless.clone())?;
    let data = body.slice(1 + length..);
    Ok(match name {
        b"READY" => parse_ready(&data)?,
        b"SUBSCRIBE" => ZmtpCommand::Subscribe(data),
        b"CANCEL" => ZmtpCommand::Cancel(data),
        b"PING" => {
            // Behind two bytes of time.
            let context = data.get(2..).ok_or(senseless)?;
            ZmtpCommand::Ping(data.slice_ref(context))
        }
        b"PONG" => ZmtpCommand::Pong,
        b"ERROR" => ZmtpCommand::Error(data),
        _ => ZmtpCommand::Unknown,
    })
}

fn parse_ready(data: &Bytes) -> Result<ZmtpCommand, ZmtpError> {
    let mut rest = data.clone();
    let mut socket_type = String::new();
    let mut identity = Bytes::new();
    let part = |rest: &mut Bytes, length: usize| {
        (length <= rest.len())
            .then(|| rest.split_to(length))
            .ok_or(ZmtpError::Command)
    };
    while !rest.is_empty() {
        let length = usize::from(rest.get_u8());
        let name = part(&mut rest, length)?;
        let length = rest.try_get_u32().map_err(|_short| ZmtpError::Command)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let value = part(&mut rest, length)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            socket_type = String::from_utf8_lossy(&value).into_owned();
        } else if name.eq_ignore_ascii_case(b"Identity") {
            identity = value;
        }
    }
    if identity.len() > MOST_IDENTITY_BYTES {
        return Err(ZmtpError::Identity {
            length: identity.len(),
        });
    }
    Ok(ZmtpCommand::Ready {
        socket_type,
        identity,
    })
}

#[cfg(test)]
#[path = "zmtp_tests.rs"]
mod tests;
