//! The tool socket of one session: code in cells connects here and asks.
//!
//! Whoever connects must be the same user, hold the session's token and descend from the session's
//! kernel. Connections are served side by side, the calls of one connection in turn. A frame that
//! makes no sense fails that call only.

use std::fs;
use std::future::pending;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::budget::RequestBudget;
use super::call::{Call, Reply, said};
use super::frame::{Connection, Frame, Hello};
use super::{Authority, ToolFailure, ToolSpec, ToolTable};
use crate::folders::OwnFolder;
use crate::ids::random_hex;
use crate::process::{is_descendant, until_worth_another_try};

/// Connections that are open at once; more wait. Threads and children keep theirs for as long as they
/// live, so there must be many more than calls.
const MAX_CONNECTIONS: usize = 1_024;
/// Calls that are made at once; more wait.
const MAX_CALLS: usize = 64;
/// A request of more bytes is read beside the runtime.
const LONG_REQUEST: usize = 1 << 20;
/// How long a connection may take to say who it is.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// What the tools of a manager need to know.
#[derive(Debug, Clone)]
pub struct ToolSettings {
    /// The tools.
    pub table: ToolTable,
    /// The home of agent settings.
    pub agent_home: PathBuf,
    /// The user's home.
    pub user_home: Option<PathBuf>,
    /// The limit of one `terminal` call.
    pub terminal_timeout: Duration,
    /// What the long requests of all its sessions may take together.
    pub requests: Arc<RequestBudget>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: ToolSettings,
    token: String,
    kernel: AtomicU32,
    authority: Mutex<Option<Arc<Authority>>>,
    pub(super) calls: Semaphore,
}

/// The socket of one session. Dropping it closes all connections and removes the socket.
#[derive(Debug)]
pub struct ToolServer {
    shared: Arc<Shared>,
    path: PathBuf,
    /// Device and number of the socket that listens.
    identity: Mutex<(u64, u64)>,
    /// Takes a listener in the place of the one before.
    fresh: mpsc::Sender<UnixListener>,
    task: tokio::task::JoinHandle<()>,
}

impl ToolServer {
    /// Binds a socket in a private folder.
    ///
    /// # Errors
    ///
    /// If it cannot be bound.
    pub fn bind(folder: &Path, settings: ToolSettings) -> io::Result<Self> {
        let path = folder.join(format!("t-{}.sock", random_hex(4)));
        let (listener, identity) = bind(&path)?;
        let shared = Arc::new(Shared {
            settings,
            token: random_hex(32),
            kernel: AtomicU32::new(0),
            authority: Mutex::default(),
            calls: Semaphore::new(MAX_CALLS),
        });
        let (fresh, next) = mpsc::channel(1);
        let task = tokio::spawn(accept(listener, next, Arc::clone(&shared)).in_current_span());
        Ok(Self {
            shared,
            path,
            identity: Mutex::new(identity),
            fresh,
            task,
        })
    }

    /// Has the socket come back if it, or its folder, was removed: kernels know it by this path.
    /// Connections that are open go on. Blocks for one system call if it stands, for a few if not.
    pub fn stand(&self, folder: &OwnFolder) {
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if is_there(&self.path).is_ok_and(|found| found == *identity) {
            return;
        }
        // Whatever else bears the name now is not ours.
        drop(fs::remove_file(&self.path));
        let bound = folder.stand().and_then(|()| bind(&self.path));
        let replaced = bound.and_then(|(listener, found)| {
            *identity = found;
            self.fresh.try_send(listener).map_err(io::Error::other)
        });
        match replaced {
            Ok(()) => tracing::warn!("the socket of a session's tools was gone and is there again"),
            Err(error) => tracing::warn!(%error, "a session's tools cannot be reached"),
        }
    }

    /// What a kernel must know to connect.
    pub fn variables(&self) -> Vec<(String, String)> {
        vec![
            (
                "HERMES_RPC_SOCKET".to_owned(),
                self.path.display().to_string(),
            ),
            ("HERMES_RPC_TOKEN".to_owned(), self.shared.token.clone()),
        ]
    }

    /// The tools that cells may be allowed to call.
    pub fn specs(&self) -> Vec<&'static ToolSpec> {
        let tools = self.shared.settings.table.iter();
        tools.map(|tool| tool.spec()).collect()
    }

    /// From now on this process, and what descends from it, may connect.
    pub fn admit(&self, kernel: u32) {
        self.shared.kernel.store(kernel, Ordering::Release);
    }

    /// A cell begins: calls that bear its number are made under its authority.
    pub fn open(&self, authority: Arc<Authority>) {
        *self.shared.authority() = Some(authority);
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.task.abort();
        // Its folder goes with the manager; a socket that is gone already is as good.
        drop(fs::remove_file(&self.path));
    }
}

