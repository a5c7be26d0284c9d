//! Frames of the tool socket: a length, then one JSON object.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::budget::{RequestBudget, Reservation};

/// The longest first frame, before it is known who is there.
const MAX_HELLO_BYTES: u32 = 4 << 10;
/// The longest request, in bytes.
pub(super) const MAX_REQUEST_BYTES: u32 = 64 << 20;
/// The longest reply, in bytes.
const MAX_REPLY_BYTES: usize = 16 << 20;
/// Read at a time when no long frame is on its way.
const READ_BYTES: usize = 8 << 10;
/// Read at a time in the middle of a long frame: memory grows as data arrives.
const LONG_READ_BYTES: usize = 256 << 10;
/// The longest request that needs no room: short ones never wait for long ones.
const SHORT_BYTES: u32 = 64 << 10;
/// A request may make others wait for so long without a byte of it coming.
const STALLED: Duration = Duration::from_secs(5);
/// Requests that come while a call is made are taken up to so many bytes.
const AHEAD_BYTES: usize = 64 << 10;

/// The first frame of a connection.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    pub(super) hello: u32,
    pub(super) token: String,
}

/// A call, read as far as is needed to know whose it is.
#[derive(Debug, Deserialize)]
pub(super) struct Request<'a> {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) cell: u64,
    pub(super) tool: String,
    /// Read when the tool is known: what is wrong with it is a matter of that call.
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cwd: Option<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// Reads a request; if it makes no sense, its number if it has one, and what is wrong.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, (Option<u64>, String)> {
        #[derive(Deserialize)]
        struct Numbered {
            id: u64,
        }

        serde_json::from_slice(bytes).map_err(|error| {
            let numbered: Result<Numbered, _> = serde_json::from_slice(bytes);
            (
                numbered.ok().map(|it| it.id),
                format!("the request makes no sense: {error}"),
            )
        })
    }

    /// Where the arguments stand in the bytes that were read.
    pub(super) fn arguments(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let text = self.args?.get();
        let start = text.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
        Some(start..start + text.len())
    }

    /// The caller's directory: text, or bytes where it is not UTF-8; `None` if it has none.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        let raw = self.cwd?.get();
        let path = match serde_json::from_str::<String>(raw) {
            Ok(text) => PathBuf::from(text),
            Err(_) => OsString::from_vec(serde_json::from_str::<Vec<u8>>(raw).ok()?).into(),
        };
        // Anything else would be relative to the manager.
        path.is_absolute().then_some(path)
    }
}

/// One frame.
#[derive(Debug)]
pub(super) enum Frame {
    /// Its bytes.
    Whole(BytesMut),
    /// It was longer than allowed and was skipped.
    TooLong(u32),
    /// The cell ended before there was room for it beside others, and it was skipped.
    NoRoom(u32),
    /// It stopped in the middle while others waited, and was skipped.
    Stalled(u32),
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub(super) struct FrameReader {
    buffer: BytesMut,
    longest: u32,
    /// Bytes of a frame that is not kept, and what is said of it when they have gone by.
    skipped: Option<(u32, Frame)>,
}

impl FrameReader {
    pub(super) fn new(longest: u32) -> Self {
        Self {
            buffer: BytesMut::new(),
            longest,
            skipped: None,
        }
    }

    /// Where the bytes of the stream go.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame, if it is whole.
    pub(super) fn next(&mut self) -> Option<Frame> {
        if self.skipped.is_none() {
            let length = self.announced()?;
            if length <= self.longest {
                let whole = usize::try_from(length).ok()?;
                if self.buffer.len() - 4 < whole {
                    return None;
                }
                self.buffer.advance(4);
                let frame = self.buffer.split_to(whole);
                if self.buffer.is_empty() {
                    // A connection that waits holds no memory.
                    self.buffer = BytesMut::new();
                }
                return Some(Frame::Whole(frame));
            }
            self.buffer.advance(4);
            self.skipped = Some((length, Frame::TooLong(length)));
        }
        let (left, _) = self.skipped.as_mut()?;
        let gone = self.buffer.len().min(usize::try_from(*left).ok()?);
        self.buffer.advance(gone);
        *left -= u32::try_from(gone).ok()?;
        if *left > 0 {
            self.buffer.clear();
            return None;
        }
        self.skipped.take().map(|(_, frame)| frame)
    }

    /// Gives up the frame that is being read, to be told of when it has gone by.
    fn give_up(&mut self, told: fn(u32) -> Frame) {
        if self.skipped.is_none()
            && let Some(length) = self.announced()
        {
            let come = u32::try_from(self.buffer.len() - 4).unwrap_or(u32::MAX);
            self.skipped = Some((length.saturating_sub(come), told(length)));
            self.buffer = BytesMut::new();
        }
    }

