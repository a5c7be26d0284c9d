//! The log of a home's managers: `<home>/logs/warmcell.log`, written, rotated and read.
//!
//! - `log`: sends what this process logs there; - `line`: what a line looks like; - `file`: the file,
//!   which several processes write and put aside; - `level`: levels by name;
//! - `reading`: lines from the end; - `follow`: those that come.
//!
//! Never code, output or values above `TRACE`, and whatever is written is redacted.

mod file;
mod follow;
mod level;
mod line;
mod log;
mod reading;

pub use file::{LOG_FILE, log_folder};
pub use follow::follow;
pub use level::{LEVELS, level_named};
pub use log::{ALWAYS, hide, log_to_file, log_when_needed};
pub use reading::{LogFiles, Query};
