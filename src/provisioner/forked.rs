//! A process that a forkserver has forked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::timeout;

use super::forkserver::{ChildWatch, Forkserver};
use super::{KernelExit, KernelProcess};
use crate::process::{Foreground, Pidfd, Signal};

/// How long the report of an ended process is waited for.
const REPORT_DEADLINE: Duration = Duration::from_secs(1);
/// How long its descendants may take to be gone: memory is freed at about 30 ms a GB.
const CLEAR_DEADLINE: Duration = Duration::from_secs(10);

/// The process, named by descriptor. Dropping it ends it and what it leaves behind.
#[derive(Debug)]
pub(super) struct Forked {
    server: Arc<Forkserver>,
    pid: u32,
    /// The order that made it.
    order: u64,
    pidfd: Pidfd,
    watch: ChildWatch,
    released: AtomicBool,
}

impl Forked {
    pub(super) fn new(
        server: Arc<Forkserver>,
        pid: u32,
        order: u64,
        pidfd: Pidfd,
        watch: ChildWatch,
    ) -> Self {
        Self {
            server,
            pid,
            order,
            pidfd,
            watch,
            released: AtomicBool::new(false),
        }
    }

    /// From now on dropping it leaves the process alone; it ends with its kernel.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }

    pub(super) fn server(&self) -> &Arc<Forkserver> {
        &self.server
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if self.released.load(Ordering::Relaxed) {
            self.server.forget(self.pid, self.order);
        } else if self.watch.cleared.borrow().is_none() {
            self.kill();
        }
    }
}

#[async_trait]
impl KernelProcess for Forked {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn interrupt(&self, foreground: &mut Foreground) {
        // First, so that its wait for a child is interrupted before that ends.
        if self.pidfd.signal(Signal::Interrupt) {
            foreground.interrupt(self.pid);
        }
    }

    fn kill(&self) {
        self.pidfd.signal(Signal::Kill);
        self.server.kill(self.pid);
    }

    async fn ended(&self) {
        self.pidfd.ended().await;
    }

    async fn exit(&self) -> KernelExit {
        known(self.watch.exit.clone(), REPORT_DEADLINE)
            .await
            .unwrap_or(KernelExit::Unknown)
    }

    async fn cleared(&self) -> usize {
        known(self.watch.cleared.clone(), CLEAR_DEADLINE)
            .await
            .unwrap_or(1)
    }
}

/// Waits for a report.
async fn known<T: Clone>(mut watch: watch::Receiver<Option<T>>, deadline: Duration) -> Option<T> {
    let found = timeout(deadline, watch.wait_for(Option::is_some))
        .await
        .ok()?
        .ok()?;
    found.clone()
}
