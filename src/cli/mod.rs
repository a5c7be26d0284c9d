//! The command line: arguments in, text or JSON out.
//!
//! - `args`: what can be said; - `surroundings`: what this process was started with;
//! - `source`: where the code comes from; - `exec`: runs cells; - `show`: prints them;
//! - `exit`: exit codes, which are an interface.

mod args;
mod exec;
mod exit;
mod show;
mod source;
mod surroundings;

pub use args::main;
