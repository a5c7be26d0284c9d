//! The loop of a bridge: what the manager wants goes to the kernel, what the kernel says goes back.

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
use super::start::{Started, request, silently};
use crate::jupyter::{
    Channel, FrameReader, Header, Limits, RawMessage, VariablesReply, encode, header,
};
use crate::process::{InterruptNumber, Spawned, reap_orphans};

/// An interrupt comes again from the manager until the cell has ended; the kernel is left alone for
/// so long, or it would be interrupted while it tells of the first.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(500);
/// How long what a dead kernel has sent may still come.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long the last of that may take to go out.
const FLUSH: Duration = Duration::from_secs(5);

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
    /// What was asked last between cells: its id, and its header.
    pub(super) asked: Option<(String, Bytes)>,
    /// For the next result.
    pub(super) warnings: Vec<String>,
    /// Messages that were none since the last result.
    pub(super) unreadable: u64,
    /// The last report of names that a kernel has given.
    pub(super) names: Option<String>,
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
            warnings: started.warnings,
            unreadable: 0,
            names: None,
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
            let deadline = self.cell.as_ref().and_then(|cell| cell.deadline);
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
                event = self.connections.events.recv() => match event {
                    Some(event) => {
                        if let Some(fault) = self.heard(event) {
                            self.fault(&fault).await;
                            return End::Fault;
                        }
                    }
                    // All sockets are closed: the process ends, or is not worth waiting for.
                    None => {
                        return match timeout(FLUSH, process.ended()).await {
                            Ok(status) => End::Kernel(status),
                            Err(_elapsed) => {
                                self.fault("closed its sockets").await;
                                End::Fault
                            }
                        };
                    }
                },
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    self.settle(true);
                }
            }
        }
    }

    /// Tells the manager why there is an end.
    async fn fault(&mut self, what: &str) {
        let content = json!({ "reason": what }).to_string();
        let header = self.header("warmcell_fault");
        let message = RawMessage::new(Channel::Control, header, content.into());
        self.out(&message);
        self.outlet.flush(FLUSH).await;
    }

    async fn hear_the_last(&mut self) {
        let last = async {
            while self.connections.open > 0 {
                match self.connections.events.recv().await {
                    Some(event) => drop(self.heard(event)),
                    None => break,
                }
            }
        };
        drop(timeout(LAST_WORDS, last).await);
        self.outlet.flush(FLUSH).await;
    }

    // From the manager.

    fn ordered(&mut self, message: RawMessage) {
        let Ok(Header { msg_type, .. }) = message.parsed_header() else {
            return;
        };
        match (message.channel, msg_type.as_str()) {
            (Channel::Shell, "execute_request") => self.execute(message),
            // What front ends ask between cells goes to the kernel as it is.
            (Channel::Shell, _) => {
                let msg_id = message.parsed_header().map(|header| header.msg_id);
                self.asked = msg_id.ok().map(|id| (id, message.header.clone()));
                self.connections.send(message);
            }
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
        let id = self.next_id();
        let mut running = Running::new(message.header, id, order);
        running.warnings = std::mem::take(&mut self.warnings);
        if self.page.read() == cell {
            running.interrupted = Some(Instant::now());
            self.cell = Some(running);
            return self.refuse("interrupted", "KeyboardInterrupt", "KeyboardInterrupt");
        }
        if self.is_python {
            let content = silently(&python::beginning(cell, directory.as_deref()), None);
            let begun = self.ask(Channel::Shell, "execute_request", content);
            if directory.is_some() {
                // If it cannot go there the cell is not to run.
                running.stage = Stage::Moving;
                running.waits_for = begun;
            }
        } else if directory.is_some() {
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
        let named = self.page.read();
        let Some(running) = self.cell.as_mut() else {
            return;
        };
        let is_meant = running.order.warmcell.cell == named;
        if !is_meant || running.stage == Stage::AskingNames || running.reply.is_some() {
            return;
        }
        let now = Instant::now();
        if running
            .interrupted
            .is_some_and(|at| now < at + INTERRUPT_AGAIN)
        {
            return;
        }
        running.interrupted = Some(now);
        running.interrupts += 1;
        if self.message_mode {
            self.ask(
                Channel::Control,
                "interrupt_request",
                Bytes::from_static(b"{}"),
            );
        } else {
            // What the cell waits for gets it once, so that it can clean up.
            let with_group = running.interrupts == 1;
            process.interrupt(with_group);
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

    pub(super) fn out(&mut self, message: &RawMessage) {
        if let Ok(frame) = encode(message, &Limits::from_kernel()) {
            self.outlet.reply(frame);
        }
    }
}
