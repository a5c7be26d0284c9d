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

use super::zmtp_command::{ZmtpCommand, parse_command};
use super::zmtp_error::ZmtpError;

const GREETING_BYTES: usize = 64;
const MECHANISM_BYTES: usize = 20;
const MORE: u8 = 1;
const LONG: u8 = 2;
pub(super) const COMMAND: u8 = 4;
/// The oldest version whose framing this is.
const LEAST_MAJOR: u8 = 3;
/// The longest command: none that is known has more than a few hundred bytes.
const MOST_COMMAND_BYTES: usize = 8 << 10;
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
    /// A whole message that was too long to be kept, so many bytes; see [`ZmtpReader::passing_over`].
    PassedOver(u64),
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

pub(super) fn put_head(out: &mut BytesMut, flags: u8, length: usize) {
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
    /// The longest message that is let go by where it is too long to be kept, in bytes.
    most_passed: u64,
    /// The message that is being let go by.
    passing: Option<Passing>,
    fault: Option<ZmtpError>,
}

/// The head of a frame.
struct Head {
    flags: u8,
    bytes: usize,
    body: u64,
}

/// A message that is too long, and is dropped as it comes.
#[derive(Debug)]
struct Passing {
    /// Of all its frames that were announced.
    bytes: u64,
    frames: usize,
    /// What is still to come of this frame.
    left: u64,
    /// Another one comes.
    more: bool,
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
            most_passed: 0,
            passing: None,
            fault: None,
        }
    }

    /// A reader that lets a message which is longer than the limits go by without keeping any of it,
    /// and then tells how long it was ([`ZmtpItem::PassedOver`]); one that is longer than this too, in
    /// bytes, is a fault.
    pub fn passing_over(limits: ZmtpLimits, most: u64) -> Self {
        Self {
            most_passed: most,
            ..Self::new(limits)
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
            self.passing = None;
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
            if let Some(item) = self.pass() {
                return Ok(item);
            }
            let Some(head) = self.head()? else {
                return Ok(None);
            };
            let is_command = head.flags & COMMAND != 0;
            let limit = if is_command {
                MOST_COMMAND_BYTES
            } else {
                self.limits.message - self.gathered
            };
            let fits = usize::try_from(head.body).ok().filter(|it| *it <= limit);
            if !is_command && (self.passing.is_some() || fits.is_none()) {
                self.begin_passing(&head, limit)?;
                continue;
            }
            let announced = head.body;
            let length = fits.ok_or(ZmtpError::TooLong { announced, limit })?;
            if self.buffer.len() - head.bytes < length {
                return Ok(None);
            }
            self.buffer.advance(head.bytes);
            let body = self.take(length);
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
        let frames = self
            .passing
            .as_ref()
            .map_or(self.frames.len(), |it| it.frames);
        if flags & COMMAND == 0 && frames >= self.limits.frames {
            return Err(ZmtpError::Frames {
                limit: self.limits.frames,
            });
        }
        Ok(Some(Head {
            flags,
            bytes,
            body: announced,
        }))
    }

    /// One more frame of a message that is too long; what was kept of it is not any more.
    fn begin_passing(&mut self, head: &Head, limit: usize) -> Result<(), ZmtpError> {
        let before = self.passing.take().unwrap_or_else(|| Passing {
            bytes: u64::try_from(self.gathered).unwrap_or(u64::MAX),
            frames: self.frames.len(),
            left: 0,
            more: true,
        });
        let bytes = before.bytes.saturating_add(head.body);
        if bytes > self.most_passed {
            let announced = head.body;
            return Err(ZmtpError::TooLong { announced, limit });
        }
        self.frames = Vec::new();
        self.gathered = 0;
        self.buffer.advance(head.bytes);
        self.passing = Some(Passing {
            bytes,
            frames: before.frames + 1,
            left: head.body,
            more: head.flags & MORE != 0,
        });
        Ok(())
    }

    /// Drops what has come of a message that is too long. `None` if there is a head to be read next.
    #[expect(
        clippy::option_option,
        reason = "whether to go on with the next head, and if not, what has come to its end"
    )]
    fn pass(&mut self) -> Option<Option<ZmtpItem>> {
        let passing = self.passing.as_mut()?;
        let there = u64::try_from(self.buffer.len()).unwrap_or(u64::MAX);
        let now = passing.left.min(there);
        passing.left -= now;
        self.buffer
            .advance(usize::try_from(now).unwrap_or_default());
        if passing.left > 0 {
            return Some(None);
        }
        if passing.more {
            return None;
        }
        let bytes = passing.bytes;
        self.passing = None;
        Some(Some(ZmtpItem::PassedOver(bytes)))
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

#[cfg(test)]
#[path = "zmtp_tests.rs"]
mod tests;
