//! The signals that interrupt `exec`, and how long it waits for those who read what it prints.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, timeout};

use super::writer::Taken;
use crate::execution::{Interrupt, Outcome, Status};

/// A reader that takes nothing for so long does not read.
const STALLED: Duration = Duration::from_secs(1);
/// So long may take, after a signal, what was about to be written.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Signals within so long of one that was heeded are that one: `timeout -s INT` sends it to the process
/// and again to its group, and who hits keys hits them longer apart.
const ONE_INTERRUPT: Duration = Duration::from_millis(100);

/// The signals that interrupt a cell.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// One has come that has interrupted nothing: its cell had just ended.
    unheeded: bool,
    /// When the latest one was heeded.
    heeded: Option<Instant>,
}

impl Signals {
    /// Watches for them, from now on.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            unheeded: false,
            heeded: None,
        })
    }

    /// Waits for one, or for nothing if one was not heeded.
    async fn come(&mut self) {
        if std::mem::take(&mut self.unheeded) {
            return;
        }
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
                _ = self.hang_up.recv() => {}
            }
            let now = Instant::now();
            let is_the_same = |heeded| now.duration_since(heeded) < ONE_INTERRUPT;
            if !self.heeded.is_some_and(is_the_same) {
                self.heeded = Some(now);
                return;
            }
        }
    }

    /// Does the work, unless a signal comes.
    pub(super) async fn unless_one_comes<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.come() => None,
        }
    }

    /// Waits for the result of a cell; a signal meanwhile interrupts it, a second one by force. One
    /// that comes too late for
    /// that counts for what is done next.
    pub(super) async fn interrupting(
        &mut self,
        interrupt: &Interrupt,
        running: impl Future<Output = Outcome>,
    ) -> Outcome {
        let mut running = pin!(running);
        let mut came = false;
        loop {
            tokio::select! {
                outcome = &mut running => {
                    self.unheeded = came && outcome.status != Status::Interrupted;
                    return outcome;
                }
                () = self.come() => {
                    came = true;
                    interrupt.cancel();
                }
            }
        }
    }

    /// Waits until something is written: for ever, like any program in a pipe, but not beyond a
    /// signal; if it `gives_up`, not for a reader that does not read.
    pub(super) async fn while_read<T>(
        &mut self,
        taken: &Taken,
        gives_up: bool,
        writing: impl Future<Output = T>,
    ) -> Option<T> {
        let mut writing = pin!(writing);
        loop {
            let before = taken.bytes();
            let waited = timeout(STALLED, &mut writing);
            match self.unless_one_comes(waited).await {
                Some(Ok(done)) => return Some(done),
                // A reader that does not read would make the limit and the interrupt void.
                Some(Err(_elapsed)) if gives_up && taken.bytes() == before => return None,
                Some(Err(_elapsed)) => {}
                None => {
                    drop(timeout(LAST_WORDS, &mut writing).await);
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
