//! Starts the background server where there is none.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;

use super::connection::{Connection, Peer};
use super::living::Living;
use super::{ClientError, Home};
use crate::folders::{FolderLock, SERVER_SOCKET, ServerLock};
use crate::process::{in_a_thread, start_server};

/// How long a server may take to start, and another client to start one.
const DEADLINE: Duration = Duration::from_secs(20);
/// How often a server that is just ending is met before that is told.
const ATTEMPTS: usize = 5;
/// The most of its last words.
const LAST_WORDS_BYTES: u64 = 4_096;
/// What a server says when its door is open.
pub const READY: &[u8] = b"ready\n";

/// Connects to the server, and starts it first if there is none. Of several who do so at once one
/// starts it, and the others find it.
pub(super) async fn connect_or_start(
    home: &Home,
    environment: fn() -> Vec<(OsString, OsString)>,
) -> Result<Connection, ClientError> {
    for _ in 0..ATTEMPTS {
        if let Some(connection) = connect(&home.folders).await? {
            return Ok(connection);
        }
        match lock(home).await? {
            Begun::Connected(connection) => return Ok(connection),
            Begun::Locked(lock) => match start(&lock, environment()).await {
                Ok(()) => {
                    let socket = lock.path().join(SERVER_SOCKET);
                    let connection = Connection::open(&socket).await;
                    return connection.map_err(|source| ClientError::Unreachable { source });
                }
                // Another has started it in another folder at the same time.
                Err(error) if Living::find(&home.address).await.is_none() => return Err(error),
                Err(_there_is_one) => {}
            },
            Begun::Lives => {}
        }
        // It lives and is not found: a second one would say that all is lost. Being asked, it looks
        // after its socket.
        if let Some(connection) = living(home).await? {
            return Ok(connection);
        }
    }
    Err(not_started("servers come and go".to_owned()))
}

enum Begun {
    Connected(Connection),
    /// There is none, and nobody else starts one.
    Locked(FolderLock),
    /// There is one that cannot be found.
    Lives,
}

/// Takes the lock on the first folder that will do, unless there is a server by then.
async fn lock(home: &Home) -> Result<Begun, ClientError> {
    let mut reasons = Vec::new();
    for folder in &home.folders {
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
        if let Some(connection) = connect(&home.folders).await? {
            lock.forget();
            return Ok(Begun::Connected(connection));
        }
        if Living::find(&home.address).await.is_some() {
            // Nobody may hold the folder while it makes its socket again.
            lock.forget();
            return Ok(Begun::Lives);
        }
        return Ok(Begun::Locked(lock));
    }
    if Living::find(&home.address).await.is_some() {
        return Ok(Begun::Lives);
    }
    Err(not_started(format!(
        "no folder for its socket ({}); set XDG_RUNTIME_DIR or HERMES_HOME to a short path on a local \
         file system that you can write to",
        reasons.join("; ")
    )))
}

/// Connects to the server, wherever it is; `None` if there is none.
pub(super) async fn found(home: &Home) -> Result<Option<Connection>, ClientError> {
    match connect(&home.folders).await? {
        Some(connection) => Ok(Some(connection)),
        None => living(home).await,
    }
}

/// Connects to a server that lives and is not found; `None` if there is none.
async fn living(home: &Home) -> Result<Option<Connection>, ClientError> {
    let Some(living) = Living::find(&home.address).await else {
        return Ok(None);
    };
    let pid = living.pid;
    let Some(socket) = living.socket(&home.folders).await? else {
        return Ok(None);
    };
    match Connection::open(&socket).await {
        Ok(connection) => Ok(Some(connection)),
        // It has just ended, or somebody has removed its socket again.
        Err(error)
            if [
                io::ErrorKind::ConnectionRefused,
                io::ErrorKind::ConnectionReset,
            ]
            .contains(&error.kind()) =>
        {
            Ok(None)
        }
        Err(error) => Err(ClientError::Unfound {
            pid,
            reason: format!("{}: {error}", socket.display()),
        }),
    }
}

/// Connects to the server that is found; `None` if none is.
async fn connect(folders: &[PathBuf]) -> Result<Option<Connection>, ClientError> {
    for folder in folders {
        let socket = folder.join(SERVER_SOCKET);
        match Connection::open(&socket).await {
            Ok(connection) => return Ok(Some(connection)),
            Err(error) => match error.kind() {
                // One that was killed leaves its socket; the next takes its place.
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                // It has been killed just now: its process is on its way out.
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::NotADirectory => {}
                _ if error.raw_os_error()
                    == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()) => {}
                io::ErrorKind::InvalidInput => {}
                // As many wait as may.
                io::ErrorKind::WouldBlock => {
                    let pid = ServerLock::holder(folder);
                    let peer = Peer { socket, pid };
                    return Err(peer.silent(Duration::ZERO, "its queue is full"));
                }
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
