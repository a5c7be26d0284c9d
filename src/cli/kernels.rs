//! Where cells of the command line run: in a kernel of this process, or in a session of the
//! background server.

use std::future::pending;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::args::ExecArguments;
use super::flags::outcome_in_flags;
use super::surroundings::{dropped_text, hidden};
use crate::client::{ClientError, Handing, Home, RemoteCell, Taken};
use crate::config::{Caller, ProcessLimits};
use crate::environment::{DROPPED, HIDDEN, scrub_but};
use crate::execution::{
    ErrorClass, Interrupt, KernelReport, LiveEvent, LiveOutput, LiveSender, LossReason, Outcome,
    live_output,
};
use crate::server::{CallerOrder, CellOrder, KernelOrder, LimitsOrder, NiceOrder, PolicyName};
use crate::session::{Cell, Ended, Registry, Session};
use crate::tools::Grant;

/// How long, after an interrupt, a server may take to say that it has a cell.
const TAKING: Duration = Duration::from_secs(1);

/// Said of a cell whose server has fallen silent after it was interrupted.
const UNKNOWN_END: &str = "how the cell has ended is not known";

/// The place.
#[derive(Debug)]
pub(super) enum Kernels {
    /// A manager of this process's own, and its one session.
    Own {
        /// The manager.
        registry: Box<Registry>,
        /// The session.
        session: Session,
    },
    /// A session that lives on.
    Server(Box<Remote>),
}

/// A cell that was begun.
pub(super) struct Begun {
    /// Interrupts it.
    pub(super) interrupt: Interrupt,
    /// What it prints, if it was asked for.
    pub(super) live: Option<LiveOutput>,
    /// Its result.
    pub(super) outcome: Pin<Box<dyn Future<Output = Outcome>>>,
}

impl Kernels {
    /// Whether the session goes on after the command.
    pub(super) fn live_on(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    /// What is to be told before the first cell.
    pub(super) fn notices(&self) -> Vec<String> {
        let Self::Own { registry, .. } = self else {
            return Vec::new();
        };
        let notice = |reason: &String| {
            format!(
                "HERMES_HOME cannot be written to ({reason}); the Python half was unpacked elsewhere"
            )
        };
        registry.passed_over().iter().map(notice).collect()
    }

    /// Begins a cell.
    pub(super) fn begin(&self, arguments: &ExecArguments, cell: Cell, is_live: bool) -> Begun {
        let begun = match self {
            Self::Own { session, .. } => {
                let mut execution = if is_live {
                    session.execute_live(cell)
                } else {
                    session.execute(cell)
                };
                Begun {
                    interrupt: execution.interrupt_token(),
                    live: execution.take_live(),
                    outcome: Box::pin(async move { execution.outcome().await }),
                }
            }
            Self::Server(remote) => remote.begin(arguments, cell, is_live),
        };
        Begun {
            outcome: Box::pin(async move { outcome_in_flags(begun.outcome.await) }),
            ..begun
        }
    }

    /// What is to be told of a session that was made, once.
    pub(super) fn announcement(&self) -> Option<String> {
        match self {
            Self::Own { .. } => None,
            Self::Server(remote) => remote.announcement(),
        }
    }

    /// Ends the session if it does not live on.
    pub(super) async fn close(&self) -> Option<Ended> {
        match self {
            Self::Own { session, .. } => Some(session.close().await),
            Self::Server(_) => None,
        }
    }

    /// Ends everything of this process.
    pub(super) async fn shut_down(self) {
        if let Self::Own { registry, .. } = self {
            registry.shut_down().await;
        }
    }
}

/// A sentence that is to be told once.
type Announced = Arc<Mutex<Option<String>>>;

/// A session of the background server.
#[derive(Debug)]
pub(super) struct Remote {
    name: String,
    home: Home,
    caller: CallerOrder,
    /// What is to be told of a session that was made.
    opened: Announced,
}

impl Remote {
    pub(super) fn new(
        name: String,
        home: Home,
        caller: Caller,
        limits: ProcessLimits,
        here: Option<PathBuf>,
        directory: Option<PathBuf>,
        passed: &[String],
    ) -> Self {
        Self {
            name,
            home,
            caller: CallerOrder {
                cwd: here.unwrap_or_else(|| caller.cwd.clone()),
                environment: travelling(caller.environment, passed),
                umask: Some(caller.umask),
                limits: Some(LimitsOrder(limits.bounds)),
                nice: limits.nice.map(NiceOrder),
                python: caller.python,
                kernel: caller.kernel.map(|it| KernelOrder::Found(Box::new(it))),
                directory,
                mode: caller.mode,
                env: caller.named,
            },
            opened: Arc::default(),
        }
    }

