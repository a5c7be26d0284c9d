//! A window of lines over a stream of bytes, in bounded memory.

/// How much a window may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of text.
    pub(crate) bytes: usize,
    /// Bytes of the same text written as a JSON string.
    pub(crate) json_bytes: usize,
}

/// Keeps some lines of what it is fed, and counts all of them.
///
/// A line is what ends in a newline, or what is left after the last one. What does not fit the
/// bounds is left out from the start of a line; only where the very first line is too long is it
/// cut, after a whole character.
#[derive(Debug)]
pub(crate) struct LineWindow {
    first: u64,
    past: u64,
    bounds: Bounds,
    content: Vec<u8>,
    json_bytes: usize,
    /// How much of `content` is whole lines.
    complete: usize,
    /// The number of the line that the next byte belongs to.
    line: u64,
    /// Whether a line has begun and not ended.
    in_line: bool,
    /// The line to go on with, once the bounds are reached.
    full_at: Option<u64>,
}

impl LineWindow {
    /// A window over `count` lines from line `first` (counted from 1).
    pub(crate) fn new(first: u64, count: u64, bounds: Bounds) -> Self {
        Self {
            first,
            past: first.saturating_add(count),
            bounds,
            content: Vec::new(),
            json_bytes: 0,
            complete: 0,
            line: 1,
            in_line: false,
            full_at: None,
        }
    }

    /// Whether everything that the window can hold is in it.
    pub(crate) fn is_closed(&self) -> bool {
        self.full_at.is_some() || self.line >= self.past
    }

    /// The lines so far, taken out.
    pub(crate) fn take_content(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.content)
    }

    /// The number of lines fed.
    pub(crate) fn total_lines(&self) -> u64 {
        self.line - 1 + u64::from(self.in_line)
    }

    /// The line to go on with, if what was fed goes on after the window.
    pub(crate) fn next_offset(&self) -> Option<u64> {
        self.full_at
            .or((self.total_lines() >= self.past).then_some(self.past))
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.in_line = *last != b'\n';
        }
        while !bytes.is_empty() {
            // Before and after the window only the count matters, and counting is much faster
            // than cutting into lines.
            if self.is_closed() || self.line < self.first {
                let ends = newlines(bytes);
                if self.is_closed() || self.line + ends < self.first {
                    self.line += ends;
                    return;
                }
                // The window begins in these bytes: to its first line in one go.
                bytes = after_newlines(bytes, self.first - self.line);
                self.line = self.first;
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (segment, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            if self.line >= self.first {
                self.keep(segment);
            }
            if end.is_some() {
                self.line += 1;
                self.complete = self.content.len();
            }
            bytes = rest;
        }
    }

    fn keep(&mut self, segment: &[u8]) {
        let json_bytes = segment.iter().map(|byte| json_width(*byte)).sum::<usize>();
        if self.content.len() + segment.len() <= self.bounds.bytes
            && self.json_bytes + json_bytes <= self.bounds.json_bytes
        {
            self.content.extend_from_slice(segment);
            self.json_bytes += json_bytes;
            return;
        }
        if self.complete > 0 {
            self.content.truncate(self.complete);
            self.full_at = Some(self.line);
            return;
        }
        self.full_at = Some(self.line + 1);
        for byte in segment {
            if self.content.len() + 1 > self.bounds.bytes
                || self.json_bytes + json_width(*byte) > self.bounds.json_bytes
            {
                if is_continuation(*byte) {
                    self.drop_broken_character();
                }
                return;
            }
            self.content.push(*byte);
            self.json_bytes += json_width(*byte);
        }
    }

    /// Drops the beginning of a character whose next byte did not fit.
    fn drop_broken_character(&mut self) {
        // Three bytes at most stand before the last byte of a character; more continuation bytes
        // than that are no UTF-8 and stay, to be found out as such.
        let begun = self
            .content
            .iter()
            .rev()
            .take(3)
            .position(|byte| !is_continuation(*byte));
        if let Some(follow) = begun {
            self.content
                .truncate(self.content.len().saturating_sub(follow + 1));
        }
    }
}

#[expect(
    clippy::naive_bytecount,
    reason = "fast enough, and one dependency less"
)]
fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// What follows so many line ends, of which there are enough.
fn after_newlines(bytes: &[u8], count: u64) -> &[u8] {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let last = usize::try_from(count - 1)
        .ok()
        .and_then(|before| ends.map(|(at, _)| at).nth(before));
    last.and_then(|at| bytes.get(at + 1..)).unwrap_or_default()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes a byte takes inside a JSON string.
fn json_width(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0C => 2,
        0x00..0x20 => 6,
        _ => 1,
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
