//! The result of a cell: one JSON object, of the same shape on every path.

use serde::{Deserialize, Serialize};

use super::Artifact;
use crate::tools::ToolCallRecord;

/// How the line of `output` begins that holds the hint.
pub(super) const HINT_BEGINS: &str = "[hint: ";
/// How the line begins that asks for a change.
pub(super) const REPEAT_BEGINS: &str = "[the same code has ";

/// How a cell ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It ran to its end.
    Success,
    /// It raised, the kernel died, or it could not be run.
    Error,
    /// Its time was up.
    Timeout,
    /// It was interrupted.
    Interrupted,
    /// It goes on; the result is what there is so far.
    Running,
}

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The code is no Python.
    Syntax,
    /// It raised.
    Exception,
    /// It imports what is not installed.
    MissingModule,
    /// It called `sys.exit` with something else than 0.
    Exit,
    /// Its time was up.
    Timeout,
    /// It was interrupted.
    Interrupted,
    /// The kernel ended while it ran.
    KernelDied,
    /// A memory or process limit was hit.
    Limit,
    /// A grant or an approval is missing.
    Refused,
    /// Too many cells wait.
    Busy,
    /// The call makes no sense.
    Usage,
    /// No kernel can be had.
    Unavailable,
}

/// Why a kernel is not the one that the caller knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// It was asked for.
    Reset,
    /// A cell's time was up.
    Timeout,
    /// A cell was interrupted.
    Interrupt,
    /// It ended by itself.
    KernelDied,
    /// The session was closed.
    SessionClosed,
    /// Another interpreter was asked for.
    Replaced,
    /// Nobody needed it for too long.
    Idle,
    /// The connection to its manager has ended, and whether it lives is not known.
    ConnectionLost,
    /// Its manager has ended.
    ManagerRestarted,
}

impl LossReason {
    /// The word in `kernel.reason`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Interrupt => "interrupt",
            Self::KernelDied => "kernel_died",
            Self::SessionClosed => "session_closed",
            Self::Replaced => "replaced",
            Self::Idle => "idle",
            Self::ConnectionLost => "connection_lost",
            Self::ManagerRestarted => "manager_restarted",
        }
    }
}

/// What became of the kernel that a cell ran in; of a cell that did not run: what is there for the
/// next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedState {
    /// It lives, and this was its first cell. Of a cell that did not run: there is none that has run
    /// a cell.
    Fresh,
    /// It lives, with the state of earlier cells.
    Kept,
    /// It ended during the cell, or while the cell waited; or it is out of sight
    /// ([`LossReason::ConnectionLost`]).
    Lost,
}

/// A variable that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostName {
    /// Its name.
    pub name: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What is gone with a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Cells that had completed.
    pub cells: u64,
    /// The latest variables, at most 20, the latest last.
    pub names: Vec<LostName>,
    /// How many variables there were.
    pub names_total: u64,
    /// Whether it may be more: the record of it could not be kept to the end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub at_least: bool,
    /// Results of cells that have gone on without their callers: nobody had received them when their
    /// manager ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreceived: Vec<Unreceived>,
}

/// A cell whose result nobody has received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreceived {
    /// Its number in the session; none if it has not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u64>,
    /// How it has ended, or `running` if it runs or waits.
    pub status: Status,
}

/// The kernel of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelReport {
    /// The cell's number in its kernel, as in `<cell N>`; 0 if it did not run.
    pub execution_count: u64,
    /// Which kernel of the session it is, from 1; of a cell that did not run the latest that there
    /// was, 0 if none is known.
    pub generation: u64,
    /// Whether the process was there before the cell, and had run others.
    pub reused: bool,
    /// What became of it.
    pub state: ReportedState,
    /// Why it is new, or lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<LossReason>,
    /// What is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
}

/// What was printed between two cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundOutput {
    /// The last of it, at most 10,000 bytes.
    pub text: String,
    /// How much it was.
    pub bytes_total: u64,
}

impl BackgroundOutput {
    /// How the line of a result begins that tells of it.
    pub(super) fn line_begins(&self) -> String {
        format!("[{} bytes printed between cells: ", self.bytes_total)
    }
}

