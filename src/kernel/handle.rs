//! How the rest of the house talks to a kernel.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::actor::Actor;
use super::input::InputSource;
use super::question::WeakKernel;
use super::running::EXECUTE_REPLY;
use super::sink::BetweenCells;
use super::{CellEnd, Death, Ending, Escalation, FrameBudget, LateSink, SharedSink};
use crate::environment::Interpreter;
use crate::jupyter::{
    Channel, ExecuteRequest, FrameError, Limits, RawMessage, VariablesReply, encode, header,
};
use crate::output::Tail;
use crate::process::ProcessError;
use crate::provisioner::{JobRunner, KernelProcess, ProvisionedKernel};

/// Commands that may wait for the actor. Cells come one at a time; the rest are interrupts and the
/// end.
const QUEUED_COMMANDS: usize = 16;

/// Bytes kept of what is printed between cells.
const BACKGROUND_BYTES: usize = 10_000;

/// A cell on its way to a kernel.
#[derive(Debug)]
pub struct CellRequest<'a> {
    /// The Python source.
    pub code: &'a str,
    /// The number of the cell, rising per session over all its kernels.
    pub cell: u64,
    /// The directory to which the kernel is to change first.
    pub cwd: Option<&'a Path>,
    /// The id of the request message.
    pub msg_id: &'a str,
    /// The id of the session, for the message header.
    pub session: &'a str,
    /// Now, as in a message header.
    pub date: &'a str,
    /// Takes the output.
    pub sink: SharedSink,
    /// Whether nothing of it is shown, and history does not keep it.
    pub silent: bool,
    /// Whether history keeps it and it gets a number.
    pub store_history: bool,
    /// What is to be evaluated after it, as a JSON object of expressions by name.
    pub user_expressions: Option<&'a RawValue>,
    /// The id of the message with which a front end has sent it.
    pub origin: Option<&'a str>,
    /// Who is at its keyboard; without it the cell may not ask.
    pub input: Option<InputSource>,
}

/// Something that a kernel is asked between cells.
#[derive(Debug)]
pub struct AskRequest<'a> {
    /// The type of the message, as in `complete_request`.
    pub msg_type: &'a str,
    /// The type of the reply.
    pub reply_type: &'static str,
    /// JSON object.
    pub content: Bytes,
    /// JSON object, for those who look at it on the other side.
    pub metadata: Bytes,
    /// Binary attachments.
    pub buffers: Vec<Bytes>,
    /// With which it is interrupted; no cell has it.
    pub number: u64,
    /// The id of the request message.
    pub msg_id: &'a str,
    /// The id of the session, for the message header.
    pub session: &'a str,
    /// Now, as in a message header.
    pub date: &'a str,
    /// Takes what is shown meanwhile.
    pub sink: SharedSink,
}

#[derive(Debug)]
pub(super) enum Command {
    Execute {
        frame: Vec<u8>,
        header: Bytes,
        cell: u64,
        sink: SharedSink,
        input: Option<InputSource>,
        /// The type of the reply that ends it.
        expects: &'static str,
        done: oneshot::Sender<CellEnd>,
    },
    Variables {
        frame: Vec<u8>,
        header: Bytes,
        answer: oneshot::Sender<VariablesReply>,
    },
    Interrupt {
        cell: u64,
        plan: Escalation,
        sent: oneshot::Sender<()>,
    },
    /// Nobody waits for the answer to this question any more.
    GiveUp { cell: u64 },
    Shutdown {
        frame: Vec<u8>,
        grace: Duration,
        sink: Option<SharedSink>,
    },
}

/// A handle to a kernel. When the last one is dropped the kernel is killed.
#[derive(Debug, Clone)]
pub struct Kernel(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    commands: mpsc::Sender<Command>,
    kill: CancellationToken,
    death: watch::Receiver<Option<Death>>,
    cleared: watch::Receiver<Option<usize>>,
    background: Arc<Mutex<Tail>>,
    process: Arc<dyn KernelProcess>,
    jobs: Arc<dyn JobRunner>,
    interpreter: Interpreter,
    choice: Option<String>,
    info: Option<Box<RawValue>>,
    scratch: Option<PathBuf>,
}

