//! Warmcell keeps a Python kernel alive between an agent's calls.

pub mod bridge;
pub mod check;
pub mod cli;
pub mod client;
pub mod config;
pub mod environment;
pub mod execution;
pub mod folders;
pub mod frontends;
mod ids;
pub mod jupyter;
pub mod kernel;
pub mod output;
pub mod process;
pub mod provisioner;
pub mod python_source;
pub mod server;
pub mod session;
pub mod telemetry;
pub mod tools;
mod words;

/// The Rust in the README is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
