//! What cells do that no client of ours has handed over, and what the kernel does, published from
//! the session's events.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use serde_json::json;

use super::content::{self, Failure, IDLE, RESTARTING, STARTING};
use super::hub::{Hub, Parent, date};
use super::telling::{Telling, Whose};
use super::watched::Frontends;
use crate::execution::{LossReason, Outcome};
use crate::ids::random_hex;
use crate::jupyter::header;
use crate::kernel::KernelState;
use crate::session::{Event, EventKind, EventStream};

/// How long a closed session's last cells may take to be told.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Publishes what happens in a session until nobody uses the hub or the session is closed.
pub(super) async fn follow(frontends: Arc<Frontends>, hub: Arc<Hub>, mut events: EventStream) {
    let mut others = Others {
        hub: Arc::clone(&hub),
        running: Running::default(),
        latest: None,
    };
    let mut users = hub.users.subscribe();
    let session = hub.session().clone();
    // Its end is still to come, if it has not begun after this.
    if let Some(running) = session.running() {
        let started = (running.execution_count, running.code);
        others.begin(running.cell, Some(started)).await;
    }
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
                if frontends.leave(&hub) {
                    return;
                }
                // Somebody has come meanwhile.
                tokio::task::yield_now().await;
            }
        }
    }
    frontends.forget(&hub);
    others.finish(None);
    hub.is_over();
    let told = async { drop(users.wait_for(|users| users.cells == 0).await) };
    drop(timeout(LAST_WORDS, told).await);
    hub.kernel_does(&["dead"]);
    hub.close("the session was closed");
}

/// The number of a cell in its kernel, and its code.
type Started = (u64, Arc<str>);

/// The cell of another that runs.
#[derive(Debug)]
struct Current {
    cell: u64,
    parent: Parent,
    execution_count: Option<u64>,
    _telling: Telling,
}

#[derive(Debug, Default)]
enum Running {
    #[default]
    Nothing,
    /// A cell of a client of ours: `cell` tells what it does.
    Own(u64),
    Others(Current),
}

#[derive(Debug)]
struct Others {
    hub: Arc<Hub>,
    running: Running,
    /// The latest cell of another that has ended, and what has caused it.
    latest: Option<(u64, Parent)>,
}

impl Others {
    async fn event(&mut self, event: Event) {
        match (event.cell, event.kind) {
            (None, EventKind::KernelState { from, to, reason }) => {
                self.hub.kernel_does(states(from, to, &reason));
            }
            (_, EventKind::Lagged { missed }) => self.lagged(missed),
            (cell, EventKind::LateOutput { stream, text }) => self.late(cell, stream, &text).await,
            (
                Some(cell),
                EventKind::CellStarted {
                    execution_count,
                    code,
                },
            ) => {
                self.begin(cell, Some((execution_count, code))).await;
            }
            (Some(cell), EventKind::CellFinished { outcome }) => {
                if self.is_running(cell) {
                    self.finish(Some(&outcome));
                } else {
                    // If it is a client's that has missed its turn, it has it now.
                    self.hub.begins(cell).await;
                }
            }
            (Some(cell), kind) => {
                if let Some(current) = self.begin(cell, None).await {
                    let parent = current.parent.clone();
                    let count = current.execution_count;
                    self.output(kind, &parent, count).await;
                }
            }
            (None, _) => {}
        }
    }

    fn is_running(&self, cell: u64) -> bool {
        match &self.running {
            Running::Nothing => false,
            Running::Own(own) => *own == cell,
            Running::Others(current) => current.cell == cell,
        }
    }

    async fn output(&self, kind: EventKind, parent: &Parent, execution_count: Option<u64>) {
        let (msg_type, content) = match kind {
            EventKind::Stdout { text } => ("stream", content::stream("stdout", &text)),
            EventKind::Stderr { text } => ("stream", content::stream("stderr", &text)),
            EventKind::Result { data, shown: None } => (
                "execute_result",
                content::execute_result(&data, execution_count),
            ),
            EventKind::Result {
                shown: Some(shown), ..
            } => {
                let mut content = content::shown(&shown);
                if let Some(content) = content.as_object_mut() {
                    content.insert("execution_count".to_owned(), execution_count.into());
                }
                ("execute_result", content)
            }
            EventKind::Display(shown) => ("display_data", content::shown(&shown)),
            EventKind::UpdateDisplay(shown) => ("update_display_data", content::shown(&shown)),
            EventKind::ClearOutput { wait } => ("clear_output", json!({ "wait": wait })),
            _ => return,
        };
        self.hub.publish(msg_type, parent, &content).await;
    }

