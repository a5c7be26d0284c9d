//! The loop of a bridge: what the manager wants goes to the kernel, what the kernel says goes back.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::signal::unix::Signal;
use tokio::time::{Instant, sleep_until, timeout};

use super::cell::{Order, Running, Stage};
use super::connection::Connections;
use super::outlet::Outlet;
use super::python;
use super::questions::{Asked, Waiting};
use super::start::{Started, request, silently};
use crate::jupyter::{Channel, FrameReader, Limits, RawMessage, VariablesReply, encode, header};
use crate::process::{InterruptNumber, Spawned, reap_orphans};

/// How long it is waited for more of what a dead kernel has sent, where others hold its sockets open.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long that may go on.
const LAST_SPEECH: Duration = Duration::from_secs(5);
/// How long a kernel that has closed a socket may take to end: without it no cell comes to its end.
pub(super) const END_PATIENCE: Duration = Duration::from_secs(5);

/// Why a bridge ends.
#[derive(Debug)]
pub(super) enum End {
    /// The kernel has ended, and how.
    Kernel(Option<ExitStatus>),
    /// The manager is gone.
    Manager,
    /// The kernel broke the protocol.
    Fault,
}

/// Signals that concern the loop.
#[derive(Debug)]
pub(super) struct Signals {
    pub(super) interrupt: Signal,
    pub(super) child: Signal,
}

#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) page: InterruptNumber,
    pub(super) outlet: Outlet,
    pub(super) connections: Connections,
    pub(super) is_python: bool,
    pub(super) message_mode: bool,
    pub(super) session: String,
    pub(super) serial: u64,
    /// Of messages that are made here.
    pub(super) replies: u64,
    pub(super) cell: Option<Running>,
    /// What was asked last between cells.
    pub(super) asked: Option<Asked>,
    /// The cell waits for input.
    pub(super) waiting: Option<Waiting>,
    /// How often a cell has asked for input.
    pub(super) inputs: u64,
    /// For the next result.
    pub(super) warnings: Vec<String>,
    /// Messages that were none since the last result.
    pub(super) unreadable: u64,
    /// Messages that were too long since then, and the bytes of the longest.
    pub(super) too_long: (u64, u64),
    /// Messages of comms that do not fit through the link, since then.
    pub(super) lost_comms: u64,
    /// The last report of names that a kernel has given.
    pub(super) names: Option<String>,
    /// It was asked for them and did not tell.
    pub(super) keeps_names: bool,
    /// It has closed a socket, and must have ended by then.
    pub(super) ends_by: Option<Instant>,
    /// The directory in which the kernel was started.
    pub(super) started_in: PathBuf,
}

impl Bridge {
    pub(super) fn new(
        page: InterruptNumber,
        outlet: Outlet,
        started: Started,
        message_mode: bool,
    ) -> (Self, Spawned) {
        let bridge = Self {
            page,
            outlet,
            connections: started.connections,
            is_python: started.is_python,
            message_mode,
            session: started.session,
            serial: 0,
            replies: 0,
            cell: None,
            asked: None,
            waiting: None,
            inputs: 0,
            warnings: started.warnings,
            unreadable: 0,
            too_long: (0, 0),
            lost_comms: 0,
            names: None,
            keeps_names: false,
            ends_by: None,
            started_in: PathBuf::new(),
        };
        (bridge, started.process)
    }

    /// Runs until the kernel or the manager has ended.
    pub(super) async fn serve(
        &mut self,
        process: &mut Spawned,
        mut link: UnixStream,
        mut signals: Signals,
    ) -> End {
        let mut frames = FrameReader::new(Limits::to_kernel());
        loop {
            let cell = self.cell.as_ref().and_then(|cell| cell.deadline);
            let asked = self.asked.as_ref().and_then(|asked| asked.deadline);
            let ends_by = self.ends_by;
            tokio::select! {
                biased;
                status = process.ended() => {
                    self.hear_the_last().await;
                    return End::Kernel(status);
                }
                _ = signals.interrupt.recv() => self.interrupt(process),
                _ = signals.child.recv() => reap_orphans(),
                read = link.read_buf(frames.buffer()) => {
                    if !matches!(read, Ok(count) if count > 0) {
                        return End::Manager;
                    }
                    loop {
                        match frames.next_message() {
                            Ok(Some(message)) => self.ordered(message),
                            Ok(None) => break,
                            Err(_broken) => return End::Manager,
                        }
                    }
                }
                event = self.connections.events.recv(), if self.connections.open > 0 => {
                    let fault = event.and_then(|event| self.heard(event));
                    if let Some(fault) = fault {
                        // What it has said over other sockets before is not lost.
                        self.hear_the_last().await;
                        self.fault(&fault).await;
                        return End::Fault;
                    }
                }
                () = sleep_until(ends_by.unwrap_or_else(Instant::now)), if ends_by.is_some() => {
                    let open = self.connections.open;
                    let seconds = END_PATIENCE.as_secs();
                    self.fault(&format!(
                        "it closed its sockets (all but {open}) and did not end within {seconds} s"
                    ))
                    .await;
                    return End::Fault;
                }
                () = sleep_until(cell.unwrap_or_else(Instant::now)), if cell.is_some() => {
                    if let Some(fault) = self.settle(true) {
                        self.fault(&fault).await;
                        return End::Fault;
                    }
                }
                () = sleep_until(asked.unwrap_or_else(Instant::now)), if asked.is_some() => {
                    self.unanswered();
                }
            }
        }
    }

