//! Sessions as Jupyter Server's kernels: their ids, and how they are described.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Caller;
use crate::environment::kernelspecs;
use crate::frontends::Frontends;
use crate::kernel::KernelState;
use crate::server::Manager;
use crate::session::Session;

/// The name under which kernels are asked for.
pub(super) const SPEC_NAME: &str = "python3";
/// WebSockets of one manager.
const MOST_SOCKETS: usize = 128;

/// All kernelspecs that kernels can be asked for by, as Jupyter Server describes them.
///
/// Reads files (blocking).
pub(super) fn all_kernelspecs(manager: &Manager) -> Map<String, Value> {
    let caller = Caller {
        environment: manager.registry().settings().kernel_environment.clone(),
        cwd: PathBuf::from("/"),
        umask: 0o022,
        limits: None,
        python: None,
        kernel: None,
        mode: None,
        named: Vec::new(),
    };
    let found = kernelspecs(&caller).found.into_iter();
    let mut specs: Map<String, Value> = found
        .filter(|(_, it)| it.problem.is_none())
        .map(|(name, it)| {
            let entry = json!({ "name": name, "spec": it.spec, "resources": {} });
            (name, entry)
        })
        .collect();
    specs.insert(SPEC_NAME.to_owned(), kernelspec());
    specs
}

/// Our own kernelspec, as Jupyter Server describes one.
pub(super) fn kernelspec() -> Value {
    json!({
        "name": SPEC_NAME,
        "spec": {
            "argv": [],
            "env": {},
            "display_name": "Python (Warmcell)",
            "language": "python",
            "interrupt_mode": "message",
            "metadata": {},
        },
        "resources": {},
    })
}

/// The kernels of a manager and who watches them.
#[derive(Debug)]
pub(in crate::server) struct Kernels {
    frontends: Arc<Frontends>,
    sockets: Arc<Semaphore>,
}

impl Default for Kernels {
    fn default() -> Self {
        Self {
            frontends: Arc::default(),
            sockets: Arc::new(Semaphore::new(MOST_SOCKETS)),
        }
    }
}

impl Kernels {
    /// A place for one more WebSocket.
    pub(super) fn socket(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sockets).try_acquire_owned().ok()
    }

    /// Those who watch sessions.
    pub(in crate::server) fn frontends(&self) -> &Arc<Frontends> {
        &self.frontends
    }

    /// A kernel, as Jupyter Server describes one.
    pub(super) fn model(&self, session: &Session) -> Value {
        json!({
            "id": kernel_id(session),
            "name": session.status().kernel.unwrap_or_else(|| SPEC_NAME.to_owned()),
            "last_activity": date(session.last_activity()),
            "execution_state": execution_state(session),
            "connections": self.frontends.clients(session),
            "warmcell": { "session": session.name().as_str() },
        })
    }
}

/// A session that has no kernel is idle: the next cell starts one.
fn execution_state(session: &Session) -> &'static str {
    match session.status().state {
        _ if session.is_busy() => "busy",
        KernelState::Busy | KernelState::Interrupting => "busy",
        KernelState::Starting => "starting",
        KernelState::Restarting => "restarting",
        KernelState::Idle | KernelState::Dead => "idle",
    }
}

/// A date as Jupyter's own readers take it: in microseconds.
fn date(at: Timestamp) -> String {
    format!("{at:.6}")
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
