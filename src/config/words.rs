//! Settings that are one of several words.

/// What to do with a cell that is interrupted or out of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Kill its kernel and start a fresh one at once.
    #[default]
    Restart,
    /// Raise `KeyboardInterrupt` in it first; state is kept if it ends within
    /// [`Settings::interrupt_grace`](super::Settings::interrupt_grace), else as `Restart`.
    Interrupt,
}

/// From which level on a manager logs what happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What a human must act on.
    Error,
    /// And what was recovered from.
    Warning,
    /// And the life of kernels and sessions.
    #[default]
    Info,
    /// And a line a message.
    Debug,
    /// And bodies, redacted and cut.
    Trace,
}