    async fn fault(&mut self, what: &str) {
        self.tell_end("warmcell_fault", &json!({ "reason": what }))
            .await;
    }

    /// Tells the manager why there is an end, after all that was printed.
    pub(super) async fn tell_end(&mut self, msg_type: &str, content: &serde_json::Value) {
        let header = self.header(msg_type);
        let content = content.to_string();
        self.out(&RawMessage::new(Channel::Control, header, content.into()));
        self.outlet.flush().await;
    }

    async fn hear_the_last(&mut self) {
        let end = Instant::now() + LAST_SPEECH;
        while self.connections.open > 0 && Instant::now() < end {
            match timeout(LAST_WORDS, self.connections.events.recv()).await {
                Ok(Some(event)) => drop(self.heard(event)),
                Ok(None) | Err(_) => break,
            }
        }
    }

    // From the manager.

    fn ordered(&mut self, message: RawMessage) {
        let Ok(header) = message.parsed_header() else {
            return;
        };
        match (message.channel, header.msg_type.as_str()) {
            (Channel::Shell, "execute_request") => self.execute(message),
            (Channel::Shell, _) => self.question(header, message),
            (Channel::Stdin, "input_reply") => self.input_given(&message.content),
            (Channel::Control, "shutdown_request") => {
                let content = Bytes::from_static(br#"{"restart":false}"#);
                self.ask(Channel::Control, "shutdown_request", content);
            }
            (Channel::Control, VariablesReply::REQUEST) => {
                // There is no answer, and the manager need not wait to see that.
                let reply = RawMessage {
                    parent_header: message.header,
                    ..RawMessage::new(
                        Channel::Control,
                        self.header("warmcell_variables_reply"),
                        Bytes::from_static(b"{}"),
                    )
                };
                self.out(&reply);
            }
            _ => {}
        }
    }

    fn execute(&mut self, message: RawMessage) {
        let Ok(order) = serde_json::from_slice::<Order>(&message.content) else {
            return;
        };
        let cell = order.warmcell.cell;
        let directory = order.directory();
        let allows_input = order.allow_stdin;
        let is_elsewhere = order.leaves(&self.started_in);
        let id = self.next_id();
        let mut running = Running::new(message.header, id, order);
        running.warnings = std::mem::take(&mut self.warnings);
        if self.page.read() == cell {
            running.interrupts.again();
            self.cell = Some(running);
            return self.refuse("interrupted", "KeyboardInterrupt", "KeyboardInterrupt");
        }
        if self.is_python {
            let content = silently(
                &python::beginning(cell, directory.as_deref(), allows_input),
                None,
            );
            let begun = self.ask(Channel::Shell, "execute_request", content);
            if directory.is_some() {
                // If it cannot go there the cell is not to run.
                running.stage = Stage::Moving;
                running.waits_for = begun;
            }
        } else if is_elsewhere {
            running.warnings.push(
                "this kernel cannot be moved to the caller's directory: the cell ran where the \
                 kernel is"
                    .to_owned(),
            );
        }
        self.cell = Some(running);
        self.run_code();
    }

    /// Hands the code over, if nothing comes before.
    pub(super) fn run_code(&mut self) {
        let Some(running) = self.cell.as_ref().filter(|it| it.stage == Stage::Running) else {
            return;
        };
        let content = running.order.content(self.is_python);
        let session = &self.session;
        let message = request(
            Channel::Shell,
            &running.id,
            "execute_request",
            session,
            content,
        );
        self.connections.send(message);
    }

    // Interrupts.

    fn interrupt(&mut self, process: &Spawned) {
        let Some(is_first) = self.interrupted() else {
            return;
        };
        if self.message_mode {
            self.ask(
                Channel::Control,
                "interrupt_request",
                Bytes::from_static(b"{}"),
            );
        } else {
            // What the cell waits for gets it once, so that it can clean up.
            process.interrupt(is_first);
        }
    }

    // On the way.

    pub(super) fn ask(&mut self, channel: Channel, msg_type: &str, content: Bytes) -> String {
        let id = self.next_id();
        let message = request(channel, &id, msg_type, &self.session, content);
        self.connections.send(message);
        id
    }

    pub(super) fn next_id(&mut self) -> String {
        self.serial += 1;
        format!("{}_{}", self.session, self.serial)
    }

    pub(super) fn header(&mut self, msg_type: &str) -> Bytes {
        self.replies += 1;
        header(&format!("b_{}", self.replies), msg_type, "", "")
    }

    /// Sends something to the manager; false if it is too long for the link.
    pub(super) fn out(&mut self, message: &RawMessage) -> bool {
        let frame = encode(message, &Limits::from_kernel());
        if let Ok(frame) = frame {
            self.outlet.reply(frame);
            return true;
        }
        false
    }
}
