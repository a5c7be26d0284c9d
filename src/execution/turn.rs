//! When the turn of a cell comes, for those who have handed it over.

use std::ops::RangeInclusive;

use tokio::sync::watch;

use super::KernelReport;

/// The numbers of a cell, once it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// In its session. Two, one after the other, if its kernel was found dead and it was given to the
    /// next one.
    cells: Option<RangeInclusive<u64>>,
    /// The kernel in which it began.
    kernel: Option<KernelReport>,
}

impl Turn {
    pub(super) fn number(&mut self, cell: u64) {
        let first = self.cells.as_ref().map_or(cell, |cells| *cells.start());
        self.cells = Some(first..=cell);
    }

    pub(super) fn begins(&mut self, kernel: KernelReport) {
        self.kernel = Some(kernel);
    }

    pub(super) fn kernel(&self) -> Option<&KernelReport> {
        self.kernel.as_ref()
    }
}

/// Waits for the turn of one cell.
#[derive(Debug, Clone)]
pub struct TurnWatch(Option<watch::Receiver<Turn>>);

impl TurnWatch {
    /// Of a cell, or of one that was refused and has no turn.
    pub fn new(turn: Option<watch::Receiver<Turn>>) -> Self {
        Self(turn)
    }

    /// Whether the events of its session call it by this number. True before the event that says so
    /// can be seen.
    pub fn is(&self, cell: u64) -> bool {
        let turn = self.0.as_ref().map(watch::Receiver::borrow);
        turn.and_then(|turn| Some(turn.cells.as_ref()?.contains(&cell)))
            .unwrap_or(false)
    }

    /// Waits until it runs: its number in its kernel, as in `<cell N>`. For ever, if it does not run.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn begun(&mut self) -> u64 {
        let Some(turn) = &mut self.0 else {
            return std::future::pending().await;
        };
        let begun = turn.wait_for(|turn| turn.kernel.is_some()).await;
        match begun
            .ok()
            .and_then(|turn| Some(turn.kernel()?.execution_count))
        {
            Some(count) => count,
            None => std::future::pending().await,
        }
    }

    /// The number of the cell in its session, once it has one: the latest.
    pub fn number(&self) -> Option<u64> {
        let turn = self.0.as_ref()?.borrow();
        turn.cells.as_ref().map(|cells| *cells.end())
    }

    /// Waits until it runs in another kernel than this one, or in any: what can be said of that then.
    /// For ever, if it does not.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn kernel(&mut self, known: Option<&KernelReport>) -> KernelReport {
        let Some(turn) = &mut self.0 else {
            return std::future::pending().await;
        };
        let begun = turn.wait_for(|turn| turn.kernel.is_some() && turn.kernel.as_ref() != known);
        match begun.await.ok().and_then(|turn| turn.kernel.clone()) {
            Some(kernel) => kernel,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cell_that_was_given_to_two_kernels_has_two_numbers() {
        let sender = watch::Sender::new(Turn::default());
        let mut watch = TurnWatch::new(Some(sender.subscribe()));
        assert!(!watch.is(5));
        sender.send_modify(|turn| turn.number(5));
        let kernel = |execution_count, generation| KernelReport {
            execution_count,
            ..KernelReport::untouched(generation, 1)
        };
        assert_eq!(watch.number(), Some(5));
        sender.send_modify(|turn| turn.begins(kernel(3, 1)));
        assert_eq!(watch.kernel(None).await, kernel(3, 1));
        sender.send_modify(|turn| turn.number(6));
        sender.send_modify(|turn| turn.begins(kernel(1, 2)));
        assert_eq!(watch.kernel(Some(&kernel(3, 1))).await, kernel(1, 2));
        assert_eq!(watch.number(), Some(6));
        assert_eq!(
            [4, 5, 6, 7].map(|cell| watch.is(cell)),
            [false, true, true, false]
        );
        assert_eq!(watch.begun().await, 1);
        assert!(!TurnWatch::new(None).is(0));
    }
}
