//! What a reader of a result sees of stdout, with what was shown in between.

use crate::output::{Window, Windowed};

/// Displays whose text stands in a result; of more their number is told.
const MOST_SHOWN: usize = 1_000;
/// Bytes of the text of one.
const TEXT_BYTES: usize = 50_000;

/// A window over stdout in which displays stand as text, each on a line of its own.
///
/// The counts are those of stdout alone.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    window: Window,
    /// Where the texts of displays stand: first byte and length.
    shown: Vec<(u64, u64)>,
    /// Displays beyond those.
    more: u64,
    in_line: bool,
}

impl Transcript {
    pub(super) fn new(cap_bytes: usize) -> Self {
        Self {
            window: Window::new(cap_bytes),
            shown: Vec::new(),
            more: 0,
            in_line: false,
        }
    }

    /// Bytes of stdout.
    pub(super) fn print(&mut self, bytes: &[u8]) {
        self.window.push(bytes);
        if let Some(last) = bytes.last() {
            self.in_line = *last != b'\n';
        }
    }

    /// How many bytes of stdout there were.
    pub(super) fn total(&self) -> u64 {
        self.window.total() - self.shown.iter().map(|(_, length)| length).sum::<u64>()
    }

    /// The text of a display.
    pub(super) fn show(&mut self, text: &str) {
        if self.shown.len() >= MOST_SHOWN {
            self.more += 1;
            return;
        }
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (text, rest) = text.split_at(end);
        let cut = if rest.is_empty() { "" } else { "..." };
        self.put(&format!("{text}{cut}\n"));
    }

    fn put(&mut self, line: &str) {
        let at = self.window.total();
        if self.in_line {
            self.window.push(b"\n");
        }
        self.window.push(line.as_bytes());
        self.shown.push((at, self.window.total() - at));
        self.in_line = false;
    }

    pub(super) fn finish(mut self) -> Windowed {
        if self.more > 0 {
            let more = self.more;
            self.put(&format!("[{more} more displays are not shown here]\n"));
        }
        let windowed = self.window.finish();
        let shown: u64 = self.shown.iter().map(|(_, length)| length).sum();
        let hidden = windowed.hidden(&self.shown);
        Windowed {
            total: windowed.total - shown,
            omitted: windowed.omitted - hidden,
            captured: windowed.captured - (shown - hidden),
            ..windowed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_stand_on_lines_of_their_own_and_do_not_count() {
        let mut transcript = Transcript::new(1_000);
        transcript.print(b"a");
        transcript.show("one");
        transcript.print(b"b\n");
        transcript.show("two\nlines");
        transcript.print(b"c");
        assert_eq!(transcript.total(), 4);
        let windowed = transcript.finish();
        assert_eq!(windowed.text, "a\none\nb\ntwo\nlines\nc");
        assert_eq!(
            (windowed.total, windowed.captured, windowed.omitted),
            (4, 4, 0)
        );
    }

    #[test]
    fn counts_of_what_is_left_out_are_those_of_stdout() {
        let mut transcript = Transcript::new(100);
        transcript.print(&[b'x'; 60]);
        transcript.show(&"d".repeat(98));
        transcript.print(&[b'y'; 90]);
        let windowed = transcript.finish();
        // 40 of the first and 60 of the last are there; the display is not.
        assert_eq!(
            (windowed.total, windowed.captured, windowed.omitted),
            (150, 100, 50)
        );
    }

    #[test]
    fn of_many_displays_the_number_is_told() {
        let mut transcript = Transcript::new(100_000);
        for _ in 0..MOST_SHOWN + 3 {
            transcript.show("x");
        }
        let text = transcript.finish().text;
        assert_eq!(text.matches("x\n").count(), MOST_SHOWN);
        assert!(
            text.ends_with("[3 more displays are not shown here]\n"),
            "{text}"
        );
        let mut transcript = Transcript::new(1 << 20);
        transcript.show(&"é".repeat(TEXT_BYTES));
        assert_eq!(transcript.finish().text.len(), TEXT_BYTES + 4);
    }
}
