//! What can be said of a session's kernel while a cell runs in it.

use super::keeper::Keeper;
use crate::execution::{KernelReport, ReportedState};

impl Keeper {
    /// What can be said of the kernel while a cell runs.
    pub(super) fn report(&self) -> KernelReport {
        let state = if self.count <= 1 {
            ReportedState::Fresh
        } else {
            ReportedState::Kept
        };
        KernelReport {
            execution_count: self.execution_count(),
            generation: self.generation,
            reused: self.count > 1,
            state,
            reason: None,
            lost: None,
        }
    }
}
