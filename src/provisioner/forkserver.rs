//! The handle of one forkserver process, and what is known of its children.
//!
//! Orders go to a writer task, reports come from a reader task (`conversation`). When the process
//! is gone, everyone who waits for one of its children is told, and what it left behind is ended.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::forked::Forked;
use super::messages::{ForkOrder, LongOrder, Order, Report};
use super::{KernelExit, ProvisionError};
use crate::environment::Interpreter;
use crate::process::{
    ControlSocket, MAX_CONTROL_MESSAGE_BYTES, Marker, Pidfd, ProcessError, memory_file,
};

/// How long the end of a forkserver is waited for: it is killed when it does not end by itself.
const DONE_DEADLINE: Duration = Duration::from_secs(10);

/// What is known of one child.
#[derive(Debug, Clone)]
pub(super) struct ChildWatch {
    pub(super) exit: watch::Receiver<Option<KernelExit>>,
    pub(super) cleared: watch::Receiver<Option<usize>>,
}

#[derive(Debug)]
struct ChildReports {
    /// The order that made it: a process number may be given again.
    order: u64,
    /// Whether its exit is all that is still waited for.
    released: bool,
    exit: watch::Sender<Option<KernelExit>>,
    cleared: watch::Sender<Option<usize>>,
}

type ForkAnswer = Result<Forked, ProvisionError>;

#[derive(Debug, Default)]
struct State {
    forks: HashMap<u64, oneshot::Sender<ForkAnswer>>,
    children: HashMap<u32, ChildReports>,
    gone: Option<String>,
}

/// An order on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
    /// Who waits for the answer, by the number of the fork.
    pub(super) fork: Option<u64>,
}

/// A running forkserver. When the last handle is dropped it is told to leave: it then ends
/// everything and itself.
#[derive(Debug)]
pub(super) struct Forkserver {
    interpreter: Interpreter,
    marker: Marker,
    orders: mpsc::Sender<Outgoing>,
    state: Mutex<State>,
    next_id: AtomicU64,
    heard: watch::Sender<Instant>,
    suspect: AtomicBool,
    control: Arc<ControlSocket>,
    /// Kills the process.
    end: CancellationToken,
    /// Nobody holds a handle any more.
    dropped: CancellationToken,
    /// Set when the process is gone and what it left behind too.
    done: watch::Sender<bool>,
}

impl Drop for Forkserver {
    fn drop(&mut self) {
        self.dropped.cancel();
    }
}

impl Forkserver {
    pub(super) fn new(
        interpreter: Interpreter,
        marker: Marker,
        orders: mpsc::Sender<Outgoing>,
        control: Arc<ControlSocket>,
    ) -> Self {
        Self {
            interpreter,
            marker,
            orders,
            state: Mutex::default(),
            next_id: AtomicU64::new(1),
            heard: watch::Sender::new(Instant::now()),
            suspect: AtomicBool::new(false),
            control,
            end: CancellationToken::new(),
            dropped: CancellationToken::new(),
            done: watch::Sender::new(false),
        }
    }

    /// The Python that it runs.
    pub(super) fn interpreter(&self) -> &Interpreter {
        &self.interpreter
    }

    /// Fires when the process is to be killed.
    pub(super) fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// Fires when nobody holds a handle any more.
    pub(super) fn dropped(&self) -> &CancellationToken {
        &self.dropped
    }

    /// Whether it can be asked for processes.
    pub(super) fn is_usable(&self) -> bool {
        !self.suspect.load(Ordering::Relaxed) && self.state().gone.is_none()
    }

