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
    #[error("cannot create {what}: {source}; check the limit on open files (ulimit -n)")]
    Descriptor {
        /// What it was to be.
        what: &'static str,
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
