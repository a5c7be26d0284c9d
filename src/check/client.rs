//! What is asked of a kernel, and what it says, put together by what it answers.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::bridge::foreign::{Connections, Event, parent_id, request};
use crate::ids::random_hex;
use crate::jupyter::{
    Channel, ExecuteReply, RawMessage, ReplyStatus, StatusContent, StreamContent,
};

/// Bytes of a stream that are kept of what answers one request.
const MOST_TEXT: usize = 64 << 10;
/// Pieces of output that are kept of what answers nothing that is waited for.
const MOST_STRAYS: usize = 100;
/// How long a kernel that has replied may take to be idle.
const IDLE: Duration = Duration::from_secs(2);
/// Characters of what a kernel says in a sentence.
const SHOWN_CHARS: usize = 120;

/// What a request has caused so far.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// When it was sent.
    sent: Option<Instant>,
    /// The reply: its content, and how long it took.
    pub(super) reply: Option<(Bytes, Duration)>,
    /// How long it took until the kernel was idle again.
    pub(super) idle: Option<Duration>,
    /// What was printed before that, to stdout and stderr.
    pub(super) printed: [String; 2],
    /// What was printed after that.
    pub(super) late: String,
    /// Something was published.
    pub(super) is_heard: bool,
}

impl Asked {
    /// The reply and the end of all that comes with it have come.
    pub(super) fn is_done(&self) -> bool {
        self.reply.is_some() && self.idle.is_some()
    }

    /// What the reply to a cell says.
    pub(super) fn ended(&self) -> Option<ExecuteReply> {
        ExecuteReply::parse(&self.reply.as_ref()?.0).ok()
    }

    /// Whether it was a cell that has succeeded.
    pub(super) fn is_ok(&self) -> bool {
        self.is_done() && self.ended().is_some_and(|it| it.status == ReplyStatus::Ok)
    }

    /// How long it took until everything was there; nothing if it is not.
    pub(super) fn took(&self) -> Option<Duration> {
        Some(self.reply.as_ref()?.1.max(self.idle?))
    }

    /// What came of a cell, in words.
    pub(super) fn told(&self) -> String {
        match self.ended() {
            None if self.reply.is_some() => "the reply makes no sense".to_owned(),
            None => "no reply came".to_owned(),
            Some(_) if self.idle.is_none() => {
                "the reply came, but not that the kernel is idle again".to_owned()
            }
            Some(reply) if reply.status == ReplyStatus::Ok => {
                format!("it succeeded and printed {:?}", shown(&self.printed[0]))
            }
            Some(reply) => shown(&format!("it failed: {}: {}", reply.ename, reply.evalue)),
        }
    }

    fn since(&self) -> Duration {
        self.sent.map_or(Duration::ZERO, |sent| sent.elapsed())
    }
}

/// What a kernel says, in a sentence of ours.
pub(super) fn shown(text: &str) -> String {
    let safe = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.trim().chars().take(SHOWN_CHARS).map(safe).collect();
    if text.trim().chars().count() > SHOWN_CHARS {
        shown.push_str("...");
    }
    shown
}

/// A client that is connected to a kernel.
#[derive(Debug)]
pub(super) struct Client {
    connections: Connections,
    session: String,
    serial: u64,
    asked: HashMap<String, Asked>,
    /// What was printed by nothing that is waited for: the id of what has caused it, and the text.
    pub(super) strays: Vec<(Option<String>, String)>,
    /// Whoever subscribed was welcomed.
    pub(super) is_welcomed: bool,
    /// The kernel has said that it is another one now.
    pub(super) restarts_told: u32,
    /// Messages that were none, or not signed with the key.
    pub(super) unreadable: u64,
    /// What the kernel has done that ends a connection.
    pub(super) fault: Option<String>,
}

impl Client {
    pub(super) fn new(connections: Connections, session: String) -> Self {
        Self {
            connections,
            session,
            serial: 0,
            asked: HashMap::new(),
            strays: Vec::new(),
            is_welcomed: false,
            restarts_told: 0,
            unreadable: 0,
            fault: None,
        }
    }

    /// The name of a client that nobody else has.
    pub(super) fn name() -> String {
        random_hex(8)
    }