    /// Has a process forked. The descriptors go to it.
    ///
    /// If dropped, a process that was forked meanwhile is ended.
    pub(super) async fn fork(
        self: &Arc<Self>,
        mut order: ForkOrder,
        mut descriptors: Vec<OwnedFd>,
    ) -> ForkAnswer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        order.id = id;
        // What the process starts bears the mark too, and is found by it if the forkserver is gone.
        if let Some((name, value)) = self.marker.entry.split_once('=') {
            order.env.insert(name.to_owned(), value.to_owned());
        }
        // An empty message would be taken for the end of the manager.
        let unwritten = |error: serde_json::Error| ProcessError::Control {
            source: error.into(),
        };
        let mut message = serde_json::to_vec(&order).map_err(unwritten)?;
        if message.len() > MAX_CONTROL_MESSAGE_BYTES {
            descriptors.push(memory_file(&message)?);
            let short = LongOrder {
                op: order.op,
                id,
                elsewhere: true,
            };
            message = serde_json::to_vec(&short).map_err(unwritten)?;
        }
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.state();
            if let Some(reason) = &state.gone {
                return Err(ProvisionError::ForkserverGone {
                    reason: reason.clone(),
                });
            }
            state.forks.insert(id, answer);
        }
        let outgoing = Outgoing {
            message,
            descriptors,
            fork: Some(id),
        };
        if self.orders.send(outgoing).await.is_err() {
            return Err(self.gone_error());
        }
        answered
            .await
            .unwrap_or_else(|_dropped| Err(self.gone_error()))
    }

    /// Waits until nothing was heard of it for so long, counted from now on.
    ///
    /// # Cancel safety
    ///
    /// May be dropped.
    pub(super) async fn silent(&self, patience: Duration) {
        let mut heard = self.heard.subscribe();
        heard.mark_unchanged();
        let mut last = Instant::now();
        while let Ok(Ok(())) = timeout_at(last + patience, heard.changed()).await {
            last = *heard.borrow_and_update();
        }
    }

    /// It has been silent for too long: nobody asks it for processes until it is heard again, and
    /// if it stays silent it is killed.
    pub(super) fn suspect(self: &Arc<Self>, deadline: Duration) {
        if self.suspect.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(executable = %self.interpreter.executable.display(), "forkserver is silent");
        let mut heard = self.heard.subscribe();
        heard.mark_unchanged();
        self.order(&Order::Ping {});
        let server = Arc::downgrade(self);
        tokio::spawn(async move {
            let answered = timeout(deadline, heard.changed()).await;
            let Some(server) = server.upgrade() else {
                return;
            };
            if matches!(answered, Ok(Ok(()))) {
                server.suspect.store(false, Ordering::Relaxed);
            } else {
                server
                    .state()
                    .gone
                    .get_or_insert_with(|| "was silent and was killed".to_owned());
                server.end.cancel();
            }
        });
    }

    /// Lets it end everything and itself, and waits for that.
    pub(super) async fn shut_down(&self) {
        self.control.close();
        let mut done = self.done.subscribe();
        // It kills what is left at once, and is killed itself if it does not; a process that is
        // stuck in the system is not waited for.
        drop(timeout(DONE_DEADLINE, done.wait_for(|done| *done)).await);
    }

    /// Has a child ended, and what it leaves behind.
    pub(super) fn kill(&self, pid: u32) {
        self.order(&Order::Kill { pid });
    }

    /// Nobody asks for a child any more: its record goes when it has ended.
    pub(super) fn forget(&self, pid: u32, order: u64) {
        let mut state = self.state();
        if let Some(child) = state.children.get_mut(&pid)
            && child.order == order
        {
            child.released = true;
            if child.exit.borrow().is_some() {
                state.children.remove(&pid);
            }
        }
    }

    fn order(&self, order: &Order) {
        let Ok(message) = serde_json::to_vec(order) else {
            return;
        };
        let outgoing = Outgoing {
            message,
            descriptors: Vec::new(),
            fork: None,
        };
        if self.orders.try_send(outgoing).is_err() && self.state().gone.is_none() {
            tracing::warn!(?order, "an order to the forkserver was not sent");
        }
    }

    fn gone_error(&self) -> ProvisionError {
        let reason = self
            .state()
            .gone
            .clone()
            .unwrap_or_else(|| "is gone".to_owned());
        ProvisionError::ForkserverGone { reason }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handle(self: &Arc<Self>, report: &Report) {
        self.heard.send_replace(Instant::now());
        match *report {
            Report::Forked { id, pid } => self.forked(id, pid),
            Report::Failed { id, errno } => {
                self.fork_failed(id, ProvisionError::Fork { errno });
            }
            Report::Exit { pid, code, signal } => {
                let exit = match (code, signal) {
                    (Some(code), _) => KernelExit::Code(code),
                    (None, Some(signal)) => KernelExit::Signal(signal),
                    (None, None) => KernelExit::Unknown,
                };
                let mut state = self.state();
                if let Some(child) = state.children.get(&pid) {
                    child.exit.send_replace(Some(exit));
                    if child.released {
                        state.children.remove(&pid);
                    }
                }
            }
            Report::Clear { pid, survivors } => {
                if let Some(child) = self.state().children.remove(&pid) {
                    child.cleared.send_replace(Some(survivors));
                }
            }
            Report::Hello { .. } | Report::Pong {} => {}
        }
    }

    /// Tells who waits for a fork that there will be none.
    pub(super) fn fork_failed(&self, id: u64, error: ProvisionError) {
        let answer = self.state().forks.remove(&id);
        if let Some(answer) = answer {
            // Whoever asked may have given up.
            drop(answer.send(Err(error)));
        }
    }

    fn forked(self: &Arc<Self>, id: u64, pid: u32) {
        // It is reaped only after our ack, so the number is still its own.
        let pidfd = Pidfd::open(pid);
        let (exit, exit_watch) = watch::channel(None);
        let (cleared, cleared_watch) = watch::channel(None);
        let answer = {
            let mut state = self.state();
            let reports = ChildReports {
                order: id,
                released: false,
                exit,
                cleared,
            };
            state.children.insert(pid, reports);
            state.forks.remove(&id)
        };
        self.order(&Order::Ack { pid });
        let pidfd = match pidfd {
            Ok(pidfd) => pidfd,
            Err(source) => {
                self.kill(pid);
                let what = "a descriptor of a process";
                if let Some(answer) = answer {
                    drop(answer.send(Err(ProcessError::Descriptor { what, source }.into())));
                }
                return;
            }
        };
        let watch = ChildWatch {
            exit: exit_watch,
            cleared: cleared_watch,
        };
        let forked = Forked::new(Arc::clone(self), pid, id, pidfd, watch);
        // If nobody wants it any more, dropping it ends it.
        match answer {
            Some(answer) => drop(answer.send(Ok(forked))),
            None => drop(forked),
        }
    }

    /// The process is gone: says so to everyone who waits for a fork or for the end of a child.
    pub(super) fn gone(&self, reason: &str) {
        let (forks, reason) = {
            let mut state = self.state();
            let reason = state.gone.get_or_insert_with(|| reason.to_owned()).clone();
            for child in state.children.values() {
                if child.exit.borrow().is_none() {
                    let reason = reason.clone();
                    child
                        .exit
                        .send_replace(Some(KernelExit::ForkserverGone { reason }));
                }
            }
            (std::mem::take(&mut state.forks), reason)
        };
        for (_, answer) in forks {
            let reason = reason.clone();
            drop(answer.send(Err(ProvisionError::ForkserverGone { reason })));
        }
    }

    /// What it left behind is gone too, but for so many processes.
    pub(super) fn cleared(&self, survivors: usize) {
        let children = std::mem::take(&mut self.state().children);
        for (_, child) in children {
            child.cleared.send_replace(Some(survivors));
        }
        self.done.send_replace(true);
    }
}
