//! What a cell may do with tools, seen from the cell.

use std::fmt::Debug;

use crate::tools::ToolUse;

/// The authority of one cell to call tools. It ends with the cell.
pub trait CellAuthority: Send + Sync + Debug {
    /// The cell was interrupted, and may clean up: work in flight is stopped, later calls are made.
    fn interrupt(&self);

    /// Ends it: work in flight is stopped, later calls are refused. Says what was done; the same
    /// again when called again.
    fn retire(&self) -> ToolUse;

    /// What was done so far.
    fn so_far(&self) -> ToolUse;
}
