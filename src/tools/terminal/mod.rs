//! `terminal`: runs a shell command in the foreground, behind a floor of commands that never run.
//!
//! - [`Terminal`] is the tool: it checks the arguments, runs the command as a job and collects what
//!   it prints.
//! - [`hard_floor()`] says, from the text alone, whether a command is one of those that are refused
//!   whatever the settings say. It reads the text as a shell would (`script` and `words`), looks
//!   behind programs that run other programs (`unwrap`) and then goes by name (`rules`).

mod editors;
mod expansions;
mod foreground;
mod groups;
mod hard_floor;
mod normalise;
mod paths;
mod redirects;
mod rules;
mod script;
mod tool;
mod unwrap;
mod words;
mod wrappers;

#[cfg(test)]
mod command_position_tests;
#[cfg(test)]
mod hard_floor_tests;
#[cfg(test)]
mod payload_tests;
#[cfg(test)]
mod test_room;
#[cfg(test)]
mod tool_tests;

pub use hard_floor::{FloorRule, hard_floor};
pub use tool::Terminal;
