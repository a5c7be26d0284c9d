//! What can go wrong before a kernel can be reached.

use std::io;
use std::path::PathBuf;

use crate::jupyter::ConnectionError;

/// Why a kernel cannot be reached over ZeroMQ.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The connection file cannot be read.
    #[error("the connection file {path} cannot be read ({source})")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The connection file cannot be written.
    #[error(
        "the connection file {path} cannot be made ({source}); {}", place_advice(.source)
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The connection file makes no sense.
    #[error("the connection file {path} cannot be used: {source}")]
    Connection {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ConnectionError,
    },
    /// A socket cannot listen.
    #[error("cannot listen at {endpoint} for {key} ({source}); {}", advice(.source))]
    Listen {
        /// Where.
        endpoint: String,
        /// The key of the port in the connection file.
        key: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// What to do next where a file cannot be made.
fn place_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "name a file in a folder that is there"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a file in a folder that you may write to"
        }
        io::ErrorKind::AlreadyExists => "it is a link to nowhere: name another file",
        _ => "name another file",
    }
}

/// What to do next where a socket cannot listen.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => "ip must be an address of this machine",
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "ip must name sockets in a folder that is there"
        }
        io::ErrorKind::PermissionDenied => "choose a port, or a folder, that you may use",
        _ => "choose another port",
    }
}
