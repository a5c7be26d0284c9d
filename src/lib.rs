//! Warmcell keeps a Python kernel alive between an agent's calls.
#![doc = ""]
pub mod tools;
pub mod output;
pub mod environment;
