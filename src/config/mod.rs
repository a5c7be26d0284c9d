//! Settings: what a manager is told before it starts, with their defaults; and the configuration that
//! says otherwise.
//!
//! Only front ends read files, home and the process environment, by what stands here:
//! [`ConfigurationFile::read`] makes [`Values`] and [`Problem`]s of a home's `config.yaml` and the
//! variables `WARMCELL_*`, and [`Settings::configured`] settings of those. Everything below is handed
//! these structs.
//!
//! - `table`: the keys; - `configuration`: a text and variables, read by them; - `yaml`, `given`,
//!   `scalars`: values as they are written; - `not_there`, `foreign_keys`: what belongs to others, or to
//!   later; - `file`: the file; - `secrets_file`: `<home>/.env`.

mod caller;
mod configuration;
mod file;
mod foreign;
mod foreign_keys;
mod given;
mod limits;
mod mode;
mod not_there;
mod problem;
mod scalars;
mod secrets_file;
mod settings;
mod table;
mod values;
mod words;
mod yaml;

pub use caller::{Caller, CallerError};
pub use configuration::{Configuration, exercise, is_configuration_variable};
pub use file::{ConfigurationFile, MOST_CONFIGURATION_BYTES};
pub use foreign::{CONNECTION_FILE, ForeignKernel, KernelTransport};
pub use limits::{Bound, Had, ProcessLimits, Resource};
pub use mode::{Mode, ModeError};
pub use problem::{Problem, Severity};
pub use secrets_file::secrets_file;
pub use settings::{
    LimitError, Limits, STDERR_WINDOW_BYTES, STDOUT_WINDOW_BYTES, Settings, WaitError, parse_wait,
};
pub use table::{Key, keys};
pub use values::Values;
pub use words::{LogLevel, Policy};
