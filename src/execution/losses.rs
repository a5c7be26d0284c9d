//! What is lost with a kernel, and how it is told in words.

use super::{LossReason, Lost, Status, Unreceived};
use crate::words::{agreeing, counted};

/// Variables that a sentence names; the rest is counted.
const NAMES_IN_TEXT: usize = 5;
/// Results that a sentence names; the rest is counted.
const RESULTS_IN_TEXT: usize = 10;

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
    /// The most results that are told.
    pub const RESULTS: usize = 64;

    /// This loss and a later one, told together.
    #[must_use]
    pub fn and_then(mut self, later: &Self) -> Self {
        self.cells += later.cells;
        self.names_total += later.names_total;
        self.at_least |= later.at_least;
        self.names.extend_from_slice(&later.names);
        let excess = self.names.len().saturating_sub(Self::NAMES);
        self.names.drain(..excess);
        self.unreceived.extend_from_slice(&later.unreceived);
        let excess = self.unreceived.len().saturating_sub(Self::RESULTS);
        self.unreceived.drain(..excess);
        self
    }

    /// `3 cells and x are`, for a sentence to go on; `None` if it is nothing.
    pub fn in_words(&self) -> Option<String> {
        let cells = (self.cells > 0).then(|| counted(self.cells, "cell"));
        let what = match (cells, self.names_in_words()) {
            (None, None) => return None,
            (Some(cells), Some(names)) => format!("{cells} and {names}"),
            (Some(what), None) | (None, Some(what)) => what,
        };
        let are = agreeing(self.cells + self.names_total, "is", "are");
        Some(format!("{what} {are}"))
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
            (None, more) => Some(counted(more, "variable")),
            (Some((only, [])), 0) => Some((*only).to_owned()),
            (Some((last, others)), 0) => Some(format!("{} and {last}", others.join(", "))),
            (Some(_), more) => Some(format!("{} and {more} more", shown.join(", "))),
        }
    }
}

/// What was seen of the kernel that comes after one that is lost, up to now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Successor {
    /// It is there.
    Started,
    /// It is being started.
    #[default]
    Starting,
    /// It could not be started, for this reason.
    Failed(String),
    /// None is wanted before the next cell, if there is one.
    Unwanted,
}

/// `[new kernel: the previous one was lost (idle 1800 s); gone: df, model and 10 more]`.
pub(super) fn new_kernel_line(loss: &Loss) -> String {
    let (detail, gone) = (&loss.detail, gone(loss));
    format!("[new kernel: the previous one was lost ({detail}){gone}]")
}

/// The same in a later cell of that kernel: what has told it was not received.
pub(super) fn earlier_loss_line(loss: &Loss) -> String {
    let (detail, gone) = (&loss.detail, gone(loss));
    format!(
        "[an earlier loss, which no result that was received has told: the kernel before this one \
         was lost ({detail}){gone}]"
    )
}

fn gone(loss: &Loss) -> String {
    let names = loss.lost.names_in_words();
    let names = names.map_or_else(String::new, |names| format!("; gone: {names}"));
    let unreceived = &loss.lost.unreceived;
    if unreceived.is_empty() {
        return names;
    }
    let count = unreceived.len() as u64;
    let (results, are) = (counted(count, "result"), agreeing(count, "is", "are"));
    let which = results_in_words(unreceived.iter().map(|it| it.in_words(None)));
    format!("{names}; {results} that nobody has received {are} gone: {which}")
}

/// Names the first of some results, and counts the others.
pub fn results_in_words(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = all.len().saturating_sub(RESULTS_IN_TEXT);
    let mut named: Vec<String> = all.take(RESULTS_IN_TEXT).collect();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named.join(", ")
}

impl Unreceived {
    /// `cell 3 of a (error)`; of no session, if there is only one.
    pub fn in_words(&self, session: Option<&str>) -> String {
        let cell = self.cell.map_or_else(
            || "one that had not begun".to_owned(),
            |cell| format!("cell {cell}"),
        );
        let status = match self.status {
            Status::Success => "success",
            Status::Error => "error",
            Status::Timeout => "timeout",
            Status::Interrupted => "interrupted",
            Status::Running => "not finished",
        };
        let of = session.map_or_else(String::new, |name| format!(" of {name}"));
        format!("{cell}{of} ({status})")
    }
}

/// What became of a kernel that was killed.
pub(super) fn killed(successor: &Successor) -> String {
    match successor {
        Successor::Started => "the kernel was killed and restarted".to_owned(),
        Successor::Unwanted => "the kernel was killed".to_owned(),
        _ => format!("the kernel was killed; {}", died(successor)),
    }
}

/// What came after a kernel that has died; empty if that is nobody's business.
pub(super) fn died(successor: &Successor) -> String {
    match successor {
        Successor::Started => "a fresh one was started".to_owned(),
        Successor::Starting => "a fresh one is being started".to_owned(),
        Successor::Failed(reason) => {
            format!("no fresh one could be started ({reason}), the next cell tries again")
        }
        Successor::Unwanted => String::new(),
    }
}

/// `[timed out after 1 s; the kernel was killed and restarted: 3 cells and x are lost; ...]`.
pub(super) fn loss_line(error: &str, verb: &str, loss: Option<&Loss>, advice: &str) -> String {
    let reason = loss.map(|loss| loss.reason);
    let closed = reason == Some(LossReason::SessionClosed);
    let verb = match reason {
        Some(LossReason::SessionClosed) => "its session was closed",
        Some(LossReason::Reset) => "its session was reset",
        _ => verb,
    };
    let error = if verb.is_empty() {
        error.to_owned()
    } else {
        format!("{error}; {verb}")
    };
    let Some(what) = loss.and_then(|loss| loss.lost.in_words()) else {
        return format!("[{error}; nothing but this cell is lost]");
    };
    let advice = if closed {
        String::new()
    } else {
        format!("; {advice}")
    };
    format!("[{error}: {what} lost{advice}]")
}
