//! The sessions of a manager, by name.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::ask::WAITING_QUESTIONS;
use super::census::Census;
use super::event::EventLog;
use super::following::{Configured, Following};
use super::ledger::Ledger;
use super::page::Page;
use super::presence::Presence;
use super::session::Shared;
use super::starter::{Means, Starter};
use super::status::Facts;
use super::worker::{SessionTerms, Worker};
use super::{Cell, CellError, Session, SessionError, SessionName};
use crate::config::{Caller, Settings};
use crate::environment::{Ladder, TriedRung, refuse_credentials, visible};
use crate::execution::{Store, Unreceived};
use crate::folders::{OwnFolder, Scratch, private_bases, socket_folder};
use crate::ids::random_hex;
use crate::kernel::FrameBudget;
use crate::process::{adopt_orphans, hide_memory, in_a_thread, raise_nofile};
use crate::provisioner::{LocalOptions, LocalProvisioner, ProvisionError};
use crate::python_source::Sources;
use crate::tools::{RequestBudget, ToolServer, ToolSettings, ToolTable, hermes_tools};

/// Cells of one session that may wait.
pub(super) const WAITING_CELLS: usize = 32;
/// Cells in the queue, those included whose callers have gone away: they leave it in their turn.
const QUEUED_CELLS: usize = 1_024;
/// Resets and closes that may wait.
const WAITING_CONTROLS: usize = 8;
/// The end of a manager waits so long for the removal of old files.
const PRUNING_PATIENCE: Duration = Duration::from_millis(500);
/// Bytes that unfinished frames of all kernels may take together.
const FRAME_BUDGET_BYTES: usize = 256 << 20;

/// A manager: it holds sessions, and everything they have in common.
#[derive(Debug)]
pub struct Registry {
    settings: watch::Sender<Arc<Settings>>,
    tools: ToolTable,
    sockets: Arc<OwnFolder>,
    sources: Arc<Sources>,
    provisioner: Arc<LocalProvisioner>,
    scratch: Arc<Scratch>,
    budget: Arc<FrameBudget>,
    requests: Arc<RequestBudget>,
    sessions: Mutex<HashMap<SessionName, Session>>,
    ledger: Option<Ledger>,
    store: Arc<Store>,
    census: Census,
    /// Set once it is shut down.
    ended: watch::Sender<Option<Vec<(SessionName, Unreceived)>>>,
    /// Fires when this is dropped.
    gone: CancellationToken,
}

impl Registry {
    /// A manager with the tools of [`ToolTable::standard`].
    ///
    /// Where there is a limit on the size of files, a write beyond it ends a program that does not
    /// handle SIGXFSZ: [`survive_file_size_limit`](crate::process::survive_file_size_limit) does.
    ///
    /// # Errors
    ///
    /// If no folder can be had for sockets or for the Python half.
    pub async fn start(settings: Settings) -> Result<Self, SessionError> {
        Self::with_tools(settings, ToolTable::standard()).await
    }

    /// A manager with tools of one's own.
    ///
    /// # Errors
    ///
    /// If no folder can be had for sockets or for the Python half.
    pub async fn with_tools(settings: Settings, tools: ToolTable) -> Result<Self, SessionError> {
        let adopts = settings.adopt_orphans && adopt_orphans();
        let provisioner_limits = LocalProvisioner::limits();
        raise_nofile();
        hide_memory();
        let for_folders = settings.clone();
        let shim = hermes_tools(&tools);
        let (sockets, sources) = in_a_thread(move || folders(&for_folders, &shim)).await??;
        let ledger = match settings.ledger.clone() {
            Some(folder) => Some(in_a_thread(move || Ledger::open(folder)).await?),
            None => None,
        };
        let scratch = scratch(&settings);
        let provisioner = Arc::new(LocalProvisioner::new(LocalOptions {
            sources: Arc::clone(&sources),
            sockets: sockets.path().to_owned(),
            scratch: scratch.places(),
            adopt_orphans: adopts,
            bridge: settings.bridge.clone(),
            foreign_start: settings.foreign_start,
            nofile: provisioner_limits,
        }));
        Ok(Self {
            store: Store::new(settings.home.clone()),
            settings: watch::Sender::new(Arc::new(settings)),
            tools,
            sockets: Arc::new(sockets),
            sources,
            provisioner,
            scratch,
            budget: FrameBudget::new(FRAME_BUDGET_BYTES),
            requests: RequestBudget::new(),
            sessions: Mutex::default(),
            ledger,
            census: Census::new(),
            ended: watch::Sender::default(),
            gone: CancellationToken::new(),
        })
    }

