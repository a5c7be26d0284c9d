//! The tool socket of one session: code in cells connects here and asks.
//!
//! Whoever connects must be the same user, hold the session's token and descend from the session's
//! kernel. Connections are served side by side, the calls of one connection in turn. A frame that
//! makes no sense fails that call only.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::authority::no_active_cell;
use super::budget::RequestBudget;
use super::frame::{self, Connection, Frame, Hello, Request};
use super::{Arguments, Authority, Tool, ToolContext, ToolFailure, ToolResult, ToolTable};
use crate::ids::random_hex;
use crate::process::is_descendant;

/// Connections that are open at once; more wait. Threads and children keep theirs for as long as they
/// live, so there must be many more than calls.
const MAX_CONNECTIONS: usize = 1_024;
/// Calls that are made at once; more wait.
const MAX_CALLS: usize = 64;
/// How long to wait for a descriptor when none is left and no connection ends.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);
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
}

#[derive(Debug)]
struct Shared {
    settings: ToolSettings,
    token: String,
    kernel: AtomicU32,
    authority: Mutex<Option<Arc<Authority>>>,
    calls: Semaphore,
    budget: Arc<RequestBudget>,
}

/// The socket of one session. Dropping it closes all connections and removes the socket.
#[derive(Debug)]
pub struct ToolServer {
    shared: Arc<Shared>,
    path: PathBuf,
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
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let shared = Arc::new(Shared {
            settings,
            token: random_hex(32),
            kernel: AtomicU32::new(0),
            authority: Mutex::default(),
            calls: Semaphore::new(MAX_CALLS),
            budget: RequestBudget::new(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, path, task })
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
    fn authority(&self) -> MutexGuard<'_, Option<Arc<Authority>>> {
        self.authority
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        // Those that have ended are forgotten; the set never holds more than the places.
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
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
                // Usually no descriptors are left. Nothing tells when there is one again, except
                // the end of a connection of our own.
                tracing::warn!(%error, "a tool connection was not accepted");
                drop(place);
                if connections.is_empty() {
                    tokio::time::sleep(DESCRIPTOR_PAUSE).await;
                } else {
                    drop(timeout(DESCRIPTOR_PAUSE, connections.join_next()).await);
                }
            }
        }
    }
}

