//! The choke point: what becomes of each byte before a reader sees it.

use std::collections::VecDeque;

use super::ansi::{Ansi, Part, strip};
use super::redact::{Edit, Redactor, Rules, marker};

/// Control sequences that wait while text is held back; what goes beyond loses its colours.
const ESCAPES_BYTES: usize = 64 * 1_024;

/// Tells text and control sequences of a stream apart and masks the secrets in the text, also where
/// control sequences stand between their characters.
///
/// Memory is bounded, however much comes.
#[derive(Debug, Clone)]
pub struct Pipe {
    ansi: Ansi,
    /// `None` where nothing is to be masked.
    redactor: Option<Redactor>,
    /// Sequences that stand in text which is held back, by their place in the text.
    escapes: VecDeque<(u64, Vec<u8>)>,
    escapes_bytes: usize,
    /// Bytes of text that came, and that were handed on or are gone.
    came: u64,
    went: u64,
}

impl Pipe {
    /// For a new stream. Without rules nothing is masked.
    pub fn new(rules: Option<&Rules>) -> Self {
        Self {
            ansi: Ansi::default(),
            redactor: rules.map(|rules| Redactor::new(rules.clone())),
            escapes: VecDeque::new(),
            escapes_bytes: 0,
            came: 0,
            went: 0,
        }
    }

    /// How many secrets were masked.
    pub fn redacted(&self) -> u64 {
        self.redactor.as_ref().map_or(0, Redactor::count)
    }

    /// Hands on what is known of the stream with these bytes at its end.
    pub fn push(&mut self, bytes: &[u8], tell: &mut impl FnMut(Part<'_>)) {
        let mut ansi = std::mem::take(&mut self.ansi);
        ansi.push(bytes, &mut |part| self.part(part, tell));
        self.ansi = ansi;
    }

    /// The stream has ended, or what was held back is to be seen now.
    pub fn finish(&mut self, tell: &mut impl FnMut(Part<'_>)) {
        let mut ansi = std::mem::take(&mut self.ansi);
        ansi.finish(&mut |part| self.part(part, tell));
        if let Some(mut redactor) = self.redactor.take() {
            redactor.finish(&mut |edit| self.edit(edit, tell));
            self.redactor = Some(redactor);
        }
    }

    fn part(&mut self, part: Part<'_>, tell: &mut impl FnMut(Part<'_>)) {
        let Some(mut redactor) = self.redactor.take() else {
            return tell(part);
        };
        match part {
            Part::Text(text) => {
                self.came += wide(text);
                redactor.push(text, &mut |edit| self.edit(edit, tell));
            }
            Part::Escape(_) if self.came == self.went => tell(part),
            Part::Escape(bytes) => {
                if self.escapes_bytes + bytes.len() <= ESCAPES_BYTES {
                    self.escapes_bytes += bytes.len();
                    self.escapes.push_back((self.came, bytes.to_vec()));
                }
            }
        }
        self.redactor = Some(redactor);
    }

    fn edit(&mut self, edit: Edit<'_>, tell: &mut impl FnMut(Part<'_>)) {
        match edit {
            Edit::Keep(mut text) => {
                while let Some((place, _)) = self.escapes.front()
                    && *place < self.went + wide(text)
                {
                    let before = usize::try_from(place.saturating_sub(self.went));
                    let (now, later) = text.split_at(before.unwrap_or(0).min(text.len()));
                    if !now.is_empty() {
                        tell(Part::Text(now));
                    }
                    self.went += wide(now);
                    text = later;
                    self.escape(tell);
                }
                tell(Part::Text(text));
                self.went += wide(text);
            }
            Edit::Mask { bytes, begins } => {
                if let Some(kind) = begins {
                    tell(Part::Text(marker(kind).as_bytes()));
                }
                self.went += u64::try_from(bytes).unwrap_or(u64::MAX);
            }
        }
        while self
            .escapes
            .front()
            .is_some_and(|(place, _)| *place <= self.went)
        {
            self.escape(tell);
        }
    }

