//! Jobs under a supervisor that the kernel's forkserver forks.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use serde::Deserialize;

use super::forked::Forked;
use super::messages::{ForkOrder, LimitsOrder};
use super::{Job, JobExit, JobRunner, JobSpec, KernelProcess, ProvisionError};
use crate::process::{PipeReader, ProcessError, ReadOutcome, output_pipe};

/// `ESRCH`: the kernel with which a job is to end has ended already.
const NO_SUCH_PROCESS: i32 = 3;

/// Starts jobs for one kernel.
#[derive(Debug)]
pub(super) struct ForkedJobs {
    kernel: Weak<Forked>,
    umask: u32,
    limits: LimitsOrder,
}

impl ForkedJobs {
    pub(super) fn new(kernel: &Arc<Forked>, umask: u32, limits: LimitsOrder) -> Self {
        Self {
            kernel: Arc::downgrade(kernel),
            umask,
            limits,
        }
    }
}

fn has_ended() -> ProvisionError {
    ProvisionError::ForkserverGone {
        reason: "has ended this kernel".to_owned(),
    }
}

#[async_trait]
impl JobRunner for ForkedJobs {
    async fn start_job(&self, spec: JobSpec) -> Result<Box<dyn Job>, ProvisionError> {
        let Some(kernel) = self.kernel.upgrade() else {
            return Err(has_ended());
        };
        let (read, write) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|errno| {
                ProcessError::Descriptor {
                    what: "a pipe",
                    source: errno.into(),
                }
            })?;
        let (status, status_end) = output_pipe()?;
        let order = ForkOrder {
            op: "job",
            id: 0,
            kernel: Some(kernel.pid()),
            program: None,
            argv: spec.argv,
            cwd: spec.cwd,
            umask: self.umask,
            limits: self.limits.clone(),
            env: spec.environment.into_iter().collect(),
            own: Arc::default(),
        };
        let forking = kernel.server().fork(order, vec![write, status_end]).await;
        let supervisor = forking.map_err(|error| match error {
            ProvisionError::Fork { errno } if errno == NO_SUCH_PROCESS => has_ended(),
            other => other,
        })?;
        Ok(Box::new(ForkedJob {
            supervisor: Some(Arc::new(supervisor)),
            output: Some(read),
            status,
            exit: None,
        }))
    }
}

/// A command below its supervisor.
#[derive(Debug)]
struct ForkedJob {
    /// Dropping it ends the tree.
    supervisor: Option<Arc<Forked>>,
    output: Option<OwnedFd>,
    status: PipeReader,
    exit: Option<JobExit>,
}

#[derive(Deserialize)]
struct Status {
    code: Option<i32>,
    signal: Option<i32>,
    errno: Option<i32>,
}

#[async_trait]
impl Job for ForkedJob {
    fn take_output(&mut self) -> Option<OwnedFd> {
        self.output.take()
    }

    async fn exited(&mut self) -> JobExit {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            let mut buffer = [0; 256];
            self.exit = match self.status.read(&mut buffer) {
                ReadOutcome::Empty => {
                    self.status.readable().await;
                    continue;
                }
                ReadOutcome::End => Some(JobExit::Ended),
                // Written at once, and shorter than a pipe's atomic size.
                ReadOutcome::Bytes(count) => Some(
                    serde_json::from_slice(buffer.get(..count).unwrap_or_default())
                        .map_or(JobExit::Ended, |status: Status| status.into()),
                ),
            };
        }
    }

    fn release(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.release();
        }
    }

    async fn end(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.kill();
            supervisor.cleared().await;
        }
    }
}

impl From<Status> for JobExit {
    fn from(status: Status) -> Self {
        match (status.code, status.signal, status.errno) {
            (Some(code), _, _) => Self::Code(code),
            (None, Some(signal), _) => Self::Signal(signal),
            (None, None, Some(errno)) => Self::NotStarted(errno),
            (None, None, None) => Self::Ended,
        }
    }
}
