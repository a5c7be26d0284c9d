//! One message on a link: a length, then the body of Jupyter's WebSocket messages.
//!
//! ```text
//! u32 LE L | u64 LE n | n x u64 LE offset | channel | header | parent_header | metadata | content | buffers...
//! ```
//!
//! L counts everything after itself. Offsets count from the byte after L; the first is where the
//! table of offsets ends, part i lies between offsets i and i + 1, and the last offset is L. The
//! body is the layout that Jupyter Server calls `v1.kernel.websocket.jupyter.org`.

use bytes::{Buf, Bytes, BytesMut};

use super::error::FrameError;
use super::message::{Channel, RawMessage};

const MIB: usize = 1024 * 1024;
/// Channel, four JSON parts, and the end.
const LEAST_OFFSETS: usize = 6;
/// The table of a frame with the fewest offsets.
const LEAST_BODY: usize = 8 * (LEAST_OFFSETS + 1);
const LENGTH_BYTES: usize = 4;
/// No channel has a longer name.
const CHANNEL_BYTES: usize = 32;
/// Room that is kept ready for one read.
const READ_CHUNK: usize = 64 * 1024;
/// Frames up to this length are copied out of the read buffer, so that a small message that is kept
/// does not keep the buffer too. Longer ones share it.
const COPIED_FRAME: usize = 16 * 1024;

/// How large a frame and its parts may be, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The body of a frame.
    pub frame: usize,
    /// Each of header, parent header, metadata and content.
    pub json: usize,
    /// All buffers of a message together.
    pub buffers: usize,
    /// The number of parts, the channel name included.
    pub parts: usize,
}

impl Limits {
    /// What a manager takes from a kernel: 4 MiB a JSON part, 64 MiB of buffers.
    pub const fn from_kernel() -> Self {
        Self {
            frame: 68 * MIB,
            json: 4 * MIB,
            buffers: 64 * MIB,
            parts: 1000,
        }
    }

    /// What goes to a kernel: 64 MiB a JSON part, because a cell of 8 MiB may grow sixfold when its
    /// characters are escaped.
    pub const fn to_kernel() -> Self {
        Self {
            frame: 68 * MIB,
            json: 64 * MIB,
            buffers: 64 * MIB,
            parts: 1000,
        }
    }
}

/// A whole frame, its length included.
///
/// # Errors
///
/// If a part or the whole is over the limits.
pub fn encode(message: &RawMessage, limits: &Limits) -> Result<Vec<u8>, FrameError> {
    let json = [
        ("a header", &message.header),
        ("a parent header", &message.parent_header),
        ("metadata", &message.metadata),
        ("content", &message.content),
    ];
    for (part, bytes) in json {
        check_part(part, bytes.len(), limits.json)?;
    }
    let buffered = message
        .buffers
        .iter()
        .map(Bytes::len)
        .fold(0, usize::saturating_add);
    check_part("buffers", buffered, limits.buffers)?;

    let channel = message.channel.as_str().as_bytes();
    let parts = || {
        std::iter::once(channel)
            .chain(json.into_iter().map(|(_, bytes)| bytes.as_ref()))
            .chain(message.buffers.iter().map(AsRef::as_ref))
    };
    let count = message.buffers.len().saturating_add(LEAST_OFFSETS);
    let limit = limits.parts.saturating_add(1);
    let table = count.saturating_add(1).saturating_mul(8);
    let body = parts().map(<[u8]>::len).fold(table, usize::saturating_add);
    if count > limit {
        return Err(FrameError::OffsetCount {
            count: wide(count),
            limit: wide(limit),
            length: wide(body),
        });
    }
    let too_long = FrameError::TooLong {
        length: wide(body),
        limit: wide(limits.frame),
    };
    let length = match u32::try_from(body) {
        Ok(length) if body <= limits.frame => length,
        _ => return Err(too_long),
    };

    let mut frame = Vec::with_capacity(body.saturating_add(LENGTH_BYTES));
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&wide(count).to_le_bytes());
    let mut offset = wide(table);
    frame.extend_from_slice(&offset.to_le_bytes());
    for part in parts() {
        offset = offset.saturating_add(wide(part.len()));
        frame.extend_from_slice(&offset.to_le_bytes());
    }
    for part in parts() {
        frame.extend_from_slice(part);
    }
    Ok(frame)
}

/// Cuts a body (a frame without its length) into parts that share its memory.
///
/// # Errors
///
/// If the offsets do not cut the body into known parts, or a part is over the limits.
pub fn decode_body(body: &Bytes, limits: &Limits) -> Result<RawMessage, FrameError> {
    let mut parts = Parts::open(body, limits)?;
    let name = parts.take("a channel name", CHANNEL_BYTES)?;
    let channel = std::str::from_utf8(&name)
        .ok()
        .and_then(Channel::parse)
        .ok_or_else(|| FrameError::UnknownChannel {
            name: String::from_utf8_lossy(&name).into_owned(),
        })?;
    let header = parts.take("a header", limits.json)?;
    let parent_header = parts.take("a parent header", limits.json)?;
    let metadata = parts.take("metadata", limits.json)?;
    let content = parts.take("content", limits.json)?;
    let buffers = parts.take_rest(limits.buffers)?;
    Ok(RawMessage {
        channel,
        header,
        parent_header,
        metadata,
        content,
        buffers,
    })
}

/// The parts of a body, cut out one after the other.
struct Parts<'a> {
    body: &'a Bytes,
    /// Offsets of the ends of the parts that are left.
    ends: &'a [[u8; 8]],
    at: usize,
    index: usize,
}