    /// The length of the frame that is being read, if it needs room: not before more of it has come
    /// than a short one has. What is only announced takes nothing.
    fn long(&self) -> Option<u32> {
        let length = self.announced().filter(|_| self.skipped.is_none())?;
        let has_come = self.buffer.len() > SHORT_BYTES as usize;
        (has_come && SHORT_BYTES < length && length <= self.longest).then_some(length)
    }

    /// How much to read at once.
    fn step(&self) -> usize {
        let whole = self.announced().map_or(0, |length| length as usize + 4);
        match self.skipped {
            Some((left, _)) => (left as usize).clamp(READ_BYTES, LONG_READ_BYTES),
            // Before it is known whether there is room, only as much as short ones have.
            None if self.buffer.len() <= SHORT_BYTES as usize => whole
                .saturating_sub(self.buffer.len())
                .clamp(READ_BYTES, SHORT_BYTES as usize),
            None => whole
                .saturating_sub(self.buffer.len())
                .clamp(READ_BYTES, LONG_READ_BYTES),
        }
    }

    fn announced(&self) -> Option<u32> {
        let head = self.buffer.get(..4)?;
        Some(u32::from_le_bytes(head.try_into().ok()?))
    }
}

/// One end of the socket: frames in and out.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    reader: FrameReader,
    budget: Arc<RequestBudget>,
    /// The room of the frame that is being read, if it is a long one.
    room: Option<Reservation>,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, budget: &Arc<RequestBudget>) -> Self {
        Self {
            stream,
            reader: FrameReader::new(MAX_HELLO_BYTES),
            budget: Arc::clone(budget),
            room: None,
        }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// The next frame, with the room it takes if it is a long one; `None` when the other end is gone.
    ///
    /// A long one is read when there is room for it; that is waited for until `cell`, the cell that
    /// runs, has ended.
    pub(super) async fn read(
        &mut self,
        cell: impl Fn() -> CancellationToken,
    ) -> io::Result<Option<(Frame, Option<Reservation>)>> {
        loop {
            if let Some(frame) = self.reader.next() {
                return Ok(Some((frame, self.room.take())));
            }
            let more = match (self.reader.long(), &self.room) {
                (Some(length), None) => {
                    let ended = cell();
                    tokio::select! {
                        biased;
                        room = self.budget.reserve(length) => self.room = Some(room),
                        () = ended.cancelled() => self.reader.give_up(Frame::NoRoom),
                    }
                    continue;
                }
                (_, Some(_)) => match timeout(STALLED, self.take()).await {
                    Ok(more) => more?,
                    Err(_elapsed) => {
                        if self.budget.is_wanted() {
                            self.reader.give_up(Frame::Stalled);
                            self.room = None;
                        }
                        continue;
                    }
                },
                (None, None) => self.take().await?,
            };
            if !more {
                return Ok(None);
            }
        }
    }

    /// From now on frames may be as long as requests are.
    pub(super) fn trust(&mut self) {
        self.reader.longest = MAX_REQUEST_BYTES;
    }

    /// Waits until the other end is gone. What it sends meanwhile is kept for [`Connection::read`].
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub(super) async fn closed(&mut self) {
        while self.reader.buffer.len() < AHEAD_BYTES {
            match self.take().await {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
        }
        // It is busy sending: whether it is still there shows when its next request is read.
        std::future::pending::<()>().await;
    }

    /// Waits for bytes and takes them; false at the end of the stream.
    async fn take(&mut self) -> io::Result<bool> {
        loop {
            self.stream.readable().await?;
            let step = self.reader.step();
            let buffer = self.reader.buffer();
            buffer.reserve(step);
            match self.stream.try_read_buf(buffer) {
                Ok(count) => return Ok(count > 0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if buffer.is_empty() {
                        *buffer = BytesMut::new();
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a frame that [`encode`] has made.
    pub(super) async fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.stream.write_all(frame).await
    }
}

/// A reply as a frame; `None` if the result is too long for one.
pub(super) fn encode(id: Option<u64>, result: &Map<String, Value>) -> Option<Vec<u8>> {
    #[derive(serde::Serialize)]
    struct Reply<'a> {
        id: Option<u64>,
        result: &'a Map<String, Value>,
    }

    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, &Reply { id, result }).ok()?;
    let length = frame.len() - 4;
    if length > MAX_REPLY_BYTES {
        return None;
    }
    let length = u32::try_from(length).ok()?.to_le_bytes();
    frame.get_mut(..4)?.copy_from_slice(&length);
    Some(frame)
}

/// Instead of a result that is too long: the same keys, unknown, and what to do.
pub(super) fn too_long(result: &Map<String, Value>) -> Map<String, Value> {
    let mut short: Map<String, Value> = result
        .keys()
        .map(|key| (key.clone(), Value::Null))
        .collect();
    let limit = MAX_REPLY_BYTES >> 20;
    let sentence = format!("the result is longer than {limit} MiB; ask for less (offset, limit)");
    short.insert("error".to_owned(), sentence.into());
    short.insert("error_class".to_owned(), "limit".into());
    short
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
