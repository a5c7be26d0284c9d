//! What a front end may want of a cell beyond its code.

use serde_json::value::RawValue;

use crate::kernel::InputSource;

/// What a front end may want of a cell beyond its code; by default nothing.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Nothing of it is shown: no value, no display. History does not keep it, and the count of cells
    /// does not rise.
    pub silent: bool,
    /// History does not keep it, and the count of cells does not rise.
    pub outside_history: bool,
    /// Expressions by name, as a JSON object of texts: evaluated after the cell if it has not failed.
    /// What became of them is in [`BesideStreams`](super::BesideStreams).
    pub user_expressions: Option<Box<RawValue>>,
    /// Who answers when it asks for input; without it `input()` fails at once. The cell's time limit
    /// goes on while it waits.
    pub input: Option<InputSource>,
    /// The id of the message with which a front end of Jupyter's has sent it, as its widgets know it.
    /// Such a cell shows its figures of matplotlib at its end, as notebooks do.
    pub origin: Option<String>,
}

impl Wishes {
    /// Whether history keeps the cell.
    pub fn stores_history(&self) -> bool {
        !self.silent && !self.outside_history
    }
}
