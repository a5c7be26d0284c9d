//! Settings: what a manager is told before it starts, with their defaults.
//!
//! Only front ends read files, home and the process environment; everything below is handed these
//! structs.

mod caller;
mod foreign;
mod limits;
mod settings;

pub use caller::{Caller, CallerError};
pub use foreign::{CONNECTION_FILE, ForeignKernel, KernelTransport};
pub use limits::{Bound, Had, ProcessLimits, Resource};
pub use settings::{
    LimitError, Limits, STDERR_WINDOW_BYTES, STDOUT_WINDOW_BYTES, Settings, WaitError, parse_wait,
};
