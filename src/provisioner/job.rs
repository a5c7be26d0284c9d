//! Commands that run beside a kernel and end with it.
//!
//! A job is a command under a supervisor process of its own: whatever it starts, daemons included,
//! stays below that supervisor, lives at most as long as the kernel, and ends when the job is ended
//! or when the manager dies.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use async_trait::async_trait;

use super::ProvisionError;

/// What to run.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// Program and arguments; the program is looked up on the environment's PATH.
    pub argv: Vec<String>,
    /// Where it runs; must exist.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
}

/// How the command itself ended (its leftovers may live on until the kernel ends).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobExit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// It could not be started (`errno` of the attempt).
    NotStarted(i32),
    /// Its supervisor is gone: the kernel ended, or the job was ended.
    Ended,
}

/// A command that was started.
///
/// Dropping the handle ends the whole tree, unless [`Job::release`] was called.
#[async_trait]
pub trait Job: Send + Sync + Debug {
    /// Takes the read end of the pipe that carries stdout and stderr of the command, merged.
    ///
    /// Do not wait for its end of file: leftovers may hold it open. When [`Job::exited`] returns,
    /// everything that the command itself wrote is in the pipe.
    fn take_output(&mut self) -> Option<OwnedFd>;

    /// Waits until the command itself has ended.
    ///
    /// # Cancel safety
    ///
    /// May be called again after it was dropped.
    async fn exited(&mut self) -> JobExit;

    /// Lets leftovers live on until the kernel ends.
    fn release(&mut self);

    /// Ends the command and everything it started, and waits until they are gone.
    async fn end(&mut self);
}

/// Starts jobs for one kernel.
#[async_trait]
pub trait JobRunner: Send + Sync + Debug {
    /// Starts a command.
    ///
    /// # Errors
    ///
    /// If the kernel's supervisor is gone or the process table is full.
    async fn start_job(&self, spec: JobSpec) -> Result<Box<dyn Job>, ProvisionError>;
}
