//! Terminal control sequences in a stream: told apart from the text.
//!
//! Which bytes are a sequence is said by ECMA-48: CSI, OSC, the other strings (DCS, SOS, PM, APC), and
//! the short forms of two and three bytes. The 8-bit forms count in UTF-8 alone. The parser of a
//! terminal would decode and drop what it does not know; here no byte may be lost.

/// Parameters of a CSI longer than this are no sequence.
const CSI_BYTES: usize = 256;
/// Nor is a string longer than this: what follows a stray `ESC ]` must not vanish.
const STRING_BYTES: usize = 4_096;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// A part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes that stand for themselves; `\r`, `\b`, a lone ESC and the like are among them.
    Text(&'a [u8]),
    /// One control sequence, whole.
    Escape(&'a [u8]),
}

impl Part<'_> {
    /// Whether it erases the line, and all of it: otherwise what is behind the cursor.
    pub fn erases_line(&self) -> Option<bool> {
        match self {
            Self::Escape(b"\x1b[K" | b"\x1b[0K") => Some(false),
            Self::Escape(b"\x1b[2K") => Some(true),
            _ => None,
        }
    }
}

/// Tells control sequences and text apart, across the borders of chunks.
#[derive(Debug, Clone, Default)]
pub struct Ansi {
    /// A sequence that has begun: bounded by the two limits above.
    begun: Vec<u8>,
}

/// What a beginning is.
enum Verdict {
    /// A sequence of so many bytes.
    Whole(usize),
    /// More bytes must tell.
    Open,
    /// Text: at least its first so many bytes.
    Text(usize),
}

impl Ansi {
    /// Hands on what the bytes and those held back before are made of, in their order.
    ///
    /// The pieces of text depend on how the stream is cut, their bytes do not.
    pub fn push(&mut self, bytes: &[u8], tell: &mut impl FnMut(Part<'_>)) {
        if self.begun.is_empty() {
            let held = parse(bytes, false, tell);
            self.begun
                .extend_from_slice(bytes.get(held..).unwrap_or_default());
            return;
        }
        // A sequence ends soon: no more is copied than one can take.
        let mut rest = bytes;
        while !self.begun.is_empty() && !rest.is_empty() {
            let (some, others) = rest.split_at(rest.len().min(STRING_BYTES));
            self.begun.extend_from_slice(some);
            rest = others;
            let held = parse(&self.begun, false, tell);
            drop(self.begun.drain(..held));
        }
        if !rest.is_empty() {
            let held = parse(rest, false, tell);
            self.begun
                .extend_from_slice(rest.get(held..).unwrap_or_default());
        }
    }

    /// The stream has ended: what was begun is text, but for the introducer of a sequence.
    pub fn finish(&mut self, tell: &mut impl FnMut(Part<'_>)) {
        let begun = std::mem::take(&mut self.begun);
        parse(&begun, true, tell);
    }
}

/// Hands on the parts; the place of what is not whole yet.
fn parse(bytes: &[u8], ended: bool, tell: &mut impl FnMut(Part<'_>)) -> usize {
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = next_control(bytes.get(at..).unwrap_or_default()) {
        at += found;
        match judge(bytes.get(at..).unwrap_or_default()) {
            Verdict::Whole(size) => {
                text(bytes, from, at, tell);
                tell(Part::Escape(bytes.get(at..at + size).unwrap_or_default()));
                at += size;
                from = at;
            }
            Verdict::Text(size) => at += size,
            Verdict::Open if ended => at += 1,
            Verdict::Open => {
                text(bytes, from, at, tell);
                return at;
            }
        }
    }
    text(bytes, from, bytes.len(), tell);
    bytes.len()
}

fn text(bytes: &[u8], from: usize, to: usize, tell: &mut impl FnMut(Part<'_>)) {
    if from < to {
        tell(Part::Text(bytes.get(from..to).unwrap_or_default()));
    }
}

/// Where the next byte is that may begin a sequence: ESC, or the first of a C1 character.
fn next_control(bytes: &[u8]) -> Option<usize> {
    memchr::memchr2(ESC, 0xc2, bytes)
}

fn judge(bytes: &[u8]) -> Verdict {
    let Some((first, rest)) = bytes.split_first() else {
        return Verdict::Open;
    };
    let Some(second) = rest.first().copied() else {
        return Verdict::Open;
    };
    if *first != ESC {
        return match second {
            0x9b => csi(bytes, 2),
            0x90 | 0x98 | 0x9d..=0x9f => string(bytes, 2, second == 0x9d),
            0x80..=0x9f => Verdict::Whole(2),
            _ => Verdict::Text(1),
        };
    }
    match second {
        b'[' => csi(bytes, 2),
        b']' => string(bytes, 2, true),
        b'P' | b'X' | b'^' | b'_' => string(bytes, 2, false),
        0x20..=0x2f => intermediate(bytes),
        0x30..=0x7e => Verdict::Whole(2),
        _ => Verdict::Text(1),
    }
}

fn csi(bytes: &[u8], introducer: usize) -> Verdict {
    let mut size = introducer;
    let mut intermediates = false;
    for byte in bytes.get(introducer..).unwrap_or_default() {
        size += 1;
        match byte {
            0x30..=0x3f if !intermediates => {}
            0x20..=0x2f => intermediates = true,
            0x40..=0x7e => return Verdict::Whole(size),
            _ => return Verdict::Text(introducer),
        }
        if size > CSI_BYTES {
            return Verdict::Text(introducer);
        }
    }
    Verdict::Open
}

fn string(bytes: &[u8], introducer: usize, bell_ends: bool) -> Verdict {
    let body = bytes.get(introducer..).unwrap_or_default();
    let mut before = 0;
    for (at, byte) in body.iter().enumerate().take(STRING_BYTES) {
        let size = introducer + at + 1;
        match (before, *byte) {
            (_, BEL) if bell_ends => return Verdict::Whole(size),
            (ESC, b'\\') | (0xc2, 0x9c) => return Verdict::Whole(size),
            // Another sequence breaks it off, as in a terminal. So no byte is looked at twice.
            (ESC, _) | (0xc2, 0x80..=0x9f) => return Verdict::Text(introducer),
            _ => before = *byte,
        }
    }
    if body.len() >= STRING_BYTES {
        return Verdict::Text(introducer);
    }
    Verdict::Open
}

fn intermediate(bytes: &[u8]) -> Verdict {
    for (at, byte) in bytes.iter().enumerate().skip(1).take(CSI_BYTES) {
        match byte {
            0x20..=0x2f => {}
            0x30..=0x7e => return Verdict::Whole(at + 1),
            _ => return Verdict::Text(1),
        }
    }
    if bytes.len() > CSI_BYTES {
        return Verdict::Text(1);
    }
    Verdict::Open
}

/// The text without its control sequences.
pub fn strip(bytes: &[u8]) -> Vec<u8> {
    let mut stripped = Vec::with_capacity(bytes.len());
    parse(bytes, true, &mut |part| {
        if let Part::Text(text) = part {
            stripped.extend_from_slice(text);
        }
    });
    stripped
}

#[cfg(test)]
#[path = "ansi_tests.rs"]
mod tests;
