//! Host tools that code in a cell may call.

mod terminal;
mod tool;

pub use terminal::{FloorRule, Terminal, hard_floor};
pub use tool::{
    Arguments, Parameter, ParameterDefault, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec,
};
