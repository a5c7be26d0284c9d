//! The `warmcell` command.
fn main() {}
