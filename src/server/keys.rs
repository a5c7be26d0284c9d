//! Reads a JSON object key by key. What it says of a fault names the key and the value as it was
//! written; memory follows the keys that are known, however much else is sent.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::Duration;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::value::RawValue;

use super::faults::OrderError;

/// Characters of a value or a key in a sentence.
const SHOWN_CHARS: usize = 80;
/// Unknown keys that are kept for a sentence.
const SHOWN_KEYS: usize = 5;
/// Names in a list, and variables in an environment.
const MOST_ITEMS: usize = 10_000;
/// The longest text of a value with a shape of its own: it is taken apart as a whole.
const MOST_SHAPE_BYTES: usize = 64 << 10;

/// An object whose keys are known.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    /// What stands before each key in a sentence.
    within: &'static str,
    values: BTreeMap<&'static str, &'a RawValue>,
}

impl<'a> Keys<'a> {
    /// Takes an object apart.
    pub(super) fn read(
        text: &'a [u8],
        what: &'static str,
        known: &'static [&'static str],
    ) -> Result<Self, OrderError> {
        Self::take_apart(text, what, "", known)
    }

    fn take_apart(
        text: &'a [u8],
        what: &'static str,
        within: &'static str,
        known: &'static [&'static str],
    ) -> Result<Self, OrderError> {
        must_be_an_object(text, what)?;
        let mut reader = serde_json::Deserializer::from_slice(text);
        let read = reader
            .deserialize_map(Reading { known })
            .and_then(|read| reader.end().map(|()| read));
        let (values, unknown, count) = read.map_err(|source| no_json(text, what, source))?;
        if count > 0 {
            let more = count - unknown.len();
            return Err(OrderError::UnknownKeys {
                what,
                unknown,
                more,
                known,
            });
        }
        Ok(Self { within, values })
    }

    /// The object in a key.
    pub(super) fn object(
        &self,
        key: &'static str,
        what: &'static str,
        within: &'static str,
        known: &'static [&'static str],
    ) -> Result<Option<Self>, OrderError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let text = value.get().as_bytes();
        Self::take_apart(text, what, within, known).map(Some)
    }

    /// What stands there; `null` is the same as nothing.
    fn value(&self, key: &str) -> Option<&'a RawValue> {
        let value = self.values.get(key).copied();
        value.filter(|value| value.get() != "null")
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.within)
    }

    fn must_be(&self, key: &str, must: &'static str) -> OrderError {
        let got = self.value(key).map_or("nothing", RawValue::get);
        OrderError::Value {
            key: self.key(key),
            must,
            got: shown(got),
        }
    }

    /// A fault of a key that has to be there.
    pub(super) fn missing(&self, key: &str, what: &'static str) -> OrderError {
        let key = self.key(key);
        OrderError::Missing { key, what }
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, OrderError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match serde_json::from_str(value.get()) {
            Ok(text) => Ok(Some(text)),
            // A text of JSON's that holds half a character.
            Err(_half) if value.get().starts_with('"') => {
                Err(self.must_be(key, "a string of whole characters (no lone surrogates)"))
            }
            Err(_other) => Err(self.must_be(key, "a string")),
        }
    }

    /// A word of several.
    pub(super) fn word<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
        must: &'static str,
    ) -> Result<Option<T>, OrderError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let word: Option<String> = serde_json::from_str(value.get()).ok();
        let found = words
            .iter()
            .find(|(name, _)| Some(*name) == word.as_deref());
        let found = found.map(|(_, meaning)| Some(*meaning));
        found.ok_or_else(|| self.must_be(key, must))
    }

    /// True or false; false if it is not there.
    pub(super) fn flag(&self, key: &str) -> Result<bool, OrderError> {
        match self.value(key).map(RawValue::get) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(self.must_be(key, "true or false")),
        }
    }

    /// A number without a fraction.
    pub(super) fn whole(
        &self,
        key: &str,
        most: u32,
        must: &'static str,
    ) -> Result<Option<u32>, OrderError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let number = value.get().parse().ok().filter(|number| *number <= most);
        number.map(Some).ok_or_else(|| self.must_be(key, must))
    }

    /// A time in seconds.
    pub(super) fn seconds<E: Display>(
        &self,
        key: &str,
        parse: fn(&str) -> Result<Duration, E>,
    ) -> Result<Option<f64>, OrderError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let read = parse(value.get()).or_else(|_fault| parse(&shown(value.get())));
        read.map(|time| Some(time.as_secs_f64()))
            .map_err(|fault| OrderError::Number {
                key: self.key(key),
                fault: fault.to_string(),
            })
    }

    /// What has a shape of its own, which says what is wrong with it.
    pub(super) fn shape<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, OrderError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let text = value.get();
        if text.len() > MOST_SHAPE_BYTES {
            return Err(self.must_be(key, "shorter than 64 KiB"));
        }
        serde_json::from_str(text)
            .map(Some)
            .map_err(|fault| OrderError::Number {
                key: self.key(key),
                fault: without_place(&fault),
            })
    }

    /// A list of texts.
    pub(super) fn names(&self, key: &str) -> Result<Option<Vec<String>>, OrderError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let mut reader = serde_json::Deserializer::from_str(value.get());
        match reader.deserialize_any(Names) {
            Ok(Ok(names)) => Ok(Some(names)),
            Ok(Err(TooMany)) => Err(self.must_be(key, "a list of 10,000 names at most")),
            Err(_other) => Err(self.must_be(key, "a list of names")),
        }
    }

    /// Variables: an object, or a list of pairs of name and value.
    pub(super) fn environment(
        &self,
        key: &str,
    ) -> Result<Option<Vec<(String, String)>>, OrderError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        if !value.get().starts_with(['{', '[']) {
            let must = "an object of names and values, or a list of pairs";
            return Err(self.must_be(key, must));
        }
        let mut reader = serde_json::Deserializer::from_str(value.get());
        let read = reader.deserialize_any(Variables);
        // As a part of what was read it is JSON.
        let read = read.unwrap_or_else(|error| Err(error.to_string()));
        read.map(Some).map_err(|fault| OrderError::Environment {
            key: self.key(key),
            fault,
        })
    }
}

