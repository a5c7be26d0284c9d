//! What a reader of a result sees of a stream, with what was shown in between.

use crate::output::redact::Rules;
use crate::output::{Part, Pipe, Redraws, Window, Windowed, plain};

/// Displays whose text stands in a result; of more their number is told.
const MOST_SHOWN: usize = 1_000;
/// Bytes of the text of one.
const TEXT_BYTES: usize = 50_000;

/// A window over a stream in which displays stand as text, each on a line of its own.
///
/// The counts are those of the stream alone, as it was written: what is left out are the bytes that
/// the window does not show, and those that were drawn over. Control sequences and secrets count as
/// shown.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    pipe: Pipe,
    redraws: Redraws,
    window: Window,
    total: u64,
    /// Where the texts of displays stand: first byte and length.
    shown: Vec<(u64, u64)>,
    /// Displays beyond those.
    more: u64,
    in_line: bool,
}

impl Transcript {
    pub(super) fn new(cap_bytes: usize, rules: Option<&Rules>) -> Self {
        Self {
            pipe: Pipe::new(rules),
            redraws: Redraws::default(),
            window: Window::new(cap_bytes),
            total: 0,
            shown: Vec::new(),
            more: 0,
            in_line: false,
        }
    }

    /// Bytes of the stream; what whoever watches may see by now is handed on.
    pub(super) fn print(&mut self, bytes: &[u8], tell: &mut impl FnMut(Part<'_>)) {
        self.total = self.total.saturating_add(wide(bytes.len()));
        let mut pipe = std::mem::replace(&mut self.pipe, Pipe::new(None));
        pipe.push(bytes, &mut |part| self.part(part, tell));
        self.pipe = pipe;
    }

    /// What was held back is seen now: something else comes, or nothing any more.
    pub(super) fn flush(&mut self, tell: &mut impl FnMut(Part<'_>)) {
        let mut pipe = std::mem::replace(&mut self.pipe, Pipe::new(None));
        pipe.finish(&mut |part| self.part(part, tell));
        self.pipe = pipe;
    }

    fn part(&mut self, part: Part<'_>, tell: &mut impl FnMut(Part<'_>)) {
        tell(part);
        match part {
            Part::Text(text) => {
                let window = &mut self.window;
                self.redraws.push(text, &mut |text| window.push(text));
                if let Some(last) = text.last() {
                    self.in_line = *last != b'\n';
                }
            }
            Part::Escape(_) => {
                if let Some(whole) = part.erases_line() {
                    self.redraws.erase(whole);
                }
            }
        }
    }

    /// How many bytes of the stream there were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The text of a display; the stream was flushed. What is put into it for that.
    pub(super) fn show(&mut self, text: &str) -> String {
        if self.shown.len() >= MOST_SHOWN {
            self.more += 1;
            return String::new();
        }
        let text = plain(text);
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (text, rest) = text.split_at(end);
        let cut = if rest.is_empty() { "" } else { "..." };
        self.put(&format!("{text}{cut}\n"))
    }

    fn put(&mut self, line: &str) -> String {
        let window = &mut self.window;
        self.redraws.finish(&mut |text| window.push(text));
        let at = self.window.total();
        let line = format!("{}{line}", if self.in_line { "\n" } else { "" });
        self.window.push(line.as_bytes());
        self.shown.push((at, self.window.total() - at));
        self.in_line = false;
        line
    }

    /// What is shown in the end, and how many secrets were masked in it.
    pub(super) fn finish(mut self) -> (Windowed, u64) {
        self.flush(&mut |_| ());
        if self.more > 0 {
            let more = self.more;
            self.put(&format!("[{more} more displays are not shown here]\n"));
        }
        let window = &mut self.window;
        self.redraws.finish(&mut |text| window.push(text));
        let windowed = self.window.finish();
        let hidden = windowed.hidden(&self.shown);
        let omitted = windowed.omitted - hidden + self.redraws.drawn_over();
        let omitted = omitted.min(self.total);
        let windowed = Windowed {
            total: self.total,
            omitted,
            captured: self.total - omitted,
            ..windowed
        };
        (windowed, self.pipe.redacted())
    }
}

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_stand_on_lines_of_their_own_and_do_not_count() {
        let mut transcript = Transcript::new(1_000, None);
        transcript.print(b"a", &mut |_| ());
        transcript.show("one");
        transcript.print(b"b\n", &mut |_| ());
        transcript.show("two\nlines");
        transcript.print(b"c", &mut |_| ());
        assert_eq!(transcript.total(), 4);
        let (windowed, _) = transcript.finish();
        assert_eq!(windowed.text, "a\none\nb\ntwo\nlines\nc");
        assert_eq!(
            (windowed.total, windowed.captured, windowed.omitted),
            (4, 4, 0)
        );
    }

    #[test]
    fn counts_of_what_is_left_out_are_those_of_stdout() {
        let mut transcript = Transcript::new(100, None);
        transcript.print(&[b'x'; 60], &mut |_| ());
        transcript.show(&"d".repeat(98));
        transcript.print(&[b'y'; 90], &mut |_| ());
        let (windowed, _) = transcript.finish();
        // 40 of the first and 60 of the last are there; the display is not.
        assert_eq!(
            (windowed.total, windowed.captured, windowed.omitted),
            (150, 100, 50)
        );
    }

    #[test]
    fn of_many_displays_the_number_is_told() {
        let mut transcript = Transcript::new(100_000, None);
        for _ in 0..MOST_SHOWN + 3 {
            transcript.show("x");
        }
        let text = transcript.finish().0.text;
        assert_eq!(text.matches("x\n").count(), MOST_SHOWN);
        assert!(
            text.ends_with("[3 more displays are not shown here]\n"),
            "{text}"
        );
        let mut transcript = Transcript::new(1 << 20, None);
        transcript.show(&"é".repeat(TEXT_BYTES));
        assert_eq!(transcript.finish().0.text.len(), TEXT_BYTES + 4);
    }

    #[test]
    fn what_is_drawn_over_and_masked_is_counted_as_it_was_written() {
        let rules = Rules::default();
        let mut transcript = Transcript::new(1_000, Some(&rules));
        let mut seen = Vec::new();
        for text in [
            "10 %\r",
            "20",
            " %\n",
            "\x1b[1mghp_01234",
            "56789abc\x1b[0m\n",
        ] {
            transcript.print(text.as_bytes(), &mut |part| {
                let (Part::Text(bytes) | Part::Escape(bytes)) = part;
                seen.extend_from_slice(bytes);
            });
        }
        assert_eq!(
            String::from_utf8_lossy(&seen),
            "10 %\r20 %\n\x1b[1m[redacted:github-token]\x1b[0m\n"
        );
        let (windowed, redacted) = transcript.finish();
        assert_eq!(redacted, 1);
        assert_eq!(windowed.text, "20 %\n[redacted:github-token]\n");
        // `10 %` and the `\r`.
        assert_eq!(
            (windowed.total, windowed.omitted, windowed.captured),
            (36, 5, 31)
        );
    }
}
