//! What can go wrong between this process and others.

use std::io;

/// A system call about a process or a descriptor failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The program that was to run.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A descriptor could not be made.
    #[error("cannot create {what}: {source}; {}", limit_met(source))]
    Descriptor {
        /// What it was to be.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Too few descriptors can be opened.
    #[error(
        "{needed} more files must be opened, and only {had} can be ({source}): raise the limit on \
         open files (ulimit -n) or close some"
    )]
    Descriptors {
        /// How many are needed.
        needed: usize,
        /// How many there were.
        had: usize,
        /// Why not more.
        source: io::Error,
    },
    /// No thread could be started.
    #[error(
        "cannot start a thread: {source}; raise the limit on processes (ulimit -u) or end some"
    )]
    Thread {
        /// Why not.
        source: io::Error,
    },
    /// No process could be started, whatever program it was to run.
    #[error(
        "cannot start {program}: {source}; raise the limit on processes (ulimit -u) or end some"
    )]
    Processes {
        /// The program that was to run.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A message to or from another process failed.
    #[error("cannot exchange messages with a process of ours: {source}")]
    Control {
        /// Why not.
        source: io::Error,
    },
}

/// An error of the system in words: with the limit that was met, where that may be it.
pub fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            format!("{error}; {}", limit_met(error))
        }
        _ => error.to_string(),
    }
}

/// Which limit of the user's keeps a descriptor from being made.
fn limit_met(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::FileTooLarge => "raise the limit on the size of files (ulimit -f)",
        _ => "check the limit on open files (ulimit -n)",
    }
}

impl ProcessError {
    /// Whether the other end of a conversation is gone.
    pub fn is_disconnected(&self) -> bool {
        matches!(
            self,
            Self::Control { source } if matches!(
                source.kind(),
                io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::NotConnected
            )
        )
    }

    pub(crate) fn descriptor(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Descriptor {
            what,
            source: errno.into(),
        }
    }
}
