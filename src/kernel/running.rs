//! What a kernel is doing for somebody: a cell, or the answer to a question.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::input::InputSource;
use super::{CellEnd, Ending, Pressure, SharedSink};
use crate::jupyter::{ContentError, ExecuteReply, RawMessage};
use crate::process::StartTick;

/// The cell that runs, or the question that is being answered.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) header: Bytes,
    /// The number with which it is interrupted.
    pub(super) cell: u64,
    pub(super) sink: SharedSink,
    pub(super) pressure: Option<Arc<Pressure>>,
    pub(super) done: oneshot::Sender<CellEnd>,
    pub(super) dropped: u64,
    pub(super) began: StartTick,
    /// What was printed before the cell was handed over.
    pub(super) earlier: Option<(String, u64)>,
    /// The type of the reply that ends it.
    pub(super) expects: &'static str,
    /// The reply was read; so many bytes of stdout and stderr belong to the cell yet.
    pub(super) reply: Option<Reply>,
    pub(super) rest: [usize; 2],
    /// Who is at its keyboard.
    pub(super) input: Option<InputSource>,
    /// It waits for input, under this number.
    pub(super) asked: Option<(u64, oneshot::Receiver<String>)>,
}

/// What ends it.
#[derive(Debug)]
pub(super) enum Reply {
    Cell(Box<ExecuteReply>),
    Answer(Bytes),
}

impl Running {
    pub(super) fn is_question(&self) -> bool {
        self.expects != EXECUTE_REPLY
    }

    pub(super) fn take_reply(&mut self, message: &RawMessage) -> Result<(), ContentError> {
        self.reply = Some(if self.is_question() {
            Reply::Answer(message.content.clone())
        } else {
            Reply::Cell(Box::new(ExecuteReply::parse(&message.content)?))
        });
        Ok(())
    }

    /// Tells whoever waits for it.
    pub(super) fn end(self, ending: Ending) {
        let end = CellEnd {
            ending,
            dropped_messages: self.dropped,
            background: self.earlier,
        };
        // Whoever ran it may be gone.
        drop(self.done.send(end));
    }
}

impl From<Reply> for Ending {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Cell(reply) => Self::Replied(reply),
            Reply::Answer(content) => Self::Answered(content),
        }
    }
}

/// The reply that ends a cell.
pub(super) const EXECUTE_REPLY: &str = "execute_reply";

/// Waits for the answer to what a cell has asked; `None` if nobody gives one. For ever, if it has
/// not.
pub(super) async fn answered(running: Option<&mut Running>) -> Option<String> {
    match running.and_then(|it| it.asked.as_mut()) {
        Some((_number, answer)) => answer.await.ok(),
        None => std::future::pending().await,
    }
}
