//! Interpreter and environment of a kernel.

mod interpreter;

pub use interpreter::{Candidate, Interpreter, OLDEST, candidates};
