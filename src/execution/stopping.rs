//! Ends a cell that is not to go on: in place if it may, and if that does not help with its kernel.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use super::cell::{Cost, How, Stop};
use super::{CellAuthority, Interrupt};
use crate::jupyter::FrameError;
use crate::kernel::{CellEnd, Death, Ending, Kernel};

/// How long the end of a killed kernel's cell is waited for; the kernel's task answers in 20 ms.
const END_DEADLINE: Duration = Duration::from_secs(5);

/// A cell that runs and is not to go on.
#[derive(Debug)]
pub(super) struct Stopping<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) cell: u64,
    pub(super) interrupt: &'a Interrupt,
    pub(super) authority: &'a dyn CellAuthority,
}

impl Stopping<'_> {
    /// Has it end: how, and what its kernel's task has told of it if that was in time.
    pub(super) async fn end(
        &self,
        stop: Stop,
        grace: Option<Duration>,
        mut executing: Pin<&mut (impl Future<Output = Result<CellEnd, FrameError>> + Send)>,
    ) -> Result<(How, Option<CellEnd>), FrameError> {
        let cost = match grace {
            None => Cost::Killed,
            Some(grace) => {
                tokio::select! {
                    biased;
                    end = self.in_place(grace, executing.as_mut()) => match end {
                        Some(end) => {
                            let mut end = end?;
                            return Ok((how(stop, grace, &mut end), Some(end)));
                        }
                        None => Cost::Deaf(grace),
                    },
                    () = self.once_more(stop) => Cost::CutShort,
                }
            }
        };
        self.kernel.kill();
        let end = timeout(END_DEADLINE, executing).await.ok().transpose()?;
        Ok((How::Lost(stop, cost), end))
    }

    /// Interrupts it; its end, or its kernel's at the end of the grace.
    async fn in_place(
        &self,
        grace: Duration,
        executing: Pin<&mut (impl Future<Output = Result<CellEnd, FrameError>> + Send)>,
    ) -> Option<Result<CellEnd, FrameError>> {
        let interrupting = async {
            self.kernel.interrupt(self.cell, grace).await;
            // Afterwards: a call of the cell's own code ends with the interrupt, not with a result.
            self.authority.interrupt();
        };
        let both = async { tokio::join!(executing, interrupting).0 };
        timeout(grace.saturating_add(END_DEADLINE), both).await.ok()
    }

    /// Waits until somebody interrupts it that has been stopped already.
    async fn once_more(&self, stop: Stop) {
        match stop {
            Stop::Timeout => {
                self.interrupt.cancelled().await;
                if self.interrupt.is_in_place() {
                    // That is being done.
                    self.interrupt.forced().await;
                }
            }
            Stop::Interrupt => self.interrupt.forced().await,
        }
    }
}

/// How a cell has ended that was interrupted in place.
fn how(stop: Stop, grace: Duration, end: &mut CellEnd) -> How {
    match std::mem::replace(&mut end.ending, Ending::Killed) {
        Ending::Replied(reply) => {
            // A kernel that is not ours says nothing of it.
            let own = reply.warmcell.as_ref();
            if own.is_none_or(|report| report.interrupted) {
                How::Stopped(stop, reply)
            } else {
                // It had ended before the interrupt came.
                How::Replied(reply)
            }
        }
        Ending::Killed => How::Lost(stop, Cost::Deaf(grace)),
        Ending::Died(death) => How::Lost(stop, Cost::Died(death)),
        Ending::Answered(_) => How::Died(Death::answered_no_question()),
        Ending::NotStarted(death) => How::NotStarted(death),
    }
}
