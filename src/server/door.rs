//! The door of a manager: a socket, and who may come in.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use super::jupyter::Peer;
use super::keeping::Place;
use super::misheard::Heard;
use super::published::Published;
use super::routes::routes;
use super::tcp::{Token, authorised};
use super::whereabouts::Question;
use super::{Manager, ServerError};
use crate::folders::{FolderLock, SERVER_SOCKET, ServerLock};
use crate::process::until_worth_another_try;

/// Connections that are served at once; those beyond are closed.
const MAX_CONNECTIONS: usize = 512;
/// How long a client may take to say what it wants.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);
/// How long who has not been understood may take to take that in.
const LAST_WORD: Duration = Duration::from_secs(1);
/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A door that is open. Its socket comes back if it is removed. Dropping it closes it; what is being
/// served goes on.
#[derive(Debug)]
pub struct Door {
    place: Arc<Place>,
    keeping: JoinHandle<()>,
    connections: TaskTracker,
    /// Once it is hidden: what is still accepted, and what stands in the folder.
    hidden: Option<(Arc<Published>, Accepting)>,
}

impl Door {
    /// Opens the door of a program's own manager in a folder of doors
    /// ([`door_folders`](crate::folders::door_folders)), so that `warmcell sessions` finds it. If its
    /// socket or the folder is removed or moved away, it is published again, in the next of the
    /// folders if need be.
    ///
    /// # Errors
    ///
    /// If none of the folders will do.
    pub fn open(manager: &Arc<Manager>, folders: &[PathBuf]) -> Result<Self, ServerError> {
        let name = format!("m-{}.sock", manager.id());
        let mut tried = Vec::new();
        for folder in folders {
            let made = Published::in_folder(folder, &name);
            // Nobody asks a program where it is: its name is known to nobody.
            let (_nobody, asked) = mpsc::channel(1);
            match made.and_then(|made| Self::with(manager, made, folders.to_vec(), asked)) {
                Ok(door) => return Ok(door),
                Err(error) => tried.push(format!("{}: {error}", folder.display())),
            }
        }
        Err(ServerError::NoFolder { tried })
    }

    /// Opens the background server's door, under the lock of the folder.
    pub(super) fn of_server(
        manager: &Arc<Manager>,
        folder: &FolderLock,
        folders: Vec<PathBuf>,
        lock: Arc<ServerLock>,
        asked: mpsc::Receiver<Question>,
    ) -> Result<Self, ServerError> {
        let made = Published::under_lock(folder.path(), SERVER_SOCKET, lock);
        made.and_then(|made| Self::with(manager, made, folders, asked))
            .map_err(|source| ServerError::Bind {
                path: folder.path().join(SERVER_SOCKET),
                source,
            })
    }

    fn with(
        manager: &Arc<Manager>,
        (published, listener): (Published, StdUnixListener),
        folders: Vec<PathBuf>,
        asked: mpsc::Receiver<Question>,
    ) -> io::Result<Self> {
        let served = Served::new(Arc::clone(manager));
        let connections = served.connections.clone();
        let accepting = served.accept(listener)?;
        let place = Place::new(served, folders, published, accepting);
        Ok(Self {
            keeping: tokio::spawn(Arc::clone(&place).keep(asked)),
            place,
            connections,
            hidden: None,
        })
    }

    /// Where it is now.
    pub fn path(&self) -> PathBuf {
        let published = self.place.published();
        published.map_or_else(PathBuf::new, |it| it.path().to_owned())
    }

    /// The folder in which it is now.
    pub(super) fn folder(&self) -> PathBuf {
        let published = self.place.published();
        published.map_or_else(PathBuf::new, |it| it.folder().to_owned())
    }

    /// The lock of the folder in which it is now. Blocks, for as long as another holds it.
    pub(super) fn folder_lock(&self) -> impl FnOnce() -> io::Result<FolderLock> + Send + 'static {
        let published = self.place.published();
        move || {
            let hidden = || io::Error::from(io::ErrorKind::NotFound);
            published.ok_or_else(hidden)?.lock_folder()
        }
    }

    /// Takes the socket away: nobody finds the door any more. Who came before is still served.
    pub(super) fn hide(&mut self) {
        self.keeping.abort();
        if let Some(hidden) = self.place.hide() {
            self.hidden = Some(hidden);
        }
    }

    /// Waits until all who came in have gone.
    pub(super) async fn empty(&self) {
        self.connections.close();
        self.connections.wait().await;
    }

    /// Closes it; what the background server has held.
    pub(super) fn close(mut self) -> Option<Arc<ServerLock>> {
        self.hide();
        let (published, _accepting) = self.hidden.take()?;
        published.lock().cloned()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.hide();
    }
}

/// A listener whose connections are served. Dropping it ends that, after those that wait already.
#[derive(Debug)]
pub(super) struct Accepting(CancellationToken);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What is behind doors.
#[derive(Debug, Clone)]
pub(super) struct Served {
    manager: Arc<Manager>,
    router: Router,
    places: Arc<Semaphore>,
    connections: TaskTracker,
}

impl Served {
    pub(super) fn new(manager: Arc<Manager>) -> Self {
        Self {
            router: routes(Arc::clone(&manager)),
            manager,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            connections: TaskTracker::new(),
        }
    }

    /// The same for those who have the token. They have places of their own.
    pub(super) fn with_token(manager: Arc<Manager>, token: Token) -> Self {
        Self {
            router: routes(Arc::clone(&manager)).layer(from_fn_with_state(token, authorised)),
            manager,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            connections: TaskTracker::new(),
        }
    }

    /// Serves who comes to a socket, which must be non-blocking.
    pub(super) fn accept(&self, listener: StdUnixListener) -> io::Result<Accepting> {
        let listener = UnixListener::from_std(listener)?;
        let end = CancellationToken::new();
        tokio::spawn(accept(listener, self.clone(), end.clone()));
        Ok(Accepting(end))
    }

    /// Tells the manager where its socket is.
    pub(super) fn is_at(&self, path: Option<PathBuf>) {
        self.manager.is_at(path);
    }

    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Serves one connection to its end. `socket` is that of the stream, where it tells when the client
    /// has closed its end.
    pub(super) async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        socket: Option<OwnedFd>,
        place: OwnedSemaphorePermit,
    ) {
        let router = self.router;
        let manager = self.manager;
        let peer = Peer::new(place, Arc::clone(&manager.bodies), socket);
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
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_DEADLINE)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        if let Err(error) = (&mut connection).await {
            tracing::debug!(%error, "a connection ended early");
            if let Some(parts) = connection.into_parts() {
                let answering = parts.io.into_inner().answer(&error);
                drop(timeout(LAST_WORD, answering).await);
            }
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

async fn accept(listener: UnixListener, served: Served, end: CancellationToken) {
    loop {
        let came = tokio::select! {
            came = listener.accept() => came,
            () = end.cancelled() => break,
        };
        match came {
            Ok((stream, _)) => admit(stream, &served),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                until_worth_another_try(end.cancelled()).await;
            }
        }
    }
    // They have found it while it was there.
    for _ in 0..MAX_CONNECTIONS {
        let Some(Ok((stream, _))) = listener.accept().now_or_never() else {
            break;
        };
        admit(stream, &served);
    }
}

fn admit(stream: UnixStream, served: &Served) {
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
    let socket = stream.as_fd().try_clone_to_owned().ok();
    served
        .connections
        .spawn(served.clone().serve(stream, socket, place));
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
