//! Interpreter and environment of a kernel.

mod scrub;

pub use scrub::{Scrubbed, harmless_programs, scrub, with_harmless_programs};
