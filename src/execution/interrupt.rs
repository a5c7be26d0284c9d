//! How a cell is interrupted from elsewhere.

use tokio_util::sync::CancellationToken;

/// Interrupts one cell, running or waiting, and no other. Clones interrupt the same cell.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    asked: CancellationToken,
    forced: CancellationToken,
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
    }
}
