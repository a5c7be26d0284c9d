//! Interpreter and environment of a kernel.
//!
//! - `interpreter`: the ladder of Pythons; - `scrub`: which variables a kernel sees.

mod interpreter;
mod scrub;

pub use interpreter::{Candidate, Interpreter, OLDEST, candidates};
pub use scrub::{Scrubbed, harmless_programs, scrub, with_harmless_programs};
