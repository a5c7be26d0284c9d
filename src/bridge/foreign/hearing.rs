//! What the kernel says, and what comes of it for the cell that runs.

use bytes::Bytes;
use serde_json::json;
use tokio::time::Instant;

use super::cell::{Next, Stage};
use super::connection::Event;
use super::serve::{Bridge, END_PATIENCE};
use super::shown::Passed;
use super::start::{parent_id, silently};
use super::{payload, python, shown, told};
use crate::jupyter::{
    Channel, ExecuteReply, RawMessage, ReplyStatus, StatusContent, StreamContent,
};

impl Bridge {
    /// Takes what the kernel says; what it has done wrong, if it cannot go on.
    pub(super) fn heard(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Message(message) => {
                if let Ok(header) = message.parsed_header() {
                    if let Err(fault) = self.take(&header.msg_type, message) {
                        return Some(fault);
                    }
                } else {
                    self.unreadable += 1;
                }
                return self.settle(false);
            }
            Event::Unreadable(error) => {
                tracing::debug!(%error, "a message of the kernel was dropped");
                self.unreadable += 1;
            }
            Event::TooLong(bytes) => {
                let (count, longest) = self.too_long;
                self.too_long = (count + 1, longest.max(bytes));
                if let Some(running) = &mut self.cell {
                    running.heard();
                }
            }
            Event::Ended(fault) => {
                self.connections.open = self.connections.open.saturating_sub(1);
                self.ends_by
                    .get_or_insert_with(|| Instant::now() + END_PATIENCE);
                return fault;
            }
        }
        None
    }

    fn take(&mut self, msg_type: &str, message: RawMessage) -> Result<(), String> {
        let parent = parent_id(&message);
        let answers = |id: &str| parent.as_deref() == Some(id);
        if let Some(running) = self.cell.as_mut().filter(|it| answers(&it.id)) {
            running.goes_on();
        }
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
                let state = StatusContent::parse(&message.content).unwrap_or_default();
                if state.execution_state == "idle" {
                    if let Some(running) = self.cell.as_mut().filter(|it| answers(&it.id)) {
                        running.idle();
                    }
                    self.asked_and_idle(parent.as_deref());
                }
            }
            (Channel::Iopub, _) => {
                let header = match (&mut self.cell, &self.asked) {
                    (Some(running), _) if answers(&running.id) => {
                        running.heard();
                        &running.header
                    }
                    (_, Some(asked)) if answers(&asked.id) => &asked.header,
                    _ => return Ok(()),
                };
                match shown::frame(msg_type, message, header) {
                    Passed::Frame(frame) => self.outlet.show(frame),
                    Passed::TooLong => self.lost_comms += 1,
                    Passed::Nothing => {}
                }
            }
            (Channel::Shell, "execute_reply") => {
                let waited = self.cell.as_mut().filter(|it| answers(&it.waits_for));
                if let Some(running) = waited {
                    let stage = running.stage;
                    return self.replied(stage, &message.content);
                }
                let is_ours = |id: &String| id.starts_with(&self.session);
                if !parent.as_ref().is_some_and(is_ours)
                    && let Some(running) = &mut self.cell
                {
                    running.strayed();
                }
            }
            (Channel::Shell, _) => self.answered(parent.as_deref(), msg_type, message),
            (Channel::Stdin, "input_request") => self.wants_input(parent.as_deref(), message),
            _ => {}
        }
        Ok(())
    }

    /// The reply that was waited for; what is wrong with it, if it is none.
    fn replied(&mut self, stage: Stage, content: &[u8]) -> Result<(), String> {
        let Some(running) = self.cell.as_mut() else {
            return Ok(());
        };
        match stage {
            Stage::Running => {
                for page in payload::pages(content) {
                    let shown = shown::frame("display_data", page, &running.header);
                    if let Passed::Frame(frame) = shown {
                        running.pages.push(frame);
                    }
                }
                running.replied(content)?;
            }
            Stage::AskingNames => running.told_names(content),
            Stage::Moving => match ExecuteReply::parse(content).map_err(|it| it.to_string())? {
                reply if reply.status == ReplyStatus::Ok => {
                    running.stage = Stage::Running;
                    running.waits_for.clone_from(&running.id);
                    self.run_code();
                }
                reply if reply.ename == "KeyboardInterrupt" => {
                    self.refuse("interrupted", "KeyboardInterrupt", "KeyboardInterrupt");
                }
                reply => {
                    let name = reply.ename;
                    self.refuse("usage", &name, &format!("{name}: {}", reply.evalue));
                }
            },
        }
        Ok(())
    }

    /// Goes on with a cell of which enough has come; what the kernel has done wrong, if that cannot
    /// be.
    pub(super) fn settle(&mut self, is_due: bool) -> Option<String> {
        let tells_names = self.is_python && !self.keeps_names;
        let running = self.cell.as_mut()?;
        let was_asked = running.stage == Stage::AskingNames;
        let next = running.next(tells_names, is_due);
        if next == Next::Tell && self.is_python {
            // One that was asked and has not told is not asked again: each cell would wait for it.
            let has_told = running.names.is_some();
            self.keeps_names = !has_told && (self.keeps_names || was_asked);
        }
        match next {
            Next::Wait => {}
            Next::Broken(what) => return Some(what.to_owned()),
            Next::AskNames => {
                let expression = (python::REPORT, python::REPORT_CODE);
                let content = silently("pass", Some(expression));
                let id = self.ask(Channel::Shell, "execute_request", content);
                if let Some(running) = &mut self.cell {
                    running.asked_names(id);
                }
            }
            Next::Tell => {
                for page in running.pages.drain(..) {
                    self.outlet.show(page);
                }
                if let Some(reply) = running.reply.take() {
                    let told = self.told();
                    self.tell(told::reply(&reply, told));
                } else {
                    // An interrupt has cost the kernel its reply.
                    self.refuse("interrupted", "KeyboardInterrupt", "KeyboardInterrupt");
                }
            }
        }
        None
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
        let (count, longest) = std::mem::take(&mut self.too_long);
        if count > 0 {
            told.warnings.push(format!(
                "{count} messages of the kernel were left out, the longest of {longest} bytes: one \
                 may have 192 MiB; print less at once, or write it to a file"
            ));
        }
        let lost = std::mem::take(&mut self.lost_comms);
        if lost > 0 {
            told.warnings.push(format!(
                "{lost} messages of comms were left out: one may have 4 MiB of JSON and 64 MiB of \
                 buffers"
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
        self.waiting = None;
        let header = self.header("execute_reply");
        // Whatever the kernel has said, this fits.
        self.out(&RawMessage {
            parent_header: running.header,
            ..RawMessage::new(Channel::Shell, header, content)
        });
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
