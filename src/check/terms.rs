//! On what terms a kernel is checked, and why it cannot be.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::folders::FolderError;
use crate::process::ProcessError;

/// On what terms a kernel is checked.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The environment of the kernel, as it is.
    pub environment: Vec<(OsString, OsString)>,
    /// Where a private folder for sockets may be, best first
    /// ([`private_bases`](crate::folders::private_bases)).
    pub bases: Vec<PathBuf>,
    /// Where a folder for the kernel to work in may be.
    pub temp_dir: PathBuf,
    /// This process adopts orphans ([`adopt_orphans`](crate::process::adopt_orphans)), and starts nothing
    /// else meanwhile: what falls to it is the kernel's. Otherwise that is found by a mark in its
    /// environment, where it has kept it.
    pub adopts: bool,
    /// The names of the checks that are wanted beside `start`; all of them, if none is named
    /// ([`names`](super::names)).
    pub only: Vec<String>,
    /// How long the kernel may take to start; 30 s by default.
    pub start: Duration,
    /// How long anything may take that is over at once in a kernel that works; 10 s by default.
    pub patience: Duration,
}

impl Terms {
    /// The usual ones.
    pub fn new(
        environment: Vec<(OsString, OsString)>,
        bases: Vec<PathBuf>,
        temp_dir: PathBuf,
    ) -> Self {
        Self {
            environment,
            bases,
            temp_dir,
            adopts: false,
            only: Vec::new(),
            start: Duration::from_secs(30),
            patience: Duration::from_secs(10),
        }
    }

    /// Whether a check is wanted.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|it| it == name)
    }

    /// A limit of the contract, or as long as anything may take.
    pub(super) fn within(&self, limit: Duration) -> Duration {
        limit.min(self.patience)
    }
}

/// Why a kernel could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// It was asked to stop; what it had started is gone.
    #[error("the check was stopped")]
    Stopped,
    /// No folder for sockets.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// No folder to work in.
    #[error(
        "no folder can be made in {folder} for the kernel to work in ({source}); set TMPDIR to one that you \
         can write to"
    )]
    Work {
        /// Where.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system has no more of something.
    #[error(transparent)]
    Process(#[from] ProcessError),
}
