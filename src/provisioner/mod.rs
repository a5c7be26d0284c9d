//! Where kernels come from, and who ends what they leave behind.
//!
//! - `provision`: the trait; - `local`: kernels on this machine, each forked by a `forkserver`;
//! - `forkserver`: one such process and the conversation with it; - `forked`: a process that it
//!   has forked; - `job`, `forked_job`: shell commands that end with their kernel.

mod error;
mod forked;
mod forked_job;
mod forkserver;
mod job;
mod local;
mod messages;
mod provision;

pub use error::{ProvisionError, Rejected};
pub use job::{Job, JobExit, JobRunner, JobSpec};
pub use local::{LocalOptions, LocalProvisioner};
pub use provision::{KernelExit, KernelProcess, KernelRequest, ProvisionedKernel, Provisioner};
