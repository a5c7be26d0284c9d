//! What is printed while no cell runs, by threads and children that are left over: told as output of
//! the cell before it, as it comes.

use super::content;
use super::hub::{Hub, Parent, State};

/// Bytes that wait for the end of a cell that is being told.
const MOST_WAITING: usize = 1 << 20;

/// What was printed between cells.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// What caused it, as far as one can know: the cell that was told last.
    parent: Option<Parent>,
    waiting: Vec<(&'static str, String)>,
    waiting_bytes: usize,
    missing: usize,
    /// Bytes since the last cell began to be told.
    since: u64,
    /// Bytes before that.
    before: u64,
}

impl Late {
    /// A cell begins to be told.
    pub(super) fn a_cell_begins(&mut self) {
        self.before = std::mem::take(&mut self.since);
    }

    /// What comes from now on is a matter of this cell.
    pub(super) fn follows(&mut self, parent: &Parent) {
        self.parent = Some(parent.clone());
    }

    fn wait(&mut self, stream: &'static str, text: String) {
        if self.waiting_bytes + text.len() > MOST_WAITING {
            self.missing += text.len();
            return;
        }
        self.waiting_bytes += text.len();
        self.waiting.push((stream, text));
    }

    /// What has waited, and how much is missing behind it.
    fn take(&mut self) -> Vec<(&'static str, String)> {
        self.waiting_bytes = 0;
        let mut waiting = std::mem::take(&mut self.waiting);
        let missing = std::mem::take(&mut self.missing);
        if missing > 0 {
            let sentence = format!("\n[{missing} bytes printed between cells are missing here]\n");
            waiting.push(("stderr", sentence));
        }
        waiting
    }
}

impl Hub {
    /// Something was printed while no cell ran. Those who watch are waited for as with cells.
    pub(super) async fn printed_late(&self, stream: &'static str, text: String) {
        self.room().await;
        let mut state = self.state();
        state.late.since += u64::try_from(text.len()).unwrap_or(u64::MAX);
        state.late.wait(stream, text);
        if state.telling == 0 {
            self.tell_late(&mut state);
        }
    }

    /// Tells what was printed while the last cell was being told: behind it.
    pub(super) fn tell_late(&self, state: &mut State) {
        let parent = state.late.parent.clone().unwrap_or_else(Parent::none);
        for (stream, text) in state.late.take() {
            let content = content::stream(stream, &text);
            self.put(state, "stream", &parent, &content);
        }
    }

    /// How many bytes printed before the cell that is told now were told already.
    pub(super) fn told_late(&self) -> u64 {
        let state = self.state();
        // What has come since may belong to it too.
        state.late.before + state.late.since
    }
}
