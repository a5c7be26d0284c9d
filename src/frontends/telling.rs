//! One cell is told to its end before the next begins, whichever way they came; what the kernel does
//! meanwhile is told after it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::hub::Hub;

/// How long a cell waits until what the one before it has published is on its way.
const PATIENCE: Duration = Duration::from_secs(2);

/// The right to publish a cell, until this is dropped.
#[derive(Debug)]
pub(super) struct Telling {
    hub: Arc<Hub>,
    _floor: Option<OwnedMutexGuard<()>>,
}

/// Who has handed a cell over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// A client: it tells its cell itself.
    Own,
    /// Somebody else.
    Others,
}

/// A cell of a client, until this is dropped.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) hub: Arc<Hub>,
    pub(super) number: u64,
    /// Its turn to be told comes when the events of the session have come to it.
    pub(super) turn: Option<oneshot::Receiver<Telling>>,
}

impl Hub {
    /// The right to publish a cell. If whoever has it does not let go in time it is not waited for:
    /// then the two are told one through the other.
    pub(super) async fn tell(self: &Arc<Self>) -> Telling {
        let taking = Arc::clone(&self.floor).lock_owned();
        let floor = timeout(PATIENCE, taking).await.ok();
        self.begin_telling();
        Telling {
            hub: Arc::clone(self),
            _floor: floor,
        }
    }

    /// The events have come to this cell. If it is a client's it may be told as soon as the one before
    /// it has been.
    pub(super) async fn begins(self: &Arc<Self>, cell: u64) -> Whose {
        match self.take_turn(cell) {
            None => Whose::Others,
            Some(None) => Whose::Own,
            Some(Some(turn)) => {
                let telling = self.tell().await;
                // If it was not waited for it ends here.
                drop(turn.send(telling));
                Whose::Own
            }
        }
    }
}

impl Own {
    /// Waits for its turn to be told.
    pub(super) async fn telling(&mut self) -> Telling {
        if let Some(turn) = self.turn.take()
            && let Ok(Ok(telling)) = timeout(2 * PATIENCE, turn).await
        {
            return telling;
        }
        self.hub.tell().await
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.hub.end_telling();
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.hub.end_own(self.number);
    }
}
