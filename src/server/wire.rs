//! What goes through the door: the shapes that both sides know. Keys are only ever added.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::limits::{LimitsOrder, NiceOrder};
use crate::config::{Caller, ProcessLimits};
use crate::execution::{BesideStreams, Outcome};
use crate::session::{Cell, Interrupted, Policy};
use crate::tools::Grant;

/// Where everything of ours stands below the root of a door.
pub const ROOT: &str = "/warmcell/v1";
/// The header in which a client says its version; a client of none (`curl`, say) is taken as it is.
pub const VERSION_HEADER: &str = "warmcell-version";
/// This version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a manager says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ManagerInfo {
    /// Its version.
    pub version: String,
    /// A name that no other manager has.
    pub id: String,
    /// Its process number.
    pub pid: u32,
    /// What it is: `server`, `program`, ...
    pub kind: String,
    /// Who it belongs to.
    pub owner: String,
    /// Its home.
    pub home: PathBuf,
    /// Since when it is there.
    pub started_at: Timestamp,
    /// Where its socket is, for whoever wants to speak to it (`curl --unix-socket`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// How many sessions live in it.
    pub sessions: usize,
}

/// A cell, and on whose behalf it is to run. Everything but `code` may be left out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct CellOrder {
    /// The Python source.
    pub code: String,
    /// What some callers send in place of `code`: it is refused with a sentence.
    #[serde(skip_serializing)]
    pub command: Option<IgnoredAny>,
    /// Discard the kernel's state first.
    #[serde(skip_serializing_if = "is_false")]
    pub reset: bool,
    /// The time limit, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// How many tool calls it may make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// The tools it may call; all if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What happens when its time is up.
    pub on_timeout: PolicyName,
    /// What happens when it is interrupted.
    pub on_interrupt: PolicyName,
    /// Who asks; without it only a session that lives can be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerOrder>,
    /// Answer with what happens as it happens, a JSON object a line, the result last; otherwise with
    /// the result alone.
    #[serde(skip_serializing_if = "is_false")]
    pub stream: bool,
    /// Leave its output out of the stream: it stands in the result.
    #[serde(skip_serializing_if = "is_false")]
    pub quiet: bool,
    /// Answer after so many seconds at the latest; if the cell goes on by then, with what there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// Answer at once; the same as a `wait` of 0.
    #[serde(skip_serializing_if = "is_false")]
    pub detach: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "that is how it is asked for"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A policy, by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// Kill the kernel and start a fresh one.
    #[default]
    Restart,
    /// Raise `KeyboardInterrupt` first.
    Interrupt,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Restart => Self::Restart,
            PolicyName::Interrupt => Self::Interrupt,
        }
    }
}

impl From<Policy> for PolicyName {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Restart => Self::Restart,
            Policy::Interrupt => Self::Interrupt,
        }
    }
}

/// Who asks for a cell: what a new kernel takes over.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallerOrder {
    /// Name and value of each variable.
    pub environment: Vec<(String, String)>,
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// Its file mode creation mask; 0o022 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// What its processes may take of the system; left out, that is as in the manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsOrder>,
    /// How nice they are; left out, as the manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<NiceOrder>,
    /// An interpreter that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
    /// A directory that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
}

impl CallerOrder {
    /// The caller, as sessions know it.
    pub fn caller(&self) -> Caller {
        let limits = (self.limits.is_some() || self.nice.is_some()).then(|| ProcessLimits {
            bounds: self.limits.clone().unwrap_or_default().0,
            nice: self.nice.map(|NiceOrder(nice)| nice),
        });
        Caller {
            environment: self.environment.clone(),
            cwd: self.cwd.clone(),
            umask: self.umask.unwrap_or(0o022) & 0o777,
            limits,
            python: self.python.clone(),
        }
    }
}

impl CellOrder {
    /// The cell. A limit that is no time at all is left to the session to
    /// refuse.
    pub fn cell(&self) -> Cell {
        Cell {
            code: self.code.clone(),
            reset: self.reset,
            timeout: self.timeout.map(seconds),
            max_tool_calls: self.max_tool_calls,
            grant: match &self.tools {
                None => Grant::All,
                Some(names) => Grant::Only(names.iter().cloned().collect()),
            },
            on_timeout: self.on_timeout.into(),
            on_interrupt: self.on_interrupt.into(),
            caller: self.caller.as_ref().map(|caller| Arc::new(caller.caller())),
            directory: self.caller.as_ref().and_then(|it| it.directory.clone()),
        }
    }

