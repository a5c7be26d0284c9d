//! Messages on their way in and out, as bytes.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::jupyter::{Channel, Header, HeaderError, RawMessage};

/// The longest header: it comes back in every message that it causes.
const MOST_HEADER_BYTES: usize = 16 << 10;
/// Room that a message takes beside its bytes.
const OVERHEAD_BYTES: usize = 512;

/// A message that a client has sent.
#[derive(Debug)]
pub struct Request {
    pub(super) channel: Channel,
    /// As it was sent, byte for byte.
    pub(super) header: Bytes,
    pub(super) msg_type: String,
    pub(super) content: Bytes,
    /// A JSON object.
    pub(super) metadata: Bytes,
    pub(super) buffers: Vec<Bytes>,
}

/// Why a message cannot be answered: nobody could tell what the answer belongs to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestFault {
    /// The header is too long.
    #[error("a header of {bytes} bytes; it may have 16 KiB")]
    HeaderTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The header is not one.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The header is one that only a tolerant reader takes: it goes back into the JSON of others.
    #[error("a header that is no strict JSON")]
    NotStrict,
}

/// The id in a header.
pub(super) fn msg_id_of(header: &[u8]) -> Option<String> {
    Some(Header::parse(header).ok()?.msg_id)
}

impl Request {
    /// A message that came on a channel. What its content should be is looked at when it is answered.
    ///
    /// # Errors
    ///
    /// If the header will not do.
    pub fn new(channel: Channel, header: Bytes, content: Bytes) -> Result<Self, RequestFault> {
        if header.len() > MOST_HEADER_BYTES {
            let bytes = header.len();
            return Err(RequestFault::HeaderTooLong { bytes });
        }
        let parsed = Header::parse(&header)?;
        if serde_json::from_slice::<&RawValue>(&header).is_err() {
            return Err(RequestFault::NotStrict);
        }
        Ok(Self {
            channel,
            header,
            msg_type: parsed.msg_type,
            content,
            metadata: Bytes::from_static(b"{}"),
            buffers: Vec::new(),
        })
    }

    /// With its metadata and binary attachments; comms have some. Metadata that is no JSON object counts
    /// as none.
    #[must_use]
    pub fn with(mut self, metadata: Bytes, buffers: Vec<Bytes>) -> Self {
        let value = serde_json::from_slice::<&RawValue>(&metadata);
        if value.is_ok_and(|value| value.get().starts_with('{')) {
            self.metadata = metadata;
        }
        self.buffers = buffers;
        self
    }
}

/// A message that goes to one client or to many.
#[derive(Debug)]
pub struct Outgoing {
    /// As in its header.
    pub msg_type: &'static str,
    /// As in its header.
    pub msg_id: String,
    /// Channel, header, parent, metadata, content and buffers.
    pub message: RawMessage,
}

impl Outgoing {
    /// Bytes that it takes while it waits.
    pub(super) fn bytes(&self) -> usize {
        let RawMessage {
            channel: _,
            header,
            parent_header,
            metadata,
            content,
            buffers,
        } = &self.message;
        let parts = [header, parent_header, metadata, content];
        let bytes: usize = parts.into_iter().chain(buffers).map(Bytes::len).sum();
        bytes + OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_an_object_or_none() {
        for (text, kept) in [
            (r#"{"a":1}"#, r#"{"a":1}"#),
            ("", "{}"),
            ("[1]", "{}"),
            (r#"{"a":NaN}"#, "{}"),
        ] {
            let header = Bytes::from_static(br#"{"msg_id":"1","msg_type":"comm_msg"}"#);
            let request = Request::new(Channel::Shell, header, Bytes::new()).unwrap();
            let buffers = vec![Bytes::from_static(b"\xff")];
            let request = request.with(Bytes::from_static(text.as_bytes()), buffers.clone());
            assert_eq!(
                (request.metadata.as_ref(), request.buffers),
                (kept.as_bytes(), buffers)
            );
        }
    }

    #[test]
    fn a_header_is_kept_byte_for_byte_or_refused() {
        let header = r#"{ "msg_id":"é", "msg_type":"x", "odd": [1.50, "\ud800"]}"#;
        let read = |header: &str| {
            let header = Bytes::copy_from_slice(header.as_bytes());
            Request::new(Channel::Shell, header, Bytes::new())
        };
        let request = read(header).unwrap();
        assert_eq!(
            (request.header.as_ref(), &*request.msg_type),
            (header.as_bytes(), "x")
        );
        let long = format!(r#"{{"msg_id":"{}","msg_type":"x"}}"#, "a".repeat(20_000));
        for header in [
            "",
            "[]",
            "{}",
            "nonsense",
            r#"{"msg_id":NaN}"#,
            &long,
            r#"{"msg_id":"a","msg_type":"b","c":NaN}"#,
        ] {
            assert!(read(header).is_err(), "{header:.80}");
        }
    }
}
