//! Reads JSON that Python writes and `serde_json` refuses.
//!
//! Python's `json` writes lone surrogates as escapes (`"\ud800"`) and, unless told not to, `NaN`,
//! `Infinity` and `-Infinity`. One such value must not cost the message it is in. The bytes are
//! first read as they are; only if that fails are they repaired and read again.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Reads a JSON object, repairing it if need be.
///
/// Unknown keys are skipped at any depth; a known key nested deeper than 128 levels is an error.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    if let Ok(value) = object(bytes).and_then(|()| serde_json::from_slice(bytes)) {
        return Ok(value);
    }
    let repaired = repair(bytes);
    object(repaired.as_bytes())?;
    serde_json::from_str(&repaired)
}

/// Refuses what does not begin as an object: serde would also fill a struct from an array.
fn object(bytes: &[u8]) -> Result<(), serde_json::Error> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Ok(()),
        _ => Err(serde_json::Error::custom("expected an object")),
    }
}

/// The value in a raw piece of JSON, repaired if need be; `None` if it is of another type.
pub(super) fn raw_value<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    if let Ok(value) = serde_json::from_str(raw.get()) {
        return Some(value);
    }
    serde_json::from_str(&repair(raw.get().as_bytes())).ok()
}

/// A string in a list whose other items may be anything.
pub(super) struct Text(pub(super) Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer).map(Self)
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
/// round. Anything else that is wrong stays wrong.
pub(super) fn repair(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut rest: &str = &text;
    let mut in_string = false;
    // Everything of interest begins with one of these; what lies between is copied whole.
    while let Some(at) = rest.find(|c| match c {
        '"' => true,
        '\\' => in_string,
        'N' | 'I' | '-' => !in_string,
        _ => false,
    }) {
        let (before, special) = rest.split_at(at);
        out.push_str(before);
        let (written, length) = if special.starts_with('"') {
            in_string = !in_string;
            ("\"", 1)
        } else if in_string {
            escape(special)
        } else {
            bare_word(special)
        };
        out.push_str(written);
        rest = special.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// What to write for the escape at the beginning of `text`, and how many bytes it has.
fn escape(text: &str) -> (&str, usize) {
    let whole = |length: usize| (text.get(..length).unwrap_or(text), length.min(text.len()));
    match surrogate(text) {
        Some(Surrogate::High) => match text.get(6..).and_then(surrogate) {
            Some(Surrogate::Low) => whole(12),
            _ => ("\\ufffd", 6),
        },
        Some(Surrogate::Low) => ("\\ufffd", 6),
        // Two bytes, so that an escaped quote or backslash is not seen again. The second
        // character of a broken escape may be a wide one.
        None => {
            let second = text.chars().nth(1).map_or(0, char::len_utf8);
            whole(1 + second)
        }
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

/// What to write for the bare text at the beginning of `text`, and how many bytes it has.
fn bare_word(text: &str) -> (&str, usize) {
    for word in ["NaN", "Infinity", "-Infinity"] {
        if text.starts_with(word) {
            return ("null", word.len());
        }
    }
    (text.get(..1).unwrap_or(text), 1)
}

#[cfg(test)]
#[path = "lenient_tests.rs"]
mod tests;
