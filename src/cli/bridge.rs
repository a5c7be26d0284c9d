//! `warmcell bridge`: what a manager starts before a kernel that is not ours.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use super::exit;
use crate::bridge::foreign;
use crate::process::mend_name;

/// Runs the bridge; its exit code.
pub(super) fn main() -> ExitCode {
    mend_name();
    match foreign::run(env::vars_os().collect()) {
        Ok(code) => code,
        Err(error) => {
            let sentence = format!(
                "warmcell: `warmcell bridge` is started by a manager, not by hand ({error})"
            );
            drop(writeln!(io::stderr(), "{sentence}"));
            ExitCode::from(exit::USAGE)
        }
    }
}
