//! Limits of output: what is shown of what a cell wrote.
//!
//! Every text that leaves for a reader passes one choke point, in one fixed order: strip ANSI,
//! redact, window, spill. A window that came first would cut secrets in two and hide them from
//! redaction; a spill that came earlier would keep them in a file. This room holds the steps and
//! their order; it knows no cell, no kernel and no result.
//!
//! - [`Pipe`]: the first two steps, of a stream; [`clean`], of a text;
//! - [`Ansi`]: control sequences told apart from the text;
//! - [`redact`]: secrets are masked;
//! - [`Redraws`]: lines that are drawn again;
//! - [`Window`]: the first and the last part of a cell's stream, within a cap;
//! - [`Tail`]: the last part of what arrives between cells;
//! - [`Characters`]: those that the border between two pieces has cut.

mod ansi;
mod characters;
mod pipe;
pub mod redact;
mod redraws;
mod tail;
mod window;

pub use ansi::{Ansi, Part, strip};
pub use characters::Characters;
pub use pipe::{Pipe, clean, plain};
pub use redraws::Redraws;
pub use tail::{Tail, whole_characters};
pub use window::{Window, Windowed, with_commas};
