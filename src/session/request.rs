//! A cell that is asked for, and the way to its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::config::Limits;
use crate::execution::{ErrorClass, LiveOutput, Outcome};
use crate::tools::Grant;

/// The most bytes of code in a cell.
const MAX_CODE_BYTES: usize = 8 << 20;

/// What to do with a cell that is interrupted or out of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Kill its kernel and start a fresh one at once.
    #[default]
    Restart,
    /// Raise `KeyboardInterrupt` first, and kill only if that does not help.
    Interrupt,
}

/// A cell, and the terms on which it is to run.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// The Python source; not empty, at most 8 MiB, no NUL.
    pub code: String,
    /// Discard the kernel's state first.
    pub reset: bool,
    /// The time limit; the session's default if none.
    pub timeout: Option<Duration>,
    /// The number of tool calls; the session's default if none.
    pub max_tool_calls: Option<u32>,
    /// Which tools it may call.
    pub grant: Grant,
    /// What happens when its time is up.
    pub on_timeout: Policy,
    /// What happens when it is interrupted.
    pub on_interrupt: Policy,
}

impl Cell {
    /// A cell on the default terms.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            ..Self::default()
        }
    }

    /// With a time limit of its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// With the kernel's state discarded first.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.reset = true;
        self
    }

    /// With these tools only.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self
    }

    /// With a number of tool calls of its own.
    #[must_use]
    pub fn max_tool_calls(mut self, calls: u32) -> Self {
        self.max_tool_calls = Some(calls);
        self
    }

    /// What is wrong with it, in a sentence that says what to do.
    pub(super) fn fault(&self) -> Option<String> {
        if self.code.trim().is_empty() {
            return Some("the code is empty; give Python source".to_owned());
        }
        if self.code.len() > MAX_CODE_BYTES {
            let bytes = self.code.len();
            return Some(format!(
                "the code has {bytes} bytes, the limit is 8 MiB; put data into a file and read it"
            ));
        }
        if let Some(at) = self.code.find('\0') {
            return Some(format!(
                "the code holds a NUL character at byte {at}; remove it"
            ));
        }
        if let Some(Err(error)) = self.timeout.map(Limits::check_timeout) {
            return Some(error.to_string());
        }
        if self.on_timeout == Policy::Interrupt || self.on_interrupt == Policy::Interrupt {
            return Some(
                "policy 'interrupt' is not available yet; leave it out or say 'restart'".to_owned(),
            );
        }
        None
    }
}

/// What a caller gets back, and how it says that it got it.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) outcome: Outcome,
    /// Set when the caller has it: then a loss that it tells need not be told again.
    pub(super) received: Arc<AtomicBool>,
}

/// A cell on its way. If it is dropped while the cell waits, the cell does not run; a cell that
/// runs goes on under its own limits.
#[derive(Debug)]
pub struct Execution {
    pub(super) result: oneshot::Receiver<Delivery>,
    pub(super) interrupt: CancellationToken,
    pub(super) live: Option<LiveOutput>,
    pub(super) generation: u64,
}

impl Execution {
    /// Interrupts this cell, running or waiting, and no other.
    pub fn interrupt(&self) {
        self.interrupt.cancel();
    }

    /// Something with which to interrupt the cell from elsewhere.
    pub fn interrupt_token(&self) -> CancellationToken {
        self.interrupt.clone()
    }

    /// Takes what the cell prints as it comes, if it was asked for. Whoever takes it must read it:
    /// the cell waits for its reader.
    pub fn take_live(&mut self) -> Option<LiveOutput> {
        self.live.take()
    }

    /// Waits for the result. A loss that it tells counts as told.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn outcome(&mut self) -> Outcome {
        // Nobody reads along any more.
        self.live = None;
        match (&mut self.result).await {
            Ok(delivery) => {
                delivery.received.store(true, Ordering::Release);
                delivery.outcome
            }
            Err(_) => Outcome::not_run(
                ErrorClass::Unavailable,
                "the session was closed; open it again",
                self.generation,
            ),
        }
    }
}