    /// How long the answer may take; `None` for as long as the cell takes.
    pub fn patience(&self) -> Option<Duration> {
        if self.detach {
            return Some(Duration::ZERO);
        }
        self.wait.map(seconds)
    }
}

/// Seconds that may be out of any range: then the nearest that there is.
pub(super) fn seconds(seconds: f64) -> Duration {
    let most = Duration::from_secs(10 * 366 * 86_400);
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(if seconds > 0.0 { most } else { Duration::ZERO })
        .min(most)
}

/// How a cell is to be interrupted.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InterruptOrder {
    /// Whatever the cell's own policy is; that, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_interrupt: Option<PolicyName>,
}

impl InterruptOrder {
    /// The policy, as sessions know it.
    pub(super) fn policy(self) -> Option<Policy> {
        self.on_interrupt.map(Policy::from)
    }
}

/// What came of an interrupt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InterruptAnswer {
    /// Whether a cell ran.
    pub interrupted: bool,
    /// How it has ended; left out if it has not yet.
    #[serde(flatten)]
    pub end: Option<Interrupted>,
}

/// One line of a stream of a cell.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The cell was taken: this is the first line.
    Accepted {
        /// With which it can be interrupted: `POST /warmcell/v1/cells/ID/interrupt`.
        id: String,
        /// Whether the session was made for it.
        opened: bool,
    },
    /// It printed.
    Stdout(String),
    /// It printed what is no UTF-8.
    StdoutBase64(String),
    /// It printed to stderr.
    Stderr(String),
    /// It printed to stderr what is no UTF-8.
    StderrBase64(String),
    /// The repr of its last expression.
    Result(String),
    /// Bytes that this stream leaves out here, because its reader was too slow.
    MissedBytes(u64),
    /// Its result: the last line.
    Finished(Box<Finished>),
}

/// A result, with what a front end that has shown the streams still has to show.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// The result.
    pub outcome: Outcome,
    /// What no stream has carried.
    #[serde(default)]
    pub beside_streams: BesideStreams,
}

impl Finished {
    /// From a result.
    pub fn new(outcome: Outcome) -> Box<Self> {
        let beside_streams = outcome.beside_streams.clone();
        Box::new(Self {
            outcome,
            beside_streams,
        })
    }

    /// The result with all it had.
    pub fn into_outcome(self) -> Outcome {
        Outcome {
            beside_streams: self.beside_streams,
            ..self.outcome
        }
    }
}

/// An answer that is no result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Refused {
    /// What is wrong, and what to do.
    pub error: String,
    /// Its kind, as in a result.
    pub error_class: crate::execution::ErrorClass,
    /// Set if nothing was begun and the same may be asked of the next server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub going: bool,
    /// Set if the two are of different versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_needed_of_a_cell_and_odd_limits_hurt_nobody() {
        let order: CellOrder =
            serde_json::from_str(r#"{"code":"1","timeout":-1e308,"new":[]}"#).unwrap();
        assert_eq!(order.cell().timeout, Some(Duration::ZERO));
        assert_eq!(order.cell().code, "1");
        assert_eq!(order.patience(), None);
        let order: CellOrder = serde_json::from_str(r#"{"wait":1e300}"#).unwrap();
        assert!(order.patience().unwrap() > Duration::from_secs(86_400));
        let text = serde_json::to_string(&CellOrder::default()).unwrap();
        assert_eq!(
            text,
            r#"{"code":"","on_timeout":"restart","on_interrupt":"restart"}"#
        );
    }

    #[test]
    fn a_line_is_one_object_with_one_key() {
        let text = serde_json::to_string(&Line::Stdout("a\n".to_owned())).unwrap();
        assert_eq!(text, r#"{"stdout":"a\n"}"#);
        let text = serde_json::to_string(&Line::MissedBytes(3)).unwrap();
        assert_eq!(text, r#"{"missed_bytes":3}"#);
    }
}
