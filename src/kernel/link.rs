//! The manager's end of a kernel's link: frames in and out, without blocking.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::jupyter::{FrameReader, Limits, RawMessage};

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;
/// Frames up to this size are not counted against the budget.
const FREE_BYTES: usize = 1024 * 1024;

/// How many bytes of unfinished frames all kernels of a manager may hold together.
#[derive(Debug)]
pub struct FrameBudget {
    used: AtomicUsize,
    limit: usize,
}

impl FrameBudget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            limit,
        })
    }

    fn change(&self, from: usize, to: usize) -> bool {
        let (from, to) = (
            from.saturating_sub(FREE_BYTES),
            to.saturating_sub(FREE_BYTES),
        );
        if to > from {
            let before = self.used.fetch_add(to - from, Ordering::AcqRel);
            before + (to - from) <= self.limit
        } else {
            self.used.fetch_sub(from - to, Ordering::AcqRel);
            true
        }
    }
}

/// What a look at the link brought.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A whole message.
    Message(RawMessage),
    /// Nothing more for now.
    Nothing,
    /// The kernel has closed it.
    Closed,
    /// What came makes no sense.
    Fault(String),
}

/// The link.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    reader: FrameReader,
    outgoing: Vec<u8>,
    sent: usize,
    budget: Arc<FrameBudget>,
    charged: usize,
}

impl Link {
    pub(super) fn new(stream: StdUnixStream, budget: Arc<FrameBudget>) -> io::Result<Self> {
        Ok(Self {
            stream: UnixStream::from_std(stream)?,
            reader: FrameReader::new(Limits::from_kernel()),
            outgoing: Vec::new(),
            sent: 0,
            budget,
            charged: 0,
        })
    }

    /// Begins to send a frame; what does not fit now is sent by [`Link::ready`].
    pub(super) fn send(&mut self, frame: Vec<u8>) {
        if self.outgoing.is_empty() {
            self.outgoing = frame;
            self.sent = 0;
        } else {
            self.outgoing.extend_from_slice(&frame);
        }
        self.write();
    }

    fn write(&mut self) {
        while let Some(rest) = self
            .outgoing
            .get(self.sent..)
            .filter(|rest| !rest.is_empty())
        {
            match self.stream.try_write(rest) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The other end is gone; reading tells.
                Err(_) => break,
            }
        }
        self.outgoing = Vec::new();
        self.sent = 0;
    }

    /// Waits until there is something to read, and sends what is waiting meanwhile.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub(super) async fn ready(&mut self) {
        loop {
            let interest = if self.outgoing.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            let Ok(ready) = self.stream.ready(interest).await else {
                return;
            };
            if ready.is_writable() && !self.outgoing.is_empty() {
                self.write();
            }
            if ready.is_readable() || ready.is_read_closed() {
                return;
            }
        }
    }

    /// The next message, if one is whole.
    pub(super) fn receive(&mut self) -> Incoming {
        loop {
            match self.reader.next_message() {
                Ok(Some(message)) => {
                    self.charge();
                    return Incoming::Message(message);
                }
                Ok(None) => {}
                Err(error) => return Incoming::Fault(error.to_string()),
            }
            let buffer = self.reader.buffer();
            buffer.reserve(READ_BYTES);
            match self.stream.try_read_buf(buffer) {
                Ok(0) if self.reader.is_mid_frame() => {
                    return Incoming::Fault("it ended in the middle of a frame".to_owned());
                }
                Ok(0) => return Incoming::Closed,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Incoming::Nothing;
                }
                Err(_) => return Incoming::Closed,
            }
            if !self.charge() {
                let limit = self.budget.limit >> 20;
                return Incoming::Fault(format!(
                    "unfinished frames of all kernels take more than {limit} MiB"
                ));
            }
        }
    }

    fn charge(&mut self) -> bool {
        let held = self.reader.buffer().len();
        let allowed = self.budget.change(self.charged, held);
        self.charged = held;
        allowed
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.budget.change(self.charged, 0);
    }
}
