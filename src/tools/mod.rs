//! Host tools that code in a cell may call.

mod tool;

pub use tool::{
    Arguments, Parameter, ParameterDefault, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec,
};
