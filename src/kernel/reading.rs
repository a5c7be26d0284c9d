//! What a kernel's task reads: messages from the link, bytes from the pipes, and when both mean that
//! a cell has ended.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::Death;
use super::actor::Actor;
use super::link::Incoming;
use super::question::Question;
use crate::jupyter::{
    Channel, Header, InputRequest, Limits, PublishedKind, RawMessage, awaited_display, encode,
    header,
};
use crate::process::{PipeReader, ReadOutcome};
use crate::provisioner::{BridgeEnd, BridgeSetup, KernelExit};

/// Messages that are read before other things have their turn.
const MESSAGES: usize = 256;
/// Bytes that a kernel may leave unread before it is told nothing more.
const MOST_UNREAD: usize = 1 << 20;

/// Said by a kernel that waits until what it has written is read.
const WRITTEN: &str = "warmcell_written";
/// Said by the bridge of a kernel that is not ours, and that has done what no kernel may.
const BRIDGE_FAULT: &str = "warmcell_fault";
/// Characters of what it says.
const FAULT_CHARS: usize = 500;

fn reason_of(message: &RawMessage) -> String {
    let content: Option<serde_json::Value> = serde_json::from_slice(&message.content).ok();
    let reason = content.as_ref().and_then(|it| it.get("reason")?.as_str());
    let reason = reason.unwrap_or("it said no more");
    reason.chars().take(FAULT_CHARS).collect()
}

impl Actor {
    // Messages.

    /// Reads what has come: all of it, or as much as leaves time for other things, and for a reader
    /// who is slow.
    pub(super) fn read_link(&mut self, all: bool) -> Result<(), Death> {
        for count in 0.. {
            let pressure = self.running.as_ref().and_then(|it| it.pressure.as_ref());
            if !all && (count >= MESSAGES || pressure.is_some_and(|it| self.is_full(it))) {
                self.link.leave();
                break;
            }
            match self.link.receive() {
                Incoming::Message(message) => self.take(message)?,
                Incoming::Nothing => break,
                Incoming::Closed => return Err(Death::ClosedLink),
                Incoming::Fault(what) => return Err(Death::BrokeProtocol(what)),
            }
        }
        Ok(())
    }

    fn take(&mut self, message: RawMessage) -> Result<(), Death> {
        let header: Header = message
            .parsed_header()
            .map_err(|error| Death::BrokeProtocol(error.to_string()))?;
        let answers = |asked: &mut Question| message.is_child_of(&asked.header);
        if message.channel == Channel::Control
            && let Some(question) = self.question.take_if(answers)
        {
            question.answered(&message.content);
            return Ok(());
        }
        if message.channel == Channel::Control && header.msg_type == BRIDGE_FAULT {
            return Err(Death::BrokeProtocol(reason_of(&message)));
        }
        if message.channel == Channel::Control && header.msg_type == BridgeSetup::ENDED {
            let end: Option<BridgeEnd> = serde_json::from_slice(&message.content).ok();
            self.told_end = end.map(KernelExit::from);
            return Ok(());
        }
        let awaited = match message.channel {
            Channel::Iopub => awaited_display(&message.metadata),
            _ => None,
        };
        let given_up = self.given_up.iter();
        let given_up = given_up
            .enumerate()
            .find(|(_, header)| message.is_child_of(header));
        if let Some((at, _)) = given_up {
            if message.channel == Channel::Shell {
                self.given_up.remove(at);
            }
        } else if self
            .running
            .as_ref()
            .is_some_and(|it| message.is_child_of(&it.header))
        {
            self.take_own(&header.msg_type, message)?;
        } else if let Some(running) = &mut self.running {
            running.dropped += 1;
            tracing::debug!(msg_type = %header.msg_type, "a message for nobody was dropped");
        } else {
            tracing::debug!(msg_type = %header.msg_type, "a message between cells was dropped");
        }
        if let Some(number) = awaited {
            // Whoever shows something waits for it, so there is no more than one of these.
            let content = Bytes::from(format!("{{\"warmcell\":{{\"number\":{number}}}}}"));
            self.tell(Channel::Control, "warmcell_shown", content);
        }
        Ok(())
    }

