//! What a kernel publishes of a cell beside its streams: values, displays, comms.
//!
//! The contents are Jupyter's own and are kept as they came, unknown keys included. Data over 1 MiB
//! travels in buffers, as JSON; the metadata says which (`warmcell: {buffers: [mime, ...]}`), and here
//! it is put back in its place.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::bundle::MimeBundle;
use super::error::ContentError;
use super::lenient::{self, or_default};
use super::message::RawMessage;

/// What is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishedKind {
    /// The value of the last expression: `execute_result`.
    Result,
    /// Something is shown: `display_data`.
    Display,
    /// What is shown under a name changes: `update_display_data`.
    Update,
    /// What a front end shows of the cell goes: `clear_output`.
    Clear,
    /// How code has failed whose cell has not come to its end: `error`.
    Error,
    /// `comm_open`.
    CommOpen,
    /// `comm_msg`.
    CommMessage,
    /// `comm_close`.
    CommClose,
}

impl PublishedKind {
    const ALL: [Self; 8] = [
        Self::Result,
        Self::Display,
        Self::Update,
        Self::Clear,
        Self::Error,
        Self::CommOpen,
        Self::CommMessage,
        Self::CommClose,
    ];

    /// The type of the message.
    pub const fn msg_type(self) -> &'static str {
        match self {
            Self::Result => "execute_result",
            Self::Display => "display_data",
            Self::Update => "update_display_data",
            Self::Clear => "clear_output",
            Self::Error => "error",
            Self::CommOpen => "comm_open",
            Self::CommMessage => "comm_msg",
            Self::CommClose => "comm_close",
        }
    }

    /// The kind of a message of that type.
    pub fn parse(msg_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.msg_type() == msg_type)
    }

    /// Whether it belongs to a comm.
    pub const fn is_comm(self) -> bool {
        matches!(self, Self::CommOpen | Self::CommMessage | Self::CommClose)
    }

    /// Whether its content is handed on as it is: it holds no data by MIME type.
    const fn is_plain(self) -> bool {
        self.is_comm() || matches!(self, Self::Error)
    }
}