/// The result of a cell. Keys are only ever added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Enough by itself for a reader who sees nothing else.
    pub output: String,
    /// 0; 1 for an uncaught exception; n for `sys.exit(n)`; -1 for timeout, interrupt, kernel
    /// death and cells that did not run. A cell that still runs has [`Outcome::NO_EXIT_CODE`], which
    /// JSON leaves out.
    #[serde(default = "no_exit_code", skip_serializing_if = "is_no_exit_code")]
    pub exit_code: i64,
    /// Calls that were dispatched.
    pub tool_calls_made: u64,
    /// From the start of the cell to its end, with 2 decimals.
    pub duration_seconds: f64,
    /// The kernel.
    pub kernel: KernelReport,
    /// The repr of the last expression, at most 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What went wrong, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What kind of failure it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<ErrorClass>,
    /// What to do about it, if it is a known mistake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How often the same code had failed the same way just before, in a row; none if it had not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeat_of_previous: u64,
    /// How many secrets were masked, each as `[redacted:KIND]`, in all that came of the cell; none if
    /// there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redacted: u64,
    /// Whether `output` leaves out some of stdout.
    pub stdout_truncated: bool,
    /// Bytes of stdout.
    pub stdout_bytes_total: u64,
    /// How many of them are in `output`.
    pub stdout_bytes_captured: u64,
    /// How many are not.
    pub stdout_bytes_omitted: u64,
    /// The file that holds all of stdout, masked as `output` is, where `output` leaves some out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_spill_path: Option<String>,
    /// What was degraded or put right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The tool calls, in order of completion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallRecord>,
    /// Images and the like that the cell has shown, as files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// What threads or children printed after the previous cell had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_output: Option<BackgroundOutput>,
    /// Of a cell that goes on, or went on, without its caller: by which it is interrupted, and its result
    /// found among others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_id: Option<String>,
    /// What `output` says beyond the streams, for a front end that has shown those already.
    #[serde(skip)]
    pub beside_streams: BesideStreams,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The parts of `output` that no stream carries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BesideStreams {
    /// The traceback of the exception that ended the cell.
    pub traceback: Option<String>,
    /// Losses, timeouts and the like, a line each.
    pub notices: Vec<String>,
    /// The one of them that says how the cell has ended, if that needs words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// The exception that ended the cell, as its kernel told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<Raised>,
    /// What became of the expressions that a front end has asked for, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_expressions: Option<String>,
    /// Whether the cell ended by `exit()` or `quit()`, and a front end that is a prompt is to end too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_exit: bool,
}

/// An exception, in the words of Jupyter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// Its class.
    pub ename: String,
    /// Its text.
    pub evalue: String,
    /// The traceback, one line or several in each item.
    pub traceback: Vec<String>,
}

impl KernelReport {
    /// Of a cell that did not run, or not yet, in a session whose latest kernel is this one and was
    /// given so many cells; none, if it is gone or there never was one.
    pub fn untouched(generation: u64, cells: u64) -> Self {
        let is_kept = cells > 0;
        Self {
            execution_count: 0,
            generation,
            reused: is_kept,
            state: if is_kept {
                ReportedState::Kept
            } else {
                ReportedState::Fresh
            },
            reason: None,
            lost: None,
        }
    }

    /// Of a cell that did not run where no kernel is, nor was.
    pub fn none() -> Self {
        Self::untouched(0, 0)
    }

    /// The same kernel, when it is gone or out of sight for this reason; what it held is not known
    /// here.
    #[must_use]
    pub fn lost(self, reason: LossReason) -> Self {
        Self {
            state: ReportedState::Lost,
            reason: Some(reason),
            lost: None,
            ..self
        }
    }
}

impl Outcome {
    /// The exit code of a cell that still runs.
    pub const NO_EXIT_CODE: i64 = i64::MIN;

    /// Whether one of its notices is advice on the code, for who writes it for others to run.
    pub(crate) fn is_advice(notice: &str) -> bool {
        notice.starts_with(HINT_BEGINS) || notice.starts_with(REPEAT_BEGINS)
    }

    /// Whether one of its notices is that of what was printed between cells.
    pub(crate) fn tells_background(&self, notice: &str) -> bool {
        let background = self.background_output.as_ref();
        background.is_some_and(|it| notice.starts_with(&it.line_begins()))
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "that is how it is asked for"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn no_exit_code() -> i64 {
    Outcome::NO_EXIT_CODE
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "that is how it is asked for"
)]
fn is_no_exit_code(code: &i64) -> bool {
    *code == Outcome::NO_EXIT_CODE
}