    fn announcement(&self) -> Option<String> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.take()
    }

    fn begin(&self, arguments: &ExecArguments, cell: Cell, is_live: bool) -> Begun {
        let interrupt = Interrupt::new();
        let (sender, live) = if is_live {
            let (sender, live) = live_output();
            (Some(sender), Some(live))
        } else {
            (None, None)
        };
        let order = CellOrder {
            code: cell.code,
            reset: cell.reset,
            timeout: cell.timeout.map(|timeout| timeout.as_secs_f64()),
            max_tool_calls: cell.max_tool_calls,
            tools: match cell.grant {
                Grant::All => None,
                Grant::Only(names) => Some(names.into_iter().collect()),
            },
            on_timeout: cell.on_timeout.map(PolicyName::from),
            on_interrupt: cell.on_interrupt.map(PolicyName::from),
            max_stdout_bytes: cell.max_stdout_bytes.and_then(|it| it.try_into().ok()),
            configured: true,
            caller: Some(self.caller.clone()),
            stream: !arguments.detach,
            quiet: !is_live,
            detach: arguments.detach,
            no_redact: cell.unmasked,
            wait: None,
        };
        let running = Running {
            name: self.name.clone(),
            home: self.home.clone(),
            opened: Arc::clone(&self.opened),
            interrupt: interrupt.clone(),
        };
        Begun {
            interrupt,
            live,
            outcome: Box::pin(running.outcome(order, sender)),
        }
    }
}

/// What a kernel may not see need not travel; only that by which it is known again, and its names.
fn travelling(environment: Vec<(String, String)>, passed: &[String]) -> Vec<(String, String)> {
    let earlier = |name: &str| {
        let found = environment.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.clone())
    };
    let (hid, had_dropped) = (earlier(HIDDEN), earlier(DROPPED));
    let mut scrubbed = scrub_but(environment, passed);
    let texts: Vec<String> = hid.into_iter().chain(hidden(&scrubbed.secrets)).collect();
    let names = dropped_text(scrubbed.dropped_names(), had_dropped.as_deref());
    if !texts.is_empty() {
        scrubbed.kept.push((HIDDEN.to_owned(), texts.join(",")));
    }
    scrubbed
        .kept
        .extend(names.map(|it| (DROPPED.to_owned(), it)));
    scrubbed.kept
}

/// What is told of a session that was made for a cell, once that has begun in this kernel: until then
/// there is no such session, for all that is known.
fn announcement(name: &str, kernel: &KernelReport) -> String {
    let lives = format!("in the background (`warmcell sessions close {name}` ends it)");
    if let Some(reason) = kernel.reason {
        return format!(
            "session {name} was there before, and its kernel was lost ({}); it lives on again {lives}",
            reason.word()
        );
    }
    format!("session {name} is new; it lives on {lives}")
}

/// A cell of the background server.
struct Running {
    name: String,
    home: Home,
    opened: Announced,
    interrupt: Interrupt,
}

