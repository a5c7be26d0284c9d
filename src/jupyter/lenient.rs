//! Reads JSON that Python writes and `serde_json` refuses.
//!
//! Python's `json` writes lone surrogates as escapes (`"\ud800"`) and, unless told not to, `NaN`,
//! `Infinity` and `-Infinity`. One such value must not cost the message it is in. A message is
//! therefore repaired before it is read: once and as a whole, because a second try for each value
//! that fails would let nested values multiply the work.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Reads a JSON object, repaired if need be.
///
/// Unknown keys are skipped at any depth; a known key nested deeper than 128 levels is an error.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let text = repair(bytes);
    object(text.as_bytes())?;
    serde_json::from_str(&text)
}

/// Refuses what does not begin as an object: serde would also fill a struct from an array.
fn object(bytes: &[u8]) -> Result<(), serde_json::Error> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Ok(()),
        _ => Err(serde_json::Error::custom("expected an object")),
    }
}

/// The value in a raw piece of a message; `None` if it is of another type.
pub(super) fn raw_value<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// A string in a list whose other items may be anything.
pub(super) struct Text(pub(super) Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        // Most of what is no string is told by its first byte, without the making of an error.
        Ok(Self(if raw.get().starts_with('"') {
            raw_value(raw)
        } else {
            None
        }))
    }
}

/// For `deserialize_with`: the value, or the default where it is null or of another type.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(raw_value(raw).unwrap_or_default())
}

/// The same text with invalid UTF-8 and lone surrogate escapes as U+FFFD, and with bare NaN and
/// infinities as null. What is inside a string is never taken for a bare word, nor the other way
/// round. Anything else that is wrong stays wrong. Without a copy where nothing is to be done.
pub(super) fn repair(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    match replace_escapes_and_words(&text) {
        Some(repaired) => Cow::Owned(repaired),
        None => text,
    }
}

fn replace_escapes_and_words(text: &str) -> Option<String> {
    // Nearly every message has none of these, and a search for a word is quick.
    if !["\\u", "NaN", "Infinity"]
        .iter()
        .any(|it| text.contains(it))
    {
        return None;
    }
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    let mut in_string = false;
    // Everything of interest begins with one of these, and they are no part of a wide character.
    let next = |from: usize, in_string: bool| {
        let rest = text.as_bytes().get(from..)?;
        let found = rest.iter().position(|byte| match byte {
            b'"' => true,
            b'\\' => in_string,
            b'N' | b'I' | b'-' => !in_string,
            _ => false,
        })?;
        let at = from + found;
        Some((at, text.get(at..)?))
    };
    while let Some((found, special)) = next(at, in_string) {
        let (replacement, length) = if special.starts_with('"') {
            in_string = !in_string;
            (None, 1)
        } else if in_string {
            escape(special)
        } else {
            bare_word(special)
        };
        at = found + length;
        if let Some(replacement) = replacement {
            out.push_str(text.get(copied..found).unwrap_or_default());
            out.push_str(replacement);
            copied = at;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

/// What to write for the escape at the beginning of `text`, if not itself, and its length in bytes.
fn escape(text: &str) -> (Option<&'static str>, usize) {
    match surrogate(text) {
        Some(Surrogate::High) => match text.get(6..).and_then(surrogate) {
            Some(Surrogate::Low) => (None, 12),
            _ => (Some("\\ufffd"), 6),
        },
        Some(Surrogate::Low) => (Some("\\ufffd"), 6),
        // With the character after it, so that an escaped quote or backslash is not seen again.
        None => (None, 1 + text.chars().nth(1).map_or(0, char::len_utf8)),
    }
}

enum Surrogate {
    High,
    Low,
}

fn surrogate(text: &str) -> Option<Surrogate> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Surrogate::High),
        0xdc00..=0xdfff => Some(Surrogate::Low),
        _ => None,
    }
}

/// What to write for the bare text at the beginning of `text`, if not itself, and its length in
/// bytes.
fn bare_word(text: &str) -> (Option<&'static str>, usize) {
    for word in ["NaN", "Infinity", "-Infinity"] {
        if text.starts_with(word) {
            return (Some("null"), word.len());
        }
    }
    (None, 1)
}

#[cfg(test)]
#[path = "lenient_tests.rs"]
mod tests;
