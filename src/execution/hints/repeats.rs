//! The same code that fails the same way again.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::execution::{ErrorClass, Status};

/// What a session remembers of its latest failure. Digests alone: code may be megabytes.
#[derive(Debug, Default)]
pub struct Repeats {
    last: Option<u64>,
    count: u64,
}

impl Repeats {
    /// A cell has ended: how often it had failed this way before, in a row.
    ///
    /// Interrupts and successes begin anew: neither says that the code is wrong.
    pub(in crate::execution) fn count(
        &mut self,
        code: &str,
        status: Status,
        class: Option<ErrorClass>,
        error: Option<&str>,
    ) -> u64 {
        let (Status::Error | Status::Timeout, Some(class)) = (status, class) else {
            *self = Self::default();
            return 0;
        };
        let mut hasher = DefaultHasher::new();
        code.hash(&mut hasher);
        (class as u8).hash(&mut hasher);
        without_chance(error.unwrap_or_default()).hash(&mut hasher);
        let digest = Some(hasher.finish());
        self.count = if self.last == digest {
            self.count + 1
        } else {
            0
        };
        self.last = digest;
        self.count
    }
}

/// The line without what differs each time: addresses, and the number of the cell.
fn without_chance(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = ["0x", "<cell "].iter().filter_map(|it| rest.find(it)).min() {
        let (before, found) = rest.split_at(at);
        kept.push_str(before);
        let is_address = found.starts_with("0x");
        let (mark, after) = found.split_at(if is_address { 2 } else { 6 });
        kept.push_str(mark);
        rest = after.trim_start_matches(|c: char| {
            if is_address {
                c.is_ascii_hexdigit()
            } else {
                c.is_ascii_digit()
            }
        });
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_of_the_same_code_is_counted() {
        let mut repeats = Repeats::default();
        let mut failed = |code: &str, error: &str| {
            let class = Some(ErrorClass::Exception);
            repeats.count(code, Status::Error, class, Some(error))
        };
        assert_eq!(failed("a", "E: <f at 0x7f12> (<cell 3>, line 2)"), 0);
        assert_eq!(failed("a", "E: <f at 0x7fab> (<cell 4>, line 2)"), 1);
        assert_eq!(failed("a", "E: <f at 0x1> (<cell 15>, line 2)"), 2);
        // Another line, another text, other code.
        assert_eq!(failed("a", "E: <f at 0x1> (<cell 16>, line 3)"), 0);
        assert_eq!(failed("a", "E: other"), 0);
        assert_eq!(failed("b", "E: other"), 0);
        assert_eq!(failed("b", "E: other"), 1);
    }

    #[test]
    fn success_and_interrupts_begin_anew_and_timeouts_count() {
        let mut repeats = Repeats::default();
        let timeout = Some(ErrorClass::Timeout);
        let mut late = |text| repeats.count("a", Status::Timeout, timeout, Some(text));
        assert_eq!(late("timed out after 1 s"), 0);
        assert_eq!(late("timed out after 1 s"), 1);
        // With more time it is another try.
        assert_eq!(late("timed out after 2 s"), 0);
        assert_eq!(late("timed out after 2 s"), 1);
        let interrupted = Some(ErrorClass::Interrupted);
        let text = Some("interrupted");
        assert_eq!(
            repeats.count("a", Status::Interrupted, interrupted, text),
            0
        );
        assert_eq!(
            repeats.count("a", Status::Interrupted, interrupted, text),
            0
        );
        assert_eq!(repeats.count("a", Status::Timeout, timeout, Some("t")), 0);
        assert_eq!(repeats.count("a", Status::Success, None, None), 0);
        assert_eq!(repeats.count("a", Status::Timeout, timeout, Some("t")), 0);
    }
}