/// A message of the iopub channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// What it is.
    pub kind: PublishedKind,
    /// What is shown, by MIME type; empty where nothing is.
    pub data: MimeBundle,
    /// The metadata of the message, as JSON: widgets have something there.
    pub metadata: Bytes,
    /// Binary data of a comm.
    pub buffers: Vec<Bytes>,
    /// The other keys of the content.
    rest: MimeBundle,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct About {
    #[serde(deserialize_with = "or_default")]
    warmcell: Own,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Own {
    #[serde(deserialize_with = "or_default")]
    shown: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    number: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    question: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    buffers: Vec<String>,
}

fn own(metadata: &[u8]) -> Own {
    if metadata == b"{}" {
        return Own::default();
    }
    lenient::read::<About>(metadata).map_or_else(|_| Own::default(), |about| about.warmcell)
}

/// Metadata without what is meant for us.
fn without_own(metadata: Bytes) -> Bytes {
    if own(&metadata).shown.is_none() {
        return metadata;
    }
    let read: Result<BTreeMap<String, Box<RawValue>>, _> = lenient::read(&metadata);
    let Ok(mut entries) = read else {
        return metadata;
    };
    entries.remove("warmcell");
    MimeBundle(entries).to_json().into()
}

/// The number of a display whose kernel waits until what it printed before was read.
pub fn awaited_display(metadata: &[u8]) -> Option<u64> {
    own(metadata).shown
}

/// The number with which a question between cells is interrupted.
pub fn question_number(metadata: &[u8]) -> Option<u64> {
    own(metadata).question
}

impl Published {
    /// Reads a message of that kind.
    ///
    /// # Errors
    ///
    /// If its content is no JSON object, or a buffer that holds data is no JSON.
    pub fn read(kind: PublishedKind, message: RawMessage) -> Result<Self, ContentError> {
        let fault = |reason: String| ContentError {
            message: kind.msg_type().into(),
            reason,
        };
        let mut rest: BTreeMap<String, Box<RawValue>> =
            lenient::read(&message.content).map_err(|error| fault(error.to_string()))?;
        if kind.is_plain() {
            return Ok(Self {
                kind,
                data: MimeBundle::default(),
                metadata: without_own(message.metadata),
                buffers: message.buffers,
                rest: MimeBundle(rest),
            });
        }
        let data = rest.remove("data");
        let mut data: BTreeMap<String, Box<RawValue>> = data
            .and_then(|data| lenient::raw_value(&data))
            .unwrap_or_default();
        for (mime, buffer) in own(&message.metadata)
            .buffers
            .into_iter()
            .zip(message.buffers)
        {
            let text = lenient::repair(&buffer).into_owned();
            let value = RawValue::from_string(text).map_err(|error| fault(error.to_string()))?;
            data.insert(mime, value);
        }
        Ok(Self {
            kind,
            data: MimeBundle(data),
            metadata: Bytes::from_static(b"{}"),
            buffers: Vec::new(),
            rest: MimeBundle(rest),
        })
    }

    /// Something that has a text and no other form.
    pub fn text_only(text: &str) -> Self {
        let raw = serde_json::value::to_raw_value(text).ok();
        let data = raw.map(|raw| ("text/plain".to_owned(), raw));
        Self {
            kind: PublishedKind::Display,
            data: MimeBundle(data.into_iter().collect()),
            metadata: Bytes::from_static(b"{}"),
            buffers: Vec::new(),
            rest: MimeBundle::default(),
        }
    }

    /// What stands for it in plain text, without a line end: the text of a value or display, or else
    /// its MIME types in brackets. `None` for what shows nothing, or nothing new.
    pub fn text(&self) -> Option<String> {
        let shows = matches!(self.kind, PublishedKind::Result | PublishedKind::Display);
        // A place that is filled later, under its name.
        let is_place = self.data.is_empty() && self.display_id().is_some();
        if !shows || is_place {
            return None;
        }
        Some(self.data.text_plain().unwrap_or_else(|| {
            let mimes: Vec<&str> = self.data.mimes().collect();
            format!("[{}]", mimes.join(", "))
        }))
    }

    /// Changes the texts of what is shown, whatever their form: `change` gets the JSON of each, and what
    /// it gives takes its place. Images and the like are no text.
    pub fn change_texts(&mut self, change: &mut dyn FnMut(&str) -> Option<String>) {
        self.data.change_texts(change);
        if self.kind.is_plain() {
            self.rest.change_texts(change);
        } else if let Some(metadata) = self.rest.0.remove("metadata") {
            // Not the name under which it may be changed: that has to stay the same.
            let mut only = MimeBundle(BTreeMap::from([("metadata".to_owned(), metadata)]));
            only.change_texts(change);
            self.rest.0.extend(only.0);
        }
    }

    /// The name under which a later message may change what is shown.
    pub fn display_id(&self) -> Option<String> {
        let transient: BTreeMap<String, Box<RawValue>> =
            lenient::raw_value(self.rest.0.get("transient")?)?;
        lenient::raw_value(transient.get("display_id")?)
    }

    /// How it is to be shown, as JSON, keyed as the data.
    pub fn data_metadata(&self) -> Option<&RawValue> {
        self.rest.0.get("metadata").map(AsRef::as_ref)
    }

    /// Whether what is shown goes only once there is something new.
    pub fn waits(&self) -> bool {
        let wait = self.rest.0.get("wait");
        wait.and_then(|wait| lenient::raw_value(wait))
            .unwrap_or(false)
    }

    /// The content as Jupyter has it. The number of a cell stands in it only if it is given.
    pub fn content(&self, execution_count: Option<u64>) -> String {
        let mut json = String::from("{");
        let mut put = |key: &str, value: &str| {
            if json.len() > 1 {
                json.push(',');
            }
            json.push_str(&serde_json::to_string(key).unwrap_or_default());
            json.push(':');
            json.push_str(value);
        };
        if self.kind != PublishedKind::Clear && !self.kind.is_plain() {
            put("data", &self.data.to_json());
        }
        for (key, value) in &self.rest.0 {
            if key != "execution_count" || execution_count.is_none() {
                put(key, value.get());
            }
        }
        if let Some(count) = execution_count {
            put("execution_count", &count.to_string());
        }
        json.push('}');
        json
    }

    /// About how many bytes it takes.
    pub fn len(&self) -> usize {
        let buffers: usize = self.buffers.iter().map(Bytes::len).sum();
        self.data.len_bytes() + self.rest.len_bytes() + self.metadata.len() + buffers
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A question of a cell's to whoever is at its keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequest {
    /// What to ask.
    pub prompt: String,
    /// Whether the answer is not to be seen.
    pub password: bool,
    /// Tells it from other questions of the kernel.
    pub number: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputContent {
    #[serde(deserialize_with = "or_default")]
    prompt: String,
    #[serde(deserialize_with = "or_default")]
    password: bool,
}

impl InputRequest {
    /// Reads an `input_request`.
    ///
    /// # Errors
    ///
    /// If its content is no JSON object.
    pub fn read(message: &RawMessage) -> Result<Self, ContentError> {
        let InputContent { prompt, password } =
            lenient::read(&message.content).map_err(|error| ContentError {
                message: "input_request".into(),
                reason: error.to_string(),
            })?;
        Ok(Self {
            prompt,
            password,
            number: own(&message.metadata).number.unwrap_or(0),
        })
    }

    /// The content of the `input_reply`; without a text nobody answers.
    pub fn reply(number: u64, text: Option<&str>) -> Bytes {
        let value = serde_json::to_string(&text).unwrap_or_default();
        let own = format!("{{\"number\":{number}}}");
        Bytes::from(format!("{{\"value\":{value},\"warmcell\":{own}}}"))
    }
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;
