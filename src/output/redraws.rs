//! Lines that are drawn again and again, as progress bars do: what a terminal would show at the end.

use super::characters::Characters;
use super::tail::lossy;
use super::window::wide;

/// Bytes of a line that can still be drawn over; what is before stays as it is.
const LINE_BYTES: usize = 64 * 1_024;

/// Draws `\r` and `\b` as a terminal does, so that a reader sees the last state of a line alone.
///
/// Cursor movement beyond the line is none of its business. Memory is bounded by a line.
#[derive(Debug, Clone, Default)]
pub struct Redraws {
    line: Line,
    /// A `\r` of which is not known yet whether a line end follows.
    returned: bool,
    drawn_over: u64,
    /// Of what is drawn.
    characters: Characters,
}

#[derive(Debug, Clone)]
enum Line {
    /// As it was written; what is written next stands behind it.
    Plain(Vec<u8>),
    /// With a cursor in it.
    Drawn(Vec<char>, usize),
}

impl Default for Line {
    fn default() -> Self {
        Self::Plain(Vec::new())
    }
}

impl Redraws {
    /// Bytes that are not handed on because others came in their place.
    pub fn drawn_over(&self) -> u64 {
        self.drawn_over
    }

    /// Hands on what cannot be drawn over any more.
    pub fn push(&mut self, text: &[u8], tell: &mut impl FnMut(&[u8])) {
        let mut rest = text;
        if !self.returned && matches!(self.line, Line::Plain(_)) {
            // Nearly always there is nothing to draw: whole lines go as they are.
            let plain = memchr::memchr2(b'\r', 0x08, rest).unwrap_or(rest.len());
            let (lines, _) = rest.split_at(plain);
            if let Some(end) = memchr::memrchr(b'\n', lines) {
                let (lines, others) = rest.split_at(end + 1);
                self.flush(tell);
                tell(lines);
                rest = others;
            }
        }
        while !rest.is_empty() {
            let next = memchr::memchr3(b'\r', b'\n', 0x08, rest);
            let (run, others) = rest.split_at(next.unwrap_or(rest.len()));
            if !run.is_empty() {
                self.return_now();
                self.write(run, tell);
            }
            let Some((sign, others)) = others.split_first() else {
                break;
            };
            rest = others;
            match sign {
                b'\n' => self.end_line(tell),
                b'\r' => {
                    self.return_now();
                    self.returned = true;
                }
                _ => {
                    self.return_now();
                    self.back();
                }
            }
        }
    }

    /// The rest of the line behind the cursor goes, or all of it.
    pub fn erase(&mut self, whole: bool) {
        self.return_now();
        match &mut self.line {
            Line::Plain(line) if whole => {
                self.drawn_over += wide(line.len());
                line.clear();
            }
            Line::Plain(_) => {}
            Line::Drawn(line, cursor) => {
                if whole {
                    *cursor = 0;
                }
                let gone = line.drain((*cursor).min(line.len())..);
                self.drawn_over += gone.map(|it| wide(it.len_utf8())).sum::<u64>();
            }
        }
    }

    /// Hands on the line that was not ended.
    pub fn finish(&mut self, tell: &mut impl FnMut(&[u8])) {
        if std::mem::take(&mut self.returned) {
            self.drawn_over += 1;
        }
        self.flush(tell);
    }

    /// The cursor goes to the beginning of the line, if it was to.
    fn return_now(&mut self) {
        if std::mem::take(&mut self.returned) {
            self.move_cursor(|_| 0);
        }
    }

    fn back(&mut self) {
        self.move_cursor(|cursor| cursor.saturating_sub(1));
    }

    fn move_cursor(&mut self, to: impl FnOnce(usize) -> usize) {
        self.drawn_over += 1;
        let (line, cursor) = match std::mem::take(&mut self.line) {
            Line::Plain(line) => {
                let line: Vec<char> = String::from_utf8_lossy(&line).chars().collect();
                let cursor = line.len();
                (line, cursor)
            }
            Line::Drawn(mut line, cursor) => {
                line.extend(lossy(self.characters.rest()).chars());
                (line, cursor)
            }
        };
        self.line = Line::Drawn(line, to(cursor));
    }

