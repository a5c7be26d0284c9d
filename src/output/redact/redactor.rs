//! Masks secrets in a stream, however it is cut into chunks.

use super::body::BEFORE;
use super::marker::marker;
use super::rules::{Found, Next, Rules, Verdict};
use super::shapes::Rest;

/// Bytes of a PEM block, at most: what begins like one and never ends is not all masked.
const PEM_BYTES: usize = 64 * 1_024;
/// Bytes of the end of a PEM block.
const PEM_END: usize = 96;

/// What becomes of the next bytes of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<'a> {
    /// They stay.
    Keep(&'a [u8]),
    /// So many are gone; what stands in their place is the marker of this kind, unless these follow
    /// others that are gone.
    Mask {
        /// How many bytes.
        bytes: usize,
        /// The kind of the secret that begins with them.
        begins: Option<&'static str>,
    },
}

/// Masks secrets in one stream.
///
/// What may be the beginning of one is held back until it is known: mostly nothing, at most the
/// length of the longest known value. Memory is bounded by that and a chunk.
#[derive(Debug, Clone)]
pub struct Redactor {
    rules: Rules,
    /// What was handed on last, and what waits.
    text: Vec<u8>,
    /// So much of it was handed on.
    done: usize,
    /// No secret begins before this place.
    next: usize,
    /// The secret that is not over yet, and how much of it was seen.
    within: Option<(Rest, usize)>,
    count: u64,
}

impl Redactor {
    /// For a new stream.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            text: Vec::new(),
            done: 0,
            next: 0,
            within: None,
            count: 0,
        }
    }

    /// How many secrets were masked.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Hands on what is known of the stream with these bytes at its end.
    pub fn push(&mut self, bytes: &[u8], tell: &mut impl FnMut(Edit<'_>)) {
        self.text.extend_from_slice(bytes);
        self.go_on(false, tell);
        let keep_from = self.done.min(self.next).saturating_sub(BEFORE);
        drop(self.text.drain(..keep_from));
        self.done -= keep_from;
        self.next -= keep_from;
    }

    /// The stream has ended, or what was held back is to be seen now.
    pub fn finish(&mut self, tell: &mut impl FnMut(Edit<'_>)) {
        self.go_on(true, tell);
        self.text.clear();
        self.done = 0;
        self.next = 0;
        self.within = None;
    }

    /// The text with its secrets masked, and how many there were.
    pub fn once(rules: &Rules, text: &str) -> (String, u64) {
        let mut redactor = Self::new(rules.clone());
        let mut masked = Vec::with_capacity(text.len());
        let mut tell = |edit: Edit<'_>| match edit {
            Edit::Keep(bytes) => masked.extend_from_slice(bytes),
            Edit::Mask { begins, .. } => {
                masked.extend(begins.map(marker).unwrap_or_default().into_bytes());
            }
        };
        redactor.push(text.as_bytes(), &mut tell);
        redactor.finish(&mut tell);
        let count = redactor.count();
        // Masks begin and end at ASCII characters, or are whole values.
        (String::from_utf8_lossy(&masked).into_owned(), count)
    }

    fn go_on(&mut self, ended: bool, tell: &mut impl FnMut(Edit<'_>)) {
        let mut known = Next::default();
        loop {
            if self.within.is_some() && !self.leave(ended, tell) {
                return;
            }
            let Some(at) = self.rules.next(&self.text, self.next, ended, &mut known) else {
                self.next = self.text.len();
                self.keep(self.text.len(), tell);
                return;
            };
            match self.verdict(at, ended) {
                Verdict::No => self.next = at + 1,
                Verdict::More => {
                    self.next = at;
                    self.keep(at, tell);
                    return;
                }
                Verdict::Wait => {
                    self.next = at;
                    let held = self.rules.begun(&self.text, at.max(self.done));
                    self.keep(held, tell);
                    return;
                }
                Verdict::Yes(found) => self.mask(found, tell),
            }
        }
    }

    /// Whether a secret begins here. One that holds a known value gives way to it: the value may be
    /// longer.
    fn verdict(&self, at: usize, ended: bool) -> Verdict {
        let verdict = self.rules.judge(&self.text, at, ended);
        if let Verdict::Yes(found) = verdict
            && found.kind != "environment"
        {
            match self.rules.value_within(&self.text, at + 1..found.to, ended) {
                Verdict::No => {}
                other => return other,
            }
        }
        verdict
    }

    /// Hands on what stays, up to a place.
    fn keep(&mut self, to: usize, tell: &mut impl FnMut(Edit<'_>)) {
        if let Some(bytes) = self.text.get(self.done..to)
            && !bytes.is_empty()
        {
            tell(Edit::Keep(bytes));
            self.done = to;
        }
    }

    fn mask(&mut self, found: Found, tell: &mut impl FnMut(Edit<'_>)) {
        self.keep(found.from, tell);
        let to = found.to.max(self.done);
        tell(Edit::Mask {
            bytes: to - self.done,
            begins: Some(found.kind),
        });
        self.count += 1;
        let seen = to - self.done;
        self.done = to;
        self.next = to;
        if found.rest != Rest::Nothing {
            self.within = Some((found.rest, seen));
        }
    }

    /// Goes on to the end of a secret; whether it was found.
    fn leave(&mut self, ended: bool, tell: &mut impl FnMut(Edit<'_>)) -> bool {
        let Some((rest, seen)) = self.within else {
            return true;
        };
        let bytes = self.text.get(self.done..).unwrap_or_default();
        let (gone, over) = match rest {
            Rest::Nothing => (0, true),
            Rest::Run(class) => match class.run_on(bytes, usize::MAX, ended, true) {
                Some(size) => (size, size < bytes.len()),
                // A dot may be its last.
                None => (
                    bytes.len() - usize::from(bytes.last() == Some(&b'.')),
                    false,
                ),
            },
            Rest::Pem => pem_rest(bytes, PEM_BYTES.saturating_sub(seen), ended),
        };
        if gone > 0 {
            tell(Edit::Mask {
                bytes: gone,
                begins: None,
            });
        }
        self.done += gone;
        self.next = self.done;
        self.within = (!over).then_some((rest, seen + gone));
        over
    }
}

/// How much of the bytes is still of a PEM block, and whether it is over.
fn pem_rest(bytes: &[u8], most: usize, ended: bool) -> (usize, bool) {
    let is_body = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || byte.is_ascii_whitespace()
            || b"+/=\\-_:,.;()\"'>|".contains(&byte)
    };
    let body = bytes
        .iter()
        .take(most)
        .take_while(|byte| is_body(**byte))
        .count();
    let inside = bytes.get(..body).unwrap_or_default();
    if let Some(end) = memchr::memmem::find(inside, b"-----END ") {
        let label = inside.get(end + 9..).unwrap_or_default();
        if let Some(dashes) = memchr::memmem::find(
            label.get(..PEM_END.min(label.len())).unwrap_or_default(),
            b"-----",
        ) {
            return (end + 9 + dashes + 5, true);
        }
        if body < bytes.len() || ended || label.len() >= PEM_END || body == most {
            return (body, true);
        }
        return (end, false);
    }
    if body < bytes.len() || ended || body == most {
        return (body, true);
    }
    // Its end may have begun.
    (body.saturating_sub(PEM_END), false)
}

#[cfg(test)]
#[path = "redactor_tests.rs"]
mod tests;
