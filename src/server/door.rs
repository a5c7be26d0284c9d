//! The door of a manager: a socket, and who may come in.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use super::jupyter::Peer;
use super::misheard::Heard;
use super::routes::routes;
use super::tcp::{Token, authorised};
use super::{Manager, ServerError};
use crate::folders::{SERVER_SOCKET, private_folder};
use crate::ids::random_hex;

/// Connections that are served at once; those beyond are closed.
const MAX_CONNECTIONS: usize = 512;
/// How long a client may take to say what it wants.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);
/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long to wait for a descriptor when none is left and no connection ends.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);

/// A door that is open. Dropping it closes it; what is being served goes on.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    accepting: JoinHandle<()>,
    connections: TaskTracker,
}

impl Door {
    /// Opens the door of a program's own manager in a folder of doors
    /// ([`door_folders`](crate::folders::door_folders)), so that `warmcell sessions` finds it.
    ///
    /// # Errors
    ///
    /// If none of the folders will do.
    pub fn open(manager: &Arc<Manager>, folders: &[PathBuf]) -> Result<Self, ServerError> {
        let name = format!("m-{}.sock", manager.id());
        let mut tried = Vec::new();
        for folder in folders {
            match Self::in_folder(manager, folder, &name) {
                Ok(door) => return Ok(door),
                Err(error) => tried.push(format!("{}: {error}", folder.display())),
            }
        }
        Err(ServerError::NoFolder { tried })
    }

    /// Opens the background server's door. Whoever does holds the locks of the folder.
    pub(super) fn of_server(manager: &Arc<Manager>, folder: &Path) -> Result<Self, ServerError> {
        Self::in_folder(manager, folder, SERVER_SOCKET).map_err(|source| ServerError::Bind {
            path: folder.join(SERVER_SOCKET),
            source,
        })
    }

    fn in_folder(manager: &Arc<Manager>, folder: &Path, name: &str) -> io::Result<Self> {
        private_folder(folder)?;
        let path = folder.join(name);
        // It gets its name when it listens already: who finds a socket that refuses him knows that
        // nobody is behind it any more.
        let early = folder.join(format!("n-{}", random_hex(4)));
        let listener = UnixListener::bind(&early)?;
        let named = fs::set_permissions(&early, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&early, &path));
        if let Err(error) = named {
            drop(fs::remove_file(&early));
            return Err(error);
        }
        let connections = TaskTracker::new();
        let accepting = tokio::spawn(accept(
            listener,
            Served::new(Arc::clone(manager)),
            connections.clone(),
        ));
        Ok(Self {
            path,
            accepting,
            connections,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the socket away: nobody finds the door any more. Who came before is still served.
    pub(super) fn hide(&self) {
        drop(fs::remove_file(&self.path));
    }

    /// Waits until all who came in have gone.
    pub(super) async fn empty(&self) {
        self.connections.close();
        self.connections.wait().await;
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.hide();
        self.accepting.abort();
        if let Some(folder) = self.path.parent() {
            // Goes with the last door in it.
            drop(fs::remove_dir(folder));
        }
    }
}

/// What is behind doors.
#[derive(Debug, Clone)]
pub(super) struct Served {
    manager: Arc<Manager>,
    router: Router,
    places: Arc<Semaphore>,
}

impl Served {
    pub(super) fn new(manager: Arc<Manager>) -> Self {
        Self {
            router: routes(Arc::clone(&manager)),
            manager,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }
    }

    /// The same for those who have the token. They have places of their own.
    pub(super) fn with_token(manager: Arc<Manager>, token: Token) -> Self {
        Self {
            router: routes(Arc::clone(&manager)).layer(from_fn_with_state(token, authorised)),
            manager,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }
    }

    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Serves one connection to its end.
    pub(super) async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        place: OwnedSemaphorePermit,
    ) {
        let router = self.router;
        let manager = self.manager;
        let peer = Peer::new(place, Arc::clone(&manager.bodies));
        let heard = Heard::default();
        let stream = heard.on(peer.metered(stream));
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            heard.yes();
            let mut router = router.clone();
            // What goes on after its answer keeps the place.
            request.extensions_mut().insert(peer.clone());
            let serving = manager.request();
            async move {
                let answered = router.call(request.map(Body::new)).await;
                answered.map(|response| once(response).map(|body| held(body, serving)))
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_DEADLINE)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// One request a connection, unless it becomes a WebSocket: the door's clients ask once.
fn once(mut response: Response) -> Response {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// The request counts as being served until its answer has gone.
fn held(body: Body, serving: super::manager::Request) -> Body {
    Body::new(body.map_frame(move |frame| {
        let _: &super::manager::Request = &serving;
        frame
    }))
}

async fn accept(listener: UnixListener, served: Served, connections: TaskTracker) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => admit(stream, &served, &connections),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(DESCRIPTOR_PAUSE).await;
            }
        }
    }
}

fn admit(stream: UnixStream, served: &Served, connections: &TaskTracker) {
    let own = rustix::process::getuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own => {}
        peer => {
            tracing::warn!(?peer, "another user was turned away");
            return;
        }
    }
    let Some(place) = served.place() else {
        tracing::warn!("a connection was turned away: {MAX_CONNECTIONS} are open");
        // As much as fits at once: nobody is waited for here.
        drop(stream.try_write(TOO_MANY));
        return;
    };
    connections.spawn(served.clone().serve(stream, place));
}

/// Said to those beyond the limit.
pub(super) const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
connection: close\r\ncontent-length: 92\r\n\r\n\
{\"error\":\"too many connections to this manager; ask again in a moment\",\"error_class\":\"busy\"}";

#[cfg(test)]
mod tests {
    use super::TOO_MANY;

    #[test]
    fn the_answer_to_too_many_is_whole() {
        let text = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())));
        let refused: crate::server::Refused = serde_json::from_str(body).unwrap();
        assert_eq!(refused.error_class, crate::execution::ErrorClass::Busy);
    }
}