/// Whether a text may be an object, and if it is no JSON at all that is for its reader to say.
pub(super) fn must_be_an_object(text: &[u8], what: &'static str) -> Result<(), OrderError> {
    let text = text.trim_ascii_start();
    match text.first() {
        Some(b'[' | b'"' | b'0'..=b'9' | b'-' | b't' | b'f' | b'n') => {
            let beginning = text.get(..SHOWN_CHARS * 4).unwrap_or(text);
            let got = shown(&String::from_utf8_lossy(beginning));
            Err(OrderError::NoObject { what, got })
        }
        _ => Ok(()),
    }
}

/// A fault of what is no JSON.
pub(super) fn no_json(text: &[u8], what: &'static str, source: serde_json::Error) -> OrderError {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    OrderError::Json {
        what,
        has_nan: has(b"NaN") || has(b"Infinity"),
        source,
    }
}

/// A value as it was written, cut.
/// What is wrong, without its place in a text that nobody has written so.
fn without_place(fault: &serde_json::Error) -> String {
    let text = fault.to_string();
    let place = format!(" at line {} column {}", fault.line(), fault.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

fn shown(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut chars = text.chars().map(clean);
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS).collect();
    if chars.next().is_some() {
        shown.push_str("...");
    }
    shown
}

/// Reads the keys of an object: the known ones, some of the others, and how many those are.
struct Reading {
    known: &'static [&'static str],
}

type Read<'de> = (BTreeMap<&'static str, &'de RawValue>, Vec<String>, usize);

impl<'de> Visitor<'de> for Reading {
    type Value = Read<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = BTreeMap::new();
        let (mut unknown, mut count) = (Vec::new(), 0);
        while let Some(key) = map.next_key_seed(Key { known: self.known })? {
            let of_key = |key: &str, error: A::Error| A::Error::custom(format!("`{key}`: {error}"));
            match key {
                Ok(key) => {
                    let value = map.next_value().map_err(|error| of_key(key, error))?;
                    if values.insert(key, value).is_some() {
                        return Err(A::Error::custom(format!("`{key}` is given twice")));
                    }
                }
                Err(other) => {
                    let ignored = map.next_value::<IgnoredAny>();
                    ignored.map_err(|error| of_key(&other, error))?;
                    count += 1;
                    if unknown.len() < SHOWN_KEYS {
                        unknown.push(other);
                    }
                }
            }
        }
        Ok((values, unknown, count))
    }
}

/// Reads one key: a known one, or what another begins with.
struct Key {
    known: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Result<&'static str, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Result<&'static str, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let known = self.known.iter().find(|known| **known == name);
        Ok(known.copied().ok_or_else(|| shown(name)))
    }
}

struct TooMany;

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Result<Vec<String>, TooMany>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            if names.len() == MOST_ITEMS {
                return Ok(Err(TooMany));
            }
            names.push(name);
        }
        Ok(Ok(names))
    }
}

/// Reads variables; a fault of them is no fault of JSON, and is told without the values.
struct Variables;

impl<'de> Visitor<'de> for Variables {
    type Value = Result<Vec<(String, String)>, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and values, or a list of pairs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut variables = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let value: &RawValue = map.next_value()?;
            let Ok(value) = serde_json::from_str(value.get()) else {
                let name = shown(&name);
                return Ok(Err(format!("the value of {name} must be a string")));
            };
            if variables.len() == MOST_ITEMS {
                return Ok(Err(too_many()));
            }
            variables.push((name, value));
        }
        Ok(Ok(variables))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut variables = Vec::new();
        while let Some(pair) = list.next_element::<&RawValue>()? {
            let Ok(pair) = serde_json::from_str(pair.get()) else {
                let number = variables.len() + 1;
                return Ok(Err(format!(
                    "item {number} must be a pair of strings, name and value"
                )));
            };
            if variables.len() == MOST_ITEMS {
                return Ok(Err(too_many()));
            }
            variables.push(pair);
        }
        Ok(Ok(variables))
    }
}

fn too_many() -> String {
    "there are more than 10,000 variables".to_owned()
}
