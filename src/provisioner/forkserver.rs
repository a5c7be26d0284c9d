//! One forkserver process, and the conversation with it.
//!
//! A reader task takes its reports apart and hands them to who waits; a writer task sends orders in
//! turn. When the process is gone, everyone who waits for one of its children is told, and what it
//! left behind is ended.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::forked::Forked;
use super::messages::{ForkOrder, LongOrder, Order, PROTOCOL, Report};
use super::{KernelExit, ProvisionError};
use crate::environment::Interpreter;
use crate::ids::random_hex;
use crate::process::{
    ControlSocket, MAX_CONTROL_MESSAGE_BYTES, Marker, Pidfd, PipeReader, ProcessError, Program,
    ReadOutcome, Spawned, Stdio, end_orphans, memory_file, output_pipe, spawn,
};
use crate::python_source::{BOOT, TOO_OLD};

/// How long an interpreter may take until its forkserver says hello.
const START_DEADLINE: Duration = Duration::from_secs(10);
/// How long its last words are waited for when it ended before that.
const LAST_WORDS_DEADLINE: Duration = Duration::from_secs(1);
/// Orders that may wait to be sent.
const QUEUED_ORDERS: usize = 1_024;
/// How much of what the interpreter prints is kept to explain a failure.
const PRINTED_BYTES: usize = 4_096;
/// The mark of everything a forkserver starts.
const MARKER_NAME: &str = "WARMCELL_FORKSERVER";

/// How to start one.
#[derive(Debug, Clone)]
pub(super) struct ForkserverSpec {
    pub(super) program: PathBuf,
    /// The part of the environment that only a fresh interpreter can take over.
    pub(super) environment: Vec<(String, String)>,
    /// The unpacked sources.
    pub(super) sources: PathBuf,
    /// The folder of sockets that it removes when the manager is gone.
    pub(super) sockets: PathBuf,
    /// Whether this process adopts its orphans.
    pub(super) adopts: bool,
}

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

#[derive(Debug)]
struct Outgoing {
    message: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// A running forkserver. When the last handle is dropped its control socket closes: it then ends
/// everything and itself.
#[derive(Debug)]
pub(super) struct Forkserver {
    interpreter: Interpreter,
    orders: mpsc::Sender<Outgoing>,
    state: Mutex<State>,
    next_id: AtomicU64,
    heard: watch::Sender<Instant>,
    suspect: AtomicBool,
    /// Kills the process.
    end: CancellationToken,
    control: Arc<ControlSocket>,
    /// Set when the process is gone.
    done: watch::Sender<bool>,
}

/// Why an interpreter would not become a forkserver.
#[derive(Debug)]
pub(super) enum StartFailure {
    /// This interpreter will not do; the next may.
    Unusable(String),
    /// It is not the interpreter's fault.
    Fault(ProvisionError),
}

impl From<ProvisionError> for StartFailure {
    fn from(error: ProvisionError) -> Self {
        Self::Fault(error)
    }
}

impl From<ProcessError> for StartFailure {
    fn from(error: ProcessError) -> Self {
        Self::Fault(error.into())
    }
}

impl Forkserver {
    /// Starts one and waits for its hello.
    pub(super) async fn start(spec: ForkserverSpec) -> Result<Arc<Self>, StartFailure> {
        let (control, theirs) = ControlSocket::pair()?;
        let (printed, print_end) = output_pipe()?;
        let also = print_end
            .try_clone()
            .map_err(|source| ProcessError::Descriptor {
                what: "a pipe",
                source,
            })?;
        let marker = Marker {
            entry: format!("{MARKER_NAME}={}", random_hex(12)),
        };
        let mut environment: Vec<(OsString, OsString)> = spec
            .environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        if let Some((name, value)) = marker.entry.split_once('=') {
            environment.push((name.into(), value.into()));
        }
        let program = Program {
            program: spec.program.clone(),
            arguments: vec![
                "-c".into(),
                BOOT.into(),
                spec.sources.clone().into(),
                spec.sockets.clone().into(),
            ],
            environment,
            directory: spec.sources.clone(),
        };
        let mut process = spawn(
            program,
            Stdio {
                stdin: theirs,
                stdout: print_end,
                stderr: also,
            },
        )
        .map_err(|error| StartFailure::Unusable(error.to_string()))?;
        let interpreter = match timeout(START_DEADLINE, hello(&control)).await {
            Ok(Ok(interpreter)) => interpreter,
            Ok(Err(fault)) => return Err(explain(fault, &mut process, &printed).await),
            Err(_elapsed) => {
                process.kill();
                let waited = START_DEADLINE.as_secs();
                return Err(StartFailure::Unusable(format!(
                    "did not answer within {waited} s"
                )));
            }
        };
        let (orders, queue) = mpsc::channel(QUEUED_ORDERS);
        let control = Arc::new(control);
        let server = Arc::new(Self {
            interpreter,
            orders,
            state: Mutex::default(),
            next_id: AtomicU64::new(1),
            heard: watch::Sender::new(Instant::now()),
            suspect: AtomicBool::new(false),
            end: CancellationToken::new(),
            control: Arc::clone(&control),
            done: watch::Sender::new(false),
        });
        tokio::spawn(write_orders(Arc::clone(&control), queue));
        tokio::spawn(log_printed(printed));
        let task = Reader {
            server: Arc::downgrade(&server),
            process,
            marker,
            adopts: spec.adopts,
            end: server.end.clone(),
        };
        tokio::spawn(task.run(control));
        Ok(server)
    }

