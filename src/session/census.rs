//! How many sessions of a manager have a kernel.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts them, and tells those who watch.
#[derive(Debug, Clone)]
pub(super) struct Census(Arc<watch::Sender<usize>>);

/// One that is counted, until this is dropped.
#[derive(Debug)]
pub(super) struct Counted(Census);

impl Census {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// There is one more.
    pub(super) fn enter(&self) -> Counted {
        self.0.send_modify(|count| *count += 1);
        Counted(self.clone())
    }

    pub(super) fn count(&self) -> usize {
        *self.0.borrow()
    }

    pub(super) fn watch(&self) -> watch::Receiver<usize> {
        self.0.subscribe()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
