//! What is kept of cells: `<home>/cache/exec`, a folder that only we look into.
//!
//! - [`KeptName`]: how its files are called, and how we know our own again;
//! - [`KeptFolder`]: the folder, opened so that no link leads elsewhere;
//! - [`KeptFile`]: a file that is written and then gets its name;
//! - [`condemned`]: which files go, by age and size.
//!
//! Other programs keep files in the same folder, with names of the same form: theirs are never touched.
//! All of it blocks; none of it follows a link that somebody has planted.

mod file;
mod folder;
mod name;
mod pruning;

pub use file::KeptFile;
pub use folder::KeptFolder;
pub use name::{KeptKind, KeptName};
pub use pruning::{Found, condemned};
