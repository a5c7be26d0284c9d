//! Exit codes: an interface like any other.

use std::io::{self, Write};

use super::streams;
use crate::execution::{ErrorClass, Outcome};

/// The call makes no sense.
pub(super) const USAGE: u8 = 2;
/// No kernel could be had.
pub(super) const UNAVAILABLE: u8 = 125;
/// A cell was out of time.
pub(super) const TIMED_OUT: u8 = 124;
/// A cell was interrupted.
pub(super) const INTERRUPTED: u8 = 130;
/// Stdout was closed: what a shell reports of a program that SIGPIPE has ended.
pub(super) const STDOUT_CLOSED: u8 = 141;

/// The exit code that tells a result.
pub(super) fn of(outcome: &Outcome) -> u8 {
    match outcome.error_class {
        None => 0,
        Some(ErrorClass::Exit) => of_number(outcome.exit_code),
        Some(
            ErrorClass::Syntax
            | ErrorClass::Exception
            | ErrorClass::MissingModule
            | ErrorClass::Limit,
        ) => 1,
        Some(ErrorClass::Usage | ErrorClass::Refused) => USAGE,
        Some(ErrorClass::Timeout) => TIMED_OUT,
        Some(ErrorClass::Busy | ErrorClass::Unavailable) => UNAVAILABLE,
        Some(ErrorClass::KernelDied) => 126,
        Some(ErrorClass::Interrupted) => INTERRUPTED,
    }
}

/// Stdout takes no more: says why, if that is worth a word; the exit code.
pub(super) fn unwritten(error: &io::Error) -> u8 {
    if let Some(sentence) = streams::unwritten(error) {
        // With stderr closed there is nobody to tell.
        drop(writeln!(io::stderr(), "warmcell: {sentence}"));
    }
    STDOUT_CLOSED
}

/// A code out of 0..255 as the system would cut it, but never as success.
fn of_number(number: i64) -> u8 {
    match u8::try_from(number & 255) {
        Ok(0) | Err(_) => 1,
        Ok(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::KernelReport;

    #[test]
    fn classes_and_numbers_have_their_codes() {
        let with = |class| of(&Outcome::not_run(class, "", KernelReport::none()));
        assert_eq!(with(ErrorClass::Usage), 2);
        assert_eq!(with(ErrorClass::Timeout), 124);
        assert_eq!(with(ErrorClass::Busy), 125);
        assert_eq!(with(ErrorClass::Unavailable), 125);
        assert_eq!(with(ErrorClass::KernelDied), 126);
        assert_eq!(with(ErrorClass::Interrupted), 130);
        assert_eq!(with(ErrorClass::Exception), 1);
        for (number, code) in [
            (3, 3),
            (255, 255),
            (256, 1),
            (300, 44),
            (-1, 255),
            (-256, 1),
        ] {
            assert_eq!(of_number(number), code, "{number}");
        }
    }
}
