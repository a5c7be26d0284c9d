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

pub use follow::follow;
pub use level::{LEVELS, level_named};
pub use log::{ALWAYS, hide, log_to_file, log_when_needed};
pub use reading::{LogFiles, Query};

/// The folder of logs in a home.
pub fn log_folder(home: &std::path::Path) -> std::path::PathBuf {
    home.join("logs")
}

/// The name of the log that is written.
pub const LOG_FILE: &str = "warmcell.log";
