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
        })
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