impl Shared {
    pub(super) fn authority(&self) -> MutexGuard<'_, Option<Arc<Authority>>> {
        self.authority
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Fires when the cell that runs has ended; has fired if none runs.
    fn cell(&self) -> CancellationToken {
        let authority = self.authority();
        authority.as_ref().map_or_else(
            || {
                let none = CancellationToken::new();
                none.cancel();
                none
            },
            |authority| authority.cancelled().clone(),
        )
    }
}

fn bind(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok((listener, is_there(path)?))
}

/// What bears the name: device and number.
fn is_there(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

async fn accept(
    mut listener: UnixListener,
    mut fresh: mpsc::Receiver<UnixListener>,
    shared: Arc<Shared>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        // Those that have ended are forgotten; the set never holds more than the places.
        while connections.try_join_next().is_some() {}
        let came = tokio::select! {
            came = listener.accept() => came,
            Some(next) = fresh.recv() => {
                listener = next;
                continue;
            }
        };
        match came {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    if let Err(error) = serve(stream, &shared).await {
                        tracing::debug!(%error, "a tool connection has ended");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a tool connection was not accepted");
                drop(place);
                until_worth_another_try(async {
                    if connections.join_next().await.is_none() {
                        pending::<()>().await;
                    }
                })
                .await;
            }
        }
    }
}

async fn serve(stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut connection = Connection::new(stream, &shared.settings.requests);
    match timeout(HELLO_DEADLINE, connection.read(|| shared.cell())).await {
        Ok(Ok(Some((Frame::Whole(bytes), _)))) => {
            if let Err(reason) = admitted(connection.stream(), &bytes, shared) {
                tracing::warn!(reason, "a tool connection was refused");
                let failure = ToolFailure::refused(format!("connection refused: {reason}"));
                return connection.write(&said(None, failure)).await;
            }
        }
        Ok(Ok(_)) | Err(_) => return Ok(()),
        Ok(Err(error)) => return Err(error),
    }
    connection.trust();
    while let Some((frame, room)) = connection.read(|| shared.cell()).await? {
        let reply = match frame {
            Frame::Whole(bytes) => match call(bytes, shared).await {
                Ok(call) => call.make(shared, &mut connection).await,
                Err(refusal) => Reply::Says(refusal),
            },
            Frame::TooLong(bytes) => {
                let sentence = format!("a request of {bytes} bytes; the limit is 64 MiB");
                Reply::Says(said(None, ToolFailure::usage(sentence)))
            }
            Frame::NoRoom(bytes) => {
                let sentence = format!(
                    "a request of {bytes} bytes found no room beside others before the cell ended; \
                     make long ones one after the other"
                );
                Reply::Says(said(None, ToolFailure::new("limit", sentence)))
            }
            Frame::Stalled(bytes) => {
                let sentence = format!(
                    "a request of {bytes} bytes stopped in the middle while others waited; make it \
                     again"
                );
                Reply::Says(said(None, ToolFailure::new("limit", sentence)))
            }
        };
        drop(room);
        match reply {
            Reply::Says(frame) => connection.write(&frame).await?,
            // A place is held for as long as its caller does not read, and at most to the end of
            // the cell: callers that never read cannot take them all for good.
            Reply::Made {
                frame,
                authority,
                place,
            } => {
                tokio::select! {
                    biased;
                    written = connection.write(&frame) => written?,
                    () = authority.cancelled().cancelled() => return Ok(()),
                }
                drop(place);
            }
            Reply::Nobody => return Ok(()),
        }
    }
    Ok(())
}

/// The call that a request asks for, or the reply that refuses it.
async fn call(bytes: BytesMut, shared: &Arc<Shared>) -> Result<Call, Vec<u8>> {
    if bytes.len() <= LONG_REQUEST {
        return Call::read(bytes, shared);
    }
    // To read this much would hold the runtime up.
    let shared = Arc::clone(shared);
    let reading = tokio::task::spawn_blocking(move || Call::read(bytes, &shared));
    reading.await.unwrap_or_else(|error| {
        let sentence = format!("the request could not be read ({error}); try again");
        Err(said(None, ToolFailure::failed(sentence)))
    })
}

/// Whether the other end may call tools of this session.
fn admitted(stream: &UnixStream, hello: &[u8], shared: &Shared) -> Result<(), &'static str> {
    let hello: Hello = serde_json::from_slice(hello).map_err(|_no_hello| "no hello")?;
    if hello.hello != 1 {
        return Err("another version of the protocol");
    }
    if !same(hello.token.as_bytes(), shared.token.as_bytes()) {
        return Err("wrong token");
    }
    let peer = stream.peer_cred().map_err(|_unknown| "unknown peer")?;
    if peer.uid() != rustix::process::getuid().as_raw() {
        return Err("another user");
    }
    let pid = peer
        .pid()
        .and_then(|pid| u32::try_from(pid).ok())
        .ok_or("unknown peer")?;
    if !is_descendant(pid, shared.kernel.load(Ordering::Acquire)) {
        return Err("the process does not belong to this session's kernel");
    }
    Ok(())
}

/// Compares in a time that does not tell where they differ.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .fold(0, |differ, (left, right)| differ | (left ^ right))
            == 0
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