    /// Whether the kernel can still be talked to.
    pub(super) fn is_open(&self) -> bool {
        self.fault.is_none() && self.connections.open == SOCKETS
    }

    /// Why it cannot be talked to any more, as a sentence goes on; nothing if it can.
    pub(super) fn end_told(&self) -> String {
        match &self.fault {
            Some(fault) => format!("; it broke the protocol {}", shown(fault)),
            None if self.is_open() => String::new(),
            None => "; its sockets were closed".to_owned(),
        }
    }

    /// Sends a request; by this id it is asked after.
    pub(super) fn send(&mut self, channel: Channel, msg_type: &str, content: Bytes) -> String {
        self.serial += 1;
        let id = format!("{}_{}", self.session, self.serial);
        let message = request(channel, &id, msg_type, &self.session, content);
        let asked = Asked {
            sent: Some(Instant::now()),
            ..Asked::default()
        };
        self.asked.insert(id.clone(), asked);
        // If it is not taken no answer comes, and that is told.
        self.connections.send(message);
        id
    }

    /// Hands a cell over. History does not keep it: it may be a person's.
    pub(super) fn execute(&mut self, code: &str) -> String {
        let content = json!({
            "code": code, "silent": false, "store_history": false, "user_expressions": {},
            "allow_stdin": false, "stop_on_error": false,
        });
        self.send(
            Channel::Shell,
            "execute_request",
            content.to_string().into(),
        )
    }

    /// Runs a cell to its end, or as far as it comes by the deadline.
    pub(super) async fn run(&mut self, code: &str, patience: Duration) -> Asked {
        let id = self.execute(code);
        self.done(&id, patience).await;
        self.forget(&id)
    }

    /// Asks who it is, and waits for the whole answer.
    pub(super) async fn ping(&mut self, patience: Duration) -> Asked {
        let content = Bytes::from_static(b"{}");
        let id = self.send(Channel::Shell, "kernel_info_request", content);
        self.done(&id, patience).await;
        self.forget(&id)
    }

    /// Whether it replies to somebody who asks who it is.
    pub(super) async fn replies(&mut self, deadline: Instant) -> bool {
        let content = Bytes::from_static(b"{}");
        let id = self.send(Channel::Shell, "kernel_info_request", content);
        self.until(&id, deadline, |asked| asked.reply.is_some())
            .await
    }

    /// What has come of a request.
    pub(super) fn asked(&self, id: &str) -> Option<&Asked> {
        self.asked.get(id)
    }

    /// The same, for the last time: what comes of it later is a stray.
    pub(super) fn forget(&mut self, id: &str) -> Asked {
        self.asked.remove(id).unwrap_or_default()
    }

    /// Waits until a request is answered and the kernel idle again.
    pub(super) async fn done(&mut self, id: &str, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let is_answered = |asked: &Asked| asked.reply.is_some();
        let soon = if self.until(id, deadline, is_answered).await {
            deadline.min(Instant::now() + IDLE)
        } else {
            deadline
        };
        self.until(id, soon, Asked::is_done).await
    }

