//! Runs a cell for a client, and publishes what it does.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::content::{self, Failure};
use super::hub::{Hub, Parent, date};
use super::keyboard::{Before, Keyboard};
use super::message::msg_id_of;
use super::outbox::Outbox;
use crate::execution::{Files, LiveEvent, LiveOutput, Outcome, Wishes};
use crate::jupyter::{Channel, PublishedKind, WantedCell};
use crate::kernel::input_source;
use crate::output::Characters;
use crate::session::{Cell, Execution, Policy, Receipt};

/// People watch: as much time as a session gives.
const TIMEOUT: Duration = Duration::from_secs(86_400);
/// People watch: as many tool calls as there are.
const TOOL_CALLS: u32 = u32::MAX;
/// What becomes of a cell that is interrupted.
const ON_INTERRUPT: Policy = Policy::Interrupt;
/// Bytes that go out in one message; a line that is longer is more than one output in a notebook.
const TOGETHER_BYTES: usize = 1 << 20;
/// How long what is printed waits for more: a line that is written in pieces is to be one output in a
/// notebook, where each message may be kept as one of its own.
const TOGETHER: Duration = Duration::from_millis(100);

/// A cell on its way.
struct Running<'a> {
    hub: &'a Hub,
    /// On which it was asked for, and its reply goes out.
    channel: Channel,
    parent: &'a Parent,
    is_silent: bool,
    execution_count: Option<u64>,
    stdout: Characters,
    stderr: Characters,
    /// How it has failed, or code in it, if the kernel has said so before its end.
    told: Option<serde_json::Value>,
}

/// Runs a cell to its end and answers the client that has asked. If it has failed `failed` is called
/// before the answer: what is asked after that is another matter. A client that goes away while it
/// runs changes nothing; before that it does not run.
pub(super) async fn run(
    hub: &Arc<Hub>,
    client: &Outbox,
    (channel, parent): (Channel, &Parent),
    wanted: WantedCell,
    keyboard: &Keyboard,
    failed: impl FnOnce(),
) {
    if wanted.code.trim().is_empty() && wanted.user_expressions.is_none() {
        return nothing(hub, client, channel, parent);
    }
    let (source, questions) = wanted.allow_stdin.then(input_source).unzip();
    let cell = Cell {
        code: wanted.code.clone(),
        timeout: Some(TIMEOUT),
        max_tool_calls: Some(TOOL_CALLS),
        on_interrupt: Some(ON_INTERRUPT),
        files: Files::None,
        unmasked: hub.shows_secrets(),
        wishes: Wishes {
            silent: wanted.silent,
            outside_history: !wanted.stores_history,
            user_expressions: wanted.user_expressions,
            input: source,
            origin: msg_id_of(&parent.0),
        },
        ..Cell::default()
    };
    let (mut execution, mut own) = hub.execute(cell, parent);
    let live = execution.take_live();
    let mut turn = execution.turn();
    let mut running = Running {
        hub,
        channel,
        parent,
        is_silent: wanted.silent,
        execution_count: None,
        stdout: Characters::default(),
        stderr: Characters::default(),
        told: None,
    };
    let begun = tokio::select! {
        biased;
        count = turn.begun() => Ok(count),
        finished = execution.outcome_for_another() => Err(finished),
        // It has not run, and nobody wants it any more.
        () = client.ended() => return,
    };
    // One that did not run has no turn among the events.
    let telling = match begun {
        Ok(_count) => own.telling().await,
        Err(_) => hub.tell().await,
    };
    running.execution_count = begun.as_ref().ok().copied();
    let started = date(Timestamp::now());
    running.begin(&wanted.code).await;
    let (outcome, receipt) = match begun {
        Ok(_count) => {
            let before = Before::default();
            let answering = keyboard.serve(hub, client, parent, questions, &before);
            let followed = running.follow(&mut execution, live, &before);
            // Whoever answers does so until the cell has ended.
            tokio::select! {
                biased;
                end = followed => end,
                never = answering => match never {},
            }
        }
        Err(finished) => finished,
    };
    keyboard.forget();
    running
        .finish(client, &started, &outcome, receipt, failed)
        .await;
    drop((telling, own));
}

/// A request without code, which changes nothing.
fn nothing(hub: &Hub, client: &Outbox, channel: Channel, parent: &Parent) {
    let reply = content::execute_reply(None, hub.execution_count());
    framed(hub, client, channel, parent, "execute_reply", &reply);
}

