//! Channels, messages as bytes, and headers (Jupyter messaging protocol 5.4).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::error::HeaderError;
use super::lenient::{self, or_default};
use super::plain;

/// The version of the messaging protocol that our headers name.
pub const PROTOCOL_VERSION: &str = "5.4";

/// Which of a kernel's streams a message belongs to.
///
/// The first four are Jupyter's. The others exist only where one stream carries everything, as with
/// a kernel behind `ssh` or `docker exec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Channel {
    /// Requests and their replies.
    Shell,
    /// Requests that must not wait behind a cell.
    Control,
    /// Questions of the kernel to the front end, and the answers.
    Stdin,
    /// What the kernel publishes.
    Iopub,
    /// Raw standard output of the kernel.
    Stdout,
    /// Raw standard error of the kernel.
    Stderr,
    /// Tool frames.
    Tool,
    /// Start, exit and signals of the kernel process.
    Process,
}

impl Channel {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Shell,
        Self::Control,
        Self::Stdin,
        Self::Iopub,
        Self::Stdout,
        Self::Stderr,
        Self::Tool,
        Self::Process,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::Iopub => "iopub",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Tool => "tool",
            Self::Process => "process",
        }
    }

    /// The channel of that name; names are exact.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|channel| channel.as_str() == name)
    }
}

/// One message, as the bytes that came or will go. Nothing is parsed.
///
/// The parts of a received message share one allocation, the body of its frame: keep a message only
/// as long as it is needed, or copy out what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMessage {
    /// Where it belongs.
    pub channel: Channel,
    /// JSON object; see [`RawMessage::parsed_header`].
    pub header: Bytes,
    /// JSON object; in a reply the request's header, byte for byte, and `{}` where there is none.
    pub parent_header: Bytes,
    /// JSON object.
    pub metadata: Bytes,
    /// JSON object; its shape depends on the message type.
    pub content: Bytes,
    /// Binary attachments.
    pub buffers: Vec<Bytes>,
}

impl RawMessage {
    /// A message without parent, metadata and buffers.
    pub fn new(channel: Channel, header: Bytes, content: Bytes) -> Self {
        Self {
            channel,
            header,
            parent_header: Bytes::from_static(b"{}"),
            metadata: Bytes::from_static(b"{}"),
            content,
            buffers: Vec::new(),
        }
    }

    /// The typed view of the header.
    ///
    /// # Errors
    ///
    /// If the header is no JSON object with the strings `msg_id` and `msg_type`.
    pub fn parsed_header(&self) -> Result<Header, HeaderError> {
        Header::parse(&self.header)
    }

    /// Whether this message was caused by the one with that header (compared as bytes).
    pub fn is_child_of(&self, request_header: &[u8]) -> bool {
        self.parent_header.as_ref() == request_header
    }
}

/// The keys of a header that something here looks at. Other keys stay in the raw bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Unique per message.
    pub msg_id: String,
    /// What the content is.
    pub msg_type: String,
    /// The sender's session; `None` where the kernel leaves it to the manager to fill in.
    pub session: Option<String>,
    /// Who sent it.
    pub username: Option<String>,
    /// When it was made, ISO 8601, as the sender wrote it.
    pub date: Option<String>,
    /// The sender's protocol version.
    pub version: Option<String>,
}

#[derive(Deserialize)]
struct AnyHeader {
    #[serde(default, deserialize_with = "or_default")]
    msg_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    msg_type: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    session: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    username: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    date: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    version: Option<String>,
}

impl Header {
    /// Reads a header.
    ///
    /// Whatever is odd in keys other than `msg_id` and `msg_type` (depth, NaN, lone surrogates,
    /// invalid UTF-8, another type) does not spoil it; an optional key that is not a string counts
    /// as missing.
    ///
    /// # Errors
    ///
    /// If it is no JSON object with the strings `msg_id` and `msg_type`.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        if let Some(header) = plain::header(bytes) {
            return Ok(header);
        }
        let any: AnyHeader = lenient::read(bytes).map_err(|error| HeaderError::NotAnObject {
            reason: error.to_string(),
        })?;
        Ok(Self {
            msg_id: any
                .msg_id
                .ok_or(HeaderError::MissingKey { key: "msg_id" })?,
            msg_type: any
                .msg_type
                .ok_or(HeaderError::MissingKey { key: "msg_type" })?,
            session: any.session,
            username: any.username,
            date: any.date,
            version: any.version,
        })
    }
}

/// A full header. `date` is ISO 8601 with a zone; the ids are the caller's.
pub fn header(msg_id: &str, msg_type: &str, session: &str, date: &str) -> Bytes {
    let header = FullHeader {
        msg_id,
        msg_type,
        session,
        username: "warmcell",
        date,
        version: PROTOCOL_VERSION,
    };
    // Strings alone cannot fail to be written.
    Bytes::from(serde_json::to_vec(&header).unwrap_or_default())
}

#[derive(Serialize)]
struct FullHeader<'a> {
    msg_id: &'a str,
    msg_type: &'a str,
    session: &'a str,
    username: &'a str,
    date: &'a str,
    version: &'a str,
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
