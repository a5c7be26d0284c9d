//! What is kept of a cell beside its result: all of a long output, and what it has shown, as files.
//!
//! - [`Store`]: where, for all cells of a manager;
//! - [`Keeping`]: takes what one cell prints and shows, as it comes, and never blocks;
//! - `shared` and `writer`: the queue in between, and the thread that writes;
//! - `artifacts`: which forms of what is shown are files;
//! - [`Kept`]: what came of it, and how it is told.
//!
//! A disk that is full, hangs or is not there costs the files and nothing else.

mod artifacts;
mod keeping;
mod shared;
mod store;
mod telling;
mod writer;

pub use artifacts::Artifact;
pub(super) use keeping::Keeping;
pub use store::{Files, Store};
pub use telling::Kept;