    /// A cell runs: if it is another's and was not told yet, it is told now. `None` if it is a
    /// client's of ours.
    async fn begin(&mut self, cell: u64, started: Option<Started>) -> Option<&Current> {
        if !self.is_running(cell) {
            // One runs at a time, so whatever was told before has ended.
            self.finish(None);
            self.running = match self.hub.begins(cell).await {
                Whose::Own => Running::Own(cell),
                Whose::Others => Running::Others(self.busy(cell, started).await),
            };
        }
        match &self.running {
            Running::Others(current) => Some(current),
            Running::Nothing | Running::Own(_) => None,
        }
    }

    async fn busy(&self, cell: u64, started: Option<Started>) -> Current {
        let telling = self.hub.tell().await;
        let (execution_count, code) = started.or_else(|| self.still_running(cell)).unzip();
        let parent = made_up_parent();
        let count = execution_count.unwrap_or_else(|| self.hub.execution_count());
        let input = content::execute_input(&code.unwrap_or_default(), count);
        self.hub.begin_cell(&parent, Some(&input));
        Current {
            cell,
            parent,
            execution_count,
            _telling: telling,
        }
    }

    /// Of a cell whose beginning was missed.
    fn still_running(&self, cell: u64) -> Option<Started> {
        let running = self.hub.session().running();
        let running = running.filter(|running| running.cell == cell)?;
        Some((running.execution_count, running.code))
    }

    /// The cell that runs has ended; without a result if that was missed.
    fn finish(&mut self, outcome: Option<&Outcome>) {
        let Running::Others(current) = std::mem::take(&mut self.running) else {
            return;
        };
        let parent = &current.parent;
        self.latest = Some((current.cell, parent.clone()));
        if let Some(outcome) = outcome {
            self.hub.note(outcome.kernel.execution_count);
            if let Some(notices) = self.hub.notices(outcome) {
                let content = content::stream("stderr", &notices);
                self.hub.publish_now("stream", parent, &content);
            }
            if let Some(failure) = Failure::of(outcome) {
                self.hub.publish_now("error", parent, &failure.error());
            }
        }
        self.hub.end_cell(parent);
    }

    /// Something was printed while no cell ran: it belongs to the last one.
    async fn late(&self, cell: Option<u64>, stream: &str, text: &str) {
        let of_another = self
            .latest
            .as_ref()
            .filter(|(other, _)| Some(*other) == cell);
        let parent = match of_another {
            Some((_, parent)) => Some(parent.clone()),
            None => cell.and_then(|cell| self.hub.parent_of(cell)),
        };
        let parent = parent.unwrap_or_else(Parent::none);
        self.hub.publish_late(&parent, stream, text).await;
    }

    /// More came at once than this could hand on: said where it is missing.
    fn lagged(&mut self, missed: u64) {
        self.hub.missed_late();
        let parent = match &self.running {
            Running::Others(current) => current.parent.clone(),
            Running::Nothing | Running::Own(_) => Parent::none(),
        };
        if matches!(self.running, Running::Own(_)) {
            // What is missing is told by the cell itself.
            return;
        }
        let sentence = format!("\n[{missed} events of this session are missing here]\n");
        let content = content::stream("stderr", &sentence);
        self.hub.publish_now("stream", &parent, &content);
    }
}

/// What front ends are told of a change of the kernel: that one is lost, and up to when the next is
/// there. The first is a matter of its cell, and what a closed session does of its end.
fn states(from: KernelState, to: KernelState, reason: &str) -> &'static [&'static str] {
    use KernelState::{Busy, Dead, Idle, Interrupting, Restarting};
    let is_closed = reason == LossReason::SessionClosed.word();
    match (from, to) {
        (_, Dead) if is_closed => &[],
        (_, Restarting) => &[RESTARTING, STARTING],
        // If it could not be started the next cell tries again, and says why.
        (Restarting, Idle | Dead) => &[IDLE],
        // The next one is started when a cell needs it; until then nothing is amiss.
        (Idle | Busy | Interrupting, Dead) => &[RESTARTING, STARTING, IDLE],
        _ => &[],
    }
}

/// The request of a cell that came another way was no message: this stands for it.
fn made_up_parent() -> Parent {
    let id = random_hex(16);
    let now = date(jiff::Timestamp::now());
    Parent(header(&id, "execute_request", "warmcell", &now))
}
