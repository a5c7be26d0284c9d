//! Keeps the head and the tail of what a command prints; to be replaced by `crate::output`.

use std::collections::VecDeque;

/// The window while it fills.
#[derive(Debug)]
pub(super) struct Window {
    cap: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

/// What the window holds in the end.
#[derive(Debug)]
#[expect(dead_code, reason = "has the fields of the type that replaces it")]
pub(super) struct Windowed {
    /// Head, notice and tail; or everything.
    pub(super) text: String,
    /// Bytes that came.
    pub(super) total: u64,
    /// Bytes that are kept.
    pub(super) captured: u64,
    /// Bytes that are not.
    pub(super) omitted: u64,
}

impl Window {
    pub(super) fn new(cap_bytes: usize) -> Self {
        Self {
            cap: cap_bytes,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    fn head_cap(&self) -> usize {
        self.cap / 5 * 2
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self
            .head_cap()
            .saturating_sub(self.head.len())
            .min(bytes.len());
        let (head, tail) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(head);
        let cap = self.cap - self.head_cap();
        let skipped = tail.len().saturating_sub(cap);
        self.tail.extend(tail.get(skipped..).unwrap_or_default());
        let over = self.tail.len().saturating_sub(cap);
        self.tail.drain(..over);
    }

    pub(super) fn finish(mut self) -> Windowed {
        let captured = (self.head.len() + self.tail.len()) as u64;
        let omitted = self.total - captured;
        let tail = self.tail.make_contiguous();
        let text = if omitted == 0 {
            self.head.extend_from_slice(tail);
            String::from_utf8_lossy(&self.head).into_owned()
        } else {
            format!(
                "{}\n\n... [OUTPUT TRUNCATED - {} bytes omitted out of {} total] ...\n\n{}",
                String::from_utf8_lossy(&self.head),
                with_commas(omitted),
                with_commas(self.total),
                String::from_utf8_lossy(tail),
            )
        };
        Windowed {
            text,
            total: self.total,
            captured,
            omitted,
        }
    }
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