    /// Waits for something to come of a request; false if it does not come in time, or cannot any more.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub(super) async fn until(
        &mut self,
        id: &str,
        deadline: Instant,
        has_come: impl Fn(&Asked) -> bool,
    ) -> bool {
        loop {
            if self.asked.get(id).is_some_and(&has_come) {
                return true;
            }
            match timeout_at(deadline, self.hear()).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return false,
            }
        }
    }

    /// Takes the next thing that the kernel says; false if it cannot be talked to any more.
    pub(super) async fn hear(&mut self) -> bool {
        if !self.is_open() {
            return false;
        }
        match self.connections.events.recv().await {
            Some(Event::Message(message)) => self.take(&message),
            Some(Event::Unreadable(_)) => self.unreadable += 1,
            Some(Event::Ended(fault)) => {
                self.connections.open = self.connections.open.saturating_sub(1);
                self.fault = self.fault.take().or(fault);
            }
            None => self.connections.open = 0,
        }
        self.is_open()
    }

    /// Waits until all its sockets are closed; false if they are not in time.
    pub(super) async fn closed(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while self.connections.open > 0 {
            match timeout_at(deadline, self.connections.events.recv()).await {
                Ok(Some(Event::Ended(_))) => self.connections.open -= 1,
                Ok(Some(Event::Message(message))) => self.take(&message),
                Ok(Some(Event::Unreadable(_))) => {}
                Ok(None) => break,
                Err(_elapsed) => return false,
            }
        }
        true
    }

    /// Leaves; how many sockets the kernel has not let go of.
    pub(super) async fn leave(self, patience: Duration) -> usize {
        self.connections.close(patience).await
    }

    fn take(&mut self, message: &RawMessage) {
        let Ok(header) = message.parsed_header() else {
            self.unreadable += 1;
            return;
        };
        let parent = parent_id(message);
        let asked = parent.as_ref().and_then(|id| self.asked.get_mut(id));
        match (message.channel, header.msg_type.as_str(), asked) {
            (Channel::Shell | Channel::Control, kind, Some(asked)) if kind.ends_with("_reply") => {
                let took = asked.since();
                asked.reply.get_or_insert((message.content.clone(), took));
            }
            (Channel::Iopub, "iopub_welcome", _) => self.is_welcomed = true,
            (Channel::Iopub, "status", asked) => {
                let state = StatusContent::parse(&message.content).unwrap_or_default();
                match (state.execution_state.as_str(), asked) {
                    ("idle", Some(asked)) => {
                        asked.is_heard = true;
                        let took = asked.since();
                        asked.idle.get_or_insert(took);
                    }
                    (_, Some(asked)) => asked.is_heard = true,
                    ("restarting", None) => self.restarts_told += 1,
                    (_, None) => {}
                }
            }
            (Channel::Iopub, "stream", asked) => {
                let stream = StreamContent::parse(&message.content).unwrap_or_default();
                match asked {
                    Some(asked) => {
                        let [stdout, stderr] = &mut asked.printed;
                        let kept = match (asked.idle, stream.name.as_str()) {
                            (Some(_), _) => &mut asked.late,
                            (None, "stderr") => stderr,
                            (None, _) => stdout,
                        };
                        if kept.len() + stream.text.len() <= MOST_TEXT {
                            kept.push_str(&stream.text);
                        }
                    }
                    None if self.strays.len() < MOST_STRAYS => {
                        self.strays.push((parent, shown(&stream.text)));
                    }
                    None => {}
                }
            }
            (Channel::Iopub, _, Some(asked)) => asked.is_heard = true,
            _ => {}
        }
    }
}

/// How many sockets a client has.
const SOCKETS: usize = 4;

/// What has come of a cell, as the tests of rules have it.
#[cfg(test)]
pub(super) fn asked_for_tests(reply: Option<&str>, is_idle: bool, printed: &str) -> Asked {
    let took = Duration::from_millis(3);
    Asked {
        reply: reply.map(|it| (Bytes::copy_from_slice(it.as_bytes()), took)),
        idle: is_idle.then_some(2 * took),
        printed: [printed.to_owned(), String::new()],
        ..Asked::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(reply: Option<&str>, is_idle: bool) -> Asked {
        asked_for_tests(reply, is_idle, "out\n")
    }

    #[test]
    fn what_has_come_of_a_cell_is_told() {
        let ok = r#"{"status":"ok"}"#;
        let error = r#"{"status":"error","ename":"E","evalue":"a\u001bb"}"#;
        for (reply, is_idle, told) in [
            (None, false, "no reply came"),
            (Some("[]"), true, "the reply makes no sense"),
            (
                Some(ok),
                false,
                "the reply came, but not that the kernel is idle again",
            ),
            (Some(ok), true, "it succeeded and printed \"out\""),
            (Some(error), true, "it failed: E: a b"),
        ] {
            let asked = asked(reply, is_idle);
            assert_eq!(asked.told(), told);
            assert_eq!(asked.is_ok(), told.contains("succeeded"));
        }
        assert_eq!(asked(Some(ok), true).took(), Some(Duration::from_millis(6)));
        assert_eq!(asked(Some(ok), false).took(), None);
    }

    #[test]
    fn what_a_kernel_says_is_shown_on_one_line() {
        assert_eq!(shown(" a\n\u{1b}[31mé "), "a  [31mé");
        let long = shown(&"é".repeat(500));
        assert_eq!(long.chars().count(), SHOWN_CHARS + 3);
    }
}
