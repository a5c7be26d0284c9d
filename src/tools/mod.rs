//! Host tools that code in a cell may call.

mod files;
mod lines;
mod paths;
mod read_file;
mod replace;
#[cfg(test)]
mod testing;
mod tool;
mod trail;
mod write_file;

pub use read_file::ReadFile;
pub use tool::{
    Arguments, Parameter, ParameterDefault, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec,
};
pub use write_file::WriteFile;
