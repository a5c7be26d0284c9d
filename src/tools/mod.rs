//! Host tools that code in a cell may call.
//!
//! A cell calls a generated Python function (`stubs`), which asks over the session's socket
//! (`server`, `frame`); the call is made if the cell's `authority` covers it. One `table` lists the
//! tools; each has a file or folder of its own.

mod arguments;
mod authority;
mod budget;
mod call;
mod devices;
mod files;
mod frame;
mod lines;
mod literal;
mod paths;
mod read_file;
mod replace;
mod server;
mod shown;
mod stubs;
mod table;
mod terminal;
#[cfg(test)]
mod testing;
mod tool;
mod trail;
mod write_file;

pub use arguments::Arguments;
pub use authority::{Authority, Terms, ToolCallRecord, ToolEvent, ToolObserver, ToolUse};
pub use budget::RequestBudget;
pub use read_file::ReadFile;
pub use server::{ToolServer, ToolSettings};
pub use stubs::hermes_tools;
pub use table::{Grant, ToolTable, UnknownTools};
pub use terminal::{FloorRule, Terminal, hard_floor};
pub use tool::{Parameter, ParameterDefault, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec};
pub use write_file::WriteFile;
