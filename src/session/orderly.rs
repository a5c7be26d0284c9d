//! The orderly end of a session's kernel: the time that it has for it, and what is told of it.

use std::time::Duration;

use super::Ended;
use super::keeper::Keeper;
use super::session::collect;
use super::slot::Slot;
use crate::execution::{live_output, shutdown_sink};
use crate::kernel::Death;
use crate::provisioner::KernelExit;

/// How long a kernel that is not ours may take at least. Many take a second to stop their threads, and
/// Jupyter itself waits for five.
const FOREIGN_GRACE: Duration = Duration::from_secs(3);

impl Keeper {
    /// Gives the kernel its time to end in good order, and waits until it is gone.
    pub(super) async fn shut_down(&mut self) -> Ended {
        let Slot::Ready(kernel) = &self.slot else {
            return Ended::default();
        };
        let foreign = self.starter.foreign();
        let grace = match foreign {
            None => self.end_grace,
            Some(_) => self.end_grace.max(FOREIGN_GRACE),
        };
        let (sender, live) = live_output();
        let sink = shutdown_sink(sender, Some(self.starter.rules()));
        let (output, ()) = tokio::join!(collect(live), kernel.shut_down(grace, Some(sink)));
        let death = kernel.death();
        let was_cut_off = matches!(death, Some(Death::Ended));
        let in_order = Death::Exited(KernelExit::Code(0));
        let failed = death
            .filter(|death| !was_cut_off && *death != in_order)
            .map(|death| death.to_string());
        if let Some(name) = foreign {
            // How other programs end is their own business: some abort in their last moment.
            tracing::debug!(kernel = name, was_cut_off, ?failed, "a kernel has ended");
            return Ended {
                output,
                ..Ended::default()
            };
        }
        Ended {
            output,
            was_cut_off,
            failed,
            unreceived: Vec::new(),
        }
    }
}
