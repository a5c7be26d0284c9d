//! Kernels on this machine, forked by a forkserver for each interpreter and start environment.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::error::describe_choice;
use super::forked_job::ForkedJobs;
use super::forkserver::Forkserver;
use super::forkserver_start::{ForkserverSpec, StartFailure, start};
use super::messages::{ForkOrder, LimitsOrder};
use super::{KernelRequest, ProvisionError, ProvisionedKernel, Provisioner, Rejected};
use crate::environment::Candidate;
use crate::process::{
    InterruptPage, PipeReader, in_a_thread, nofile_limits, output_pipe, socket_pair,
};
use crate::python_source::Sources;

/// Silent for so long, and a new forkserver serves new kernels.
const SILENT: Duration = Duration::from_millis(50);
/// Silent for so long, and it is killed.
const DEAF: Duration = Duration::from_secs(2);
/// How long a new forkserver may take to fork.
const FORK_DEADLINE: Duration = Duration::from_secs(10);

/// What every local kernel of a manager has in common.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// The unpacked sources.
    pub sources: Arc<Sources>,
    /// The folder of sockets, removed by a forkserver when the manager is gone.
    pub sockets: PathBuf,
    /// Whether this process adopts orphans.
    pub adopt_orphans: bool,
    /// The limits on descriptors of kernels that are to have no others, `[soft, hard]`, -1 for none.
    pub nofile: [i64; 2],
    /// The program that stands before kernels which are not ours; none: there are none.
    pub bridge: Option<PathBuf>,
    /// How long such a kernel may take to answer for the first time.
    pub foreign_start: Duration,
}

type Key = (PathBuf, Vec<(String, String)>);
type Slot = Arc<tokio::sync::Mutex<SlotState>>;

/// The forkserver of one key.
#[derive(Debug, Default)]
struct SlotState {
    server: Option<Arc<Forkserver>>,
    /// When the last start failed, and why.
    failed: Option<(Instant, String)>,
}

/// Starts kernels on this machine.
#[derive(Debug)]
pub struct LocalProvisioner {
    pub(super) options: LocalOptions,
    servers: Mutex<HashMap<Key, Slot>>,
    /// Fires when no more is to be started.
    closing: CancellationToken,
}

/// A forkserver for a request.
pub(super) struct Served {
    pub(super) server: Arc<Forkserver>,
    /// For the caller, if it is not that of the first Python.
    pub(super) choice: Option<String>,
}

/// Our ends of a new kernel's descriptors, and the order with the other ends.
pub(super) struct Ends {
    pub(super) link: std::os::unix::net::UnixStream,
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
    pub(super) page: InterruptPage,
    /// Link, stdout, stderr, page.
    pub(super) theirs: Vec<OwnedFd>,
}

impl LocalProvisioner {
    /// A provisioner without a forkserver; the first kernel starts one.
    pub fn new(options: LocalOptions) -> Self {
        Self {
            options,
            servers: Mutex::default(),
            closing: CancellationToken::new(),
        }
    }

    /// The limits on descriptors of this process: to be asked before it raises its own, since
    /// kernels should see what the user has set.
    pub fn limits() -> [i64; 2] {
        let (soft, hard) = nofile_limits();
        [soft, hard].map(|it| it.and_then(|it| i64::try_from(it).ok()).unwrap_or(-1))
    }

    /// Ends all forkservers and waits until they are gone. Kernels that still live are killed.
    pub async fn shut_down(&self) {
        self.closing.cancel();
        let slots: Vec<Slot> = self.servers().drain().map(|(_, slot)| slot).collect();
        let mut ending = JoinSet::new();
        for slot in slots {
            ending.spawn(async move {
                if let Some(server) = slot.lock().await.server.take() {
                    server.shut_down().await;
                }
            });
        }
        while ending.join_next().await.is_some() {}
    }

