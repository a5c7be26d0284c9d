//! What can be wrong with what comes over ZeroMQ, and with the files that lead there.

/// A signature that does not let a message in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// Another scheme than ours.
    #[error(
        "signature_scheme {scheme:?} is not known; Warmcell signs with \"hmac-sha256\" only, Jupyter's default"
    )]
    Scheme {
        /// The beginning of the name.
        scheme: String,
    },
    /// A key that the scheme cannot use.
    #[error("the key of the connection cannot be used for hmac-sha256")]
    Key,
    /// Not what a signature looks like.
    #[error("a signature of {length} bytes that is not 64 lower-case hexadecimal digits")]
    Form {
        /// Its length, in bytes.
        length: usize,
    },
    /// The signature of something else, or made with another key.
    #[error("a signature that does not fit the message: another key, or a forgery")]
    Wrong,
    /// The same message a second time.
    #[error("a message that has come before: a replay")]
    Replayed,
}

/// Frames that are no message of Jupyter's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MultipartError {
    /// Nothing separates the identities from the message.
    #[error("a message of {frames} frames without the delimiter <IDS|MSG>")]
    NoDelimiter {
        /// How many frames it has.
        frames: usize,
    },
    /// More identities than any route has.
    #[error("a message with {identities} identities (at most {limit})")]
    Identities {
        /// Their number.
        identities: usize,
        /// The most there may be.
        limit: usize,
    },
    /// Behind the delimiter there is less than a message.
    #[error("a message of {parts} parts behind the delimiter (5 or more)")]
    TooFew {
        /// Their number.
        parts: usize,
    },
    /// More buffers than are taken.
    #[error("a message with {buffers} buffers (at most {limit})")]
    Buffers {
        /// Their number.
        buffers: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A part is longer than the limit.
    #[error("{part} of {length} bytes (at most {limit})")]
    PartTooLong {
        /// Which part.
        part: &'static str,
        /// Its length, in bytes.
        length: usize,
        /// The longest it may be.
        limit: usize,
    },
}

/// A connection file that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Longer than any connection file.
    #[error("it has {length} bytes; a connection file has less than {limit}")]
    TooLong {
        /// Its length, in bytes.
        length: usize,
        /// The longest it may be.
        limit: usize,
    },
    /// Not a JSON object.
    #[error("it is no JSON object ({reason})")]
    NotAnObject {
        /// What the JSON reader says.
        reason: String,
    },
    /// A key that cannot be done without.
    #[error("{key} is missing")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A value that cannot be used.
    #[error("{key} is {value}; {wanted}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value as JSON, shortened.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// Two sockets at one place.
    #[error("{first} and {second} are both {port}; each needs a port of its own")]
    SamePort {
        /// A key.
        first: &'static str,
        /// Another key.
        second: &'static str,
        /// The port.
        port: u32,
    },
    /// A signature scheme that is not known.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

/// A kernelspec that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelspecError {
    /// A name that Jupyter does not take.
    #[error(
        "{name:?} is no name of a kernelspec: 1 to {limit} of A-Z a-z 0-9 . _ -, and not . or .."
    )]
    Name {
        /// The name, shortened.
        name: String,
        /// The longest a name may be.
        limit: usize,
    },
    /// Longer than any `kernel.json`.
    #[error("kernel.json has {length} bytes; more than {limit} are not read")]
    TooLong {
        /// Its length, in bytes.
        length: usize,
        /// The longest it may be.
        limit: usize,
    },
    /// Not a JSON object.
    #[error("kernel.json is no JSON object ({reason})")]
    NotAnObject {
        /// What the JSON reader says.
        reason: String,
    },
    /// A value that cannot be used.
    #[error("in kernel.json {key} is {value}; {wanted}")]
    Value {
        /// The key.
        key: String,
        /// The value as JSON, shortened.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
}
