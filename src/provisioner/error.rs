//! What can go wrong while a kernel or a job is started.

use std::path::PathBuf;

use crate::environment::{Candidate, Source, Unusable};
use crate::folders::ScratchError;
use crate::process::ProcessError;
use crate::python_source::StageError;

/// Why no kernel or job could be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProvisionError {
    /// No candidate is a Python that runs and is new enough.
    #[error("{}", describe_rejected(rejected))]
    NoInterpreter {
        /// Each candidate with the reason it was passed over.
        rejected: Vec<Rejected>,
    },
    /// The working directory is not there.
    #[error(
        "cannot start a kernel in {}: {reason}; give a directory that exists (`caller.cwd` or `caller.directory`)",
        cwd.display()
    )]
    WorkingDirectory {
        /// What was asked for.
        cwd: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The process that forks kernels is gone.
    #[error("its forkserver {reason}")]
    ForkserverGone {
        /// How it ended.
        reason: String,
    },
    /// The system refused another process.
    #[error(
        "cannot fork a process (error {errno} of the system); the process limit (ulimit -u) or \
         memory is used up"
    )]
    Fork {
        /// `errno` of the attempt.
        errno: i32,
    },
    /// A forkserver took too long.
    #[error("no kernel was forked within {waited_ms} ms; the machine may be overloaded, try again")]
    TooSlow {
        /// How long was waited.
        waited_ms: u128,
    },
    /// A kernel that is not ours was asked for, and there is no program to stand before it.
    #[error(
        "the kernel {kernel} is not ours, and this program does not say where `warmcell` is: set \
         Settings::bridge to that program, of version {version}"
    )]
    NoBridge {
        /// The name of the kernelspec.
        kernel: String,
        /// Of this library.
        version: &'static str,
    },
    /// A kernel that is not ours did not start.
    #[error("the kernel {kernel} {reason}")]
    Foreign {
        /// The name of the kernelspec.
        kernel: String,
        /// What happened, and the last that it has said.
        reason: String,
    },
    /// The Python half could not be unpacked.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// No working directory could be had for a kernel in strict mode.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// Processes or descriptors could not be made.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// A Python that would not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The program.
    pub path: PathBuf,
    /// What named it.
    pub source: Source,
    /// Why it would not do.
    pub reason: Unusable,
}

fn describe_rejected(rejected: &[Rejected]) -> String {
    const ADVICE: &str = "install Python 3.8 or newer, or name one with `caller.python`";
    if rejected.is_empty() {
        return format!("no Python found: there is no python3 on PATH; {ADVICE}");
    }
    let of_session = rejected.iter().any(|it| it.source == Source::Session);
    let advice = if of_session {
        "put it back, or reset the session: its next kernel has the Python that its caller's \
         circumstances say by then"
    } else {
        ADVICE
    };
    format!("no usable Python: {}; {advice}", list(rejected))
}

fn list(rejected: &[Rejected]) -> String {
    let one = |one: &Rejected| {
        let path = one.path.display();
        format!("{path} (from {}): {}", one.source, one.reason)
    };
    rejected.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A sentence for a caller who named a Python and got another; none if the first would do.
pub(super) fn describe_choice(rejected: &[Rejected], taken: &Candidate) -> Option<String> {
    if rejected.is_empty() {
        return None;
    }
    let (path, source) = (taken.path.display(), taken.source);
    let passed_over = list(rejected);
    Some(format!(
        "a Python would not do: {passed_over}; {path} (from {source}) was taken instead"
    ))
}
