//! What cells do that no client of ours has handed over, published from the session's events.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::close_code;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::content::{self, Failure, RESTARTING};
use super::hub::{Hub, Parent, date};
use super::kernels::Kernels;
use crate::execution::{LossReason, Outcome};
use crate::ids::random_hex;
use crate::jupyter::header;
use crate::kernel::KernelState;
use crate::session::{Event, EventKind, EventStream};

/// How long a closed session's last cells may take to be told.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Publishes what happens in a session until nobody uses the hub or the session is closed.
pub(super) async fn follow(kernels: Arc<Kernels>, hub: Arc<Hub>, mut events: EventStream) {
    let mut others = Others {
        hub: Arc::clone(&hub),
        running: Running::default(),
    };
    let mut users = hub.users.subscribe();
    let session = hub.session().clone();
    loop {
        let unused = async {
            drop(
                users
                    .wait_for(|users| users.clients == 0 && users.cells == 0)
                    .await,
            );
        };
        tokio::select! {
            biased;
            event = events.next() => match event {
                Some(event) => others.event(event).await,
                None => break,
            },
            () = session.closed() => break,
            () = unused => {
                if kernels.leave(&hub) {
                    return;
                }
                // Somebody has come meanwhile.
                tokio::task::yield_now().await;
            }
        }
    }
    kernels.forget(&hub);
    others.finish(None);
    let told = async { drop(users.wait_for(|users| users.cells == 0).await) };
    drop(timeout(LAST_WORDS, told).await);
    hub.publish_state("dead");
    hub.close(close_code::AWAY, "the session was closed");
}

/// The cell of another that runs.
#[derive(Debug)]
struct Current {
    cell: u64,
    parent: Parent,
    execution_count: Option<u64>,
    /// Its kernel was lost; told once the cell has been told.
    was_lost: bool,
    _floor: Option<OwnedMutexGuard<()>>,
}

#[derive(Debug, Default)]
enum Running {
    #[default]
    Nothing,
    /// A cell of a client of ours: `cell` tells what it does.
    Own,
    Others(Current),
}

#[derive(Debug)]
struct Others {
    hub: Arc<Hub>,
    running: Running,
}

impl Others {
    async fn event(&mut self, event: Event) {
        let generation = event.generation;
        match (event.cell, event.kind) {
            (None, EventKind::KernelState { from, to, reason }) => self.state(from, to, &reason),
            (_, EventKind::Lagged { missed }) => self.lagged(missed),
            (Some(cell), EventKind::CellStarted) => drop(self.begin(cell, generation).await),
            (Some(cell), EventKind::CellFinished { outcome }) => {
                let is_told = match &self.running {
                    Running::Nothing => false,
                    Running::Own => true,
                    Running::Others(current) => current.cell == cell,
                };
                if is_told {
                    self.finish(Some(&outcome));
                }
            }
            (Some(cell), kind) => {
                if let Some(current) = self.begin(cell, generation).await {
                    let parent = current.parent.clone();
                    let count = current.execution_count;
                    self.output(kind, &parent, count);
                }
            }
            (None, _) => {}
        }
    }

    fn output(&self, kind: EventKind, parent: &Parent, execution_count: Option<u64>) {
        let (msg_type, content) = match kind {
            EventKind::Stdout { text } => ("stream", content::stream("stdout", &text)),
            EventKind::Stderr { text } => ("stream", content::stream("stderr", &text)),
            EventKind::Result { data } => (
                "execute_result",
                content::execute_result(&data, execution_count),
            ),
            _ => return,
        };
        self.hub.publish_now(msg_type, parent, &content);
    }

    /// A cell runs: if it is another's and was not told yet, it is told now. `None` if it is a
    /// client's of ours.
    async fn begin(&mut self, cell: u64, generation: u64) -> Option<&Current> {
        let is_told = matches!(&self.running, Running::Others(current) if current.cell == cell);
        if !is_told {
            // One runs at a time, so whatever was told before has ended.
            self.finish(None);
            self.running = if self.hub.is_own(cell) {
                Running::Own
            } else {
                Running::Others(self.busy(cell, generation).await)
            };
        }
        match &self.running {
            Running::Others(current) => Some(current),
            Running::Nothing | Running::Own => None,
        }
    }

    async fn busy(&self, cell: u64, generation: u64) -> Current {
        let floor = self.hub.floor().await;
        let execution_count = self.hub.next_execution_count(generation);
        let parent = made_up_parent();
        self.hub
            .publish_now("status", &parent, &content::status("busy"));
        let input = content::execute_input("", execution_count);
        self.hub.publish_now("execute_input", &parent, &input);
        Current {
            cell,
            parent,
            execution_count,
            was_lost: false,
            _floor: floor,
        }
    }

    /// The cell that runs has ended; without a result if that was missed.
    fn finish(&mut self, outcome: Option<&Outcome>) {
        let Running::Others(current) = std::mem::take(&mut self.running) else {
            return;
        };
        let parent = &current.parent;
        if let Some(outcome) = outcome {
            let report = &outcome.kernel;
            self.hub.note(report.generation, report.execution_count);
            if let Some(notices) = content::notices(outcome) {
                let content = content::stream("stderr", &notices);
                self.hub.publish_now("stream", parent, &content);
            }
            if let Some(failure) = Failure::of(outcome) {
                self.hub.publish_now("error", parent, &failure.error());
            }
        }
        self.hub
            .publish_now("status", parent, &content::status("idle"));
        if current.was_lost {
            self.hub.publish_state(RESTARTING);
        }
    }

    /// A kernel that is lost is told, because its state is.
    fn state(&mut self, from: KernelState, to: KernelState, reason: &str) {
        let was_alive = matches!(from, KernelState::Idle | KernelState::Busy);
        let is_gone = to == KernelState::Restarting || (to == KernelState::Dead && was_alive);
        if !is_gone || reason == LossReason::SessionClosed.word() {
            return;
        }
        match &mut self.running {
            Running::Nothing => self.hub.publish_state(RESTARTING),
            Running::Own => {}
            Running::Others(current) => current.was_lost = true,
        }
    }

    /// More came at once than this could hand on: said where it is missing.
    fn lagged(&mut self, missed: u64) {
        let parent = match &self.running {
            Running::Others(current) => current.parent.clone(),
            Running::Nothing | Running::Own => Parent::none(),
        };
        if matches!(self.running, Running::Own) {
            // What is missing is told by the cell itself.
            return;
        }
        let sentence = format!("\n[{missed} events of this session are missing here]\n");
        let content = content::stream("stderr", &sentence);
        self.hub.publish_now("stream", &parent, &content);
    }
}

/// The request of a cell that came another way was no message: this stands for it.
fn made_up_parent() -> Parent {
    let id = random_hex(16);
    let now = date(jiff::Timestamp::now());
    Parent(header(&id, "execute_request", "warmcell", &now))
}
