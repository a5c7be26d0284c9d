//! What can be wrong with a connection that is to speak ZMTP.

/// A connection that cannot be read any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZmtpError {
    /// Something else than ZeroMQ.
    #[error("bytes that are no greeting of ZeroMQ")]
    NoGreeting,
    /// A version with other framing.
    #[error("version {major} of ZMTP; 3 or newer is spoken")]
    Version {
        /// Its first number.
        major: u8,
    },
    /// A security mechanism that is not known.
    #[error("the security mechanism {name:?}; NULL is spoken")]
    Mechanism {
        /// Its name.
        name: String,
    },
    /// A frame with flags that mean nothing.
    #[error("a frame with the flags {flags:#04x}")]
    Flags {
        /// The flags.
        flags: u8,
    },
    /// A frame that would not fit.
    #[error("a frame of {announced} bytes (at most {limit} are left)")]
    TooLong {
        /// The announced length, in bytes.
        announced: u64,
        /// What the message may still have.
        limit: usize,
    },
    /// A message of too many frames.
    #[error("a message of more than {limit} frames")]
    Frames {
        /// The most there may be.
        limit: usize,
    },
    /// A command that ends in the middle of itself.
    #[error("a command that is cut off")]
    Command,
    /// A name that is too long.
    #[error("an identity of {length} bytes (at most 255)")]
    Identity {
        /// Its length, in bytes.
        length: usize,
    },
}