impl Kernel {
    /// Puts an actor in front of a kernel that was started. What it prints while no cell runs goes to
    /// `late`, as it comes.
    ///
    /// # Errors
    ///
    /// If the link cannot be watched.
    pub fn new(
        started: ProvisionedKernel,
        budget: Arc<FrameBudget>,
        late: Arc<dyn LateSink>,
    ) -> Result<Self, ProcessError> {
        let (commands, queue) = mpsc::channel(QUEUED_COMMANDS);
        let (death_report, death) = watch::channel(None);
        let (cleared_report, cleared) = watch::channel(None);
        let kill = CancellationToken::new();
        let background = Arc::new(Mutex::new(Tail::new(BACKGROUND_BYTES)));
        let kernel = Self(Arc::new(Shared {
            commands,
            kill: kill.clone(),
            death,
            cleared,
            background: Arc::clone(&background),
            process: Arc::clone(&started.process),
            jobs: started.jobs.clone(),
            interpreter: started.interpreter.clone(),
            choice: started.choice.clone(),
            info: started.info.clone(),
            scratch: started.scratch.as_ref().map(|it| it.path().to_owned()),
        }));
        let actor = Actor::new(
            started,
            budget,
            queue,
            kill,
            BetweenCells {
                tail: background,
                late,
            },
            death_report,
            cleared_report,
        )
        .map_err(|source| ProcessError::Descriptor {
            what: "a link",
            source,
        })?;
        tokio::spawn(actor.run());
        Ok(kernel)
    }

    /// Hands a cell over and waits for its end. One at a time.
    ///
    /// # Errors
    ///
    /// If the code does not fit into a frame.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the cell goes on; the kernel must then be killed.
    pub async fn execute(&self, request: CellRequest<'_>) -> Result<CellEnd, FrameError> {
        let content = ExecuteRequest {
            cwd: request.cwd,
            silent: request.silent,
            store_history: request.store_history,
            user_expressions: request.user_expressions,
            origin: request.origin,
            allow_stdin: request.input.is_some(),
            ..ExecuteRequest::new(request.code, request.cell)
        };
        let content = content.to_bytes();
        let header = header(
            request.msg_id,
            "execute_request",
            request.session,
            request.date,
        );
        let message = RawMessage::new(Channel::Shell, header.clone(), content);
        let frame = encode(&message, &Limits::to_kernel())?;
        let (done, ended) = oneshot::channel();
        let command = Command::Execute {
            frame,
            header,
            cell: request.cell,
            sink: request.sink,
            input: request.input,
            expects: EXECUTE_REPLY,
            done,
        };
        let end = match self.0.commands.send(command).await {
            Ok(()) => ended.await.ok(),
            Err(_) => None,
        };
        Ok(end.unwrap_or_else(|| CellEnd {
            ending: Ending::NotStarted(self.death().unwrap_or(Death::Ended)),
            dropped_messages: 0,
            background: None,
        }))
    }

    /// Asks something between cells, and waits for the reply. One at a time, and no cell meanwhile.
    /// `None` if there is none: too many earlier ones are not answered yet, or this one was given up.
    ///
    /// # Errors
    ///
    /// If the request does not fit into a frame.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the kernel goes on with it; it must then be told to give it up.
    pub async fn ask(&self, request: AskRequest<'_>) -> Result<Option<CellEnd>, FrameError> {
        let header = header(
            request.msg_id,
            request.msg_type,
            request.session,
            request.date,
        );
        let message = RawMessage {
            metadata: request.metadata,
            buffers: request.buffers,
            ..RawMessage::new(Channel::Shell, header.clone(), request.content)
        };
        let frame = encode(&message, &Limits::to_kernel())?;
        let (done, ended) = oneshot::channel();
        let command = Command::Execute {
            frame,
            header,
            cell: request.number,
            sink: request.sink,
            input: None,
            expects: request.reply_type,
            done,
        };
        if self.0.commands.send(command).await.is_ok()
            && let Ok(end) = ended.await
        {
            return Ok(Some(end));
        }
        Ok(self.death().map(|death| CellEnd {
            ending: Ending::NotStarted(death),
            dropped_messages: 0,
            background: None,
        }))
    }

