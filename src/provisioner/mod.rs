//! Where kernels come from.

mod error;
mod job;

pub use error::ProvisionError;
pub use job::{Job, JobExit, JobRunner, JobSpec};
