//! Limit programs and ratios.
fn main() {}
