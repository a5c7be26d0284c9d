//! What can be said of a session's kernel while a cell runs in it.

use super::keeper::Keeper;
use crate::execution::{KernelReport, ReportedState};
use crate::kernel::Trigger;

impl Keeper {
    /// The number of the latest cell of this kernel that has one, as in `<cell N>`.
    pub(super) fn execution_count(&self) -> u64 {
        self.count.max(1) - self.unnumbered.min(self.count)
    }

    /// The kernel is given a cell; one that history does not keep has no number of its own.
    pub(super) fn give(&mut self, has_number: bool) {
        self.count += 1;
        self.unnumbered += u64::from(!has_number);
        self.trigger(Trigger::CellSent, "a cell was sent");
    }

    /// What can be said of the kernel while a cell runs.
    pub(super) fn report(&self) -> KernelReport {
        let is_first = self.count <= 1;
        let state = if is_first {
            ReportedState::Fresh
        } else {
            ReportedState::Kept
        };
        KernelReport {
            execution_count: self.execution_count(),
            generation: self.generation,
            reused: self.count > 1,
            state,
            reason: self.untold.reason().filter(|_| is_first),
            lost: None,
        }
    }
}
