//! The settings of a manager, and the limits of times.

use std::path::PathBuf;
use std::time::Duration;

use super::{LogLevel, Mode, Policy, ProcessLimits};

/// The shortest time limit of a cell.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
/// The longest time limit of a cell: a day.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);
/// The longest time to wait for a result: a year.
const MAX_WAIT: Duration = Duration::from_secs(31_536_000);

/// The window of stdout in a result, in bytes, where nothing else is said.
pub const STDOUT_WINDOW_BYTES: usize = 50_000;
/// The window of stderr in a result, in bytes, where nothing else is said.
pub const STDERR_WINDOW_BYTES: usize = 10_000;

/// The limits of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time from its start to its end, tool calls included; 1 ms to 86,400 s; default 300 s.
    pub timeout: Duration,
    /// Dispatched tool calls; default 50.
    pub max_tool_calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(300),
            max_tool_calls: 50,
        }
    }
}

/// A limit that is out of range.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("a time limit must be from 0.001 to 86400 seconds, got {got}")]
pub struct LimitError {
    /// What was asked for, as it was written.
    pub got: String,
}

/// A time to wait that is out of range.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("a time to wait must be from 0 to 31536000 seconds, got {got}")]
pub struct WaitError {
    /// What was asked for, as it was written.
    pub got: String,
}

/// Reads a time to wait for a result, in seconds.
///
/// # Errors
///
/// If it is no number, or out of range.
pub fn parse_wait(text: &str) -> Result<Duration, WaitError> {
    let wait = text.trim().parse().ok();
    let wait = wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    wait.filter(|wait| *wait <= MAX_WAIT)
        .ok_or_else(|| WaitError {
            got: text.to_owned(),
        })
}

impl Limits {
    /// Reads a time limit in seconds.
    ///
    /// # Errors
    ///
    /// If it is no number, or out of range.
    pub fn parse_timeout(text: &str) -> Result<Duration, LimitError> {
        let error = || LimitError {
            got: text.to_owned(),
        };
        let seconds: f64 = text.trim().parse().map_err(|_not_a_number| error())?;
        let timeout = Duration::try_from_secs_f64(seconds).map_err(|_out_of_range| error())?;
        Self::check_timeout(timeout)
            .map(|()| timeout)
            .map_err(|_out_of_range| error())
    }

    /// Whether a time limit is in range.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub fn check_timeout(timeout: Duration) -> Result<(), LimitError> {
        if (MIN_TIMEOUT..=MAX_TIMEOUT).contains(&timeout) {
            Ok(())
        } else {
            Err(LimitError {
                got: timeout.as_secs_f64().to_string(),
            })
        }
    }
}

