use proptest::prelude::*;

use super::*;

fn window(cap: usize, chunks: &[&[u8]]) -> Windowed {
    let mut window = Window::new(cap);
    for chunk in chunks {
        window.push(chunk);
    }
    window.finish()
}

/// The two parts around the notice.
fn parts(windowed: &Windowed) -> (&str, &str) {
    let (head, rest) = windowed
        .text
        .split_once("\n\n... [OUTPUT TRUNCATED - ")
        .unwrap();
    let (_, tail) = rest.split_once(" total] ...\n\n").unwrap();
    (head, tail)
}

#[test]
fn output_within_the_cap_is_unchanged() {
    for text in ["", "a", "0123456789", "\u{e9}\u{1f600}\u{1f600}"] {
        let total = wide(text.len());
        let expected = Windowed {
            text: text.to_owned(),
            total,
            captured: total,
            omitted: 0,
            omitted_from: total,
            is_cut: false,
        };
        assert_eq!(window(10, &[text.as_bytes()]), expected);
    }
}

#[test]
fn output_over_the_cap_shows_40_and_60_percent_and_says_so() {
    let text = "0123456789".repeat(123_457);
    let windowed = window(50_000, &[text.as_bytes()]);
    assert_eq!(
        (windowed.total, windowed.captured, windowed.omitted),
        (1_234_570, 50_000, 1_184_570)
    );
    let (head, _) = text.split_at(20_000);
    let (_, tail) = text.split_at(text.len() - 30_000);
    let notice =
        "\n\n... [OUTPUT TRUNCATED - 1,184,570 bytes omitted out of 1,234,570 total] ...\n\n";
    assert_eq!(windowed.text, format!("{head}{notice}{tail}"));
}

#[test]
fn one_byte_over_the_cap_is_one_byte_omitted() {
    let windowed = window(10, &[b"0123456789a"]);
    assert_eq!(
        (windowed.total, windowed.captured, windowed.omitted),
        (11, 10, 1)
    );
    assert_eq!(parts(&windowed), ("0123", "56789a"));
}

#[test]
fn split_characters_are_left_out_at_both_borders() {
    // Four bytes of head, six of tail.
    for (text, head, tail, captured) in [
        ("ab\u{20ac}defghij", "ab", "efghij", 8),
        ("abc\u{1f600}efghij", "abc", "efghij", 9),
        ("abcdefg\u{e9}hijkl", "abcd", "hijkl", 9),
        ("abcdefg\u{20ac}ijkl", "abcd", "ijkl", 8),
        ("abcd\u{1f600}\u{1f600}ij", "abcd", "\u{1f600}ij", 10),
        (
            "\u{1f600}\u{1f600}\u{1f600}\u{1f600}",
            "\u{1f600}",
            "\u{1f600}",
            8,
        ),
    ] {
        let windowed = window(10, &[text.as_bytes()]);
        assert_eq!(parts(&windowed), (head, tail), "{text}");
        assert_eq!(windowed.captured, captured, "{text}");
        assert_eq!(windowed.omitted, windowed.total - captured);
    }
}

#[test]
fn invalid_bytes_become_the_replacement_character_and_count_as_bytes() {
    let short = window(10, &[b"a\xff\xfe"]);
    assert_eq!((short.text.as_str(), short.total), ("a\u{fffd}\u{fffd}", 3));

    // A border in the middle of nothing but continuation bytes takes three of them, no more.
    let long = window(10, &[&[0x80; 100]]);
    assert_eq!((long.total, long.captured, long.omitted), (100, 7, 93));
    assert_eq!(
        parts(&long),
        ("\u{fffd}".repeat(4).as_str(), "\u{fffd}".repeat(3).as_str())
    );
    // These begin no character, so nothing is cut.
    let long = window(10, &[&[0xff; 100]]);
    assert_eq!(long.captured, 10);
}

#[test]
fn tiny_caps_hold() {
    let nothing = window(0, &[b"abc"]);
    assert_eq!((nothing.captured, nothing.omitted), (0, 3));
    assert_eq!(parts(&nothing), ("", ""));
    assert_eq!(window(0, &[]).text, "");
    let one = window(1, &[b"abc"]);
    assert_eq!(parts(&one), ("", "c"));
    assert_eq!(window(1, &["\u{1f600}".as_bytes()]).captured, 0);
}

#[test]
fn the_largest_cap_takes_no_memory_ahead() {
    let windowed = window(usize::MAX, &[b"ab", b"cd"]);
    assert_eq!(windowed.text, "abcd");
}

#[test]
fn commas_stand_between_thousands() {
    for (number, text) in [
        (0, "0"),
        (999, "999"),
        (1_000, "1,000"),
        (123_456, "123,456"),
        (u64::MAX, "18,446,744,073,709,551,615"),
    ] {
        assert_eq!(with_commas(number), text);
    }
}

#[test]
fn memory_stays_within_the_cap() {
    let mut window = Window::new(50_000);
    let chunk = vec![b'x'; 64 * 1024];
    for length in (1..4_000).chain([chunk.len(); 1_600]) {
        window.push(&chunk[..length]);
    }
    assert_eq!(window.head.capacity(), 20_000);
    assert_eq!(window.tail.into_bytes().capacity(), 30_000);
}

/// Text and bytes, with many characters of more than one byte.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a\u{e9}\u{20ac}\u{1f600}]{0,80}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(
            prop_oneof![Just(0x80), Just(0xf0), Just(0xe2), Just(b'a')],
            0..80
        ),
    ]
}

/// The same bytes, cut at these places.
fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.sort_unstable();
    ends.push(bytes.len());
    let mut start = 0;
    ends.into_iter()
        .map(|end| &bytes[std::mem::replace(&mut start, end)..end])
        .collect()
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same(
        bytes in bytes(),
        cap in 0..100_usize,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        prop_assert_eq!(window(cap, &cut(&bytes, &cuts)), window(cap, &[&bytes]));
    }

    #[test]
    fn counts_add_up_and_the_cap_holds(bytes in bytes(), cap in 0..100_usize) {
        let windowed = window(cap, &[&bytes]);
        prop_assert_eq!(windowed.total, wide(bytes.len()));
        prop_assert_eq!(windowed.captured + windowed.omitted, windowed.total);
        if bytes.len() <= cap {
            prop_assert_eq!(windowed.omitted, 0);
            prop_assert_eq!(windowed.text, String::from_utf8_lossy(&bytes));
        } else {
            // At most three bytes are lost at each border.
            prop_assert!(windowed.captured <= wide(cap));
            prop_assert!(windowed.captured + 6 >= wide(cap));
            let (head, tail) = parts(&windowed);
            prop_assert!(String::from_utf8_lossy(&bytes[..cap]).starts_with(head));
            let last = bytes.len() - cap;
            prop_assert!(String::from_utf8_lossy(&bytes[last..]).ends_with(tail));
        }
    }

    #[test]
    fn valid_text_stays_valid(text in "[a\u{e9}\u{20ac}\u{1f600}]{0,80}", cap in 0..100_usize) {
        let windowed = window(cap, &[text.as_bytes()]);
        let replaced = windowed.text.contains('\u{fffd}');
        prop_assert!(!replaced);
        if windowed.omitted > 0 {
            let (head, tail) = parts(&windowed);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert_eq!(wide(head.len() + tail.len()), windowed.captured);
        }
    }
}
