//! What can go wrong while a kernel or a job is started.

/// Why no kernel or job could be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProvisionError {
    /// The process that forks kernels is gone.
    #[error("the forkserver is gone ({reason}); the next cell starts a new one")]
    ForkserverGone {
        /// How it ended.
        reason: String,
    },
}
