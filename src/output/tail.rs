//! The end of a stream of bytes.

use std::collections::VecDeque;

use super::window::wide;

/// Keeps the last bytes of a stream, for output that arrives between cells.
///
/// Memory follows what was kept and never exceeds the cap.
#[derive(Debug, Clone)]
pub struct Tail {
    cap: usize,
    kept: VecDeque<u8>,
    total: u64,
}

impl Tail {
    /// Keeps at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self {
            cap,
            kept: VecDeque::new(),
            total: 0,
        }
    }

    /// Appends bytes; the oldest ones make room for them.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(wide(bytes.len()));
        let skipped = bytes.len().saturating_sub(self.cap);
        let bytes = bytes.get(skipped..).unwrap_or_default();
        let room = self.cap - bytes.len();
        if self.kept.len() > room {
            drop(self.kept.drain(..self.kept.len() - room));
        }
        let needed = self.kept.len() + bytes.len();
        if needed > self.kept.capacity() {
            // Doubling as a vector does, but not beyond the cap.
            let capacity = self
                .cap
                .min(needed.max(self.kept.capacity().saturating_mul(2)));
            self.kept.reserve_exact(capacity - self.kept.len());
        }
        self.kept.extend(bytes);
    }

    /// How many bytes came since the last [`Tail::take`].
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The text that was kept and how many bytes came, kept or not; `None` if none came. Starts
    /// anew.
    ///
    /// If bytes were left out, the text begins at a character. Invalid UTF-8 becomes U+FFFD; so does
    /// a character of which only a part has come.
    pub fn take(&mut self) -> Option<(String, u64)> {
        let total = std::mem::take(&mut self.total);
        let mut kept = Vec::from(std::mem::take(&mut self.kept));
        if total > wide(kept.len()) {
            let cut = cut_at_start(&kept);
            drop(kept.drain(..cut));
        }
        (total > 0).then(|| (lossy(kept), total))
    }

    /// The bytes that were kept, uncut.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        Vec::from(self.kept)
    }
}

/// How many bytes at the start belong to a character that began earlier: at most three.
pub(super) fn cut_at_start(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|byte| is_continuation(**byte))
        .count()
}

/// How many bytes at the end belong to a character that is not complete: at most three.
pub(super) fn cut_at_end(bytes: &[u8]) -> usize {
    let tail = bytes.iter().rev().take(3);
    for (present, byte) in (1..).zip(tail) {
        if is_continuation(*byte) {
            continue;
        }
        let length = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if length > present { present } else { 0 };
    }
    0
}

/// The bytes without a character at their end of which only a part is there.
pub fn whole_characters(bytes: &[u8]) -> &[u8] {
    bytes
        .get(..bytes.len() - cut_at_end(bytes))
        .unwrap_or_default()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// The bytes as text, without a copy where they are valid UTF-8.
pub(super) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