/// What a manager is told before it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The home of settings, caches and logs (`HERMES_HOME`, default `~/.hermes`).
    pub home: PathBuf,
    /// `XDG_RUNTIME_DIR`, for sockets.
    pub runtime_dir: Option<PathBuf>,
    /// The environment of kernels whose caller sends none, as front ends of Jupyter do; scrubbed as any
    /// other. Default empty: then no Python is found but by name.
    pub kernel_environment: Vec<(String, String)>,
    /// Variables that pass from a caller's environment into kernels although they are not among those
    /// that do, by name; never the agent's own credentials. Default none.
    pub passed_variables: Vec<String>,
    /// The Python of kernels whose caller names none: no other is tried. An absolute path, or the name of
    /// a program on the caller's PATH. Default none: the caller's environment says which.
    pub python: Option<PathBuf>,
    /// In which folder and with which Python kernels run whose caller does not say. Default
    /// [`Mode::Project`].
    pub mode: Mode,
    /// The limits of kernels whose caller sends none. Default none: those of this process, but for
    /// open descriptors those that it had when its [`Registry`](crate::session::Registry) was started.
    pub kernel_limits: Option<ProcessLimits>,
    /// `TMPDIR`, for sockets where there is no runtime folder.
    pub temp_dir: Option<PathBuf>,
    /// The limits of a cell that names none.
    pub limits: Limits,
    /// The window of stdout in a result, in bytes; default 50,000.
    pub max_stdout_bytes: usize,
    /// The window of stderr in a result, in bytes; default 10,000.
    pub max_stderr_bytes: usize,
    /// So many bytes of a cell's stdout go into a file of its own (`<home>/cache/exec`) where the
    /// window does not show all of it; 0: no files. Default 268,435,456 (256 MiB).
    pub max_spill_bytes: u64,
    /// What becomes of a cell whose time is up, where the cell does not say; default `restart`.
    pub on_timeout: Policy,
    /// What becomes of a cell that is interrupted, where the cell does not say; default `restart`.
    pub on_interrupt: Policy,
    /// The time limit of one `terminal` call; default 180 s.
    pub terminal_timeout: Duration,
    /// How long an orderly end may take; default 1 s. Kernels that are not ours have 3 s at least.
    pub end_grace: Duration,
    /// Whether a kernel that is lost with its cell is followed by the next at once; else the next cell
    /// starts it. Default true.
    pub restarts: bool,
    /// How long a cell may take to end that is interrupted and whose policy is to keep the kernel;
    /// then that is killed. It may go beyond the cell's time limit by that. Default 3 s.
    pub interrupt_grace: Duration,
    /// A kernel that was given no cell for so long, from the end of the last one, is ended in good
    /// order; the session stays. None or zero: never. Default 1,800 s.
    pub kernel_idle_timeout: Option<Duration>,
    /// How many kernels sessions may have at once; default 4. Nothing is limited by it yet.
    pub max_session_kernels: u32,
    /// From which level on it is logged what happens; default `info`.
    pub log_level: LogLevel,
    /// A private folder in which it is noted what each session holds, so that the next manager can
    /// say what was lost when this one is killed; made with mode 0700 if it is not there. One manager
    /// at a time may have it. Default none: nothing is noted.
    pub ledger: Option<PathBuf>,
    /// Whether this process adopts orphans and ends them. Only for programs all of whose children
    /// are started by Warmcell; default false.
    pub adopt_orphans: bool,
    /// The program `warmcell`, of this same version: it stands between a session and a kernel that is
    /// not ours. Default none: then there are no such kernels.
    pub bridge: Option<PathBuf>,
    /// How long a kernel that is not ours may take to answer for the first time. Default 60 s.
    pub foreign_start: Duration,
}

impl Settings {
    /// The defaults, with a home.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            runtime_dir: None,
            kernel_environment: Vec::new(),
            passed_variables: Vec::new(),
            python: None,
            mode: Mode::Project,
            kernel_limits: None,
            temp_dir: None,
            limits: Limits::default(),
            max_stdout_bytes: STDOUT_WINDOW_BYTES,
            max_stderr_bytes: STDERR_WINDOW_BYTES,
            max_spill_bytes: 256 << 20,
            on_timeout: Policy::default(),
            on_interrupt: Policy::default(),
            terminal_timeout: Duration::from_secs(180),
            end_grace: Duration::from_secs(1),
            restarts: true,
            interrupt_grace: Duration::from_secs(3),
            kernel_idle_timeout: Some(Duration::from_secs(1_800)),
            max_session_kernels: 4,
            log_level: LogLevel::default(),
            ledger: None,
            adopt_orphans: false,
            bridge: None,
            foreign_start: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Limits, parse_wait};

    #[test]
    fn a_timeout_is_read_within_its_range() {
        assert_eq!(
            Limits::parse_timeout("1.5"),
            Ok(Duration::from_millis(1500))
        );
        assert_eq!(Limits::parse_timeout("0.001"), Ok(Duration::from_millis(1)));
        assert_eq!(
            Limits::parse_timeout("86400"),
            Ok(Duration::from_secs(86_400))
        );
        for text in [
            "0", "0.0001", "-1", "86400.1", "1e9", "nan", "inf", "abc", "",
        ] {
            let error = Limits::parse_timeout(text).unwrap_err();
            assert_eq!(error.got, text);
        }
    }

    #[test]
    fn a_time_to_wait_is_read_within_its_range() {
        assert_eq!(parse_wait("0"), Ok(Duration::ZERO));
        assert_eq!(parse_wait(" 0.5 "), Ok(Duration::from_millis(500)));
        assert_eq!(parse_wait("-0"), Ok(Duration::ZERO));
        for text in ["-1", "31536001", "1e999", "nan", "inf", "1 s", "true", ""] {
            assert_eq!(parse_wait(text).unwrap_err().got, text);
        }
    }
}
