//! What a kernel's task reads: messages from the link, bytes from the pipes, and when both mean that
//! a cell has ended.

use std::sync::{Arc, PoisonError};

use super::actor::Actor;
use super::link::Incoming;
use super::question::Question;
use super::{CellEnd, Death, Ending};
use crate::jupyter::{Channel, ExecuteReply, Header, RawMessage};
use crate::process::{PipeReader, ReadOutcome};

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

    pub(super) fn read_link(&mut self) -> Result<(), Death> {
        loop {
            match self.link.receive() {
                Incoming::Message(message) => self.take(message)?,
                Incoming::Nothing => return Ok(()),
                Incoming::Closed => return Err(Death::ClosedLink),
                Incoming::Fault(what) => return Err(Death::BrokeProtocol(what)),
            }
        }
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
        let Some(running) = &mut self.running else {
            tracing::debug!(msg_type = %header.msg_type, "a message between cells was dropped");
            return Ok(());
        };
        let ours = message.is_child_of(&running.header);
        match (message.channel, header.msg_type.as_str()) {
            (Channel::Shell, "execute_reply") if ours && running.reply.is_none() => {
                let reply = ExecuteReply::parse(&message.content)
                    .map_err(|error| Death::BrokeProtocol(error.to_string()))?;
                // The kernel has flushed before it replied: what is in the pipes now is the cell's.
                running.rest = [self.pipes[0].waiting(), self.pipes[1].waiting()];
                running.reply = Some(Box::new(reply));
                if self.interrupt.take().is_some() {
                    // Its end does not wait for somebody who reads its output slowly.
                    running.pressure = None;
                }
            }
            (
                Channel::Iopub,
                "execute_result"
                | "display_data"
                | "update_display_data"
                | "clear_output"
                | "error",
            ) if ours => {
                let sink = Arc::clone(&running.sink);
                // The kernel has flushed before it sent this: what is in the pipes comes first.
                self.read_waiting();
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                sink.message(&header.msg_type, message);
            }
            _ => {
                running.dropped += 1;
                tracing::debug!(msg_type = %header.msg_type, "an unknown message was dropped");
            }
        }
        Ok(())
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
            None => {
                self.background
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(chunk);
            }
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
                    self.background
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(late);
                }
            }
        }
        self.end_cell();
    }

    fn end_cell(&mut self) {
        if let Some(running) = self.running.take()
            && let Some(reply) = running.reply
        {
            let end = CellEnd {
                ending: Ending::Replied(reply),
                dropped_messages: running.dropped,
                background: running.earlier,
            };
            // Whoever ran the cell may be gone.
            drop(running.done.send(end));
        }
    }
}
