//! How a cell is interrupted from elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Interrupts one cell, running or waiting, and no other. Clones interrupt the same cell.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    asked: CancellationToken,
    forced: CancellationToken,
    in_place: Arc<AtomicBool>,
}

impl Interrupt {
    /// For a cell that nobody has interrupted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Interrupts the cell as its policy says. While it is on its way to its end after that, another
    /// one kills its kernel at once.
    pub fn cancel(&self) {
        if self.asked.is_cancelled() {
            self.forced.cancel();
        } else {
            self.asked.cancel();
        }
    }

    /// As [`Interrupt::cancel`], and its kernel is left alive, whatever the cell's policy says, if the
    /// cell ends within the time that it has for that.
    pub fn cancel_in_place(&self) {
        if !self.asked.is_cancelled() {
            self.in_place.store(true, Ordering::Release);
        }
        self.cancel();
    }

    /// Interrupts the cell by killing its kernel, whatever its policy says.
    pub fn force(&self) {
        // In this order: whoever is woken by the other one looks at this one.
        self.forced.cancel();
        self.asked.cancel();
    }

    /// Whether it was interrupted, by force or not.
    pub fn is_cancelled(&self) -> bool {
        self.asked.is_cancelled()
    }

    /// Whether it is to be interrupted in place, whatever its policy says.
    pub fn is_in_place(&self) -> bool {
        self.in_place.load(Ordering::Acquire)
    }

    /// Whether its kernel is to be killed.
    pub fn is_forced(&self) -> bool {
        self.forced.is_cancelled()
    }

    /// Waits until it is interrupted.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn cancelled(&self) {
        self.asked.cancelled().await;
    }

    /// Waits until its kernel is to be killed.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn forced(&self) {
        self.forced.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_time_it_is_by_force() {
        let interrupt = Interrupt::new();
        let other = interrupt.clone();
        assert!(!interrupt.is_cancelled() && !interrupt.is_forced());
        interrupt.cancel();
        assert!(other.is_cancelled() && !other.is_forced());
        other.cancel();
        assert!(interrupt.is_forced());
        let interrupt = Interrupt::new();
        interrupt.force();
        assert!(interrupt.is_cancelled() && interrupt.is_forced());
        let interrupt = Interrupt::new();
        interrupt.cancel_in_place();
        assert!(interrupt.is_in_place() && !interrupt.is_forced());
        interrupt.cancel_in_place();
        assert!(interrupt.is_forced());
        let interrupt = Interrupt::new();
        interrupt.cancel();
        interrupt.cancel_in_place();
        assert!(interrupt.is_forced() && !interrupt.is_in_place());
    }
}
