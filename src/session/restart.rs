//! The kernel that comes after one that is lost, as far as it was seen: nothing is said of it that was
//! not.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::keeper::{Keeper, unless_given_up};
use super::slot::{Next, Slot};
use crate::execution::{LossReason, Lost, Successor};
use crate::output::redact::{Redactor, Rules};
use crate::provisioner::ProvisionError;

/// How long the result of a cell that has cost its kernel waits at most to see the next one: a process
/// that was forked ahead is there in one, and nobody waits for an interpreter that starts.
pub(super) const GLANCE: Duration = Duration::from_millis(10);
/// How long a reset waits for it.
const LOOK: Duration = Duration::from_secs(1);

/// What a reset has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reset {
    /// What was discarded; `None` if there was nothing.
    pub lost: Option<Lost>,
    /// The fresh kernel: `None` if none was wanted, because there was nothing to discard.
    pub successor: Option<Successor>,
}

/// What is seen of a start, from elsewhere.
#[derive(Debug, Default)]
pub(super) struct Sight {
    seen: Option<watch::Receiver<Successor>>,
    /// Why one that nobody waited for has failed, until a cell has tried again.
    failed: Option<String>,
}

/// The error, without what looks like a secret: what a kernel has said that did not start is in it.
fn masked(error: &ProvisionError) -> String {
    Redactor::once(&Rules::default(), &error.to_string()).0
}

impl Sight {
    /// Follows a start to its end.
    pub(super) fn of<T, F>(
        &mut self,
        start: F,
    ) -> impl Future<Output = Result<T, ProvisionError>> + use<T, F>
    where
        F: Future<Output = Result<T, ProvisionError>>,
    {
        let (seeing, seen) = watch::channel(Successor::Starting);
        self.seen = Some(seen);
        async move {
            let started = start.await;
            seeing.send_replace(match &started {
                Ok(_) => Successor::Started,
                Err(error) => Successor::Failed(masked(error)),
            });
            started
        }
    }

    /// Nobody waited for it, and it has failed.
    pub(super) fn failed(&mut self, error: &ProvisionError) {
        self.failed = Some(masked(error));
    }

    /// A cell has tried again; if that worked, what it is to say of the failure.
    pub(super) fn tried_again(&mut self, worked: bool) -> Option<String> {
        let error = self.failed.take().filter(|_| worked)?;
        Some(format!(
            "the session's kernel could not be restarted at once ({error}); it was started for this \
             cell"
        ))
    }
}

impl Keeper {
    /// What can be seen within this time of the kernel that is being started.
    pub(super) async fn successor(&mut self, patience: Duration) -> Successor {
        if !self.restarts() {
            return Successor::Unwanted;
        }
        let Some(seen) = &mut self.sight.seen else {
            return Successor::Starting;
        };
        let ended = seen.wait_for(|seen| *seen != Successor::Starting);
        match timeout(patience, ended).await {
            Ok(Ok(seen)) => seen.clone(),
            // It was given up, or takes long.
            Ok(Err(_)) | Err(_) => Successor::Starting,
        }
    }

    /// Discards the kernel's state, if there is any: what that was, or what the cell has cost that was
    /// ended for it.
    pub(super) async fn reset(&mut self) -> Option<Lost> {
        let discarded = self.discarded.take();
        self.starter.look_anew();
        if self.count == 0 {
            return discarded;
        }
        self.shut_down().await;
        let death = self.death();
        let loss = self.lost(LossReason::Reset, "reset", &death, Next::Restart);
        Some(loss.lost)
    }

    /// Discards the kernel's state, and looks whether there is a fresh one.
    pub(super) async fn reset_and_look(&mut self) -> Reset {
        let lost = self.reset().await;
        let successor = match self.slot {
            Slot::Empty => None,
            Slot::Ready(_) => Some(Successor::Started),
            Slot::Starting(ref mut starting) => match timeout(LOOK, starting).await {
                Err(_elapsed) => Some(Successor::Starting),
                Ok(started) => Some(match self.started(unless_given_up(started)) {
                    Ok(()) => Successor::Started,
                    Err(error) => {
                        self.sight.failed(&error);
                        Successor::Failed(masked(&error))
                    }
                }),
            },
        };
        Reset { lost, successor }
    }
}
