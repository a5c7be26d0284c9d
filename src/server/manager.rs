//! What the requests of a door have in common: the manager behind it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::configured::Configured;
use super::jupyter::Kernels;
use super::refusal::Refusal;
use super::wire::{ManagerInfo, VERSION};
use crate::execution::Interrupt;
use crate::frontends::Frontends;
use crate::ids::random_hex;
use crate::session::{Execution, Policy, Registry, Session, SessionName};

/// Kilobytes that the long bodies of all requests may take together.
const BODY_KILOBYTES: usize = 160 << 10;

/// A manager, as it shows itself at its door.
#[derive(Debug)]
pub struct Manager {
    registry: Arc<Registry>,
    id: String,
    kind: &'static str,
    owner: String,
    home: PathBuf,
    started_at: Timestamp,
    /// Where its socket is, while it has one.
    socket: Mutex<Option<PathBuf>>,
    /// Cells that were asked for at this door and have no result yet.
    cells: Mutex<HashMap<String, Interrupt>>,
    /// Sessions that were made for a cell and have not had a kernel yet, by their ids.
    tried_out: Mutex<HashMap<String, Session>>,
    pub(super) bodies: Arc<Semaphore>,
    kernels: Arc<Kernels>,
    /// Fires when somebody wants this manager to end.
    stop: CancellationToken,
    /// Set once nothing new is begun.
    going: CancellationToken,
    /// Requests that are being served.
    pub(super) requests: watch::Sender<usize>,
    /// Where its settings come from, if they may change.
    pub(super) configured: OnceLock<Configured>,
}

impl Manager {
    /// Shows a registry; `kind` says what holds it (`server`, `program`, ...), `owner` whose it is,
    /// for display.
    pub fn new(
        registry: Arc<Registry>,
        kind: &'static str,
        owner: impl Into<String>,
        home: impl Into<PathBuf>,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            id: format!("{}-{}", std::process::id(), random_hex(4)),
            kind,
            owner: owner.into(),
            home: home.into(),
            started_at: Timestamp::now(),
            socket: Mutex::default(),
            cells: Mutex::default(),
            tried_out: Mutex::default(),
            bodies: Arc::new(Semaphore::new(BODY_KILOBYTES)),
            kernels: Arc::default(),
            stop: CancellationToken::new(),
            going: CancellationToken::new(),
            requests: watch::Sender::new(0),
            configured: OnceLock::new(),
        })
    }

    /// The sessions.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// A name that no other manager has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Fires when somebody at the door wants this manager to end.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// From now on nothing new is begun: who asks is told to ask the next server.
    pub fn refuse_new_work(&self) {
        self.going.cancel();
    }

    /// What it says of itself.
    pub fn info(&self) -> ManagerInfo {
        ManagerInfo {
            version: VERSION.to_owned(),
            id: self.id.clone(),
            pid: std::process::id(),
            kind: self.kind.to_owned(),
            owner: self.owner.clone(),
            home: self.home.clone(),
            started_at: self.started_at,
            socket: self.socket().clone(),
            sessions: self.registry.names().len(),
        }
    }

    /// From now on its socket is there.
    pub(super) fn is_at(&self, socket: Option<PathBuf>) {
        *self.socket() = socket;
    }

    fn socket(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those who watch its sessions.
    pub fn frontends(&self) -> &Arc<Frontends> {
        self.kernels.frontends()
    }

    /// Its sessions as Jupyter sees them.
    pub(super) fn kernels(&self) -> &Arc<Kernels> {
        &self.kernels
    }

    /// Fails once this manager is ending.
    pub(super) fn takes_work(&self) -> Result<(), Refusal> {
        if self.going.is_cancelled() {
            return Err(Refusal::going());
        }
        Ok(())
    }

    /// The session that a path names, if it lives here.
    pub(super) fn existing(&self, name: &str) -> Result<Session, Refusal> {
        let name = SessionName::parse(name).map_err(|error| Refusal::usage(error.to_string()))?;
        self.registry.find(&name).ok_or_else(|| {
            Refusal::not_found(format!(
                "there is no session {name}; `warmcell sessions` lists those there are"
            ))
        })
    }

    /// Enters a cell, so that it can be interrupted by its id.
    pub(super) fn enter(self: &Arc<Self>, execution: &Execution) -> Entered {
        let id = random_hex(8);
        self.cells().insert(id.clone(), execution.interrupt_token());
        Entered {
            manager: Arc::downgrade(self),
            id,
        }
    }

    /// A session was made for a cell; whether it can have a kernel is to be seen.
    pub(super) fn try_out(&self, session: &Session) {
        let mut tried_out = self.tried_out();
        tried_out.retain(|_, session| !session.is_closed());
        tried_out.insert(session.id().to_owned(), session.clone());
    }

    /// A cell of it has its result: a session that was made for it and could have no kernel goes again,
    /// once nobody waits for anything of it.
    pub(super) fn settle(&self, session: &Session) {
        let mut tried_out = self.tried_out();
        if !tried_out.contains_key(session.id()) {
            return;
        }
        let is_unused = session.is_unused();
        if is_unused || session.had_kernel() {
            tried_out.remove(session.id());
        }
        if is_unused {
            let session = session.clone();
            tokio::spawn(async move { drop(session.close().await) });
        }
    }

    /// Interrupts a cell that was entered, as this policy or else its own says and the second time by
    /// force; false if it has its result.
    pub(super) fn interrupt(&self, id: &str, policy: Option<Policy>) -> bool {
        let found = self.cells().get(id).cloned();
        found
            .inspect(|cell| match policy {
                None => cell.cancel(),
                Some(policy) => policy.interrupt(cell),
            })
            .is_some()
    }

    /// A request is being served, as long as what is returned lives.
    pub(super) fn request(self: &Arc<Self>) -> Request {
        self.requests.send_modify(|count| *count += 1);
        Request(Arc::clone(self))
    }

    /// Waits until no request is being served.
    pub async fn quiet(&self) {
        let mut requests = self.requests.subscribe();
        // The sender lives as long as this.
        drop(requests.wait_for(|count| *count == 0).await);
    }

    fn tried_out(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.tried_out
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn cells(&self) -> MutexGuard<'_, HashMap<String, Interrupt>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cell that can be interrupted by its id, until this is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    /// A cell that goes on by itself does not hold up the end of its manager.
    manager: Weak<Manager>,
    id: String,
}

impl Entered {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Stays entered until then.
    pub(super) fn until(self, end: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(async move {
            end.await;
            drop(self);
        });
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(manager) = self.manager.upgrade() {
            manager.cells().remove(&self.id);
        }
    }
}

/// A request that is being served.
#[derive(Debug)]
pub(super) struct Request(Arc<Manager>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.requests.send_modify(|count| *count -= 1);
    }
}
