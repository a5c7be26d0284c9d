//! The sessions of a manager that are watched.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
use super::hub::{Hub, Joined};
use super::others;
use super::outbox::Outbox;
use crate::session::Session;

/// The front ends of a manager: who watches which session.
#[derive(Debug, Default)]
pub struct Frontends {
    hubs: Mutex<HashMap<String, Arc<Hub>>>,
    budget: Arc<Budget>,
    show_secrets: AtomicBool,
}

impl Frontends {
    /// An outbox for a client. At most 16 MiB wait in it, and at most 64 MiB in all those of these
    /// front ends: whoever is furthest behind then is cut off.
    pub fn outbox(&self) -> Arc<Outbox> {
        self.budget.outbox()
    }

    /// From now on the cells of those who watch a session first show secrets as they are: it is a person's
    /// own notebook. Without this they are masked. Cells that come another way, and what is printed
    /// between cells, are masked all the same.
    pub fn show_secrets(&self) {
        self.show_secrets.store(true, Ordering::Relaxed);
    }

    /// Joins those who watch a session: from now on the outbox gets what is published. If a cell runs
    /// it gets at once what has been told of its beginning. As long as what is returned lives the
    /// session's kernel is not ended for want of cells. To be called within a runtime of tokio.
    pub fn join(self: &Arc<Self>, session: Session, outbox: Arc<Outbox>) -> Joined {
        // Under the lock no hub that is being left is joined.
        let mut hubs = self.hubs();
        if let Some(hub) = hubs.get(session.id()) {
            return hub.join(outbox);
        }
        let id = session.id().to_owned();
        let hub = Hub::new(session, self.show_secrets.load(Ordering::Relaxed));
        let joined = hub.join(outbox);
        // Watched from here on: nothing is missed before the task begins.
        let events = hub.session().events();
        tokio::spawn(others::follow(Arc::clone(self), Arc::clone(&hub), events));
        hubs.insert(id, hub);
        joined
    }

    /// How many clients watch a session.
    pub fn clients(&self, session: &Session) -> usize {
        let hub = self.hubs().get(session.id()).cloned();
        hub.map_or(0, |hub| hub.clients())
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

    fn hubs(&self) -> MutexGuard<'_, HashMap<String, Arc<Hub>>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