    /// Nobody waits for the answer to a question any more. The kernel goes on with it; cells wait for
    /// its end, and so do other questions; if 8 wait for it no more are asked until then.
    pub async fn give_up(&self, number: u64) {
        let command = Command::GiveUp { cell: number };
        // If the actor is gone there is nothing to give up.
        drop(self.0.commands.send(command).await);
    }

    /// Interrupts a cell, and what it waits for, and leaves the kernel alive for a grace; then it is
    /// killed. Returns when the first signal was sent. A cell that is not running is not hit.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the interrupt goes on.
    pub async fn interrupt(&self, cell: u64, grace: Duration) {
        let plan = Escalation { grace };
        let (sent, is_sent) = oneshot::channel();
        let command = Command::Interrupt { cell, plan, sent };
        // If the actor is gone there is nothing to interrupt.
        if self.0.commands.send(command).await.is_ok() {
            drop(is_sent.await);
        }
    }

    /// Kills the kernel and everything it has started, at once.
    pub fn kill(&self) {
        self.0.kill.cancel();
    }

    /// Ends the kernel in good order within a grace, then by force; waits until it is gone. What it
    /// prints meanwhile goes to the sink.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the end goes on.
    pub async fn shut_down(&self, grace: Duration, sink: Option<SharedSink>) {
        let header = header("shutdown", "shutdown_request", "", "");
        let content = Bytes::from_static(br#"{"restart":false}"#);
        let message = RawMessage::new(Channel::Control, header, content);
        match encode(&message, &Limits::to_kernel()) {
            Ok(frame) => {
                drop(
                    self.0
                        .commands
                        .send(Command::Shutdown { frame, grace, sink })
                        .await,
                );
            }
            Err(_) => self.kill(),
        }
        self.gone().await;
    }

    /// Waits until it has ended, and says how.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn ended(&self) -> Death {
        let mut death = self.0.death.clone();
        let found = death.wait_for(Option::is_some).await;
        found.ok().and_then(|it| it.clone()).unwrap_or(Death::Ended)
    }

    /// How it ended, if it has.
    pub fn death(&self) -> Option<Death> {
        self.0.death.borrow().clone()
    }

    /// Waits until the kernel and everything it has started are gone; how many processes are not.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn gone(&self) -> usize {
        let mut cleared = self.0.cleared.clone();
        let found = cleared.wait_for(Option::is_some).await;
        found.ok().and_then(|count| *count).unwrap_or(0)
    }

    /// The last 10,000 bytes of what was printed since the last cell ended, and how many bytes it
    /// was in all.
    pub fn take_background(&self) -> Option<(String, u64)> {
        self.0
            .background
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// For those who only look at it.
    pub fn downgrade(&self) -> WeakKernel {
        WeakKernel {
            commands: self.0.commands.downgrade(),
        }
    }

    /// Its process number, for display.
    pub fn pid(&self) -> u32 {
        self.0.process.pid()
    }

    /// Starts commands that end with it.
    pub fn jobs(&self) -> Arc<dyn JobRunner> {
        Arc::clone(&self.0.jobs)
    }

    /// The Python that runs it.
    pub fn interpreter(&self) -> &Interpreter {
        &self.0.interpreter
    }

    /// For the caller, if a Python that was named would not do and this one was taken instead.
    pub fn choice(&self) -> Option<&str> {
        self.0.choice.as_deref()
    }

    /// Its working directory at the start, if that is one of its own, which goes with it.
    pub fn scratch(&self) -> Option<&Path> {
        self.0.scratch.as_deref()
    }

    /// What a kernel that is not ours says of itself: the content of its `kernel_info_reply`.
    pub fn info(&self) -> Option<&RawValue> {
        self.0.info.as_deref()
    }
}