impl<'a> Parts<'a> {
    fn open(body: &'a Bytes, limits: &Limits) -> Result<Self, FrameError> {
        let length = body.len();
        check_length(length, limits)?;
        let (words, _) = body.as_chunks::<8>();
        let Some((count, words)) = words.split_first() else {
            return Err(FrameError::TooShort {
                length: wide(length),
            });
        };
        let announced = u64::from_le_bytes(*count);
        let limit = limits.parts.saturating_add(1);
        let count = usize::try_from(announced)
            .ok()
            .filter(|count| (LEAST_OFFSETS..=limit).contains(count) && *count <= words.len());
        let offsets = count.and_then(|count| words.get(..count));
        let Some((first, ends)) = offsets.and_then(<[[u8; 8]]>::split_first) else {
            return Err(FrameError::OffsetCount {
                count: announced,
                limit: wide(limit),
                length: wide(length),
            });
        };
        // The count, the first offset, and the others: no more than the body holds.
        let table = 8 * (ends.len() + 2);
        let first = u64::from_le_bytes(*first);
        if first != wide(table) {
            return Err(FrameError::FirstOffset {
                found: first,
                expected: wide(table),
            });
        }
        Ok(Self {
            body,
            ends,
            at: table,
            index: 0,
        })
    }

    /// The next part. The last one has to end where the body ends.
    fn take(&mut self, part: &'static str, limit: usize) -> Result<Bytes, FrameError> {
        let length = wide(self.body.len());
        let Some((end, ends)) = self.ends.split_first() else {
            return Err(FrameError::LastOffset {
                found: wide(self.at),
                length,
            });
        };
        self.ends = ends;
        self.index += 1;
        let found = u64::from_le_bytes(*end);
        let end = usize::try_from(found)
            .ok()
            .filter(|end| (self.at..=self.body.len()).contains(end))
            .ok_or(FrameError::OffsetOrder {
                index: wide(self.index),
                found,
                previous: wide(self.at),
                length,
            })?;
        if ends.is_empty() && end != self.body.len() {
            return Err(FrameError::LastOffset { found, length });
        }
        check_part(part, end - self.at, limit)?;
        let bytes = self.body.slice(self.at..end);
        self.at = end;
        Ok(bytes)
    }

    /// All parts that are left, together within the limit.
    fn take_rest(&mut self, limit: usize) -> Result<Vec<Bytes>, FrameError> {
        let start = self.at;
        let mut rest = Vec::with_capacity(self.ends.len());
        while !self.ends.is_empty() {
            rest.push(self.take("buffers", limit)?);
            check_part("buffers", self.at - start, limit)?;
        }
        Ok(rest)
    }
}

fn check_length(length: usize, limits: &Limits) -> Result<(), FrameError> {
    if length > limits.frame {
        return Err(FrameError::TooLong {
            length: wide(length),
            limit: wide(limits.frame),
        });
    }
    if length < LEAST_BODY {
        return Err(FrameError::TooShort {
            length: wide(length),
        });
    }
    Ok(())
}

fn check_part(part: &'static str, length: usize, limit: usize) -> Result<(), FrameError> {
    if length > limit {
        return Err(FrameError::PartTooLong {
            part,
            length: wide(length),
            limit: wide(limit),
        });
    }
    Ok(())
}

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// Puts the frames of a stream together, however it is cut up.
///
/// Memory follows what has arrived, not what a frame announces. After the first fault the reader
/// gives that fault again and takes nothing more.
#[derive(Debug)]
pub struct FrameReader {
    limits: Limits,
    buffer: BytesMut,
    fault: Option<FrameError>,
}

impl FrameReader {
    /// A reader at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            buffer: BytesMut::new(),
            fault: None,
        }
    }

    /// Where a read may put bytes: append to it, never take from it. At least 64 KiB are free.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_CHUNK);
        &mut self.buffer
    }

    /// How many bytes of unfinished frames it holds.
    pub fn held(&self) -> usize {
        self.buffer.len()
    }

    /// Appends bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.fault.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next whole message; `None` until more bytes have come.
    ///
    /// # Errors
    ///
    /// If the stream is not a row of frames within the limits. It cannot be read any further.
    pub fn next_message(&mut self) -> Result<Option<RawMessage>, FrameError> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let message = self.take_frame().and_then(|body| match body {
            Some(body) => decode_body(&body, &self.limits).map(Some),
            None => Ok(None),
        });
        if let Err(fault) = &message {
            self.fault = Some(fault.clone());
            self.buffer = BytesMut::new();
        }
        message
    }

    /// Whether the stream would be cut inside a frame if it ended here. Ask when
    /// [`FrameReader::next_message`] has given `None`.
    pub fn is_mid_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn take_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        check_length(length, &self.limits)?;
        let Some(body) = self
            .buffer
            .get(LENGTH_BYTES..)
            .and_then(|rest| rest.get(..length))
        else {
            return Ok(None);
        };
        if length <= COPIED_FRAME {
            let body = Bytes::copy_from_slice(body);
            self.buffer.advance(LENGTH_BYTES + length);
            return Ok(Some(body));
        }
        self.buffer.advance(LENGTH_BYTES);
        let body = self.buffer.split_to(length).freeze();
        // Let the message alone own the memory that grew for it. Moving no more than was taken
        // keeps the whole stream linear.
        if self.buffer.len() <= length {
            self.buffer = BytesMut::from(self.buffer.as_ref());
        }
        Ok(Some(body))
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
