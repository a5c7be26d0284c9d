//! What is asked between cells, and what a cell asks whoever is at its keyboard.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::serve::Bridge;
use super::start::request;
use super::traceback::cut;
use crate::jupyter::{Channel, Header, InputRequest, PublishedKind, RawMessage, question_number};

/// An interrupt comes again from the manager until what it is for has ended; the kernel is left alone
/// for so long, or it would be interrupted while it tells of the first.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(500);
/// How long the reply to a question may be on its way once the kernel is idle again: they come over
/// two sockets.
const REPLY_PATIENCE: Duration = Duration::from_millis(500);
/// What is said in the place of a reply that never comes.
const NO_REPLY: &str = "the kernel was idle again and had not replied: it does not know this request, \
    or a value in it";
/// What a kernel takes for the end of its input: nothing else can be said in its protocol.
const END_OF_INPUT: &str = "\u{4}";

/// How often something was interrupted.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    last: Option<Instant>,
    count: u32,
}

impl Interrupts {
    /// Whether there was one.
    pub(super) const fn any(&self) -> bool {
        self.last.is_some()
    }

    /// One more. `None` if it comes too soon after the last; else whether it is the first.
    pub(super) fn again(&mut self) -> Option<bool> {
        let now = Instant::now();
        if self.last.is_some_and(|at| now < at + INTERRUPT_AGAIN) {
            return None;
        }
        self.last = Some(now);
        self.count += 1;
        Some(self.count == 1)
    }
}

/// What the kernel was asked between cells.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: String,
    /// Of the manager's request.
    pub(super) header: Bytes,
    /// The type of the message that answers it.
    reply_type: String,
    /// With which it is interrupted.
    number: u64,
    /// A comm has no reply: it ends when the kernel is idle again.
    pub(super) is_comm: bool,
    /// When it goes on without a reply.
    pub(super) deadline: Option<Instant>,
    interrupts: Interrupts,
}

/// A cell waits for input.
#[derive(Debug)]
pub(super) struct Waiting {
    number: u64,
    /// Of the kernel's own question.
    header: Bytes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    value: Option<String>,
    warmcell: AnswerOfOurs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnswerOfOurs {
    number: u64,
}

impl Bridge {
    /// Passes on what front ends ask, as it is.
    pub(super) fn question(&mut self, header: Header, message: RawMessage) {
        let kind = PublishedKind::parse(&header.msg_type);
        self.asked = Some(Asked {
            reply_type: header.msg_type.replace("_request", "_reply"),
            id: header.msg_id,
            header: message.header.clone(),
            number: question_number(&message.metadata).unwrap_or_default(),
            is_comm: kind.is_some_and(PublishedKind::is_comm),
            deadline: None,
            interrupts: Interrupts::default(),
        });
        let metadata = without_ours(&message.metadata).unwrap_or(message.metadata);
        self.connections.send(RawMessage {
            metadata,
            ..message
        });
    }

    /// The kernel has replied to something that is no cell.
    pub(super) fn answered(&mut self, parent: Option<&str>, msg_type: &str, message: RawMessage) {
        let answers = |it: &mut Asked| {
            parent == Some(it.id.as_str()) && !it.is_comm && msg_type == it.reply_type
        };
        if let Some(asked) = self.asked.take_if(answers) {
            let mut reply = RawMessage {
                parent_header: asked.header,
                ..message
            };
            if !self.out(&reply) {
                let sentence = format!(
                    "the kernel's reply has {} bytes; the limit is 4 MiB",
                    reply.content.len()
                );
                reply.content = failed(&sentence).to_string().into();
                reply.metadata = Bytes::from_static(b"{}");
                reply.buffers.clear();
                self.out(&reply);
            }
        }
    }

    /// The kernel is idle again. If that was a comm's message it has done what that was about; else
    /// there is a reply by now, or none will come.
    pub(super) fn asked_and_idle(&mut self, parent: Option<&str>) {
        let asked = self.asked.as_mut();
        if let Some(asked) = asked.filter(|it| parent == Some(it.id.as_str())) {
            asked.deadline = Some(Instant::now() + REPLY_PATIENCE);
        }
        let ends = |it: &mut Asked| parent == Some(it.id.as_str()) && it.is_comm;
        if let Some(asked) = self.asked.take_if(ends) {
            let header = self.header("warmcell_comm_reply");
            let reply = RawMessage {
                parent_header: asked.header,
                ..RawMessage::new(Channel::Shell, header, Bytes::from_static(b"{}"))
            };
            self.out(&reply);
        }
    }

