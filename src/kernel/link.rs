//! The manager's end of a kernel's link: frames in and out, without blocking.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::jupyter::{FrameReader, Limits, RawMessage};
use crate::process::StreamEnd;

/// Bytes read at a time; nearly all messages are shorter.
const READ_BYTES: usize = 16 * 1024;
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
    stream: StreamEnd,
    reader: FrameReader,
    outgoing: Vec<u8>,
    sent: usize,
    buffer: Box<[u8]>,
    budget: Arc<FrameBudget>,
    charged: usize,
    /// Something may be whole that nobody has taken.
    left: bool,
}

impl Link {
    pub(super) fn new(stream: UnixStream, budget: Arc<FrameBudget>) -> io::Result<Self> {
        Ok(Self {
            stream: StreamEnd::new(stream)?,
            reader: FrameReader::new(Limits::from_kernel()),
            outgoing: Vec::new(),
            sent: 0,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            budget,
            charged: 0,
            left: false,
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
        self.stream.caught_up();
    }

    /// Waits until there is something to read, and sends what is waiting meanwhile.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub(super) async fn ready(&mut self) {
        while !self.left {
            tokio::select! {
                biased;
                () = self.stream.readable() => return,
                () = self.stream.writable() => {}
            }
            self.write();
        }
    }

    /// What has come is read another time.
    pub(super) fn leave(&mut self) {
        self.left = true;
    }

    /// Bytes that the kernel has not taken yet.
    pub(super) fn backlog(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// The next message, if one is whole.
    pub(super) fn receive(&mut self) -> Incoming {
        self.left = false;
        loop {
            match self.reader.next_message() {
                Ok(Some(message)) => {
                    self.charge();
                    return Incoming::Message(message);
                }
                Ok(None) => {}
                Err(error) => return Incoming::Fault(error.to_string()),
            }
            match self.stream.try_read(&mut self.buffer) {
                Ok(0) if self.reader.is_mid_frame() => {
                    return Incoming::Fault("it ended in the middle of a frame".to_owned());
                }
                Ok(0) => return Incoming::Closed,
                Ok(count) => self
                    .reader
                    .feed(self.buffer.get(..count).unwrap_or_default()),
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
        let held = self.reader.held();
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