    /// A forkserver for the first candidate that will do.
    pub(super) async fn server(&self, request: &KernelRequest) -> Result<Served, ProvisionError> {
        let start_environment: Vec<(String, String)> = request
            .environment
            .iter()
            .filter(|(name, _)| only_at_start(name))
            .cloned()
            .collect();
        let mut rejected = Vec::new();
        for candidate in &request.candidates {
            match self.server_for(candidate, &start_environment).await {
                Ok(server) => {
                    let choice = describe_choice(&rejected, candidate);
                    return Ok(Served { server, choice });
                }
                Err(StartFailure::Fault(error)) => return Err(error),
                Err(StartFailure::Unusable(reason)) => {
                    tracing::info!(
                        path = %candidate.path.display(),
                        source = candidate.source,
                        %reason,
                        "a Python was passed over"
                    );
                    rejected.push(Rejected {
                        path: candidate.path.clone(),
                        source: candidate.source,
                        reason,
                    });
                    if candidate.explicit {
                        break;
                    }
                }
            }
        }
        Err(ProvisionError::NoInterpreter { rejected })
    }

    async fn server_for(
        &self,
        candidate: &Candidate,
        environment: &[(String, String)],
    ) -> Result<Arc<Forkserver>, StartFailure> {
        let asked = Instant::now();
        let key = (candidate.path.clone(), environment.to_vec());
        let place = Arc::clone(self.servers().entry(key).or_default());
        // One start at a time for each key: parallel first calls get one forkserver.
        let mut slot = place.lock().await;
        if let Some(server) = slot.server.as_ref().filter(|server| server.is_usable()) {
            return Ok(Arc::clone(server));
        }
        if let Some((_, reason)) = slot.failed.as_ref().filter(|(at, _)| *at >= asked) {
            // It was tried while we waited; an interpreter that hangs costs its time once.
            return Err(StartFailure::Unusable(reason.clone()));
        }
        let sources = self.sources().await?;
        let starting = start(ForkserverSpec {
            program: candidate.path.clone(),
            environment: environment.to_vec(),
            sources,
            sockets: self.options.sockets.clone(),
            adopts: self.options.adopt_orphans,
        });
        let started = tokio::select! {
            started = starting => started,
            () = self.closing.cancelled() => Err(StartFailure::Fault(closing())),
        };
        if let Err(StartFailure::Unusable(reason)) = &started {
            slot.failed = Some((Instant::now(), reason.clone()));
        }
        let server = started?;
        slot.server = Some(Arc::clone(&server));
        // A session that lives asks for the interpreter itself, whatever had led to it.
        let own = (
            server.interpreter().executable.clone(),
            environment.to_vec(),
        );
        self.servers()
            .entry(own)
            .or_insert_with(|| Arc::clone(&place));
        Ok(server)
    }

    /// Where the sources are; they are there then.
    async fn sources(&self) -> Result<PathBuf, ProvisionError> {
        let sources = Arc::clone(&self.options.sources);
        Ok(in_a_thread(move || sources.stand()).await??)
    }

    /// Asks a forkserver that is not suspected; it has longer to answer.
    async fn fork_anew(
        &self,
        request: &KernelRequest,
    ) -> Result<ProvisionedKernel, ProvisionError> {
        let server = self.server(request).await?;
        let forking = timeout(FORK_DEADLINE, self.fork_on(&server, request));
        forking.await.unwrap_or_else(|_elapsed| {
            Err(ProvisionError::TooSlow {
                waited_ms: FORK_DEADLINE.as_millis(),
            })
        })
    }

