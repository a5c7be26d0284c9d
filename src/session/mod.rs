//! Sessions: the named owners of kernels.
//!
//! A session runs one cell at a time, in order of arrival, and knows what its kernel holds, so that
//! a loss can be told. Its task ([`Session`] is the handle) joins what does not know each other: the
//! kernel, the tools, the running of a cell.
//!
//! - `registry`: sessions by name; - `session`: the handle; - `request`: a cell that is asked for,
//!   and the way to its result; - `worker`: the task; - `keeper`: its kernel, and how it is lost;
//! - `starter`: new kernels; - `record`: what a kernel holds; - `event`: what happens, for those who
//!   watch; - `status`: what is known of a session at any moment;
//! - `variables`: what its kernel lists; - `name`: names.

mod error;
mod event;
mod keeper;
mod name;
mod record;
mod registry;
mod request;
#[expect(
    clippy::module_inception,
    reason = "the handle is what the room is named after"
)]
mod session;
mod starter;
mod status;
mod variables;
mod worker;

pub use error::SessionError;
pub use event::{Event, EventKind, EventStream};
pub use name::{NameError, SessionName};
pub use registry::Registry;
pub use request::{Cell, Execution, Policy};
pub use session::{Ended, Session};
pub use status::{PythonInfo, RunningCell, SessionStatus};
pub use variables::{Variable, Variables};
