//! What a cell prints, handed on as it comes to somebody who must get all of it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::kernel::Pressure;

/// Bytes that may wait for the reader before the kernel is made to wait.
const WAITING_BYTES: usize = 256 * 1024;

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveEvent {
    /// Bytes of stdout.
    Stdout(Bytes),
    /// Bytes of stderr.
    Stderr(Bytes),
    /// The repr of the last expression.
    Result(String),
}

impl LiveEvent {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Stdout(bytes) | Self::Stderr(bytes) => bytes.len(),
            Self::Result(text) => text.len(),
        }
    }
}

/// The writing end, held by the sink of the cell.
#[derive(Debug, Clone)]
pub struct LiveSender {
    // Bounded by the pressure: the pipes are not read while too many bytes wait.
    events: mpsc::UnboundedSender<LiveEvent>,
    pressure: Arc<Pressure>,
}

/// The reading end. Whoever holds it and does not read slows the cell down, as in a pipe.
#[derive(Debug)]
pub struct LiveOutput {
    events: mpsc::UnboundedReceiver<LiveEvent>,
    pressure: Arc<Pressure>,
}

/// A pair of ends.
pub fn live_output() -> (LiveSender, LiveOutput) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let pressure = Arc::new(Pressure::new(WAITING_BYTES));
    (
        LiveSender {
            events: sender,
            pressure: Arc::clone(&pressure),
        },
        LiveOutput {
            events: receiver,
            pressure,
        },
    )
}

impl LiveSender {
    pub(super) fn send(&self, event: LiveEvent) {
        let bytes = event.len();
        // A reader that is gone slows nobody down.
        if self.events.send(event).is_ok() {
            self.pressure.add(bytes);
        }
    }

    pub(super) fn pressure(&self) -> Arc<Pressure> {
        Arc::clone(&self.pressure)
    }
}

impl LiveOutput {
    /// A piece that is there already.
    pub fn next_now(&mut self) -> Option<LiveEvent> {
        let event = self.events.try_recv().ok()?;
        self.pressure.take(event.len());
        Some(event)
    }

    /// The next piece; `None` when the cell has ended and everything was read.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        let event = self.events.recv().await?;
        self.pressure.take(event.len());
        Some(event)
    }
}

impl Drop for LiveOutput {
    fn drop(&mut self) {
        self.events.close();
        while let Ok(event) = self.events.try_recv() {
            self.pressure.take(event.len());
        }
    }
}