    /// What it was told before it started, or since.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.borrow())
    }

    /// From now on it has these settings. A cell that runs goes on as it began; the next one, of any
    /// session, has the limits, windows, policies and grace, and kernels the idle timeout; what
    /// kernels are started with is for new sessions. Folders, and what the manager itself is (`home`,
    /// `runtime_dir`, `temp_dir`, `ledger`, `adopt_orphans`, `bridge`, `foreign_start`, `end_grace`, `restarts`),
    /// stay as they were at its start.
    pub fn change_settings(&self, settings: Settings) {
        self.settings.send_replace(Arc::new(settings));
    }

    /// Places that would not do for the Python half, with the reason; empty if the home did.
    pub fn passed_over(&self) -> &[String] {
        self.sources.passed_over()
    }

    /// The session of that name; made if there is none. A session that lives keeps what it got from
    /// its first caller; what a later one changes it says with its cells (`Cell::caller`). No kernel
    /// is started before the first cell.
    ///
    /// # Errors
    ///
    /// If the name or the caller will not do, or the session's socket cannot be bound.
    pub fn session(&self, name: &str, caller: &Caller) -> Result<Session, SessionError> {
        self.session_or_new(name, caller)
            .map(|(session, _)| session)
    }

    /// As [`Registry::session`], and whether it was made just now.
    ///
    /// # Errors
    ///
    /// As [`Registry::session`].
    pub fn session_or_new(
        &self,
        name: &str,
        caller: &Caller,
    ) -> Result<(Session, bool), SessionError> {
        let name = SessionName::parse(name)?;
        caller.check()?;
        refuse_credentials(caller)?;
        let mut sessions = self.sessions();
        if let Some(session) = sessions.get(&name).filter(|session| !session.is_closed()) {
            return Ok((session.clone(), false));
        }
        let session = self.open(name.clone(), caller)?;
        // Names that come and go leave nothing behind.
        sessions.retain(|_, session| !session.is_closed());
        sessions.insert(name, session.clone());
        Ok((session, true))
    }

    /// Whether a session here would run a cell, as far as its terms say: for those who open one for it.
    ///
    /// # Errors
    ///
    /// The first of its terms that will not do.
    pub fn check(&self, cell: &Cell) -> Result<(), CellError> {
        cell.check(&self.tools)
    }

    /// The session of that name, if it lives.
    pub fn find(&self, name: &SessionName) -> Option<Session> {
        let sessions = self.sessions();
        let found = sessions.get(name).filter(|session| !session.is_closed());
        found.cloned()
    }

    /// The sessions that live, in the order of their names.
    pub fn sessions_in_order(&self) -> Vec<Session> {
        let mut sessions: Vec<Session> = self
            .sessions()
            .values()
            .filter(|session| !session.is_closed())
            .cloned()
            .collect();
        sessions.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        sessions
    }

    /// The names of the sessions that live, in order.
    pub fn names(&self) -> Vec<SessionName> {
        let mut names: Vec<SessionName> = self
            .sessions()
            .values()
            .filter(|session| !session.is_closed())
            .map(|session| session.name().clone())
            .collect();
        names.sort_unstable();
        names
    }

    fn open(&self, name: SessionName, caller: &Caller) -> Result<Session, SessionError> {
        let span = tracing::info_span!("session", session_id = %name);
        let _in_it = span.clone().entered();
        let changing = self.settings.subscribe();
        let settings = self.settings();
        let for_tools = ToolSettings {
            table: self.tools.clone(),
            agent_home: settings.home.clone(),
            user_home: caller.variable("HOME").map(PathBuf::from),
            terminal_timeout: settings.terminal_timeout,
            requests: Arc::clone(&self.requests),
        };
        let bound = self.sockets.stand();
        let tools = bound
            .and_then(|()| ToolServer::bind(self.sockets.path(), for_tools))
            .map_err(|source| SessionError::ToolSocket { source })?;
        let means = Means {
            provisioner: Arc::clone(&self.provisioner) as _,
            budget: Arc::clone(&self.budget),
            tool_variables: tools.variables(),
            sources: Arc::clone(&self.sources),
            limits: settings.kernel_limits.clone(),
            passed: settings.passed_variables.clone(),
            configured: Configured::of(&settings),
            scratch: Arc::clone(&self.scratch),
        };
        let starter = Starter::new(means, caller);
        let starter_mode = starter.mode();
        let shelf = Arc::default();
        let ledger = self.ledger.as_ref();
        let page = ledger.map(|ledger| Page::new(ledger, &name, &shelf));
        let shared = Arc::new(Shared {
            events: EventLog::new(name.to_string()),
            facts: Facts::new(caller.cwd.clone()),
            tools: self.tools.clone(),
            name,
            id: random_hex(16),
            generation: AtomicU64::new(0),
            current: Mutex::default(),
            asking: Mutex::default(),
            closed: AtomicBool::new(false),
            being_reset: AtomicBool::new(false),
            presence: Presence::new(),
            is_left: AtomicBool::new(false),
            manager_gone: self.gone.clone(),
        });
        let terms = SessionTerms {
            settings,
            changing,
            store: Arc::clone(&self.store),
            census: self.census.clone(),
            commands_environment: starter.commands(),
        };
        let (jobs, job_queue) = mpsc::channel(QUEUED_CELLS);
        let (controls, control_queue) = mpsc::channel(WAITING_CONTROLS);
        let sockets = Arc::clone(&self.sockets);
        let following = Following::new(caller, starter_mode, Configured::of(&terms.settings));
        let worker = Worker::new(
            Arc::clone(&shared),
            terms,
            starter,
            page,
            following,
            tools,
            sockets,
        );
        tokio::spawn(worker.run(job_queue, control_queue).instrument(span));
        Ok(Session {
            shared,
            jobs,
            controls,
            places: Arc::new(Semaphore::new(WAITING_CELLS)),
            questions: Arc::new(Semaphore::new(WAITING_QUESTIONS)),
            shelf,
        })
    }

    /// Which Python a kernel of this caller's would have: every rung of the ladder, with what became of it.
    /// Each Python is started that is not running yet, and given up after 5 s.
    ///
    /// # Errors
    ///
    /// If no Python at all could be started, through no fault of theirs.
    ///
    /// # Cancel safety
    ///
    /// May be dropped.
    pub async fn pythons(&self, caller: &Caller) -> Result<Vec<TriedRung>, ProvisionError> {
        let (caller, settings) = (caller.clone(), self.settings());
        let (rungs, variables) = in_a_thread(move || {
            let mode = caller.mode.unwrap_or(settings.mode);
            let ladder = Ladder::of(&caller, settings.python.as_deref(), mode);
            let seen = visible(&caller, &settings.passed_variables);
            (ladder.rungs(), seen.variables)
        })
        .await?;
        self.provisioner.try_rungs(rungs, &variables).await
    }

    /// How many sessions have a kernel now; one that is being started counts.
    pub fn kernels(&self) -> usize {
        self.census.count()
    }

    /// Waits until no session has had a kernel for so long. A cell has none before its turn comes: who
    /// hands over cells knows of those.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again; the time begins anew.
    pub async fn quiet(&self, time: Duration) {
        let mut kernels = self.census.watch();
        loop {
            // The sender lives as long as this.
            drop(kernels.wait_for(|count| *count == 0).await);
            if timeout(time, kernels.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Closes all sessions and waits until everything that was started is gone. Which results nobody has
    /// received: with a ledger the next manager tells them too.
    pub async fn shut_down(&self) -> Vec<(SessionName, Unreceived)> {
        let sessions: Vec<Session> = self
            .sessions()
            .drain()
            .map(|(_, session)| session)
            .collect();
        let mut closing = tokio::task::JoinSet::new();
        for session in sessions {
            session.shared.is_left.store(true, Ordering::Release);
            closing.spawn(async move { (session.name().clone(), session.close().await) });
        }
        let mut unreceived = Vec::new();
        while let Some(closed) = closing.join_next().await {
            let Ok((name, ended)) = closed else { continue };
            unreceived.extend(ended.unreceived.into_iter().map(|it| (name.clone(), it)));
        }
        unreceived.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.provisioner.shut_down().await;
        self.store.settled(PRUNING_PATIENCE).await;
        // Without a forkserver nobody else has removed it.
        drop(std::fs::remove_dir(self.sockets.path()));
        self.ended.send_replace(Some(unreceived.clone()));
        unreceived
    }

    /// Waits until it was [shut down](Self::shut_down): what that has said.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn ended(&self) -> Vec<(SessionName, Unreceived)> {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as this.
        let ended = ended.wait_for(Option::is_some).await;
        ended
            .ok()
            .and_then(|ended| ended.clone())
            .unwrap_or_default()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionName, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Sessions end with their manager, whoever still holds a handle; cells too.
        self.gone.cancel();
    }
}

/// On a real disk, where there is one: what cells write may be large.
fn scratch(settings: &Settings) -> Arc<Scratch> {
    let mut bases = vec![settings.home.join("cache").join("strict")];
    let private = private_bases(None, settings.temp_dir.as_deref());
    bases.extend(private.iter().map(|base| base.join("strict")));
    let scratch = Arc::new(Scratch::new(bases));
    if scratch.was_used() {
        // It may take its time, and nobody waits for it.
        let leftovers = Arc::clone(&scratch);
        drop(tokio::spawn(in_a_thread(move || leftovers.sweep())));
    }
    scratch
}

fn folders(settings: &Settings, shim: &str) -> Result<(OwnFolder, Arc<Sources>), SessionError> {
    let private = private_bases(
        settings.runtime_dir.as_deref(),
        settings.temp_dir.as_deref(),
    );
    let mut bases = vec![settings.home.join("cache").join("warmcell")];
    bases.extend(private.iter().map(|base| base.join("python")));
    let sources = Sources::unpack(bases, shim)?;
    let sockets = socket_folder(&private)?;
    Ok((sockets, Arc::new(sources)))
}
