//! What can be wrong with bytes from a link.
//!
//! The texts continue the sentence "broke the protocol: ...".

use std::borrow::Cow;

/// A fault of framing. The link it came from cannot be read any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is longer than the limit.
    #[error("a frame of {length} bytes (at most {limit})")]
    TooLong {
        /// Announced or needed length of the body, in bytes.
        length: u64,
        /// The longest body that may be.
        limit: u64,
    },
    /// The frame cannot even hold its own table of offsets.
    #[error("a frame of {length} bytes, too short for a message")]
    TooShort {
        /// Announced or given length of the body, in bytes.
        length: u64,
    },
    /// The number of offsets is below six, above the limit, or more than the body can hold.
    #[error("a frame of {length} bytes that announces {count} offsets (6 to {limit})")]
    OffsetCount {
        /// The announced number.
        count: u64,
        /// The largest number that may be in any frame.
        limit: u64,
        /// Length of the body, in bytes.
        length: u64,
    },
    /// The first part does not begin where the table of offsets ends.
    #[error("the first offset is {found}, the table ends at {expected}")]
    FirstOffset {
        /// The offset in the frame.
        found: u64,
        /// What it has to be.
        expected: u64,
    },
    /// An offset is lower than the one before it, or beyond the end of the body.
    #[error("offset {index} is {found}, outside {previous} to {length}")]
    OffsetOrder {
        /// Which offset, counted from 0.
        index: u64,
        /// The offset in the frame.
        found: u64,
        /// The offset before it.
        previous: u64,
        /// Length of the body, in bytes.
        length: u64,
    },
    /// The last offset is not the end of the body.
    #[error("the last offset is {found}, the frame ends at {length}")]
    LastOffset {
        /// The offset in the frame.
        found: u64,
        /// Length of the body, in bytes.
        length: u64,
    },
    /// The channel has no name that we know.
    #[error("unknown channel '{name}'")]
    UnknownChannel {
        /// The name, cut to 32 bytes, invalid UTF-8 replaced.
        name: String,
    },
    /// A part is longer than its limit.
    #[error("{part} of {length} bytes (at most {limit})")]
    PartTooLong {
        /// Which part.
        part: &'static str,
        /// Its length, in bytes; for buffers that of all of them.
        length: u64,
        /// The greatest length that may be.
        limit: u64,
    },
}

/// A header that cannot be used: the message cannot be told from any other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Not a JSON object.
    #[error("a header that is no JSON object ({reason})")]
    NotAnObject {
        /// What the JSON reader says.
        reason: String,
    },
    /// `msg_id` or `msg_type` is missing or not a string.
    #[error("a header without a string {key}")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
}

/// A content that does not have the shape of its message type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unreadable {message}: {reason}")]
pub struct ContentError {
    /// The message type.
    pub message: Cow<'static, str>,
    /// What the JSON reader says, or which key is wrong.
    pub reason: String,
}