    async fn fork_on(
        &self,
        served: &Served,
        request: &KernelRequest,
    ) -> Result<ProvisionedKernel, ProvisionError> {
        let ends = ends()?;
        let server = &served.server;
        let forked = server.fork(self.order(request), ends.theirs).await?;
        let forked = Arc::new(forked);
        let jobs = Arc::new(ForkedJobs::new(
            &forked,
            request.umask,
            self.limits_of(request),
        ));
        Ok(ProvisionedKernel {
            link: ends.link,
            stdout: ends.stdout,
            stderr: ends.stderr,
            page: ends.page,
            interpreter: server.interpreter().clone(),
            choice: served.choice.clone(),
            process: forked,
            jobs,
        })
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<Key, Slot>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits_of(&self, request: &KernelRequest) -> LimitsOrder {
        LimitsOrder::new(self.options.nofile, request.limits.as_ref())
    }

    pub(super) fn order(&self, request: &KernelRequest) -> ForkOrder {
        ForkOrder {
            op: "fork",
            id: 0,
            kernel: None,
            program: None,
            argv: request.argv.clone(),
            cwd: request.cwd.clone(),
            umask: request.umask,
            limits: self.limits_of(request),
            env: request.environment.iter().cloned().collect(),
        }
    }
}

#[async_trait]
impl Provisioner for LocalProvisioner {
    async fn start(&self, request: &KernelRequest) -> Result<ProvisionedKernel, ProvisionError> {
        // The look at the directory is a way to another thread and back, and the start need not wait
        // for it; it is given up if the directory is not there.
        let mut starting = pin!(self.start_anywhere(request));
        let mut looking = pin!(directory(&request.cwd));
        tokio::select! {
            found = &mut looking => {
                found?;
                starting.await
            }
            started = &mut starting => {
                looking.await?;
                started
            }
        }
    }
}

impl LocalProvisioner {
    async fn start_anywhere(
        &self,
        request: &KernelRequest,
    ) -> Result<ProvisionedKernel, ProvisionError> {
        if let Some(foreign) = &request.foreign {
            return self.start_foreign(request, foreign).await;
        }
        let server = self.server(request).await?;
        let mut forking = pin!(self.fork_on(&server, request));
        tokio::select! {
            biased;
            // If it was killed while we asked, a new one is tried.
            answer = &mut forking => if !is_gone(&answer) { return answer },
            () = server.server.silent(SILENT) => {
                server.server.suspect(DEAF);
                // Whoever is first.
                tokio::select! {
                    biased;
                    answer = &mut forking => if !is_gone(&answer) { return answer },
                    answer = self.fork_anew(request) => return answer,
                }
            }
        }
        self.fork_anew(request).await
    }
}

/// Whether the directory is there.
async fn directory(cwd: &Path) -> Result<(), ProvisionError> {
    let reason = match tokio::fs::metadata(cwd).await {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ProvisionError::WorkingDirectory {
        cwd: cwd.to_owned(),
        reason,
    })
}

fn is_gone<T>(answer: &Result<T, ProvisionError>) -> bool {
    matches!(answer, Err(ProvisionError::ForkserverGone { .. }))
}

pub(super) fn ends() -> Result<Ends, ProvisionError> {
    let (link, their_link) = socket_pair()?;
    let (stdout, their_stdout) = output_pipe()?;
    let (stderr, their_stderr) = output_pipe()?;
    let page = InterruptPage::new()?;
    let their_page = page.share()?;
    let theirs = vec![their_link, their_stdout, their_stderr, their_page];
    Ok(Ends {
        link,
        stdout,
        stderr,
        page,
        theirs,
    })
}

fn closing() -> ProvisionError {
    ProvisionError::ForkserverGone {
        reason: "was not started: the manager is shutting down".to_owned(),
    }
}

/// Whether a variable counts only when an interpreter starts: a forked kernel cannot take it over,
/// so it is part of what tells forkservers apart.
fn only_at_start(name: &str) -> bool {
    const PREFIXES: [&str; 5] = ["PYTHON", "LD_", "LC_", "OMP_", "MALLOC_"];
    // A start wrapper of the interpreter finds it by PATH and HOME, and so does the user's own
    // package folder. Unbuffered output would make print-heavy cells three times slower.
    const NAMES: [&str; 5] = ["LANG", "LANGUAGE", "PATH", "HOME", "TZ"];
    name != "PYTHONUNBUFFERED"
        && (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::only_at_start;

    #[test]
    fn what_a_fork_cannot_change_tells_forkservers_apart() {
        for name in [
            "PYTHONPATH",
            "PYTHONHASHSEED",
            "LD_LIBRARY_PATH",
            "LC_ALL",
            "LANG",
            "PATH",
        ] {
            assert!(only_at_start(name), "{name}");
        }
        for name in ["PYTHONUNBUFFERED", "HERMES_HOME", "VIRTUAL_ENV", "MY_LANG"] {
            assert!(!only_at_start(name), "{name}");
        }
    }
}