    fn write(&mut self, run: &[u8], tell: &mut impl FnMut(&[u8])) {
        match &mut self.line {
            Line::Plain(line) => {
                if line.len() + run.len() > LINE_BYTES {
                    self.flush(tell);
                    return tell(run);
                }
                line.extend_from_slice(run);
            }
            Line::Drawn(line, cursor) => {
                for new in lossy(self.characters.whole(run)).chars() {
                    match line.get_mut(*cursor) {
                        Some(old) => {
                            self.drawn_over += wide(old.len_utf8());
                            *old = new;
                        }
                        None => line.push(new),
                    }
                    *cursor += 1;
                }
                if line.len() > LINE_BYTES {
                    self.flush(tell);
                }
            }
        }
    }

    fn end_line(&mut self, tell: &mut impl FnMut(&[u8])) {
        let end: &[u8] = if std::mem::take(&mut self.returned) {
            b"\r\n"
        } else {
            b"\n"
        };
        self.flush(tell);
        tell(end);
    }

    fn flush(&mut self, tell: &mut impl FnMut(&[u8])) {
        match std::mem::take(&mut self.line) {
            Line::Plain(line) if line.is_empty() => {}
            Line::Plain(line) => tell(&line),
            Line::Drawn(line, _) => {
                let mut line = String::from_iter(line).into_bytes();
                line.extend(self.characters.rest());
                tell(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn(chunks: &[&[u8]]) -> (Vec<u8>, u64) {
        let mut redraws = Redraws::default();
        let mut shown = Vec::new();
        for chunk in chunks {
            redraws.push(chunk, &mut |text| shown.extend_from_slice(text));
        }
        redraws.finish(&mut |text| shown.extend_from_slice(text));
        (shown, redraws.drawn_over())
    }

    #[test]
    fn a_line_is_shown_as_a_terminal_leaves_it() {
        for (given, right) in [
            ("1\r2\r3", "3"),
            ("abc\rX", "Xbc"),
            ("abc\x08\x08\x08", "abc"),
            ("abc\x08d", "abd"),
            ("\x08\x08x", "x"),
            ("10 %\r20 %\ndone\n", "20 %\ndone\n"),
            ("é漢\rab", "ab"),
            ("a\r\nb\r\n", "a\r\nb\r\n"),
            ("abc\r\r\nb", "abc\r\nb"),
            ("a\nb\n", "a\nb\n"),
            ("abc\r", "abc"),
        ] {
            let (shown, over) = drawn(&[given.as_bytes()]);
            assert_eq!(String::from_utf8_lossy(&shown), right, "{given:?}");
            assert_eq!(over, wide(given.len() - right.len()), "{given:?}");
        }
    }

    #[test]
    fn what_is_erased_is_not_shown() {
        let mut redraws = Redraws::default();
        let mut shown = Vec::new();
        let mut tell = |text: &[u8]| shown.extend_from_slice(text);
        redraws.push(b"100 %\r", &mut tell);
        redraws.erase(false);
        redraws.push(b"5 %\nabc", &mut tell);
        redraws.erase(true);
        redraws.push(b"d\n", &mut tell);
        assert_eq!(shown, b"5 %\nd\n");
        assert_eq!(redraws.drawn_over(), 6 + 3);
    }

    #[test]
    fn ten_thousand_states_of_a_bar_are_one_line() {
        let mut redraws = Redraws::default();
        let (mut shown, mut given) = (Vec::new(), 0);
        for step in 0..10_000 {
            let state = format!("\r{step:5} of 10000 |{}|", "#".repeat(step / 500));
            given += state.len();
            redraws.push(state.as_bytes(), &mut |text| shown.extend_from_slice(text));
        }
        redraws.finish(&mut |text| shown.extend_from_slice(text));
        let last = format!(" 9999 of 10000 |{}|", "#".repeat(19));
        assert_eq!(String::from_utf8_lossy(&shown), last);
        assert_eq!(redraws.drawn_over(), wide(given - last.len()));
    }

    #[test]
    fn a_line_without_end_does_not_stay_in_memory() {
        let mut redraws = Redraws::default();
        let mut shown = 0;
        for text in [&b"x"[..], b"\rx", b"xyz\x08"] {
            for _ in 0..300_000 {
                redraws.push(text, &mut |text| shown += text.len());
                let line = match &redraws.line {
                    Line::Plain(line) => line.len(),
                    Line::Drawn(line, _) => line.len(),
                };
                assert!(line <= LINE_BYTES + 4);
            }
        }
        assert!(shown > 300_000);
    }

    proptest! {
        #[test]
        fn a_stream_that_is_cut_anywhere_looks_the_same(
            text in "[ab\r\n\x08é]{0,30}",
            size in 1_usize..9,
        ) {
            let cut: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(drawn(&cut), drawn(&[text.as_bytes()]));
        }
    }
}
