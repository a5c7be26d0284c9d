//! What a provisioner is: somebody who starts kernels and can end them.

use std::fmt::Debug;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::value::RawValue;

use super::{JobRunner, ProvisionError};
use crate::config::{ForeignKernel, ProcessLimits};
use crate::environment::{Candidate, Interpreter};
use crate::folders::ScratchFolder;
use crate::process::{Foreground, InterruptPage, PipeReader};

/// The kernel that is wanted.
#[derive(Debug, Clone)]
pub struct KernelRequest {
    /// The Pythons to try, in order.
    pub candidates: Vec<Candidate>,
    /// The kernel's whole environment, already scrubbed.
    pub environment: Arc<Vec<(String, String)>>,
    /// Names of variables that are for this session alone, because somebody let them through for it:
    /// no process that other sessions' kernels are forked from ever has them.
    pub own_variables: Arc<Vec<String>>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its file mode creation mask.
    pub umask: u32,
    /// Its limits, and those of its jobs; `None` for those of the manager.
    pub limits: Option<ProcessLimits>,
    /// Its `sys.argv`.
    pub argv: Vec<String>,
    /// A kernel that is not ours, if it is to be one.
    pub foreign: Option<Arc<ForeignKernel>>,
}

/// A kernel that was started. It need not be waited for: a request may be written at once.
#[derive(Debug)]
pub struct ProvisionedKernel {
    /// The duplex stream of Jupyter messages, non-blocking.
    pub link: UnixStream,
    /// What the kernel and its children print.
    pub stdout: PipeReader,
    /// What they print as errors.
    pub stderr: PipeReader,
    /// Names the cell that an interrupt means.
    pub page: InterruptPage,
    /// The process.
    pub process: Arc<dyn KernelProcess>,
    /// Starts commands that end with this kernel.
    pub jobs: Arc<dyn JobRunner>,
    /// The Python that runs it.
    pub interpreter: Interpreter,
    /// For the caller, if a Python that was named would not do and another was taken.
    pub choice: Option<String>,
    /// What a kernel that is not ours says of itself: the content of its `kernel_info_reply`.
    pub info: Option<Box<RawValue>>,
    /// Its working directory, if it has one of its own: removed when the kernel and all that it has
    /// started are gone. The one who asked for the kernel puts it there.
    pub scratch: Option<ScratchFolder>,
}

/// How a kernel's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelExit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// The process that forked it is gone, and it with it.
    ForkserverGone {
        /// How that ended, as in `was killed by signal 9`.
        reason: String,
    },
    /// It is gone, and nobody said how.
    Unknown,
}

/// The process of a kernel.
#[async_trait]
pub trait KernelProcess: Send + Sync + Debug {
    /// Its process number; for display, and for deciding who descends from it.
    fn pid(&self) -> u32;

    /// Sends SIGINT to it, and, once, to what it has started and waits for: those of its descendants.
    fn interrupt(&self, foreground: &mut Foreground);

    /// Kills it at once, and has everything ended that it leaves behind.
    fn kill(&self);

    /// Waits until the process has ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    async fn ended(&self);

    /// Waits for the report of how it ended; [`KernelExit::Unknown`] if none comes in time.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    async fn exit(&self) -> KernelExit;

    /// Waits until everything that it left behind is gone; how many processes are not.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    async fn cleared(&self) -> usize;
}

/// Starts kernels.
#[async_trait]
pub trait Provisioner: Send + Sync + Debug {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// See [`ProvisionError`].
    ///
    /// # Cancel safety
    ///
    /// If dropped, a kernel that was forked meanwhile is ended.
    async fn start(&self, request: &KernelRequest) -> Result<ProvisionedKernel, ProvisionError>;
}