/// Answers a client alone, with the status around it that every request has: those of others say
/// nothing about cells.
pub(super) fn framed(
    hub: &Hub,
    client: &Outbox,
    channel: Channel,
    parent: &Parent,
    msg_type: &'static str,
    content: &serde_json::Value,
) {
    status(hub, client, parent, "busy");
    hub.answer(client, channel, msg_type, parent, content, None);
    status(hub, client, parent, "idle");
}

/// The same around what nothing answers.
pub(super) fn passed_over(hub: &Hub, client: &Outbox, parent: &Parent) {
    status(hub, client, parent, "busy");
    status(hub, client, parent, "idle");
}

fn status(hub: &Hub, client: &Outbox, parent: &Parent, state: &str) {
    let content = content::status(state);
    hub.answer(client, Channel::Iopub, "status", parent, &content, None);
}

impl Running<'_> {
    async fn begin(&self, code: &str) {
        self.hub.room().await;
        // One that did not run has no number of its own: it leaves the last one.
        let count = self
            .execution_count
            .unwrap_or_else(|| self.hub.execution_count());
        let input = content::execute_input(code, count);
        let input = (!self.is_silent).then_some(&input);
        self.hub.begin_cell(self.parent, input);
    }

    async fn follow(
        &mut self,
        execution: &mut Execution,
        live: Option<LiveOutput>,
        before: &Before,
    ) -> (Outcome, Receipt) {
        if let Some(mut live) = live {
            loop {
                tokio::select! {
                    biased;
                    () = before.wanted() => {
                        while let Some(piece) = live.gathered_now() {
                            self.piece(piece).await;
                        }
                        before.is_told();
                    }
                    piece = live.next_gathered(TOGETHER_BYTES, TOGETHER) => match piece {
                        Some(piece) => self.piece(piece).await,
                        None => break,
                    },
                }
            }
        }
        let rest = (self.stdout.rest(), self.stderr.rest());
        self.text("stdout", &rest.0).await;
        self.text("stderr", &rest.1).await;
        execution.outcome_for_another().await
    }

    async fn piece(&mut self, piece: LiveEvent) {
        match piece {
            LiveEvent::Stdout(bytes) => {
                let whole = self.stdout.whole(&bytes);
                self.text("stdout", &whole).await;
            }
            LiveEvent::Stderr(bytes) => {
                let whole = self.stderr.whole(&bytes);
                self.text("stderr", &whole).await;
            }
            LiveEvent::Published(shown) => {
                if shown.kind == PublishedKind::Error {
                    self.told = serde_json::from_str(&shown.content(None)).ok();
                }
                if !self.is_silent || shown.kind.is_comm() {
                    self.hub
                        .publish_shown(&shown, self.parent, self.execution_count)
                        .await;
                }
            }
            LiveEvent::Result(text) => {
                let content = content::execute_result(&text, self.execution_count);
                self.show("execute_result", &content).await;
            }
        }
    }

    async fn text(&self, name: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            let content = content::stream(name, &String::from_utf8_lossy(bytes));
            self.show("stream", &content).await;
        }
    }

    /// Publishes, unless nothing of it is to be shown.
    async fn show(&self, msg_type: &'static str, content: &serde_json::Value) {
        if !self.is_silent {
            self.hub.publish(msg_type, self.parent, content).await;
        }
    }

    async fn finish(
        &self,
        client: &Outbox,
        started: &str,
        outcome: &Outcome,
        receipt: Receipt,
        failed: impl FnOnce(),
    ) {
        let report = &outcome.kernel;
        self.hub.note(report.execution_count);
        if let Some(notices) = self.hub.notices(outcome) {
            self.show("stream", &content::stream("stderr", &notices))
                .await;
        }
        let failure = Failure::of(outcome);
        if let Some(failure) = &failure {
            let error = failure.error();
            if self.told.as_ref() != Some(&error) {
                self.show("error", &error).await;
            }
            failed();
        }
        let count = match report.execution_count {
            0 => self.hub.execution_count(),
            count => count,
        };
        let mut reply = content::execute_reply(failure.as_ref(), count);
        if let Some(reply) = reply.as_object_mut() {
            let found = outcome.beside_streams.user_expressions.as_deref();
            if let Some(found) = found.and_then(|found| serde_json::from_str(found).ok()) {
                reply.insert("user_expressions".to_owned(), found);
            }
            if outcome.redacted > 0 {
                reply.insert("warmcell".to_owned(), content::redacted(outcome.redacted));
            }
            if outcome.beside_streams.asks_exit {
                reply.insert("payload".to_owned(), content::exit_payload());
            }
        }
        let (hub, parent) = (self.hub, self.parent);
        let about = content::started(started);
        hub.answer_about(client, self.channel, parent, &reply, &about, receipt);
        hub.end_cell(parent);
    }
}
