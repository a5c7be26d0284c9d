//! Asks a background server that is not found in its folder where it is.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::ClientError;
use super::connection::peer_of;
use crate::folders::{SERVER_SOCKET, ServerAddress};

/// How long it may take to say that it lives, and then again to have its socket.
const DEADLINE: Duration = Duration::from_secs(2);
/// The longest answer.
const MOST_BYTES: u64 = 8_192;

/// A background server that lives, whether or not its socket can be found.
#[derive(Debug)]
pub(super) struct Living {
    /// `None` if as many ask already as may.
    stream: Option<UnixStream>,
    /// The number of its process, as the system knows it.
    pub(super) pid: Option<u32>,
}

impl Living {
    /// The server of a home, if it lives.
    pub(super) async fn find(address: &ServerAddress) -> Option<Self> {
        match UnixStream::connect(address.as_path()).await {
            Ok(stream) => {
                // Another user who has taken the name says nothing of our server.
                let pid = peer_of(&stream).ok()?;
                Some(Self {
                    stream: Some(stream),
                    pid,
                })
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(Self {
                stream: None,
                pid: None,
            }),
            Err(_nobody) => None,
        }
    }

    /// Where its socket is, once it has looked after it; `None` if it has ended meanwhile.
    ///
    /// # Errors
    ///
    /// If it does not answer within 2 s, or has no socket within 2 s from then.
    pub(super) async fn socket(self, folders: &[PathBuf]) -> Result<Option<PathBuf>, ClientError> {
        let usual = folders.first().map_or(Path::new(""), PathBuf::as_path);
        let silent = || ClientError::Silent {
            pid: self.pid,
            socket: usual.join(SERVER_SOCKET),
            seconds: DEADLINE.as_secs(),
            what: "",
        };
        let Some(stream) = self.stream else {
            return Err(silent());
        };
        let mut stream = BufReader::new(stream);
        match timeout(DEADLINE, stream.read_u8()).await {
            Ok(Ok(_lives)) => {}
            Ok(Err(_ended)) => return Ok(None),
            Err(_elapsed) => return Err(silent()),
        }
        let mut answer = Vec::new();
        let unfound = |reason: String| ClientError::Unfound {
            pid: self.pid,
            reason,
        };
        match timeout(DEADLINE, stream.take(MOST_BYTES).read_to_end(&mut answer)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_ended)) => return Ok(None),
            Err(_elapsed) => {
                let seconds = DEADLINE.as_secs();
                let reason = format!("it has had no socket for {seconds} s");
                return Err(unfound(reason));
            }
        }
        match answer.split_first() {
            Some((b'@', path)) => Ok(Some(std::ffi::OsString::from_vec(path.to_vec()).into())),
            Some((_, reason)) => Err(unfound(String::from_utf8_lossy(reason).into_owned())),
            None => Ok(None),
        }
    }
}