    /// The Python that it runs.
    pub(super) fn interpreter(&self) -> &Interpreter {
        &self.interpreter
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
        order.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        // An empty message would be taken for the end of the manager.
        let unwritten = |error: serde_json::Error| ProcessError::Control {
            source: error.into(),
        };
        let mut message = serde_json::to_vec(&order).map_err(unwritten)?;
        if message.len() > MAX_CONTROL_MESSAGE_BYTES {
            descriptors.push(memory_file(&message)?);
            let short = LongOrder {
                op: order.op,
                id: order.id,
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
            state.forks.insert(order.id, answer);
        }
        if self
            .orders
            .send(Outgoing {
                message,
                descriptors,
            })
            .await
            .is_err()
        {
            return Err(self.gone_error());
        }
        answered
            .await
            .unwrap_or_else(|_dropped| Err(self.gone_error()))
    }

    /// It has been silent for too long: nobody asks it for processes until it is heard again, and
    /// if it stays silent it is killed.
    pub(super) fn suspect(self: &Arc<Self>, deadline: Duration) {
        if self.suspect.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(executable = %self.interpreter.executable.display(), "forkserver is silent");
        self.order(&Order::Ping {});
        let server = Arc::downgrade(self);
        let mut heard = self.heard.subscribe();
        heard.mark_unchanged();
        tokio::spawn(async move {
            let answered = timeout(deadline, heard.changed()).await;
            let Some(server) = server.upgrade() else {
                return;
            };
            if matches!(answered, Ok(Ok(()))) {
                server.suspect.store(false, Ordering::Relaxed);
            } else {
                server.end.cancel();
                server
                    .state()
                    .gone
                    .get_or_insert_with(|| "was silent and was killed".to_owned());
            }
        });
    }

    /// Lets it end everything and itself, and waits for that.
    pub(super) async fn shut_down(&self) {
        self.control.close();
        let mut done = self.done.subscribe();
        // It kills what is left at once; a process that is stuck in the system is not waited for.
        drop(timeout(Duration::from_secs(5), done.wait_for(|done| *done)).await);
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
        if self
            .orders
            .try_send(Outgoing {
                message,
                descriptors: Vec::new(),
            })
            .is_err()
        {
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

    fn handle(self: &Arc<Self>, report: &Report) {
        self.heard.send_replace(Instant::now());
        match *report {
            Report::Forked { id, pid } => self.forked(id, pid),
            Report::Failed { id, errno } => {
                if let Some(answer) = self.state().forks.remove(&id) {
                    drop(answer.send(Err(ProvisionError::Fork { errno })));
                }
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
        let (Ok(pidfd), Some(answer)) = (pidfd, answer) else {
            self.kill(pid);
            return;
        };
        let watch = ChildWatch {
            exit: exit_watch,
            cleared: cleared_watch,
        };
        let forked = Forked::new(Arc::clone(self), pid, id, pidfd, watch);
        // If nobody wants it any more, dropping it ends it.
        drop(answer.send(Ok(forked)));
    }

    fn gone(&self, reason: &str) {
        let (forks, children) = {
            let mut state = self.state();
            state.gone.get_or_insert_with(|| reason.to_owned());
            (
                std::mem::take(&mut state.forks),
                std::mem::take(&mut state.children),
            )
        };
        for (_, answer) in forks {
            drop(answer.send(Err(self.gone_error())));
        }
        for (_, child) in children {
            if child.exit.borrow().is_none() {
                let reason = reason.to_owned();
                child
                    .exit
                    .send_replace(Some(KernelExit::ForkserverGone { reason }));
            }
            child.cleared.send_replace(Some(0));
        }
    }
}

/// Waits for the first message.
async fn hello(control: &ControlSocket) -> Result<Interpreter, Option<String>> {
    let message = match control.receive().await {
        Ok(Some(message)) => message,
        Ok(None) => return Err(None),
        Err(error) => return Err(Some(error.to_string())),
    };
    match serde_json::from_slice(&message) {
        Ok(Report::Hello {
            protocol: PROTOCOL,
            version,
            executable,
            prefix,
            supervises,
            pid,
        }) => {
            if !supervises {
                tracing::warn!(
                    pid,
                    "this Python has no _ctypes: daemons that a cell starts may survive its kernel"
                );
            }
            Ok(Interpreter {
                executable,
                version,
                prefix,
            })
        }
        Ok(other) => Err(Some(format!("said {other:?} instead of hello"))),
        Err(error) => Err(Some(format!("said something else than hello: {error}"))),
    }
}

/// Why there was no hello, from how the process ended and what it printed.
async fn explain(
    fault: Option<String>,
    process: &mut Spawned,
    printed: &PipeReader,
) -> StartFailure {
    if let Some(fault) = fault {
        process.kill();
        return StartFailure::Unusable(fault);
    }
    let status = timeout(LAST_WORDS_DEADLINE, process.ended())
        .await
        .ok()
        .flatten();
    let mut buffer = vec![0; printed.waiting().min(65_536)];
    let words = match printed.read(&mut buffer) {
        ReadOutcome::Bytes(count) => tail_of(buffer.get(..count).unwrap_or_default()),
        ReadOutcome::Empty | ReadOutcome::End => String::new(),
    };
    let code = status.and_then(|status| status.code());
    let reason = if code == Some(TOO_OLD) {
        let version = words.trim();
        format!("{version} is too old, 3.8 is the oldest that will do")
    } else {
        let ended = status.map_or_else(|| "closed its socket".to_owned(), |it| it.to_string());
        match words.trim() {
            "" => format!("did not start: {ended}"),
            words => format!("did not start: {ended}; it said: {words}"),
        }
    };
    StartFailure::Unusable(reason)
}

/// The last lines of what was printed, for a message.
fn tail_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines
        .iter()
        .rev()
        .take(3)
        .rev()
        .copied()
        .collect::<Vec<_>>()
        .join(" | ");
    last.chars().take(500).collect()
}

async fn write_orders(control: Arc<ControlSocket>, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(outgoing) = queue.recv().await {
        let descriptors: Vec<_> = outgoing.descriptors.iter().map(AsFd::as_fd).collect();
        if control.send(&outgoing.message, &descriptors).await.is_err() {
            // The reader sees the end of the socket and tells everyone.
            return;
        }
    }
    // Nobody holds the forkserver any more.
    control.close();
}

/// What an interpreter prints at start-up, or a library in a forkserver, belongs to no cell.
async fn log_printed(printed: PipeReader) {
    let mut buffer = vec![0; PRINTED_BYTES];
    loop {
        match printed.read(&mut buffer) {
            ReadOutcome::Bytes(count) => {
                let text = tail_of(buffer.get(..count).unwrap_or_default());
                tracing::debug!(bytes = count, %text, "a forkserver printed");
            }
            ReadOutcome::Empty => printed.readable().await,
            ReadOutcome::End => return,
        }
    }
}

struct Reader {
    server: std::sync::Weak<Forkserver>,
    process: Spawned,
    marker: Marker,
    adopts: bool,
    end: CancellationToken,
}

impl Reader {
    async fn run(self, control: Arc<ControlSocket>) {
        loop {
            let message = tokio::select! {
                message = control.receive() => message,
                () = self.end.cancelled() => {
                    self.process.kill();
                    break;
                }
            };
            let Ok(Some(message)) = message else { break };
            let Some(server) = self.server.upgrade() else {
                break;
            };
            match serde_json::from_slice(&message) {
                Ok(report) => server.handle(&report),
                Err(error) => tracing::warn!(%error, "a forkserver said something unknown"),
            }
        }
        drop(control);
        self.finish().await;
    }

    /// The socket has ended: the process is gone, or we are done with it and it ends by itself.
    async fn finish(mut self) {
        let status = timeout(Duration::from_secs(5), self.process.ended()).await;
        if status.is_err() {
            self.process.kill();
        }
        let reason = match status {
            Ok(Some(status)) => {
                use std::os::unix::process::ExitStatusExt;
                match (status.signal(), status.code()) {
                    (Some(signal), _) => format!("was killed by signal {signal}"),
                    (None, Some(code)) => format!("exited with code {code}"),
                    (None, None) => "is gone".to_owned(),
                }
            }
            Ok(None) | Err(_) => "is gone".to_owned(),
        };
        let server = self.server.upgrade();
        if let Some(server) = &server {
            tracing::debug!(%reason, "a forkserver is gone");
            server.gone(&reason);
        }
        let left = end_orphans(self.adopts, &[self.marker]).await;
        if left > 0 {
            tracing::error!(left, "processes of a dead forkserver could not be ended");
        }
        if let Some(server) = server {
            server.done.send_replace(true);
        }
    }
}
