//! The command line: arguments in, text or JSON out.
//!
//! - `args`: what can be said; - `surroundings`: what this process was started with;
//! - `source`: where the code comes from; - `exec`: runs cells; - `signals`: what interrupts them;
//! - `show`: prints them; - `writer`: a stream that may block; - `exit`: exit codes, an interface.

mod args;
mod exec;
mod exit;
mod show;
mod signals;
mod source;
mod surroundings;
mod writer;

pub use args::main;
