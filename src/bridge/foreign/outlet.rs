//! What goes out to the manager: one row for stdout, stderr and the link, so that all of it comes in
//! the order in which the kernel has said it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

/// Bytes that may wait for a manager that does not read. A kernel that is not ours does not wait for
/// its readers: beyond that what it says is left out, and told.
const MOST_BYTES: usize = 64 << 20;
/// A message over this length has room of its own: it is not to cost those behind it theirs.
const LONG: usize = 16 << 20;
/// Bytes of long messages that may wait.
const MOST_LONG_BYTES: usize = 192 << 20;

/// Something that goes out.
enum Item {
    Printed(usize, Bytes),
    Frame(Vec<u8>),
    /// Everything before has gone out.
    Done(oneshot::Sender<()>),
}

/// Bytes that wait.
#[derive(Debug, Default)]
struct Waiting {
    short: AtomicUsize,
    long: AtomicUsize,
}

impl Waiting {
    /// Those of messages of this length, and how many there may be.
    fn like(&self, bytes: usize) -> (&AtomicUsize, usize) {
        if bytes > LONG {
            (&self.long, MOST_LONG_BYTES)
        } else {
            (&self.short, MOST_BYTES)
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        let (waiting, most) = self.like(bytes);
        waiting.load(Ordering::Relaxed) + bytes <= most
    }

    fn add(&self, bytes: usize) {
        self.like(bytes).0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) {
        self.like(bytes).0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The row.
#[derive(Debug)]
pub(super) struct Outlet {
    row: mpsc::UnboundedSender<Item>,
    waiting: Arc<Waiting>,
    /// Bytes that were left out since it was told.
    omitted: u64,
}

impl Outlet {
    /// Over the link, and what descriptors 1 and 2 are. Written by a task of its own.
    pub(super) fn new(link: StdUnixStream) -> io::Result<Self> {
        let link = UnixStream::from_std(link)?;
        let pipes = [pipe_of("/proc/self/fd/1")?, pipe_of("/proc/self/fd/2")?];
        let (row, items) = mpsc::unbounded_channel();
        let waiting = Arc::<Waiting>::default();
        tokio::spawn(write(link, pipes, items, Arc::clone(&waiting)));
        Ok(Self {
            row,
            waiting,
            omitted: 0,
        })
    }

    /// Something was printed: to stdout (0) or stderr (1).
    pub(super) fn print(&mut self, which: usize, text: String) {
        if self.waiting.has_room(text.len()) {
            self.put(text.len(), Item::Printed(which, text.into()));
        } else {
            self.omitted += u64::try_from(text.len()).unwrap_or(u64::MAX);
        }
    }

    /// Something is shown; it is left out where too much waits.
    pub(super) fn show(&mut self, frame: Vec<u8>) {
        if self.waiting.has_room(frame.len()) {
            self.put(frame.len(), Item::Frame(frame));
        } else {
            self.omitted += u64::try_from(frame.len()).unwrap_or(u64::MAX);
        }
    }

    /// A reply, which is never left out.
    pub(super) fn reply(&self, frame: Vec<u8>) {
        self.put(frame.len(), Item::Frame(frame));
    }

    /// How many bytes were left out since this was asked.
    pub(super) fn take_omitted(&mut self) -> u64 {
        std::mem::take(&mut self.omitted)
    }

    /// Waits until everything has gone out, or the manager is gone: it has the say for how long its
    /// readers are waited for.
    pub(super) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.row.send(Item::Done(done)).is_ok() {
            drop(is_done.await);
        }
    }

    fn put(&self, bytes: usize, item: Item) {
        self.waiting.add(bytes);
        // If the writer is gone so is the manager, and the loop sees that.
        self.row.send(item).ok();
    }
}

/// Opened anew: the kernel has the other one, and is not to find that it does not block.
fn pipe_of(path: &str) -> io::Result<pipe::Sender> {
    let file = OpenOptions::new().write(true).open(path)?;
    pipe::Sender::from_file(file)
}

async fn write(
    mut link: UnixStream,
    mut pipes: [pipe::Sender; 2],
    mut items: mpsc::UnboundedReceiver<Item>,
    waiting: Arc<Waiting>,
) {
    while let Some(item) = items.recv().await {
        let bytes = match item {
            Item::Printed(which, text) => {
                if let Some(pipe) = pipes.get_mut(which) {
                    // Nobody reads it any more: then nothing of it is missed.
                    pipe.write_all(&text).await.ok();
                }
                text.len()
            }
            Item::Frame(frame) => {
                link.write_all(&frame).await.ok();
                frame.len()
            }
            Item::Done(done) => {
                done.send(()).ok();
                0
            }
        };
        waiting.take(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_does_not_cost_those_behind_it_their_room() {
        let waiting = Waiting::default();
        assert!(waiting.has_room(MOST_LONG_BYTES) && !waiting.has_room(MOST_LONG_BYTES + 1));
        waiting.add(100 << 20);
        assert!(!waiting.has_room(100 << 20));
        for _ in 0..64 {
            assert!(waiting.has_room(1 << 20));
            waiting.add(1 << 20);
        }
        assert!(!waiting.has_room(1));
        waiting.take(1 << 20);
        assert!(waiting.has_room(1 << 20));
        waiting.take(100 << 20);
        assert!(waiting.has_room(100 << 20));
    }
}
