//! Kernels on this machine, forked by a forkserver for each interpreter and start environment.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::ends::Ends;
use super::error::describe_choice;
use super::forked::Forked;
use super::forked_job::ForkedJobs;
use super::forkserver::Forkserver;
use super::forkserver_start::{ForkserverSpec, StartFailure, start};
use super::messages::{ForkOrder, LimitsOrder};
use super::start_environment::start_environment;
use super::{KernelRequest, ProvisionError, ProvisionedKernel, Provisioner, Rejected};
use crate::environment::{Candidate, Identity, Unusable};
use crate::process::{in_a_thread, nofile_limits};
use crate::python_source::Sources;

/// Silent for so long, and a new forkserver serves new kernels.
const SILENT: Duration = Duration::from_millis(50);
/// Silent for so long, and it is killed.
const DEAF: Duration = Duration::from_secs(2);
/// How long a Python may take until its forkserver says hello, where another is tried after it.
const PATIENCE: Duration = Duration::from_secs(5);
/// And where none is.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// How long a new forkserver may take to fork.
const FORK_DEADLINE: Duration = Duration::from_secs(10);

/// What every local kernel of a manager has in common.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// The unpacked sources.
    pub sources: Arc<Sources>,
    /// The folder of sockets, removed by a forkserver when the manager is gone.
    pub sockets: PathBuf,
    /// Folders of this manager's that a forkserver removes too, with all that is in them, when the manager
    /// is gone and did not say so.
    pub scratch: Vec<PathBuf>,
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
    /// The files that it was started from, as they were then.
    stands_on: Vec<(PathBuf, Identity)>,
    /// When the last start failed, and why. It is tried again by whoever asks later.
    failed: Option<(Instant, Unusable)>,
}

impl SlotState {
    /// The forkserver, if it can be used and its Python is the one that is there now: an environment may
    /// have been made anew, or its Python be another version.
    fn current(&self) -> Option<&Arc<Forkserver>> {
        let server = self.server.as_ref().filter(|server| server.is_usable())?;
        let same = |(path, identity): &(PathBuf, Identity)| Identity::of(path) == *identity;
        self.stands_on.iter().all(same).then_some(server)
    }
}

/// Starts kernels on this machine.
#[derive(Debug)]
pub struct LocalProvisioner {
    pub(super) options: LocalOptions,
    servers: Mutex<HashMap<Key, Slot>>,
    /// Kernels that are not ours and do not come up with Unix sockets, by their commands.
    over_tcp: Mutex<HashSet<Vec<String>>>,
    /// Fires when no more is to be started.
    closing: CancellationToken,
}

/// A forkserver for a request.
pub(super) struct Served {
    pub(super) server: Arc<Forkserver>,
    /// For the caller, if it is not that of the first Python.
    pub(super) choice: Option<String>,
}

impl LocalProvisioner {
    /// A provisioner without a forkserver; the first kernel starts one.
    pub fn new(options: LocalOptions) -> Self {
        Self {
            options,
            servers: Mutex::default(),
            over_tcp: Mutex::default(),
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
        let start_environment = start_environment(&request.environment);
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
                        source = %candidate.source,
                        %reason,
                        "a Python was passed over"
                    );
                    rejected.push(Rejected {
                        path: candidate.path.clone(),
                        source: candidate.source,
                        reason,
                    });
                    if candidate.source.is_explicit() {
                        break;
                    }
                }
            }
        }
        Err(ProvisionError::NoInterpreter { rejected })
    }

    pub(super) async fn server_for(
        &self,
        candidate: &Candidate,
        environment: &[(String, String)],
    ) -> Result<Arc<Forkserver>, StartFailure> {
        let asked = Instant::now();
        let key = (candidate.path.clone(), environment.to_vec());
        let place = Arc::clone(self.servers().entry(key).or_default());
        // One start at a time for each key: parallel first calls get one forkserver.
        let mut slot = place.lock().await;
        if let Some(server) = slot.current() {
            return Ok(Arc::clone(server));
        }
        if let Some((_, reason)) = slot.failed.as_ref().filter(|(at, _)| *at >= asked) {
            // It was tried while we waited; an interpreter that hangs costs its time once.
            return Err(StartFailure::Unusable(reason.clone()));
        }
        let (path, is_explicit) = (&candidate.path, candidate.source.is_explicit());
        let unusable = Unusable::by_sight(path).or_else(|| {
            // Whoever asks for it by name may know better.
            let by_name = is_explicit;
            (!by_name).then(|| Unusable::relocated(path)).flatten()
        });
        if let Some(reason) = unusable {
            return Err(StartFailure::Unusable(reason));
        }
        // As it is before it runs: what changes meanwhile is noticed the next time.
        let identity = Identity::of(path);
        let sources = self.sources().await?;
        let starting = start(ForkserverSpec {
            program: path.clone(),
            patience: if is_explicit { LAST_PATIENCE } else { PATIENCE },
            environment: environment.to_vec(),
            sources,
            folders: std::iter::once(&self.options.sockets)
                .chain(&self.options.scratch)
                .cloned()
                .collect(),
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
        let executable = server.interpreter().executable.clone();
        slot.stands_on = vec![(path.clone(), identity)];
        if executable != *path {
            let identity = Identity::of(&executable);
            slot.stands_on.push((executable.clone(), identity));
        }
        let own = (executable, environment.to_vec());
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
        let mut ends = Ends::new()?;
        let order = self.order(request);
        let theirs = std::mem::take(&mut ends.theirs);
        let forked = served.server.fork(order, theirs).await?;
        Ok(self.kernel(ends, served, Arc::new(forked), request))
    }

    /// A process that was forked as a kernel.
    pub(super) fn kernel(
        &self,
        ends: Ends,
        served: &Served,
        forked: Arc<Forked>,
        request: &KernelRequest,
    ) -> ProvisionedKernel {
        let jobs = ForkedJobs::new(&forked, request.umask, self.limits_of(request));
        ProvisionedKernel {
            link: ends.link,
            stdout: ends.stdout,
            stderr: ends.stderr,
            page: ends.page,
            interpreter: served.server.interpreter().clone(),
            choice: served.choice.clone(),
            process: forked,
            jobs: Arc::new(jobs),
            info: None,
            scratch: None,
        }
    }

    /// The commands of kernels that were reached over TCP.
    pub(super) fn over_tcp(&self) -> MutexGuard<'_, HashSet<Vec<String>>> {
        self.over_tcp.lock().unwrap_or_else(PoisonError::into_inner)
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
            own: Arc::clone(&request.own_variables),
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
        // Whether one may go there the system says of what lies in it.
        Ok(found) if found.is_dir() => match tokio::fs::metadata(cwd.join(".")).await {
            Ok(_) => return Ok(()),
            Err(error) => error.to_string(),
        },
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

fn closing() -> ProvisionError {
    ProvisionError::ForkserverGone {
        reason: "was not started: the manager is shutting down".to_owned(),
    }
}
