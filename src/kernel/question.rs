//! Questions that a kernel answers between cells.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::handle::Command;
use crate::jupyter::{Channel, Limits, RawMessage, VariablesReply, encode, header};

/// Askers that may wait for the answer to one question.
const WAITING: usize = 16;

/// A kernel as those see it who look at it: it does not live on because of them.
#[derive(Debug, Clone)]
pub struct WeakKernel {
    pub(super) commands: mpsc::WeakSender<Command>,
}

impl WeakKernel {
    /// Asks for its variables. `None` if it is gone, runs a cell, or does not answer in time, as when
    /// a thread keeps Python to itself. Then no harm is done: what it answers later is dropped, and
    /// until it has answered it is not asked again.
    ///
    /// # Cancel safety
    ///
    /// May be dropped: nobody waits for the answer then.
    pub async fn variables(&self, deadline: Duration) -> Option<VariablesReply> {
        let header = header("variables", VariablesReply::REQUEST, "", "");
        let message = RawMessage::new(Channel::Control, header.clone(), Bytes::from_static(b"{}"));
        let frame = encode(&message, &Limits::to_kernel()).ok()?;
        let (answer, answered) = oneshot::channel();
        let question = Command::Variables {
            frame,
            header,
            answer,
        };
        // The sender goes at once: while it is there the kernel is not let go.
        self.commands.upgrade()?.try_send(question).ok()?;
        timeout(deadline, answered).await.ok()?.ok()
    }
}

/// A question that the kernel has not answered yet.
#[derive(Debug)]
pub(super) struct Question {
    /// Of the request; the answer bears it.
    pub(super) header: Bytes,
    askers: Vec<oneshot::Sender<VariablesReply>>,
}

impl Question {
    pub(super) fn new(header: Bytes, asker: oneshot::Sender<VariablesReply>) -> Self {
        Self {
            header,
            askers: vec![asker],
        }
    }

    /// One more wants to know: what is answered from now on is as good for him.
    pub(super) fn join(&mut self, asker: oneshot::Sender<VariablesReply>) {
        self.askers.retain(|it| !it.is_closed());
        if self.askers.len() < WAITING {
            self.askers.push(asker);
        }
    }

    /// The answer has come; those who have waited too long do not hear it.
    pub(super) fn answered(self, content: &Bytes) {
        match VariablesReply::parse(content) {
            Ok(reply) => {
                for asker in self.askers {
                    asker.send(reply.clone()).ok();
                }
            }
            Err(error) => tracing::debug!(%error, "a kernel did not list its variables"),
        }
    }
}
