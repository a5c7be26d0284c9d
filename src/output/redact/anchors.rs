//! Where one of many short words stands, faster than an automaton says it.
//!
//! Of each word two pairs of its bytes are known, one at an even and one at an odd place in it; so one of
//! them stands at an even place of any text that holds the word. Those places are looked at, each by
//! itself, in a bitmap of pairs. An automaton looks at each byte, and not before it knows what the one
//! before has led to.

use std::collections::HashMap;

use memchr::memmem::Finder;

const PAIRS: usize = 1 << 16;
/// A word of two bytes has no pair at an odd place: it is looked for by itself.
const SHORTEST: usize = 3;

/// How often letters stand in English text, in thousands, from `a`.
const LETTERS: [u32; 26] = [
    82, 15, 28, 43, 127, 22, 20, 61, 70, 2, 8, 40, 24, 67, 75, 19, 1, 60, 63, 91, 28, 10, 24, 2,
    20, 1,
];

/// Words that are looked for together.
#[derive(Debug)]
pub(super) struct Anchors {
    words: Vec<Vec<u8>>,
    longest: usize,
    /// A bit for each pair of bytes that is known of a word.
    bitmap: Box<[u64; PAIRS / 64]>,
    /// Of which words a pair is known, and its place in them.
    known: HashMap<u16, Vec<(usize, usize)>>,
    short: Vec<Finder<'static>>,
}

impl Anchors {
    pub(super) fn new<'a>(words: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut anchors = Self {
            words: Vec::new(),
            longest: 0,
            bitmap: Box::new([0; PAIRS / 64]),
            known: HashMap::new(),
            short: Vec::new(),
        };
        for word in words {
            anchors.longest = anchors.longest.max(word.len());
            if word.len() < SHORTEST {
                anchors.short.push(Finder::new(word).into_owned());
            } else {
                for odd in [0, 1] {
                    anchors.know(word, odd);
                }
            }
            anchors.words.push(word.to_owned());
        }
        anchors
    }

    /// Takes note of the rarest pair of the next word at an even or odd place.
    fn know(&mut self, word: &[u8], odd: usize) {
        let pairs = word.windows(2).enumerate().skip(odd).step_by(2);
        let rarest =
            pairs.min_by_key(|(_, pair)| pair.iter().map(|it| often(*it)).product::<u32>());
        let Some((place, [first, second])) = rarest else {
            return;
        };
        let pair = u16::from_le_bytes([*first, *second]);
        if let Some(bits) = self.bitmap.get_mut(usize::from(pair) / 64) {
            *bits |= 1 << (pair % 64);
        }
        let words = self.known.entry(pair).or_default();
        words.push((self.words.len(), place));
    }

    /// The first place from `from` on where a word stands, whole.
    pub(super) fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let found = self.find_long(text, from);
        let rest = text.get(from..found.unwrap_or(text.len()))?;
        let short = self.short.iter().filter_map(|word| word.find(rest)).min();
        short.map(|at| from + at).or(found)
    }

    fn find_long(&self, text: &[u8], from: usize) -> Option<usize> {
        let mut at = from - from % 2;
        loop {
            let rest = text.get(at..).unwrap_or_default();
            at += 2 * rest.chunks_exact(2).position(|pair| self.has(pair))?;
            if self.is_one(text, from, at) {
                // One that is known later may begin before.
                let first = (at + 2).saturating_sub(self.longest).max(from);
                return (first..=at).find(|at| self.stands(text, *at));
            }
            at += 2;
        }
    }

    fn has(&self, pair: &[u8]) -> bool {
        let [first, second] = pair else { return false };
        let pair = u16::from_le_bytes([*first, *second]);
        let bits = self.bitmap.get(usize::from(pair) / 64);
        bits.is_some_and(|bits| bits & (1 << (pair % 64)) != 0)
    }

    /// Whether the pair at this place is that of a word which stands there and begins no earlier than at
    /// `from`.
    fn is_one(&self, text: &[u8], from: usize, at: usize) -> bool {
        let Some([first, second]) = text.get(at..at + 2) else {
            return false;
        };
        let known = self.known.get(&u16::from_le_bytes([*first, *second]));
        known.into_iter().flatten().any(|(word, place)| {
            let begins = at.checked_sub(*place).filter(|begins| *begins >= from);
            let (Some(begins), Some(word)) = (begins, self.words.get(*word)) else {
                return false;
            };
            text.get(begins..)
                .is_some_and(|rest| rest.starts_with(word))
        })
    }

    fn stands(&self, text: &[u8], at: usize) -> bool {
        let rest = text.get(at..).unwrap_or_default();
        let mut words = self.words.iter();
        words.any(|word| word.len() >= SHORTEST && rest.starts_with(word))
    }
}

/// How often a byte stands in texts, about.
fn often(byte: u8) -> u32 {
    let letter = usize::from(byte.wrapping_sub(b'a'));
    LETTERS.get(letter).copied().unwrap_or(4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: [&str; 8] = [
        "abc", "bcd", "cdefgh", "PW", "aaa", "h-b", "xaxbxcxd", "-----B",
    ];

    fn naive(text: &[u8], from: usize) -> Option<usize> {
        (from..text.len()).find(|at| {
            WORDS
                .iter()
                .any(|word| text[*at..].starts_with(word.as_bytes()))
        })
    }

    proptest! {
        #[test]
        fn the_first_is_found_wherever_it_is_looked_for(
            text in "([a-h]|[axbcd]|PW|-|B){0,40}",
            from in 0_usize..42,
        ) {
            let anchors = Anchors::new(WORDS.iter().map(|word| word.as_bytes()));
            prop_assert_eq!(anchors.find(text.as_bytes(), from), naive(text.as_bytes(), from));
        }

        #[test]
        fn each_word_is_found_at_each_place(before in "x{0,5}", word in 0_usize..8, after in "y{0,3}") {
            let anchors = Anchors::new(WORDS.iter().map(|word| word.as_bytes()));
            let text = format!("{before}{}{after}", WORDS[word]);
            prop_assert_eq!(anchors.find(text.as_bytes(), 0), naive(text.as_bytes(), 0));
        }
    }
}
