//! One value in several forms.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::lenient::{self, or_default};

/// One value in several forms, by MIME type. The forms are kept as they came, apart from what JSON
/// cannot carry.
#[derive(Debug, Clone, Default)]
pub struct MimeBundle(pub(super) BTreeMap<String, Box<RawValue>>);

impl PartialEq for MimeBundle {
    fn eq(&self, other: &Self) -> bool {
        let texts = |bundle: &'_ Self| -> Vec<(String, String)> {
            let pairs = bundle.0.iter();
            pairs
                .map(|(key, raw)| (key.clone(), raw.get().to_owned()))
                .collect()
        };
        texts(self) == texts(other)
    }
}

impl Eq for MimeBundle {}

impl MimeBundle {
    /// The JSON text of one form.
    pub fn raw(&self, mime: &str) -> Option<&str> {
        self.0.get(mime).map(|raw| raw.get())
    }

    /// One form as text: a string, or the lines of a list put together. `None` if it is neither.
    pub fn text(&self, mime: &str) -> Option<String> {
        let raw = self.0.get(mime)?;
        lenient::raw_value(raw).or_else(|| {
            let lines: Vec<String> = lenient::raw_value(raw)?;
            Some(lines.concat())
        })
    }

    /// The plain text.
    pub fn text_plain(&self) -> Option<String> {
        self.text("text/plain")
    }

    /// The MIME types, in order of their names.
    pub fn mimes(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Changes the forms that are text, as JSON: `change` gets that of each, and what it gives takes its
    /// place. What would be no JSON any more becomes a string.
    pub(super) fn change_texts(&mut self, change: &mut dyn FnMut(&str) -> Option<String>) {
        for (mime, raw) in &mut self.0 {
            if is_binary(mime) {
                continue;
            }
            let Some(changed) = change(raw.get()) else {
                continue;
            };
            let changed = RawValue::from_string(changed.clone())
                .or_else(|_| serde_json::value::to_raw_value(&changed));
            if let Ok(changed) = changed {
                *raw = changed;
            }
        }
    }

    /// All of them as one JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_else(|_| "{}".to_owned())
    }

    /// Bytes that they take, without the punctuation.
    pub fn len_bytes(&self) -> usize {
        let pairs = self.0.iter();
        pairs.map(|(key, raw)| key.len() + raw.get().len()).sum()
    }

    /// Whether there is no form at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a form is no text but the base64 of something.
fn is_binary(mime: &str) -> bool {
    let kinds = ["image/", "audio/", "video/", "font/"];
    (kinds.iter().any(|kind| mime.starts_with(kind)) && !mime.ends_with("+xml"))
        || matches!(mime, "application/pdf" | "application/octet-stream")
}

impl<'de> Deserialize<'de> for MimeBundle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer).map(Self)
    }
}
