//! A message on ZeroMQ: identities, `<IDS|MSG>`, a signature, four JSON parts, buffers.
//!
//! The parts stay the bytes that came. The signature is looked at before anything else is.

use bytes::Bytes;

use super::message::{Channel, RawMessage};
use super::signature::{SeenDigest, Signer};
use super::wire_error::{MultipartError, SignatureError};

/// What separates the identities from the message.
pub const DELIMITER: &[u8] = b"<IDS|MSG>";
/// The signature and the four JSON parts.
const LEAST_PARTS: usize = 5;
/// Identities that a message may have: each relay on its way adds one.
const MOST_IDENTITIES: usize = 16;

/// How large the parts of a message may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultipartLimits {
    /// Header and parent header each, in bytes.
    pub header: usize,
    /// Metadata, in bytes.
    pub metadata: usize,
    /// The content, in bytes.
    pub content: usize,
    /// The number of buffers.
    pub buffers: usize,
}

impl MultipartLimits {
    /// What a kernel takes from a front end: a header comes back with every message that it causes.
    pub const fn from_front_end() -> Self {
        Self {
            header: 16 << 10,
            metadata: 4 << 20,
            content: 64 << 20,
            buffers: 1000,
        }
    }

    /// What is taken from a kernel: what it prints comes in messages as long as it likes.
    pub const fn from_kernel() -> Self {
        Self {
            header: 64 << 10,
            metadata: 4 << 20,
            content: 192 << 20,
            buffers: 1000,
        }
    }
}

/// A message with the way it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart {
    /// Who it came from, or goes to; on iopub the topic.
    pub identities: Vec<Bytes>,
    /// The message.
    pub message: RawMessage,
}

/// What is wrong with frames that were to be a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// They are none.
    #[error(transparent)]
    Form(#[from] MultipartError),
    /// The signature does not let it in.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

impl Multipart {
    /// Takes frames apart and looks at the signature. The digest is for
    /// [`SeenDigests`](super::SeenDigests); there is none where nothing is signed.
    ///
    /// # Errors
    ///
    /// If the frames are no message within the limits, or the signature is not theirs.
    pub fn decode(
        channel: Channel,
        mut frames: Vec<Bytes>,
        signer: &Signer,
        limits: &MultipartLimits,
    ) -> Result<(Self, Option<SeenDigest>), Unreadable> {
        let count = frames.len();
        // Looked for no farther than it may stand: identities are anybody's bytes.
        let at = frames
            .iter()
            .take(MOST_IDENTITIES + 1)
            .position(|frame| frame.as_ref() == DELIMITER);
        let Some(at) = at else {
            return Err(if count > MOST_IDENTITIES {
                MultipartError::Identities {
                    identities: count,
                    limit: MOST_IDENTITIES,
                }
            } else {
                MultipartError::NoDelimiter { frames: count }
            }
            .into());
        };
        let parts = frames.split_off(at + 1);
        // The delimiter.
        frames.pop();
        let found = parts.len();
        let mut parts = parts.into_iter();
        let few = MultipartError::TooFew { parts: found };
        let mut next = || parts.next().ok_or_else(|| few.clone());
        let signature = next()?;
        let message = RawMessage {
            channel,
            header: next()?,
            parent_header: next()?,
            metadata: next()?,
            content: next()?,
            buffers: Vec::new(),
        };
        let buffers = found.saturating_sub(LEAST_PARTS);
        if buffers > limits.buffers {
            return Err(MultipartError::Buffers {
                buffers,
                limit: limits.buffers,
            }
            .into());
        }
        for (part, bytes, limit) in [
            ("a header", &message.header, limits.header),
            ("a parent header", &message.parent_header, limits.header),
            ("metadata", &message.metadata, limits.metadata),
            ("content", &message.content, limits.content),
        ] {
            if bytes.len() > limit {
                return Err(MultipartError::PartTooLong {
                    part,
                    length: bytes.len(),
                    limit,
                }
                .into());
            }
        }
        let digest = signer.verify(&signature, signed(&message))?;
        let message = RawMessage {
            buffers: parts.collect(),
            ..message
        };
        let multipart = Self {
            identities: frames,
            message,
        };
        Ok((multipart, digest))
    }

    /// The frames, signed.
    pub fn encode(&self, signer: &Signer) -> Vec<Bytes> {
        let message = &self.message;
        let mut frames =
            Vec::with_capacity(self.identities.len() + 1 + LEAST_PARTS + message.buffers.len());
        frames.extend(self.identities.iter().cloned());
        frames.push(Bytes::from_static(DELIMITER));
        frames.push(Bytes::from(signer.sign(signed(message))));
        frames.push(message.header.clone());
        frames.push(message.parent_header.clone());
        frames.push(message.metadata.clone());
        frames.push(message.content.clone());
        frames.extend(message.buffers.iter().cloned());
        frames
    }
}

fn signed(message: &RawMessage) -> [&[u8]; 4] {
    [
        &message.header,
        &message.parent_header,
        &message.metadata,
        &message.content,
    ]
}

#[cfg(test)]
#[path = "multipart_tests.rs"]
mod tests;
