//! Where kernels come from, and who ends what they leave behind.
//!
//! - `provision`: the trait; - `local`: kernels on this machine, each forked by a `forkserver`;
//! - `rungs`: the ladder of Pythons, tried; - `start_environment`: what tells forkservers apart;
//! - `bridged`: a kernel that is not ours, behind a bridge that a forkserver forks;
//! - `forkserver`: the handle of one such process; - `forkserver_start`: how it comes to be;
//! - `conversation`: the tasks that talk to it; - `forked`: a process that it has forked; - `job`,
//!   `forked_job`: shell commands that end with their kernel.

mod bridge_words;
mod bridged;
mod conversation;
mod ends;
mod error;
mod forked;
mod forked_job;
mod forkserver;
mod forkserver_start;
mod job;
mod local;
mod messages;
mod provision;
mod rungs;
mod start_environment;

pub use bridge_words::{BridgeEnd, BridgeFailure, BridgeReady, BridgeSetup};
pub use error::{ProvisionError, Rejected};
pub use job::{Job, JobExit, JobRunner, JobSpec};
pub use local::{LocalOptions, LocalProvisioner};
pub use provision::{KernelExit, KernelProcess, KernelRequest, ProvisionedKernel, Provisioner};
