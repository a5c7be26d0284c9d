//! What can go wrong with a door.

use std::io;
use std::path::PathBuf;

use crate::process::in_words;
use crate::session::SessionError;

/// A door could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No folder will do.
    #[error(
        "no folder for the socket of a manager: {}; set XDG_RUNTIME_DIR or HERMES_HOME to a short \
         path on a local file system that you can write to",
        tried.join("; ")
    )]
    NoFolder {
        /// Each one, with the reason.
        tried: Vec<String>,
    },
    /// The socket could not be made.
    #[error("cannot make the socket {}: {source}", path.display())]
    Bind {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no address.
    #[error(
        "{:.200} is no address to listen on; give HOST:PORT (127.0.0.1:8888, [::1]:8888, localhost:0 for \
         any port)",
        format!("{address:?}")
    )]
    Address {
        /// What was given.
        address: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; name another address, or port 0 for any")]
    Listen {
        /// Which.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// Another server is there already.
    #[error("a background server runs already (process {}); `warmcell serve --stop` ends it", pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()))]
    RunsAlready {
        /// The number of its process, if it is known.
        pid: Option<u32>,
    },
    /// The manager could not be started.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// What the system did not give.
    #[error("{what}: {}", in_words(source))]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}
