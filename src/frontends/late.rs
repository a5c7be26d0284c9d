//! What threads and children of earlier cells print while no cell runs.

use std::sync::Arc;

use super::content;
use super::hub::{Hub, Parent};
use crate::execution::Outcome;

/// Said once a kernel, with the first cell that it is about.
const MASKED: &str = "warmcell: what looks like a secret is shown as [redacted:KIND] (said once; variables and \
    files hold it whole; `warmcell kernelspec install --no-redact` makes a kernel that shows all)\n";

/// What was published of it since the last cell.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// Nothing.
    #[default]
    Nothing,
    /// All that there was.
    Told,
    /// There was more.
    Missed,
}

impl Hub {
    /// What has caused a cell, if a client of ours has handed it over.
    pub(super) fn parent_of(&self, cell: u64) -> Option<Parent> {
        let state = self.state();
        let own = state.own.iter().find(|own| own.watch.is(cell))?;
        Some(own.parent.clone())
    }

    /// Publishes it with what has caused its cell, once that cell has been told to its end.
    pub(super) async fn publish_late(self: &Arc<Self>, parent: &Parent, stream: &str, text: &str) {
        let telling = self.tell().await;
        let content = content::stream(stream, text);
        self.publish("stream", parent, &content).await;
        drop(telling);
        let mut state = self.state();
        if state.clients.is_empty() {
            state.late = Late::Missed;
        } else if state.late == Late::Nothing {
            state.late = Late::Told;
        }
    }

    /// Some of it may be missing.
    pub(super) fn missed_late(&self) {
        self.state().late = Late::Missed;
    }

    /// What a cell's result says beside its output. What was printed between cells it says only to those
    /// who have not seen it.
    pub(super) fn notices(&self, outcome: &Outcome) -> Option<String> {
        let mut state = self.state();
        let late = std::mem::take(&mut state.late);
        let generation = Some(outcome.kernel.generation);
        let says_masked = outcome.redacted > 0 && state.masked_in != generation;
        if says_masked {
            state.masked_in = generation;
        }
        drop(state);
        let notices = content::notices(outcome, late == Late::Told);
        if says_masked {
            return Some(notices.unwrap_or_default() + MASKED);
        }
        notices
    }
}
