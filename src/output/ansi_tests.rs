use proptest::prelude::*;

use super::*;

fn stripped(text: &str) -> String {
    String::from_utf8(strip(text.as_bytes())).unwrap()
}

#[test]
fn sequences_go_and_text_stays() {
    for (given, right) in [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;38;5;196mx\x1b[m", "x"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0~\x1b\\sixel", "sixel"),
        ("\x1b(Bx\x1b7y\x1b8\x1bMz", "xyz"),
        ("\u{9b}31mred\u{85}x", "redx"),
        ("\u{9d}0;t\u{9c}x", "x"),
        ("\x1b[2K\rline", "\rline"),
        // No sequences: a lone ESC, one that no byte ends, one that another byte breaks.
        ("a\x1b\nb\x07\x08\0\r", "a\x1b\nb\x07\x08\0\r"),
        ("a\x1b[31", "a\x1b[31"),
        ("\x1b[3\nx", "\x1b[3\nx"),
        ("é漢😀 £", "é漢😀 £"),
    ] {
        assert_eq!(stripped(given), right, "{given:?}");
    }
}

#[test]
fn a_string_that_nothing_ends_does_not_swallow_what_follows() {
    let given = format!("\x1b]0;{}", "x".repeat(STRING_BYTES * 2));
    assert_eq!(stripped(&given), given);
    let mut ansi = Ansi::default();
    let mut text = Vec::new();
    let mut held = 0;
    for byte in given.as_bytes() {
        ansi.push(&[*byte], &mut |part| {
            if let Part::Text(bytes) = part {
                text.extend_from_slice(bytes);
            }
        });
        held = held.max(ansi.begun.len());
    }
    assert!(held <= STRING_BYTES + 2, "{held}");
    ansi.finish(&mut |part| {
        if let Part::Text(bytes) = part {
            text.extend_from_slice(bytes);
        }
    });
    assert_eq!(text, given.as_bytes());
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\x1b[31m".to_vec()),
        Just(b"\x1b]0;t\x07".to_vec()),
        Just(b"\x1b".to_vec()),
        Just(b"[".to_vec()),
        Just(b"\xc2\x9b".to_vec()),
        Just(b"\x1b\\".to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
        "[a-z;0-9 ]{0,6}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|it| it.concat())
}

proptest! {
    #[test]
    fn a_stream_that_is_cut_anywhere_gives_the_same(bytes in pieces(), size in 1_usize..9) {
        let mut ansi = Ansi::default();
        let mut text = Vec::new();
        let mut all = Vec::new();
        let mut tell = |part: Part<'_>| match part {
            Part::Text(bytes) => {
                text.extend_from_slice(bytes);
                all.extend_from_slice(bytes);
            }
            Part::Escape(bytes) => all.extend_from_slice(bytes),
        };
        for chunk in bytes.chunks(size) {
            ansi.push(chunk, &mut tell);
        }
        ansi.finish(&mut tell);
        prop_assert_eq!(text, strip(&bytes));
        // Nothing is lost.
        prop_assert_eq!(all, bytes);
    }
}
