//! What comes out of the door: the shapes that both sides know. Keys are only ever added.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::execution::{BesideStreams, KernelReport, Outcome};
use crate::session::Interrupted;

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

/// Seconds that may be out of any range: then the nearest that there is.
pub(super) fn seconds(seconds: f64) -> Duration {
    let most = Duration::from_secs(10 * 366 * 86_400);
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(if seconds > 0.0 { most } else { Duration::ZERO })
        .min(most)
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

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "that is how it is asked for"
)]
fn is_false(flag: &bool) -> bool {
    !flag
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
    /// It has begun, in this kernel; a second time, if that was found dead and it was given to the
    /// next one.
    Started {
        /// The kernel, as far as it can be told now.
        kernel: KernelReport,
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
    /// The text of something that it shows.
    Display(String),
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
    fn a_line_is_one_object_with_one_key() {
        let text = serde_json::to_string(&Line::Stdout("a\n".to_owned())).unwrap();
        assert_eq!(text, r#"{"stdout":"a\n"}"#);
        let text = serde_json::to_string(&Line::MissedBytes(3)).unwrap();
        assert_eq!(text, r#"{"missed_bytes":3}"#);
    }
}
