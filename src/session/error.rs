//! What can go wrong with sessions.

use super::NameError;
use crate::config::CallerError;
use crate::environment::CredentialError;
use crate::execution::ErrorClass;
use crate::folders::FolderError;
use crate::process::ProcessError;
use crate::python_source::StageError;

/// A manager or a session could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The name will not do.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A session cannot be opened for such a caller.
    #[error(transparent)]
    Caller(#[from] CallerError),
    /// A caller has named a variable that never passes.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// No folder for sockets.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The Python half could not be unpacked.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The socket for tool calls could not be bound.
    #[error("cannot bind the socket for tool calls: {source}")]
    ToolSocket {
        /// Why not.
        source: std::io::Error,
    },
    /// What a manager needs of the system could not be had.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl SessionError {
    /// Its kind, as in a result.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Name(_) | Self::Caller(_) | Self::Credential(_) => ErrorClass::Usage,
            _ => ErrorClass::Unavailable,
        }
    }
}
