//! The `warmcell` command; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    warmcell::cli::main()
}