    /// Hands on the first sequence that waits.
    fn escape(&mut self, tell: &mut impl FnMut(Part<'_>)) {
        if let Some((_, bytes)) = self.escapes.pop_front() {
            self.escapes_bytes -= bytes.len();
            tell(Part::Escape(&bytes));
        }
    }
}

/// A text without control sequences and secrets, and how many of these there were.
pub fn clean(rules: Option<&Rules>, text: &str) -> (String, u64) {
    let text = plain(text);
    match rules {
        Some(rules) => Redactor::once(rules, &text),
        None => (text, 0),
    }
}

/// A text without control sequences.
pub fn plain(text: &str) -> String {
    if text.contains(|sign: char| sign == '\x1b' || ('\u{80}'..='\u{9f}').contains(&sign)) {
        // What was text before is text without its sequences.
        String::from_utf8_lossy(&strip(text.as_bytes())).into_owned()
    } else {
        text.to_owned()
    }
}

fn wide(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text alone, and with its control sequences.
    fn piped(chunks: &[&[u8]]) -> (String, String, u64) {
        let rules = Rules::default();
        let mut pipe = Pipe::new(Some(&rules));
        let (mut text, mut all) = (Vec::new(), Vec::new());
        let mut tell = |part: Part<'_>| match part {
            Part::Text(bytes) => {
                text.extend_from_slice(bytes);
                all.extend_from_slice(bytes);
            }
            Part::Escape(bytes) => all.extend_from_slice(bytes),
        };
        for chunk in chunks {
            pipe.push(chunk, &mut tell);
        }
        pipe.finish(&mut tell);
        let text = String::from_utf8_lossy(&text).into_owned();
        let all = String::from_utf8_lossy(&all).into_owned();
        (text, all, pipe.redacted())
    }

    #[test]
    fn colours_do_not_hide_a_secret() {
        let given = "\x1b[1mkey\x1b[0m=ghp_\x1b[31m0123456789\x1b[32mabcdef\x1b[0m \x1b[1m.\x1b[0m";
        let (text, all, count) = piped(&[given.as_bytes()]);
        assert_eq!(text, "key=[redacted:github-token] .");
        assert_eq!(
            all,
            "\x1b[1mkey\x1b[0m=[redacted:github-token]\x1b[31m\x1b[32m\x1b[0m \x1b[1m.\x1b[0m"
        );
        assert_eq!(count, 1);
    }

    #[test]
    fn without_rules_nothing_is_masked() {
        let mut pipe = Pipe::new(None);
        let mut all = Vec::new();
        pipe.push(b"\x1b[1mghp_0123456789abcdef", &mut |part| match part {
            Part::Text(bytes) | Part::Escape(bytes) => all.extend_from_slice(bytes),
        });
        assert_eq!(all, b"\x1b[1mghp_0123456789abcdef");
        assert_eq!(clean(None, "\x1b[1mghp_0123456789").0, "ghp_0123456789");
    }

    #[test]
    fn colours_that_wait_are_bounded() {
        let rules = Rules::default();
        let mut pipe = Pipe::new(Some(&rules));
        pipe.push(b"ghp_", &mut |_| ());
        for _ in 0..ESCAPES_BYTES {
            pipe.push(b"\x1b[31m", &mut |_| ());
        }
        assert!(pipe.escapes_bytes <= ESCAPES_BYTES);
    }

    proptest! {
        #[test]
        fn a_stream_that_is_cut_anywhere_comes_out_the_same(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "\x1b[31m", "ghp_0123456789", "ghp_", "abcdef0123", " ", "x", "\x1b", "[0m", "=",
                    "A_KEY=", "\n", "é",
                ]),
                0..12,
            ),
            size in 1_usize..9,
        ) {
            let given = pieces.concat();
            let chunks: Vec<&[u8]> = given.as_bytes().chunks(size).collect();
            prop_assert_eq!(piped(&chunks), piped(&[given.as_bytes()]));
        }
    }
}
