//! Sessions: the named owners of kernels.
//!
//! A session runs one cell at a time, in order of arrival, and knows what its kernel holds, so that
//! a loss can be told. Its task ([`Session`] is the handle) joins what does not know each other: the
//! kernel, the tools, the running of a cell.
//!
//! - `registry`: sessions by name; - `session`: the handle; - `cell`: what can be asked for;
//!   - `request`: a cell that was handed over, and the way to its result; - `shelf`: cells that go on without their caller;
//! - `ask`: what a front end asks between cells; - `worker`: the task; - `turn`: the turn of one cell; `consequences`: what its end means; - `following`: what its callers change;
//! - `keeper`: its kernel, and how it is lost; - `slot`: what there is of one; - `restart`: what is seen of the next one;
//! - `renewal`: another one in its place, or none; - `belongings`: what cells leave in a folder that goes with it;
//! - `idle`: when nobody needs it; - `presence`: who is connected; - `census`: how many there are; - `starter`: new kernels;
//! - `record`: what a kernel holds; - `report`: what is said of it while a cell runs;
//! - `untold`: losses that are still to be told; - `ledger`: what would be lost with the manager, in
//!   files; - `page`: that of one session; - `event`: what happens, for those who watch;
//! - `shown`: what a cell shows, in these; - `late`: what is printed between cells; - `status`: what is known of a session at any moment; - `variables`: what its kernel lists;
//! - `name`: names.

mod ask;
mod belongings;
mod cell;
mod census;
mod consequences;
mod error;
mod event;
mod following;
mod idle;
mod interrupting;
mod keeper;
mod last_words;
mod late;
mod ledger;
mod name;
mod orderly;
mod page;
mod presence;
mod record;
mod registry;
mod renewal;
mod report;
mod request;
mod restart;
#[expect(
    clippy::module_inception,
    reason = "the handle is what the room is named after"
)]
mod session;
mod shelf;
mod shown;
mod slot;
mod starter;
mod status;
mod turn;
mod untold;
mod variables;
mod worker;

pub use crate::config::Policy;
pub use ask::{AskError, Question, QuestionKind};
pub use cell::{Cell, CellError};
pub use error::SessionError;
pub use event::{Event, EventKind, EventStream};
pub use interrupting::Interrupted;
pub use name::{NameError, SessionName};
pub use presence::Attendance;
pub use registry::Registry;
pub use request::{Execution, Receipt};
pub use restart::Reset;
pub use session::{Ended, Session};
pub use shelf::Kept;
pub use shown::Shown;
pub use status::{PythonInfo, RunningCell, SessionStatus};
pub use variables::{Variable, Variables};
