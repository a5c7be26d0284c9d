//! A long JSON string, made into text where it stands.
//!
//! No escape is shorter than what it stands for, so the text fits into the bytes of its JSON form.

use std::ops::Range;

use bytes::BytesMut;

/// Why a string is not a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoText {
    /// The bytes are no JSON string.
    #[error("it is no string")]
    NoString,
    /// Half of a pair, which no text can hold.
    #[error("it holds a lone surrogate (\\u{0:04x}), which no UTF-8 text can; leave it out")]
    LoneSurrogate(u32),
}

/// Takes the JSON string at `at`, quotes included, out of the bytes. Nothing else is kept of them, and
/// they are not copied unless somebody else holds a part of them.
pub(super) fn text_in_place(bytes: BytesMut, at: Range<usize>) -> Result<String, NoText> {
    let mut bytes = Vec::from(bytes);
    let inner = bytes
        .get(at.clone())
        .filter(|literal| literal.len() >= 2)
        .is_some_and(|literal| literal.starts_with(b"\"") && literal.ends_with(b"\""));
    if !inner {
        return Err(NoText::NoString);
    }
    let (mut read, end) = (at.start + 1, at.end - 1);
    let mut written = 0;
    loop {
        let rest = bytes.get(read..end).unwrap_or_default();
        let plain = rest
            .iter()
            .position(|byte| *byte == b'\\')
            .unwrap_or(rest.len());
        bytes.copy_within(read..read + plain, written);
        read += plain;
        written += plain;
        if read == end {
            break;
        }
        let (character, length) = escape(bytes.get(read..end).unwrap_or_default())?;
        let mut buffer = [0; 4];
        let encoded = character.encode_utf8(&mut buffer).as_bytes();
        let place = bytes.get_mut(written..written + encoded.len());
        place.ok_or(NoText::NoString)?.copy_from_slice(encoded);
        read += length;
        written += encoded.len();
    }
    bytes.truncate(written);
    String::from_utf8(bytes).map_err(|_not_utf8| NoText::NoString)
}

/// The character that an escape at the start stands for, and the length of the escape.
fn escape(bytes: &[u8]) -> Result<(char, usize), NoText> {
    let plain = match bytes.get(1).ok_or(NoText::NoString)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return unicode_escape(bytes),
        same @ (b'"' | b'\\' | b'/') => char::from(*same),
        _ => return Err(NoText::NoString),
    };
    Ok((plain, 2))
}

fn unicode_escape(bytes: &[u8]) -> Result<(char, usize), NoText> {
    let unit = code_unit(bytes).ok_or(NoText::NoString)?;
    if let Some(character) = char::from_u32(unit) {
        return Ok((character, 6));
    }
    let low = bytes.get(6..).and_then(code_unit);
    match low.filter(|low| unit < 0xDC00 && (0xDC00..0xE000).contains(low)) {
        Some(low) => {
            let code = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            char::from_u32(code)
                .map(|character| (character, 12))
                .ok_or(NoText::LoneSurrogate(unit))
        }
        None => Err(NoText::LoneSurrogate(unit)),
    }
}

/// The number in `\uXXXX` at the start.
fn code_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.get(..6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |number, digit| {
        Some(number * 16 + char::from(*digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(literal: &str) -> Result<String, NoText> {
        let all = format!("{{\"a\":{literal},\"b\":1}}");
        text_in_place(BytesMut::from(all.as_bytes()), 5..5 + literal.len())
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_the_library_reads_it(
            text in any::<String>(), escaped in any::<bool>(),
        ) {
            let mut literal = serde_json::to_string(&text).unwrap();
            if escaped {
                let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
                literal = format!("\"{}\"", units.collect::<String>());
            }
            prop_assert_eq!(read(&literal), Ok(text));
        }

        #[test]
        fn what_the_library_refuses_is_refused(parts in prop::collection::vec(prop_oneof![
            Just("\\".to_owned()), Just("u".to_owned()), Just("n".to_owned()), Just("é".to_owned()),
            "\\\\u[dD][89abAB][0-9a-f]{2}", "\\\\u[dD][c-fC-F][0-9a-f]{2}", "\\\\u[0-9]{4}", "\\\\[\"nrtbf/x]",
        ], 0..6)) {
            let literal = format!("\"{}\"", parts.concat());
            let expected: Option<String> = serde_json::from_str(&literal).ok();
            // Only what is a JSON string by its form comes here.
            if serde_json::from_str::<&serde_json::value::RawValue>(&literal).is_ok() {
                prop_assert_eq!(read(&literal).ok(), expected);
            } else {
                drop(read(&literal));
            }
        }
    }

    #[test]
    fn the_bytes_are_not_copied() {
        let literal = format!("\"{}\\n\"", "x".repeat(100_000));
        let mut buffer = BytesMut::from(literal.as_bytes());
        let frame = buffer.split_to(literal.len());
        drop(buffer);
        let place = frame.as_ptr().addr();
        let text = text_in_place(frame, 0..literal.len()).unwrap();
        assert_eq!(text.len(), 100_001);
        assert_eq!(text.as_ptr().addr(), place);
    }

    #[test]
    fn half_a_pair_is_named() {
        assert_eq!(read(r#""a\ud83d""#), Err(NoText::LoneSurrogate(0xD83D)));
        assert_eq!(read(r#""\ude00b""#), Err(NoText::LoneSurrogate(0xDE00)));
        assert_eq!(
            read(r#""\ud83d\ud83d""#),
            Err(NoText::LoneSurrogate(0xD83D))
        );
        for none in ["\"", "1", "\"a", "[]"] {
            assert_eq!(read(none), Err(NoText::NoString), "{none}");
        }
    }
}
