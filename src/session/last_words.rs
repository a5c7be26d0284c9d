//! What was printed between cells, until a result can tell it.

use crate::execution::BackgroundOutput;
use crate::output::clean;
use crate::output::redact::Rules;

/// Bytes of it that are kept, the latest.
const BYTES: usize = 10_000;
/// A word that may have been cut is no longer than this; what is longer is no word.
const WORD_BYTES: usize = 256;

/// What was printed between cells.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    /// The text, and how many bytes it was.
    printed: Option<(String, u64)>,
    /// How many secrets were masked in it.
    pub(super) masked: u64,
}

impl LastWords {
    /// More was printed: the end of it, and how many bytes it was.
    pub(super) fn keep(&mut self, text: &str, total: u64, rules: &Rules) {
        let (text, masked) = clean(Some(rules), whole_words(text, total));
        self.masked += masked;
        let (earlier, before) = self.printed.take().unwrap_or_default();
        let text = earlier + &text;
        let mut from = text.len().saturating_sub(BYTES);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let (_, tail) = text.split_at(from);
        self.printed = Some((tail.to_owned(), before + total));
    }

    /// As a result tells it.
    pub(super) fn told(self) -> Option<BackgroundOutput> {
        let (text, bytes_total) = self.printed?;
        Some(BackgroundOutput { text, bytes_total })
    }
}

/// Without the word at the beginning, if that was cut: the rest of a secret looks like none.
fn whole_words(text: &str, total: u64) -> &str {
    let is_whole = u64::try_from(text.len()).unwrap_or(u64::MAX) >= total;
    match text.find(char::is_whitespace) {
        Some(end) if !is_whole && end <= WORD_BYTES => text.split_at(end).1,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use crate::output::redact::Hidden;

    use super::*;

    #[test]
    fn secrets_are_masked_also_where_the_beginning_was_cut() {
        let hidden = Hidden::of([7; 16], [("A_TOKEN", "hunter2-hunter2")]);
        let rules = Rules::new([hidden]);
        let mut words = LastWords::default();
        words.keep("r2-hunter2 and hunter2-hunter2\n", 1_000, &rules);
        words.keep("\x1b[1mghp_0123456789abc\x1b[0m", 29, &rules);
        let (text, total) = words.printed.unwrap();
        assert_eq!(text, " and [redacted:environment]\n[redacted:github-token]");
        assert_eq!((total, words.masked), (1_029, 2));
    }

    #[test]
    fn the_latest_are_kept() {
        let rules = Rules::default();
        let mut words = LastWords::default();
        words.keep(&"é".repeat(4_000), 8_000, &rules);
        words.keep(&"x".repeat(4_001), 90_000, &rules);
        let (text, total) = words.printed.unwrap();
        assert_eq!(total, 98_000);
        // Half a character is left out.
        assert_eq!(text.len(), BYTES - 1);
    }
}