    /// The kernel has not replied to what it was asked, and will not.
    pub(super) fn unanswered(&mut self) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        let header = self.header(&asked.reply_type);
        let content = json!({
            "status": "error", "ename": "NoReply", "evalue": NO_REPLY, "traceback": [],
        });
        self.out(&RawMessage {
            parent_header: asked.header,
            ..RawMessage::new(Channel::Shell, header, content.to_string().into())
        });
    }

    /// What the manager means by an interrupt: `None` if nothing of that number runs, or it was told
    /// just now; else whether it is the first.
    pub(super) fn interrupted(&mut self) -> Option<bool> {
        let named = self.page.read();
        match (&mut self.cell, &mut self.asked) {
            (Some(running), _) if running.is_meant(named) => running.interrupts.again(),
            (None, Some(asked)) if asked.number == named => asked.interrupts.again(),
            _ => None,
        }
    }

    /// The kernel wants input, for the cell that runs if its header is that of a request of ours.
    pub(super) fn wants_input(&mut self, parent: Option<&str>, message: RawMessage) {
        let asked = InputRequest::read(&message).ok();
        let running = self.cell.as_ref().filter(|it| {
            let is_its_own = parent == Some(it.id.as_str());
            is_its_own && it.order.allow_stdin
        });
        let (Some(asked), Some(running)) = (asked, running) else {
            // It was told that nobody can be asked.
            return self.give_input(message.header, END_OF_INPUT);
        };
        let parent_header = running.header.clone();
        self.inputs += 1;
        self.waiting = Some(Waiting {
            number: self.inputs,
            header: message.header,
        });
        let content = json!({ "prompt": cut(&asked.prompt), "password": asked.password });
        let metadata = json!({ "warmcell": { "number": self.inputs } });
        let header = self.header("input_request");
        let request = RawMessage {
            parent_header,
            metadata: metadata.to_string().into(),
            ..RawMessage::new(Channel::Stdin, header, content.to_string().into())
        };
        self.out(&request);
    }

    /// Somebody has answered, or nobody will.
    pub(super) fn input_given(&mut self, content: &[u8]) {
        let answer: Answer = serde_json::from_slice(content).unwrap_or_default();
        let number = answer.warmcell.number;
        if let Some(waiting) = self.waiting.take_if(|it| it.number == number) {
            let value = answer.value.as_deref().unwrap_or(END_OF_INPUT);
            self.give_input(waiting.header, value);
        }
    }

    fn give_input(&mut self, question: Bytes, value: &str) {
        let content = json!({ "value": value }).to_string();
        let id = self.next_id();
        let reply = RawMessage {
            parent_header: question,
            ..request(
                Channel::Stdin,
                &id,
                "input_reply",
                &self.session,
                content.into(),
            )
        };
        self.connections.send(reply);
    }
}

/// The metadata without what the manager has put there: whoever reads it in the kernel is not to see
/// that.
fn without_ours(metadata: &[u8]) -> Option<Bytes> {
    let mut keys: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(metadata).ok()?;
    keys.remove("warmcell")?;
    Some(serde_json::to_vec(&keys).ok()?.into())
}

/// What stands where something that was asked for is too long.
pub(super) fn failed(sentence: &str) -> Value {
    json!({ "status": "error", "ename": "TooLong", "evalue": sentence, "traceback": [] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_interrupt_comes_again_only_after_a_while() {
        let mut interrupts = Interrupts::default();
        assert!(!interrupts.any());
        assert_eq!(interrupts.again(), Some(true));
        assert_eq!(interrupts.again(), None);
        tokio::time::advance(INTERRUPT_AGAIN).await;
        assert_eq!(interrupts.again(), Some(false));
        assert!(interrupts.any());
    }
}
