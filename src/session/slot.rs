//! What a session has of a kernel, and what follows when it has none.

use tokio::task::JoinHandle;

use crate::kernel::Kernel;
use crate::provisioner::ProvisionError;

/// The kernel of a session, as far as there is one.
#[derive(Debug, Default)]
pub(super) enum Slot {
    #[default]
    Empty,
    Starting(JoinHandle<Result<Kernel, ProvisionError>>),
    Ready(Kernel),
}

/// Why there is no kernel.
#[derive(Debug)]
pub(super) enum NoKernel {
    /// It could not be started.
    Failed(ProvisionError),
    /// The cell was interrupted, and starting takes long.
    Interrupted,
}

/// What becomes of a session whose kernel is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next kernel is started at once.
    Restart,
    /// It is started when a cell needs it.
    Wait,
}
