//! Who is there: while a client is connected, a session's kernel is not ended for want of work.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

/// The clients of a session.
#[derive(Debug, Clone)]
pub(super) struct Presence(Arc<watch::Sender<Present>>);

/// How many there are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Present {
    pub(super) clients: usize,
    /// When the last one went.
    pub(super) left_at: Option<Instant>,
}

/// A client that is connected to a session, until this is dropped.
#[derive(Debug)]
pub struct Attendance(Presence);

impl Presence {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Present::default())))
    }

    pub(super) fn enter(&self) -> Attendance {
        self.0.send_modify(|present| present.clients += 1);
        Attendance(self.clone())
    }

    pub(super) fn watch(&self) -> watch::Receiver<Present> {
        self.0.subscribe()
    }

    pub(super) fn is_anybody_there(&self) -> bool {
        self.0.borrow().clients > 0
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let Presence(sender) = &self.0;
        sender.send_modify(|present| {
            present.clients -= 1;
            if present.clients == 0 {
                present.left_at = Some(Instant::now());
            }
        });
    }
}