impl Running {
    async fn outcome(self, order: CellOrder, live: Option<LiveSender>) -> Outcome {
        let not_taken = |kernel| {
            let sentence = "interrupted before the background server had taken the cell";
            Outcome::not_run(ErrorClass::Interrupted, sentence, kernel)
        };
        if self.interrupt.is_cancelled() {
            return not_taken(self.home.kernel(&self.name).await);
        }
        let handing = Handing::default();
        let mut executing = std::pin::pin!(self.home.execute(&self.name, &order, &handing));
        let taken = tokio::select! {
            biased;
            taken = &mut executing => taken,
            () = self.interrupt.cancelled() => {
                let unseen = KernelReport::none().lost(LossReason::ConnectionLost);
                if handing.revoke() {
                    return not_taken(unseen);
                }
                // It may be taken already, and the answer on its way.
                match timeout(TAKING, executing).await {
                    Ok(taken) => taken,
                    Err(_elapsed) => {
                        let sentence = "interrupted; the background server does not say whether the \
                            cell has begun: if it has, it ends as soon as the server goes on";
                        return Outcome::not_run(ErrorClass::Interrupted, sentence, unseen);
                    }
                }
            }
        };
        match taken {
            Ok(Taken::Cell(cell)) => match self.follow(*cell, live).await {
                Ok(outcome) => outcome,
                Err(error) => self.failed(&error).await,
            },
            Ok(Taken::Outcome(outcome)) => *outcome,
            Err(error) => self.failed(&error).await,
        }
    }

    /// The result of a cell that no manager has taken, or whose manager made no sense.
    async fn failed(&self, error: &ClientError) -> Outcome {
        let kernel = self.home.kernel(&self.name).await;
        Outcome::not_run(error.class(), error.to_string(), kernel)
    }

    async fn follow(
        &self,
        mut cell: RemoteCell,
        live: Option<LiveSender>,
    ) -> Result<Outcome, ClientError> {
        if cell.opened {
            let (name, live, opened) = (self.name.clone(), live.clone(), Arc::clone(&self.opened));
            cell.when_begun(move |kernel| {
                let sentence = announcement(&name, kernel);
                match live {
                    Some(live) => {
                        let line = format!("warmcell: {sentence}\n");
                        live.send(LiveEvent::Stderr(line.into()));
                    }
                    None => {
                        *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(sentence);
                    }
                }
            });
        }
        let (client, id) = (cell.client().clone(), cell.id.clone());
        let mut giving_up = Some(cell.giving_up());
        if let Some(live) = live {
            cell.hand_on(live);
        }
        let mut result = std::pin::pin!(cell.outcome());
        let mut asked = 0;
        let (mut outcome, missed) = loop {
            let again = async {
                match asked {
                    0 => self.interrupt.cancelled().await,
                    1 => self.interrupt.forced().await,
                    _ => pending().await,
                }
            };
            tokio::select! {
                result = &mut result => break result?,
                () = again => {
                    asked += 1;
                    if let Err(error) = client.interrupt_cell(&id).await {
                        // If it cannot be asked, the end of our connection interrupts the cell; unless
                        // that has ended already.
                        if let Ok(result) = timeout(TAKING, &mut result).await {
                            break result?;
                        }
                        give_up(&mut giving_up, error);
                    }
                }
                // It ends soon now.
                error = client.silence(|| UNKNOWN_END), if asked > 0 && giving_up.is_some() => {
                    give_up(&mut giving_up, error);
                }
            }
        };
        if missed.bytes > 0 {
            let why = missed
                .why
                .map_or_else(String::new, |why| format!(", and could not wait: {why}"));
            outcome.beside_streams.notices.push(format!(
                "[{} bytes of output are not shown: they were not read in time{why}]",
                missed.bytes
            ));
        }
        Ok(outcome)
    }
}

/// Has the result of a cell be what was seen of it.
fn give_up(giving_up: &mut Option<oneshot::Sender<ClientError>>, error: ClientError) {
    if let Some(giving_up) = giving_up.take() {
        // Its result may have come just now.
        drop(giving_up.send(error));
    }
}
