//! Jupyter messages: what travels between a kernel and its manager, and how it is framed.
//!
//! - `frame`: the bytes on a link, one length and one body per message;
//! - `message`: channels, a message as uncut bytes, and the header;
//! - `content`: typed views of the contents that Warmcell itself makes or reads;
//! - `asked`: requests of front ends, and what they must hold;
//! - `variables`: what a kernel lists of its variables;
//! - `plain`: the few messages that nearly every cell makes, read without detours;
//! - `lenient`: how JSON that Python wrote, and Rust would refuse, is read all the same;
//! - [`fuzzing`]: what the fuzz target does.
//!
//! Everything here is pure: bytes in, values out. The room knows no process, no socket and no
//! clock. The bytes come from code that nobody checked, so nothing here panics, recurses with the
//! depth of the input, or allocates by a number that the input announces.

mod asked;
mod content;
mod error;
mod frame;
pub mod fuzzing;
mod lenient;
mod message;
mod plain;
mod variables;

pub use asked::{Asked, WantedCell};
pub use content::{
    CellReport, DisplayData, ErrorContent, ErrorPlace, ExecuteReply, ExecuteRequest, ExecuteResult,
    Exit, MimeBundle, Names, ReplyStatus,
};
pub use error::{ContentError, FrameError, HeaderError};
pub use frame::{FrameReader, Limits, decode_body, encode};
pub use message::{Channel, Header, PROTOCOL_VERSION, RawMessage, header};
pub use variables::{Extent, VariableEntry, VariablesReply};
