//! What the kernel says, and what comes of it for the cell that runs.

use bytes::Bytes;
use serde_json::json;

use super::cell::{Next, Stage};
use super::connection::Event;
use super::serve::Bridge;
use super::start::{parent_id, request, silently};
use super::{python, shown, told};
use crate::jupyter::{
    Channel, ExecuteReply, RawMessage, ReplyStatus, StatusContent, StreamContent,
};

impl Bridge {
    /// Takes what the kernel says; what it has done wrong, if it cannot go on.
    pub(super) fn heard(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Message(message) => {
                if let Ok(header) = message.parsed_header() {
                    self.take(&header.msg_type, message);
                } else {
                    self.unreadable += 1;
                }
                self.settle(false);
            }
            Event::Unreadable(error) => {
                tracing::debug!(%error, "a message of the kernel was dropped");
                self.unreadable += 1;
            }
            Event::Ended(fault) => {
                self.connections.open = self.connections.open.saturating_sub(1);
                return fault;
            }
        }
        None
    }

    fn take(&mut self, msg_type: &str, message: RawMessage) {
        let parent = parent_id(&message);
        let answers = |id: &str| parent.as_deref() == Some(id);
        match (message.channel, msg_type) {
            (Channel::Iopub, "stream") => {
                if let Ok(stream) = StreamContent::parse(&message.content) {
                    self.outlet
                        .print(usize::from(stream.name == "stderr"), stream.text);
                } else {
                    self.unreadable += 1;
                }
                if let Some(running) = &mut self.cell {
                    running.heard();
                }
            }
            (Channel::Iopub, "status") => {
                let Some(running) = self.cell.as_mut().filter(|it| answers(&it.id)) else {
                    return;
                };
                let state = StatusContent::parse(&message.content).unwrap_or_default();
                if state.execution_state == "idle" {
                    running.idle();
                }
            }
            (
                Channel::Iopub,
                "execute_result"
                | "display_data"
                | "update_display_data"
                | "clear_output"
                | "error",
            ) => {
                if let Some(running) = self.cell.as_mut().filter(|it| answers(&it.id)) {
                    running.heard();
                    if let Some(frame) = shown::frame(msg_type, message, &running.header) {
                        self.outlet.show(frame);
                    }
                }
            }
            (Channel::Shell, "execute_reply") => {
                let waited = self.cell.as_mut().filter(|it| answers(&it.waits_for));
                if let Some(running) = waited {
                    let stage = running.stage;
                    self.replied(stage, &message.content);
                }
            }
            (Channel::Shell, _) => {
                if let Some((_, header)) = self.asked.take_if(|(id, _)| answers(id)) {
                    let reply = RawMessage {
                        parent_header: header,
                        ..message
                    };
                    self.out(&reply);
                }
            }
            (Channel::Stdin, "input_request") => {
                // It was told that nobody can be asked.
                let reply = RawMessage {
                    parent_header: message.header,
                    ..request(
                        Channel::Stdin,
                        &self.next_id(),
                        "input_reply",
                        &self.session,
                        Bytes::from_static(br#"{"value":""}"#),
                    )
                };
                self.connections.send(reply);
            }
            _ => {}
        }
    }

    /// The reply that was waited for.
    fn replied(&mut self, stage: Stage, content: &[u8]) {
        let Some(running) = self.cell.as_mut() else {
            return;
        };
        match stage {
            Stage::Running => {
                if let Err(error) = running.replied(content) {
                    tracing::debug!(%error, "a reply could not be read");
                    self.unreadable += 1;
                }
            }
            Stage::AskingNames => running.told_names(content),
            Stage::Moving => match ExecuteReply::parse(content) {
                Ok(reply) if reply.status == ReplyStatus::Ok => {
                    running.stage = Stage::Running;
                    running.waits_for.clone_from(&running.id);
                    self.run_code();
                }
                Ok(reply) if reply.ename == "KeyboardInterrupt" => {
                    self.refuse("interrupted", "KeyboardInterrupt", "KeyboardInterrupt");
                }
                Ok(reply) => {
                    let name = reply.ename;
                    self.refuse("usage", &name, &format!("{name}: {}", reply.evalue));
                }
                Err(error) => self.refuse("usage", "ContentError", &error.to_string()),
            },
        }
    }

    /// Goes on with a cell of which enough has come.
    pub(super) fn settle(&mut self, is_due: bool) {
        let is_python = self.is_python;
        let Some(running) = self.cell.as_mut() else {
            return;
        };
        match running.next(is_python, is_due) {
            Next::Wait => {}
            Next::AskNames => {
                let expression = (python::REPORT, python::REPORT_CODE);
                let content = silently("pass", Some(expression));
                let id = self.ask(Channel::Shell, "execute_request", content);
                if let Some(running) = &mut self.cell {
                    running.asked_names(id);
                }
            }
            Next::Tell => {
                if let Some(reply) = running.reply.take() {
                    let told = self.told();
                    self.tell(told::reply(&reply, told));
                } else {
                    // An interrupt has cost the kernel its reply.
                    self.refuse("interrupted", "KeyboardInterrupt", "KeyboardInterrupt");
                }
            }
        }
    }

    /// What is to be told of the cell beside its reply.
    fn told(&mut self) -> told::Told {
        let mut told = self
            .cell
            .as_mut()
            .map(|running| running.told(self.is_python))
            .unwrap_or_default();
        match &told.names {
            Some(names) => self.names = Some(without_changes(names)),
            // What is not known has not changed.
            None => told.names.clone_from(&self.names),
        }
        let omitted = self.outlet.take_omitted();
        if omitted > 0 {
            told.warnings.push(format!(
                "{omitted} bytes of output were left out: they came faster than they were read"
            ));
        }
        let unreadable = std::mem::take(&mut self.unreadable);
        if unreadable > 0 {
            told.warnings.push(format!(
                "{unreadable} messages of the kernel were dropped: they were not readable, or not \
                 signed with its key"
            ));
        }
        told
    }

    pub(super) fn refuse(&mut self, class: &'static str, name: &str, sentence: &str) {
        let told = self.told();
        self.tell(told::refusal(class, name, sentence, told));
    }

    /// The end of the cell, after all that it has printed.
    fn tell(&mut self, content: Bytes) {
        let Some(running) = self.cell.take() else {
            return;
        };
        let header = self.header("execute_reply");
        let reply = RawMessage {
            parent_header: running.header,
            ..RawMessage::new(Channel::Shell, header, content)
        };
        self.out(&reply);
    }
}

/// A report that says that nothing has changed since this one.
fn without_changes(report: &str) -> String {
    let total = serde_json::from_str::<serde_json::Value>(report)
        .ok()
        .and_then(|report| report.get("total")?.as_u64())
        .unwrap_or(0);
    json!({ "set": [], "del": [], "total": total }).to_string()
}
