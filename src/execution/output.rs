//! Collects what one cell prints and shows.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::live::{LiveEvent, LiveSender};
use super::transcript::Transcript;
use crate::jupyter::{Published, PublishedKind, RawMessage};
use crate::kernel::{CellSink, Pressure, SharedSink};
use crate::output::{Window, Windowed};

/// How much of the output a result shows, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Of stdout.
    pub stdout: usize,
    /// Of stderr.
    pub stderr: usize,
}

/// Watches the output as it comes; for event streams.
pub trait Watcher: Send {
    /// Whether what comes now is of any interest.
    fn is_watching(&self) -> bool;

    /// Is shown what has come.
    fn see(&mut self, event: &LiveEvent);
}

/// The sink of one cell.
pub(super) struct CellOutput {
    stdout: Transcript,
    stderr: Window,
    result: Option<String>,
    unreadable: u64,
    live: Option<LiveSender>,
    watcher: Option<Box<dyn Watcher>>,
}

/// What was collected.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) stdout: Windowed,
    pub(super) stderr: Windowed,
    pub(super) result: Option<String>,
    /// Messages that could not be read.
    pub(super) unreadable: u64,
}

impl std::fmt::Debug for CellOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellOutput")
            .field("stdout_bytes", &self.stdout.total())
            .finish_non_exhaustive()
    }
}

impl CellOutput {
    pub(super) fn new(
        caps: Caps,
        live: Option<LiveSender>,
        watcher: Option<Box<dyn Watcher>>,
    ) -> Self {
        Self {
            stdout: Transcript::new(caps.stdout),
            stderr: Window::new(caps.stderr),
            result: None,
            unreadable: 0,
            live,
            watcher,
        }
    }

    /// What was collected so far.
    pub(super) fn so_far(&self) -> Collected {
        Collected {
            stdout: self.stdout.clone().finish(),
            stderr: self.stderr.clone().finish(),
            result: self.result.clone(),
            unreadable: self.unreadable,
        }
    }

    /// Takes out what was collected; the live stream ends.
    pub(super) fn take(&mut self) -> Collected {
        self.live = None;
        self.watcher = None;
        Collected {
            stdout: std::mem::replace(&mut self.stdout, Transcript::new(0)).finish(),
            stderr: std::mem::replace(&mut self.stderr, Window::new(0)).finish(),
            result: self.result.take(),
            unreadable: self.unreadable,
        }
    }

    /// The cell shows something.
    pub(super) fn publish(&mut self, shown: Published) {
        let text = shown.text();
        if shown.kind == PublishedKind::Result {
            self.result.clone_from(&text);
            if shown.data.mimes().eq(["text/plain"]) {
                return self.hand_on(|| LiveEvent::Result(text.unwrap_or_default()));
            }
        } else if let Some(text) = text {
            self.stdout.show(&text);
        }
        self.hand_on(|| LiveEvent::Published(Arc::new(shown)));
    }

    fn hand_on(&mut self, event: impl FnOnce() -> LiveEvent) {
        let mut watcher = self.watcher.as_mut().filter(|it| it.is_watching());
        if self.live.is_none() && watcher.is_none() {
            return;
        }
        let event = event();
        if let Some(watcher) = &mut watcher {
            watcher.see(&event);
        }
        if let Some(live) = &self.live {
            live.send(event);
        }
    }
}

/// A sink for what a kernel prints while it is ended in good order.
pub fn shutdown_sink(live: LiveSender) -> SharedSink {
    let caps = Caps {
        stdout: 0,
        stderr: 0,
    };
    Arc::new(Mutex::new(CellOutput::new(caps, Some(live), None)))
}

impl CellSink for CellOutput {
    fn stdout(&mut self, chunk: &[u8]) {
        self.stdout.print(chunk);
        self.hand_on(|| LiveEvent::Stdout(Bytes::copy_from_slice(chunk)));
    }

    fn stderr(&mut self, chunk: &[u8]) {
        self.stderr.push(chunk);
        self.hand_on(|| LiveEvent::Stderr(Bytes::copy_from_slice(chunk)));
    }

    fn message(&mut self, msg_type: &str, message: RawMessage) {
        let Some(kind) = PublishedKind::parse(msg_type) else {
            // How a cell failed stands in its reply.
            return;
        };
        match Published::read(kind, message) {
            Ok(shown) => self.publish(shown),
            Err(error) => {
                self.unreadable += 1;
                tracing::warn!(%error, "what a cell shows could not be read");
            }
        }
    }

    fn pressure(&self) -> Option<Arc<Pressure>> {
        self.live.as_ref().map(LiveSender::pressure)
    }
}
