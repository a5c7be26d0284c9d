//! Starts the background server where there is none.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;

use super::ClientError;
use super::connection::Connection;
use crate::folders::{FolderLock, SERVER_SOCKET};
use crate::process::{in_a_thread, start_server};

/// How long a server may take to start, and another client to start one.
const DEADLINE: Duration = Duration::from_secs(20);
/// The most of its last words.
const LAST_WORDS_BYTES: u64 = 4_096;
/// What a server says when its door is open.
pub const READY: &[u8] = b"ready\n";

/// Connects to the server, and starts it first if there is none. Of several who do so at once one
/// starts it, and the others find it.
pub(super) async fn connect_or_start(
    folders: &[PathBuf],
    environment: fn() -> Vec<(OsString, OsString)>,
) -> Result<Connection, ClientError> {
    if let Some(connection) = connect(folders).await? {
        return Ok(connection);
    }
    let mut reasons = Vec::new();
    for folder in folders {
        let path = folder.clone();
        let waiting = timeout(DEADLINE, in_a_thread(move || FolderLock::wait(&path)));
        let lock = match waiting.await {
            Ok(Ok(Ok(lock))) => lock,
            Ok(Ok(Err(error))) => {
                reasons.push(format!("{}: {error}", folder.display()));
                continue;
            }
            Ok(Err(error)) => return Err(not_started(error.to_string())),
            Err(_elapsed) => {
                let seconds = DEADLINE.as_secs();
                let reason = format!("another program has been starting it for {seconds} s");
                return Err(not_started(reason));
            }
        };
        // Somebody else may have started it meanwhile.
        if let Some(connection) = connect(folders).await? {
            return Ok(connection);
        }
        start(&lock, environment()).await?;
        let socket = folder.join(SERVER_SOCKET);
        let connection = Connection::open(&socket).await;
        return connection.map_err(|source| ClientError::Unreachable { source });
    }
    Err(not_started(format!(
        "no folder for its socket ({}); set XDG_RUNTIME_DIR or HERMES_HOME to a short path on a local \
         file system that you can write to",
        reasons.join("; ")
    )))
}

/// Connects to the server that is there; `None` if none is.
pub(super) async fn connect(folders: &[PathBuf]) -> Result<Option<Connection>, ClientError> {
    for folder in folders {
        match Connection::open(&folder.join(SERVER_SOCKET)).await {
            Ok(connection) => return Ok(Some(connection)),
            Err(error) => match error.kind() {
                // One that was killed leaves its socket; the next takes its place.
                std::io::ErrorKind::NotFound
                | std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::PermissionDenied
                | std::io::ErrorKind::NotADirectory => {}
                _ if error.raw_os_error()
                    == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()) => {}
                std::io::ErrorKind::InvalidInput => {}
                _ => return Err(ClientError::Unreachable { source: error }),
            },
        }
    }
    Ok(None)
}

/// Starts it and waits until it says that its door is open.
async fn start(
    lock: &FolderLock,
    environment: Vec<(OsString, OsString)>,
) -> Result<(), ClientError> {
    let lock = lock
        .share()
        .map_err(|error| not_started(error.to_string()))?;
    let words = start_server(vec!["serve".into(), "--started".into()], environment, lock)
        .map_err(|error| not_started(error.to_string()))?;
    let reading = in_a_thread(move || {
        let mut said = Vec::new();
        // Up to the end: it closes the pipe when it serves, or ends.
        words.take(LAST_WORDS_BYTES).read_to_end(&mut said).ok();
        said
    });
    match timeout(DEADLINE, reading).await {
        Ok(Ok(said)) if said == READY => Ok(()),
        Ok(Ok(said)) => {
            let said = String::from_utf8_lossy(&said);
            let said = said.trim();
            Err(not_started(if said.is_empty() {
                "it ended without a word".to_owned()
            } else {
                said.to_owned()
            }))
        }
        Ok(Err(error)) => Err(not_started(error.to_string())),
        Err(_elapsed) => Err(not_started(format!(
            "it was not ready within {} s",
            DEADLINE.as_secs()
        ))),
    }
}

fn not_started(reason: String) -> ClientError {
    ClientError::NotStarted { reason }
}
