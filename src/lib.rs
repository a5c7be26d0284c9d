//! Warmcell keeps a Python kernel alive between an agent's calls.

pub mod config;
pub mod environment;
mod folders;
mod ids;
pub mod kernel;
pub mod jupyter;
pub mod output;
pub mod process;
pub mod provisioner;
mod python_source;
pub mod tools;