    /// A message that belongs to the cell that runs, or to the question.
    fn take_own(&mut self, msg_type: &str, message: RawMessage) -> Result<(), Death> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        let kind = PublishedKind::parse(msg_type);
        match message.channel {
            Channel::Shell if msg_type == running.expects && running.reply.is_none() => {
                running
                    .take_reply(&message)
                    .map_err(|error| Death::BrokeProtocol(error.to_string()))?;
                // What it was asked before this it has answered, or will not.
                self.given_up.clear();
                // The kernel has flushed before it replied: what is in the pipes now is the cell's.
                running.rest = [self.pipes[0].waiting(), self.pipes[1].waiting()];
                if self.interrupt.take().is_some() {
                    // Its end does not wait for somebody who reads its output slowly.
                    running.pressure = None;
                }
            }
            Channel::Iopub if kind.is_some() || msg_type == "error" => {
                let sink = Arc::clone(&running.sink);
                // The kernel has flushed before it sent this: what is in the pipes comes first.
                self.read_waiting();
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                sink.message(msg_type, message);
            }
            // It has written to one stream and is about to write to the other.
            Channel::Iopub if msg_type == WRITTEN => self.read_waiting(),
            Channel::Stdin if msg_type == "input_request" && running.asked.is_none() => {
                let asked = InputRequest::read(&message)
                    .map_err(|error| Death::BrokeProtocol(error.to_string()))?;
                let input = running.input.clone();
                // What it has printed stands before the question.
                self.read_waiting();
                let answer = input.map_or_else(
                    // Nobody may be asked: its sender is gone.
                    || oneshot::channel().1,
                    |input| input.ask(asked.prompt, asked.password),
                );
                if let Some(running) = &mut self.running {
                    running.asked = Some((asked.number, answer));
                }
            }
            _ => {
                running.dropped += 1;
                tracing::debug!(msg_type, "an unknown message was dropped");
            }
        }
        Ok(())
    }

    /// Sends a message that no reply answers.
    pub(super) fn tell(&mut self, channel: Channel, msg_type: &str, content: Bytes) {
        if self.link.backlog() > MOST_UNREAD {
            tracing::debug!(msg_type, "a kernel does not read what it is told");
            return;
        }
        let message = RawMessage::new(channel, header("warmcell", msg_type, "", ""), content);
        match encode(&message, &Limits::to_kernel()) {
            Ok(frame) => self.link.send(frame),
            Err(error) => tracing::debug!(%error, msg_type, "a message could not be sent"),
        }
    }

    // Output.

    pub(super) fn read_pipe(&mut self, which: usize) {
        let (Some(pipe), Some(buffer)) = (self.pipes.get(which), self.buffer.get_mut(..)) else {
            return;
        };
        match pipe.read(buffer) {
            ReadOutcome::Bytes(count) => self.hand_on(which, count),
            ReadOutcome::Empty => {}
            ReadOutcome::End => {
                if let Some(open) = self.open.get_mut(which) {
                    *open = false;
                }
            }
        }
    }

    /// Gives the first bytes of the buffer to whom they belong.
    fn hand_on(&mut self, which: usize, count: usize) {
        let chunk = self.buffer.get(..count).unwrap_or_default();
        let sink = match (&self.running, &self.shutdown) {
            (Some(running), _) => Some(&running.sink),
            (None, Some((_, sink))) => sink.as_ref(),
            (None, None) => None,
        };
        match sink {
            Some(sink) => {
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                if which == 0 {
                    sink.stdout(chunk);
                } else {
                    sink.stderr(chunk);
                }
            }
            None => self.between.printed(which == 1, chunk),
        }
    }

    /// Reads what is in the pipes now, and what comes in the same moment.
    pub(super) fn read_waiting(&mut self) {
        for which in [0, 1] {
            let mut rest = self.pipes.get(which).map_or(0, PipeReader::waiting);
            while rest > 0 {
                let count = self.read_some(which);
                if count == 0 {
                    break;
                }
                self.hand_on(which, count);
                rest = rest.saturating_sub(count);
            }
        }
    }

    /// Fills the buffer; 0 if there is nothing.
    fn read_some(&mut self, which: usize) -> usize {
        match self.pipes.get(which).map(|it| it.read(&mut self.buffer)) {
            Some(ReadOutcome::Bytes(count)) => count,
            Some(ReadOutcome::Empty | ReadOutcome::End) | None => 0,
        }
    }

    /// Ends the cell if its reply was read and its output too.
    pub(super) fn settle(&mut self) {
        if self
            .running
            .as_ref()
            .is_none_or(|running| running.reply.is_none())
        {
            return;
        }
        for which in [0, 1] {
            loop {
                let Some(running) = &mut self.running else {
                    return;
                };
                let Some(rest) = running.rest.get_mut(which).filter(|rest| **rest > 0) else {
                    break;
                };
                let pressure = running.pressure.as_ref();
                if pressure.is_some_and(|pressure| pressure.is_full()) {
                    return;
                }
                let owed = std::mem::take(rest);
                let count = self.read_some(which);
                let Some(running) = self.running.as_mut().filter(|_| count > 0) else {
                    break;
                };
                if let Some(rest) = running.rest.get_mut(which) {
                    *rest = owed.saturating_sub(count);
                }
                self.hand_on(which, count.min(owed));
                // What was written after the reply is not the cell's.
                if let Some(late) = self.buffer.get(owed..count) {
                    self.between.printed(which == 1, late);
                }
            }
        }
        self.end_cell();
    }

    fn end_cell(&mut self) {
        if let Some(mut running) = self.running.take()
            && let Some(reply) = running.reply.take()
        {
            running.end(reply.into());
        }
    }
}
