//! Warmcell keeps a Python kernel alive between an agent's calls.

pub mod environment;
pub mod jupyter;
pub mod output;
pub mod provisioner;
pub mod tools;
