//! Jupyter messages: what travels between a kernel and its manager, and how it is framed.
//!
//! - `frame`: the bytes on a link, one length and one body per message;
//! - `message`: channels, a message as uncut bytes, and the header;
//! - `content`: typed views of the contents that Warmcell itself makes or reads;
//! - `asked`: requests of front ends, and what they must hold;
//! - `published`: what a kernel shows beside its streams, and what it asks its front end;
//! - `foreign`: what kernels say that are not ours;
//! - `variables`: what a kernel lists of its variables;
//! - `plain`: the few messages that nearly every cell makes, read without detours;
//! - `lenient`: how JSON that Python wrote, and Rust would refuse, is read all the same;
//! - `connection`, `kernelspec`: the files by which kernels are found and started;
//! - `signature`, `multipart`: a message as it travels over ZeroMQ; - `zmtp`: ZeroMQ's own bytes;
//! - [`fuzzing`] and `fuzzing_wire`: what the fuzz targets do.
//!
//! Everything here is pure: bytes in, values out. The room knows no process, no socket and no
//! clock. The bytes come from code that nobody checked, so nothing here panics, recurses with the
//! depth of the input, or allocates by a number that the input announces.

mod asked;
mod bundle;
mod connection;
mod content;
mod error;
mod foreign;
mod frame;
pub mod fuzzing;
mod fuzzing_wire;
mod kernelspec;
mod lenient;
mod message;
mod multipart;
mod plain;
mod published;
mod signature;
mod variables;
mod wire_error;
mod zmtp;
mod zmtp_command;
mod zmtp_error;

pub use asked::{Asked, WantedCell, input_value};
pub use bundle::MimeBundle;
pub use connection::{Connection, Endpoint, MOST_CONNECTION_BYTES, SocketName, Transport};
pub use content::{
    CellReport, DisplayData, ErrorContent, ErrorPlace, ExecuteReply, ExecuteRequest, ExecuteResult,
    Exit, MissingModule, Names, ReplyStatus, error_line,
};
pub use error::{ContentError, FrameError, HeaderError};
pub use foreign::{Expressions, KernelInfo, StatusContent, StreamContent};
pub use frame::{FrameReader, Limits, decode_body, encode};
pub use fuzzing_wire::exercise_wire;
pub use kernelspec::{
    InterruptMode, Kernelspec, MOST_KERNELSPEC_BYTES, kernelspec_name, substitute,
};
pub use message::{Channel, Header, PROTOCOL_VERSION, RawMessage, header};
pub use multipart::{DELIMITER, Multipart, MultipartLimits, Unreadable};
pub use published::{InputRequest, Published, PublishedKind, awaited_display, question_number};
pub use signature::{SIGNATURE_SCHEME, SeenDigest, SeenDigests, Signer};
pub use variables::{Extent, VariableEntry, VariablesReply};
pub use wire_error::{ConnectionError, KernelspecError, MultipartError, SignatureError};
pub use zmtp::{ZmtpItem, ZmtpLimits, ZmtpReader, greeting, message as zmtp_message};
pub use zmtp_command::{MOST_IDENTITY_BYTES, ZmtpCommand, pong, ready};
pub use zmtp_error::ZmtpError;
