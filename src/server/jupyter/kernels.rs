//! Sessions as Jupyter Server's kernels: their ids, and who watches them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::content::SPEC_NAME;
use super::hub::{Hub, Joined, date};
use super::others;
use super::outbox::Outbox;
use crate::server::Manager;
use crate::session::Session;

/// WebSockets of one manager: for each 16 MiB may wait.
const MOST_SOCKETS: usize = 128;

/// The sessions that are watched.
#[derive(Debug)]
pub(in crate::server) struct Kernels {
    hubs: Mutex<HashMap<String, Arc<Hub>>>,
    sockets: Arc<Semaphore>,
}

impl Default for Kernels {
    fn default() -> Self {
        Self {
            hubs: Mutex::default(),
            sockets: Arc::new(Semaphore::new(MOST_SOCKETS)),
        }
    }
}

impl Kernels {
    /// A place for one more WebSocket.
    pub(super) fn socket(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sockets).try_acquire_owned().ok()
    }

    /// Joins those who watch a session.
    pub(super) fn join(self: &Arc<Self>, session: Session, outbox: Arc<Outbox>) -> Joined {
        // Under the lock no hub that is being left is joined.
        let mut hubs = self.hubs();
        if let Some(hub) = hubs.get(session.id()) {
            return hub.join(outbox);
        }
        let id = session.id().to_owned();
        let hub = Hub::new(session);
        let joined = hub.join(outbox);
        // Watched from here on: nothing is missed before the task begins.
        let events = hub.session().events();
        tokio::spawn(others::follow(Arc::clone(self), Arc::clone(&hub), events));
        hubs.insert(id, hub);
        joined
    }

    /// Takes a hub out if nobody uses it any more; false if somebody does.
    pub(super) fn leave(&self, hub: &Hub) -> bool {
        let mut hubs = self.hubs();
        let users = *hub.users.borrow();
        let is_unused = users.clients == 0 && users.cells == 0;
        if is_unused {
            hubs.remove(hub.session().id());
        }
        is_unused
    }

    /// Takes a hub out whose session has been closed.
    pub(super) fn forget(&self, hub: &Hub) {
        self.hubs().remove(hub.session().id());
    }

    /// A kernel, as Jupyter Server describes one.
    pub(super) fn model(&self, manager: &Manager, session: &Session) -> Value {
        let hub = self.hubs().get(session.id()).cloned();
        let connections = hub.as_ref().map_or(0, |hub| hub.clients());
        let last_activity = hub
            .as_ref()
            .map_or_else(|| manager.info().started_at, |hub| hub.last_activity());
        json!({
            "id": kernel_id(session),
            "name": SPEC_NAME,
            "last_activity": date(last_activity),
            "execution_state": if session.is_busy() { "busy" } else { "idle" },
            "connections": connections,
            "warmcell": { "session": session.name().as_str() },
        })
    }

    fn hubs(&self) -> MutexGuard<'_, HashMap<String, Arc<Hub>>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id of a session in the form that Jupyter gives to ids of kernels.
pub(super) fn kernel_id(session: &Session) -> String {
    dashed(session.id())
}

fn dashed(id: &str) -> String {
    let mut text = String::with_capacity(36);
    for (at, digit) in id.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

/// The session that an id means, if it lives.
pub(super) fn find(manager: &Manager, kernel_id: &str) -> Option<Session> {
    let id: String = kernel_id
        .chars()
        .filter(|digit| *digit != '-')
        .take(64)
        .collect();
    let sessions = manager.registry().sessions_in_order();
    sessions.into_iter().find(|session| session.id() == id)
}

#[cfg(test)]
mod tests {
    use super::dashed;

    #[test]
    fn ids_have_the_form_of_jupyters() {
        assert_eq!(
            dashed("0123456789abcdef0123456789abcdef"),
            "01234567-89ab-cdef-0123-456789abcdef"
        );
    }
}
