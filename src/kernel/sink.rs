//! Where the output of a cell goes, and how a slow reader slows it down.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::jupyter::RawMessage;

/// So much more than usual may wait for a reader where a cell is to come to its end.
const OVERFULL: usize = 32;

/// Takes what a cell prints and shows, as it comes. Called from the kernel's task: must not block.
pub trait CellSink: Send + Debug {
    /// Bytes of stdout.
    fn stdout(&mut self, chunk: &[u8]);

    /// Bytes of stderr.
    fn stderr(&mut self, chunk: &[u8]);

    /// A message of the iopub channel, with its type.
    fn message(&mut self, msg_type: &str, message: RawMessage);

    /// Who must have taken what before more is read; `None` if nobody reads along.
    fn pressure(&self) -> Option<Arc<Pressure>> {
        None
    }
}

/// Takes what a kernel prints while no cell runs, as it comes: threads and children of cells that have ended
/// do. Called from the kernel's task: must not block.
pub trait LateSink: Send + Sync + Debug {
    /// Bytes of stdout, or of stderr.
    fn printed(&self, is_stderr: bool, chunk: &[u8]);
}

/// A sink in the hands of both the kernel's task and whoever runs the cell.
pub type SharedSink = Arc<Mutex<dyn CellSink>>;

/// Bytes that were handed to a reader and not yet taken. While it is full the pipes are not read,
/// and the kernel waits as any program in a pipe does.
#[derive(Debug)]
pub struct Pressure {
    waiting: AtomicUsize,
    limit: usize,
    taken: Notify,
}

impl Pressure {
    /// Full at so many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            limit,
            taken: Notify::new(),
        }
    }

    /// So many bytes were handed over.
    pub fn add(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::AcqRel);
    }

    /// The reader has taken so many.
    pub fn take(&self, bytes: usize) {
        let before = self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        if before >= self.limit && before - bytes < self.limit {
            self.taken.notify_one();
        }
    }

    /// Whether to wait before more is read.
    pub fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= self.limit
    }

    /// Whether to wait also when waiting is to be avoided: at 32 times the limit.
    pub fn is_overfull(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= self.limit.saturating_mul(OVERFULL)
    }

    /// Waits until it is no longer full; one waits at a time.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn relieved(&self) {
        while self.is_full() {
            self.taken.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_reader_is_waited_for() {
        let pressure = Arc::new(Pressure::new(10));
        pressure.add(9);
        assert!(!pressure.is_full());
        pressure.add(9);
        assert!(pressure.is_full());
        let waiter = tokio::spawn({
            let pressure = Arc::clone(&pressure);
            async move { pressure.relieved().await }
        });
        pressure.take(9);
        waiter.await.unwrap();
        assert!(!pressure.is_full());
    }
}
