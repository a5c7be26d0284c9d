//! The beginning and the end of a stream of bytes.

use super::tail::{Tail, cut_at_end, cut_at_start, lossy};

/// Keeps the first 40 % and the last 60 % of a cap, however much is written.
///
/// Memory follows what was kept and never exceeds the cap.
#[derive(Debug, Clone)]
pub struct Window {
    head_cap: usize,
    head: Vec<u8>,
    tail: Tail,
}

/// What a [`Window`] shows, and how much it does not. All counts are bytes as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windowed {
    /// All of the output; or its beginning, a notice, and its end. Invalid UTF-8 is U+FFFD.
    pub text: String,
    /// How many bytes were written.
    pub total: u64,
    /// How many of them are in `text`.
    pub captured: u64,
    /// How many are not: `total` = `captured` + `omitted`.
    pub omitted: u64,
    /// Where those begin that are not.
    pub omitted_from: u64,
    /// Whether the text is only a beginning and an end.
    pub is_cut: bool,
}

impl Windowed {
    /// How many of the bytes in these places (first and length) are not in `text`.
    pub fn hidden(&self, places: &[(u64, u64)]) -> u64 {
        let (from, to) = (self.omitted_from, self.omitted_from + self.omitted);
        let overlap = |(at, length): &(u64, u64)| to.min(at + length).saturating_sub(from.max(*at));
        places.iter().map(overlap).sum()
    }
}

impl Window {
    /// Keeps at most `cap_bytes`.
    pub fn new(cap_bytes: usize) -> Self {
        // 40 %, rounded down, without an overflow.
        let head_cap = cap_bytes / 5 * 2 + cap_bytes % 5 * 2 / 5;
        Self {
            head_cap,
            head: Vec::new(),
            tail: Tail::new(cap_bytes - head_cap),
        }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.head_cap - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        if !head.is_empty() {
            let needed = self.head.len() + head.len();
            if needed > self.head.capacity() {
                let doubled = self.head.capacity().saturating_mul(2);
                let capacity = self.head_cap.min(needed.max(doubled));
                self.head.reserve_exact(capacity - self.head.len());
            }
            self.head.extend_from_slice(head);
        }
        self.tail.push(rest);
    }

    /// How many bytes were written so far.
    pub fn total(&self) -> u64 {
        self.tail.total().saturating_add(wide(self.head.len()))
    }

    /// What is shown.
    ///
    /// Within the cap that is everything. Beyond it, a character that a border would split is left
    /// out (at most three bytes at each), and a notice stands between the two parts.
    pub fn finish(self) -> Windowed {
        let total = self.total();
        let mut head = self.head;
        let tail = self.tail.into_bytes();
        if wide(head.len() + tail.len()) == total {
            head.extend_from_slice(&tail);
            return Windowed {
                text: lossy(head),
                total,
                captured: total,
                omitted: 0,
                omitted_from: total,
                is_cut: false,
            };
        }
        let head = head
            .get(..head.len() - cut_at_end(&head))
            .unwrap_or_default();
        let tail = tail.get(cut_at_start(&tail)..).unwrap_or_default();
        let captured = wide(head.len() + tail.len());
        let omitted = total - captured;
        let text = format!(
            "{}\n\n... [OUTPUT TRUNCATED - {} bytes omitted out of {} total] ...\n\n{}",
            String::from_utf8_lossy(head),
            with_commas(omitted),
            with_commas(total),
            String::from_utf8_lossy(tail),
        );
        Windowed {
            text,
            total,
            captured,
            omitted,
            omitted_from: wide(head.len()),
            is_cut: true,
        }
    }
}

/// The number with a comma between each three digits.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in memory as a count of a stream.
pub(super) fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