async fn serve(stream: UnixStream, shared: &Shared) -> io::Result<()> {
    let mut connection = Connection::new(stream, &shared.budget);
    match timeout(HELLO_DEADLINE, connection.read()).await {
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
    while let Some((frame, charge)) = connection.read().await? {
        let reply = match frame {
            Frame::Whole(bytes) => match Request::read(&bytes) {
                Ok(request) => {
                    let call = Call::of(&request, shared);
                    drop(bytes);
                    match call {
                        Ok(call) => call.make(shared, &mut connection).await,
                        Err(refusal) => Reply::Says(refusal),
                    }
                }
                Err((id, sentence)) => Reply::Says(said(id, ToolFailure::usage(sentence))),
            },
            Frame::TooLong(bytes) => {
                let sentence = format!("a request of {bytes} bytes; the limit is 64 MiB");
                Reply::Says(said(None, ToolFailure::usage(sentence)))
            }
            Frame::NoRoom => {
                let sentence = "too many long requests are on their way; try again when some of \
                                them are done";
                Reply::Says(said(None, ToolFailure::new("limit", sentence)))
            }
        };
        drop(charge);
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

/// A reply that only says what is wrong.
fn said(id: Option<u64>, failure: ToolFailure) -> Vec<u8> {
    let mut result = ToolResult::new();
    failure.add_to(&mut result);
    frame::encode(id, &result).unwrap_or_default()
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

/// What a request is answered with.
enum Reply<'a> {
    /// A frame that says no.
    Says(Vec<u8>),
    /// A frame with the result of a call.
    Made {
        frame: Vec<u8>,
        authority: Arc<Authority>,
        place: SemaphorePermit<'a>,
    },
    /// The caller is gone.
    Nobody,
}

/// A call that its cell may make, as far as can be seen before it is counted.
struct Call {
    id: u64,
    tool: Arc<dyn Tool>,
    authority: Arc<Authority>,
    arguments: Result<Arguments, ToolFailure>,
    cwd: Option<PathBuf>,
}

impl Call {
    /// Finds out what is asked for, and whose cell asks; otherwise the reply that refuses it.
    fn of(request: &Request<'_>, shared: &Shared) -> Result<Self, Vec<u8>> {
        let id = Some(request.id);
        let table = &shared.settings.table;
        let authority = shared.authority().clone();
        let Some(tool) = table.find(&request.tool) else {
            let grant = authority.map(|authority| authority.terms().grant.clone());
            let callable = grant.unwrap_or_default().in_words(table);
            let name: String = request.tool.chars().take(100).collect();
            let sentence = format!("'{name}' cannot be called from a cell; {callable}");
            return Err(said(id, ToolFailure::refused(sentence)));
        };
        let spec = tool.spec();
        let refused = |failure: ToolFailure| {
            Err(frame::encode(id, &failure.into_result(spec)).unwrap_or_default())
        };
        let of_this_cell = |authority: &Arc<Authority>| authority.terms().cell == request.cell;
        let Some(authority) = authority.filter(of_this_cell) else {
            return refused(no_active_cell(request.cell));
        };
        let arguments = Arguments::read(spec.name, request.args.map(RawValue::get));
        // A keyword that is refused costs nothing, as any refusal.
        if let Ok(arguments) = &arguments
            && let Err(failure) = arguments.check_names(spec)
            && failure.class == "refused"
        {
            return refused(failure);
        }
        Ok(Self {
            id: request.id,
            tool: Arc::clone(tool),
            authority,
            arguments,
            cwd: request.directory(),
        })
    }

    /// Makes it when there is a place, unless its cell ends or its caller goes away before.
    async fn make<'a>(self, shared: &'a Shared, connection: &mut Connection) -> Reply<'a> {
        let Self {
            id,
            tool,
            authority,
            arguments,
            cwd,
        } = self;
        let spec = tool.spec();
        let reply = |result: ToolResult| frame::encode(Some(id), &result).unwrap_or_default();
        let place = tokio::select! {
            biased;
            place = shared.calls.acquire() => place.ok(),
            () = authority.cancelled().cancelled() => None,
            () = connection.closed() => return Reply::Nobody,
        };
        let Some(place) = place else {
            let failure = no_active_cell(authority.terms().cell);
            return Reply::Says(reply(failure.into_result(spec)));
        };
        let call = match authority.dispatch(spec.name, &shared.settings.table) {
            Ok(call) => call,
            Err(failure) => return Reply::Says(reply(failure.into_result(spec))),
        };
        let terms = authority.terms();
        let context = ToolContext {
            cwd,
            agent_home: shared.settings.agent_home.clone(),
            user_home: shared.settings.user_home.clone(),
            deadline: terms.deadline,
            cancelled: authority.cancelled().clone(),
            jobs: Arc::clone(&terms.jobs),
            environment: Arc::clone(&terms.environment),
            terminal_timeout: shared.settings.terminal_timeout,
        };
        // Whatever a tool started ends when its future is dropped.
        let mut result = match arguments {
            Err(failure) => failure.into_result(spec),
            Ok(arguments) => tokio::select! {
                biased;
                result = tool.call(arguments, &context) => result,
                () = authority.cancelled().cancelled() => {
                    ToolFailure::new("interrupted", "the cell has ended").into_result(spec)
                }
                () = connection.closed() => return Reply::Nobody,
            },
        };
        let frame = frame::encode(Some(id), &result).unwrap_or_else(|| {
            result = frame::too_long(&result);
            reply(result.clone())
        });
        call.finished(!result.contains_key("error"));
        Reply::Made {
            frame,
            authority,
            place,
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
