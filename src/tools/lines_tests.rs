use proptest::prelude::*;

use super::{Bounds, LineWindow};

const WIDE: Bounds = Bounds {
    bytes: 1 << 20,
    json_bytes: 1 << 20,
};

fn window(text: &[u8], first: u64, count: u64, bounds: Bounds, step: usize) -> LineWindow {
    let mut window = LineWindow::new(first, count, bounds);
    for chunk in text.chunks(step) {
        window.feed(chunk);
    }
    window
}

#[test]
fn a_text_over_the_bound_is_cut_before_the_line_that_does_not_fit() {
    let bounds = Bounds {
        bytes: 7,
        json_bytes: 100,
    };
    let mut window = window(b"abc\ndef\nghi\n", 1, 10, bounds, 2);
    assert_eq!(window.take_content(), b"abc\n");
    assert_eq!((window.total_lines(), window.next_offset()), (3, Some(2)));
}

#[test]
fn a_text_that_just_fits_is_not_cut() {
    let bounds = Bounds {
        bytes: 8,
        json_bytes: 100,
    };
    let mut window = window(b"abc\ndef\n", 1, 10, bounds, 3);
    assert_eq!(window.take_content(), b"abc\ndef\n");
    assert_eq!(window.next_offset(), None);
}

#[test]
fn a_first_line_over_the_bound_is_cut_after_a_whole_character() {
    for step in 1..12 {
        let bounds = Bounds {
            bytes: 5,
            json_bytes: 100,
        };
        let mut window = window("a漢字b\nnext\n".as_bytes(), 1, 10, bounds, step);
        assert_eq!(window.take_content(), "a漢".as_bytes(), "chunks of {step}");
        assert_eq!((window.total_lines(), window.next_offset()), (2, Some(2)));
    }
}

#[test]
fn bytes_that_grow_in_json_count_as_they_grow() {
    let bounds = Bounds {
        bytes: 100,
        json_bytes: 14,
    };
    let mut window = window(b"\x01\x01\n\"\n", 1, 10, bounds, 100);
    assert_eq!(window.take_content(), b"\x01\x01\n");
    assert_eq!(window.next_offset(), Some(2));
}

#[test]
fn continuation_bytes_without_a_character_are_kept_to_be_found() {
    let bounds = Bounds {
        bytes: 10,
        json_bytes: 100,
    };
    let mut window = window(&[0x80; 30], 1, 10, bounds, 7);
    assert_eq!(window.take_content(), [0x80; 10]);
}

proptest! {
    #[test]
    fn lines_are_those_of_a_simple_split(
        text in "[ab\n\r漢]{0,60}", first in 1_u64..12, count in 1_u64..6, step in 1_usize..9,
    ) {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let start = usize::try_from(first - 1).unwrap().min(lines.len());
        let end = (start + usize::try_from(count).unwrap()).min(lines.len());
        let mut window = window(text.as_bytes(), first, count, WIDE, step);
        prop_assert_eq!(window.take_content(), lines[start..end].concat().into_bytes());
        prop_assert_eq!(window.total_lines(), lines.len() as u64);
        let more = lines.len() as u64 >= first + count;
        prop_assert_eq!(window.next_offset(), more.then_some(first + count));
    }

    #[test]
    fn pages_put_together_are_the_text(text in "[ab\n\"]{0,200}", bytes in 12_usize..40) {
        let bounds = Bounds { bytes, json_bytes: 2 * bytes };
        // Lines that fit, so that none has to be cut.
        let text: String =
            text.split_inclusive('\n').map(|line| if line.len() > 12 { "\n" } else { line }).collect();
        let (mut together, mut next) = (Vec::new(), Some(1));
        while let Some(first) = next {
            let mut window = window(text.as_bytes(), first, 3, bounds, 11);
            together.extend(window.take_content());
            next = window.next_offset();
            prop_assert!(next.is_none_or(|next| next > first));
        }
        prop_assert_eq!(together, text.into_bytes());
    }
}

#[test]
fn a_window_far_into_the_bytes_begins_at_its_line() {
    let lines: Vec<String> = (1..=1_000).map(|n| format!("line {n}\n")).collect();
    let text = lines.concat();
    for first in [1, 2, 500, 999, 1_000] {
        for chunk in [1, 7, 100, 20_000] {
            let bounds = Bounds {
                bytes: 1_000,
                json_bytes: 2_000,
            };
            let mut window = LineWindow::new(first, 1, bounds);
            for bytes in text.as_bytes().chunks(chunk) {
                window.feed(bytes);
            }
            let line = String::from_utf8(window.take_content()).unwrap();
            assert_eq!(line, format!("line {first}\n"), "in chunks of {chunk}");
            assert_eq!(window.total_lines(), 1_000);
        }
    }
}
