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

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::authority::no_active_cell;
use super::frame::{self, Frame, Hello, Request};
use super::{Arguments, Authority, ToolContext, ToolFailure, ToolResult, ToolTable};
use crate::ids::random_hex;
use crate::process::is_descendant;

/// Connections that are served at once; more wait.
const MAX_CONNECTIONS: usize = 64;
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
                // Usually no descriptors are left; they come back when a connection ends.
                tracing::warn!(%error, "a tool connection was not accepted");
                drop(place);
                if connections.join_next().await.is_none() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn serve(mut stream: UnixStream, shared: &Shared) -> io::Result<()> {
    match timeout(HELLO_DEADLINE, frame::read(&mut stream)).await {
        Ok(Ok(Frame::Whole(bytes))) => {
            if let Err(reason) = admitted(&stream, &bytes, shared) {
                tracing::warn!(reason, "a tool connection was refused");
                let failure = ToolFailure::refused(format!("connection refused: {reason}"));
                let mut result = ToolResult::new();
                failure.add_to(&mut result);
                return frame::reply(&mut stream, None, &result).await;
            }
        }
        Ok(Ok(_)) | Err(_) => return Ok(()),
        Ok(Err(error)) => return Err(error),
    }
    loop {
        let (id, result) = match frame::read(&mut stream).await? {
            Frame::End => return Ok(()),
            Frame::TooLong(bytes) => (
                None,
                refusal(&format!("a request of {bytes} bytes; the limit is 64 MiB")),
            ),
            Frame::Whole(bytes) => match serde_json::from_slice::<Request>(&bytes) {
                Err(error) => (
                    None,
                    refusal(&format!("the request makes no sense: {error}")),
                ),
                Ok(request) => {
                    drop(bytes);
                    let id = request.id;
                    match answer(request, shared, &stream).await {
                        Some(result) => (Some(id), result),
                        None => return Ok(()),
                    }
                }
            },
        };
        frame::reply(&mut stream, id, &result).await?;
    }
}

fn refusal(sentence: &str) -> ToolResult {
    let mut result = ToolResult::new();
    ToolFailure::usage(sentence).add_to(&mut result);
    result
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

/// Makes a call; `None` if the caller is gone.
async fn answer(request: Request, shared: &Shared, stream: &UnixStream) -> Option<ToolResult> {
    let settings = &shared.settings;
    let authority = shared.authority().clone();
    let granted = authority
        .as_ref()
        .map(|authority| authority.terms().grant.clone());
    let Some(tool) = settings.table.find(&request.tool) else {
        let callable = granted.unwrap_or_default().in_words(&settings.table);
        let name: String = request.tool.chars().take(100).collect();
        let failure =
            ToolFailure::refused(format!("'{name}' cannot be called from a cell; {callable}"));
        let mut result = ToolResult::new();
        failure.add_to(&mut result);
        return Some(result);
    };
    let spec = tool.spec();
    let of_this_cell = |authority: &Arc<Authority>| authority.terms().cell == request.cell;
    let Some(authority) = authority.filter(of_this_cell) else {
        return Some(no_active_cell(request.cell).into_result(spec));
    };
    let arguments = Arguments::new(spec.name, request.args);
    // A keyword that is refused costs nothing, as any refusal.
    if let Err(failure) = arguments.check_names(spec)
        && failure.class == "refused"
    {
        return Some(failure.into_result(spec));
    }
    let call = match authority.dispatch(spec.name, &settings.table) {
        Ok(call) => call,
        Err(failure) => return Some(failure.into_result(spec)),
    };
    let terms = authority.terms();
    let context = ToolContext {
        cwd: request.cwd,
        agent_home: settings.agent_home.clone(),
        user_home: settings.user_home.clone(),
        deadline: terms.deadline,
        cancelled: authority.cancelled().clone(),
        jobs: Arc::clone(&terms.jobs),
        environment: Arc::clone(&terms.environment),
        terminal_timeout: settings.terminal_timeout,
    };
    // Whatever a tool started ends when its future is dropped.
    let result = tokio::select! {
        biased;
        result = tool.call(arguments, &context) => result,
        () = authority.cancelled().cancelled() => {
            ToolFailure::new("interrupted", "the cell has ended").into_result(spec)
        }
        () = caller_gone(stream) => return None,
    };
    call.finished(!result.contains_key("error"));
    Some(result)
}

/// Waits until the other end has closed the connection.
async fn caller_gone(stream: &UnixStream) {
    let mut byte = [0; 1];
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        match rustix::net::recv(stream, &mut byte, rustix::net::RecvFlags::PEEK) {
            Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => return,
            // The next request is there already: it is read in its turn, and from now on nobody
            // looks for the end.
            Ok(_) => std::future::pending().await,
            Err(_) => {
                // Not ready after all: the readiness is forgotten by trying to read.
                if let Err(error) = stream.try_io(tokio::io::Interest::READABLE, || {
                    Err::<(), _>(io::ErrorKind::WouldBlock.into())
                }) && error.kind() != io::ErrorKind::WouldBlock
                {
                    return;
                }
            }
        }
    }
}
