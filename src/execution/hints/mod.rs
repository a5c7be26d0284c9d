//! What to do about a failure that is a known mistake.
//!
//! - `failure`: the end of a traceback, and what that comes from; - `setting`: what is known around
//!   the cell; - `rules`: the table, in the order in which it is tried; - `modules`: what could not be
//!   imported; - `names`: what has no such name here; - `syntax`: what is no Python; - `values`: one
//!   type taken for another; - `running`: time, memory, loops, processes;
//! - `repeats`: the same failure again.
//!
//! Pure: nothing is looked up, what the kernel knows it has said with its reply. What a cell has
//! printed is never read.

mod failure;
mod modules;
mod names;
mod repeats;
mod rules;
mod running;
mod setting;
mod syntax;
mod values;

pub use repeats::Repeats;
pub(super) use rules::{Hint, Told, hint};
pub use setting::{Gone, Setting};
