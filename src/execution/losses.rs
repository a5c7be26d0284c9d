//! What is lost with a kernel, and how it is told in words.

use super::{LossReason, Lost};

/// Variables that a sentence names; the rest is counted.
const NAMES_IN_TEXT: usize = 5;

/// A kernel that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub reason: LossReason,
    /// More of it, in words: `timeout 1 s`, `kernel_died: exited with code 3`.
    pub detail: String,
    /// What is gone.
    pub lost: Lost,
}

impl Lost {
    /// The most names that are told.
    pub const NAMES: usize = 20;

    /// This loss and a later one, told together.
    #[must_use]
    pub fn and_then(mut self, later: &Self) -> Self {
        self.cells += later.cells;
        self.names_total += later.names_total;
        self.names.extend_from_slice(&later.names);
        let excess = self.names.len().saturating_sub(Self::NAMES);
        self.names.drain(..excess);
        self
    }

    /// The variables in words: the latest few, and how many more.
    pub(super) fn names_in_words(&self) -> Option<String> {
        let shown: Vec<&str> = self
            .names
            .iter()
            .rev()
            .take(NAMES_IN_TEXT)
            .map(|it| it.name.as_str())
            .collect();
        let more = self.names_total.saturating_sub(shown.len() as u64);
        match (shown.split_last(), more) {
            (None, 0) => None,
            (None, more) => Some(format!("{more} variables")),
            (Some((only, [])), 0) => Some((*only).to_owned()),
            (Some((last, others)), 0) => Some(format!("{} and {last}", others.join(", "))),
            (Some(_), more) => Some(format!("{} and {more} more", shown.join(", "))),
        }
    }
}

/// `[new kernel: the previous one was lost (idle 1800 s); gone: df, model and 10 more]`.
pub(super) fn new_kernel_line(loss: &Loss) -> String {
    let gone = loss
        .lost
        .names_in_words()
        .map_or_else(String::new, |names| format!("; gone: {names}"));
    format!(
        "[new kernel: the previous one was lost ({}){gone}]",
        loss.detail
    )
}

pub(super) const KILLED: &str = "the kernel was killed and restarted";
pub(super) const RESTARTED: &str = "a fresh one was started";

/// `[timed out after 1 s; the kernel was killed and restarted: 3 cells and x are lost; ...]`.
pub(super) fn loss_line(error: &str, verb: &str, loss: Option<&Loss>, advice: &str) -> String {
    let reason = loss.map(|loss| loss.reason);
    let closed = reason == Some(LossReason::SessionClosed);
    let verb = match reason {
        Some(LossReason::SessionClosed) => "its session was closed",
        Some(LossReason::Reset) => "its session was reset",
        _ => verb,
    };
    let nothing = Lost::default();
    let lost = loss.map_or(&nothing, |loss| &loss.lost);
    let cells = match lost.cells {
        0 => None,
        1 => Some("1 cell".to_owned()),
        cells => Some(format!("{cells} cells")),
    };
    let what = match (cells, lost.names_in_words()) {
        (None, None) => return format!("[{error}; {verb}; nothing but this cell is lost]"),
        (Some(cells), Some(names)) => format!("{cells} and {names}"),
        (Some(what), None) | (None, Some(what)) => what,
    };
    let are = if lost.cells + lost.names_total <= 1 {
        "is"
    } else {
        "are"
    };
    let advice = if closed {
        String::new()
    } else {
        format!("; {advice}")
    };
    format!("[{error}; {verb}: {what} {are} lost{advice}]")
}
