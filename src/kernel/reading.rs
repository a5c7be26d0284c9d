//! What a kernel's task reads: messages from the link, bytes from the pipes, and when both mean that
//! a cell has ended.

use std::sync::{Arc, PoisonError};

use super::actor::Actor;
use super::link::Incoming;
use super::{CellEnd, Death, Ending};
use crate::jupyter::{Channel, ExecuteReply, Header, RawMessage};
use crate::process::{PipeReader, ReadOutcome};

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
                self.interrupt = None;
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

    /// Reads what is in the pipes now, and not what is written meanwhile.
    pub(super) fn read_waiting(&mut self) {
        for which in [0, 1] {
            let mut rest = self.pipes.get(which).map_or(0, PipeReader::waiting);
            while rest > 0 {
                let read = self.read_at_most(which, rest);
                rest = rest.saturating_sub(read);
                if read == 0 {
                    break;
                }
            }
        }
    }

    fn read_at_most(&mut self, which: usize, limit: usize) -> usize {
        let limit = limit.min(self.buffer.len());
        let (Some(pipe), Some(buffer)) = (self.pipes.get(which), self.buffer.get_mut(..limit))
        else {
            return 0;
        };
        match pipe.read(buffer) {
            ReadOutcome::Bytes(count) => {
                self.hand_on(which, count);
                count
            }
            ReadOutcome::Empty | ReadOutcome::End => 0,
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
                let Some(running) = &self.running else { return };
                let rest = running.rest.get(which).copied().unwrap_or(0);
                if rest == 0 {
                    break;
                }
                if running
                    .pressure
                    .as_ref()
                    .is_some_and(|pressure| pressure.is_full())
                {
                    return;
                }
                let read = self.read_at_most(which, rest);
                let Some(running) = &mut self.running else {
                    return;
                };
                if let Some(rest) = running.rest.get_mut(which) {
                    *rest = if read == 0 {
                        0
                    } else {
                        rest.saturating_sub(read)
                    };
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
