//! Says at the address of a home that its server lives, and where its door is.
//!
//! Whoever connects gets `+` at once: somebody lives here. Then, when the door was looked after, `@`
//! and the path of its socket, or `!` and a sentence; then the end. An end without either: it has
//! ended, or asks are too many.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::ServerError;
use crate::folders::ServerAddress;
use crate::process::until_worth_another_try;

/// Asks that are answered at once.
const MOST_ASKS: usize = 64;
/// How often a name is tried whose holder is just ending.
const ATTEMPTS: usize = 16;
/// How long whoever holds the name may take to say that he lives.
const FIRST_WORD: Duration = Duration::from_secs(2);
/// How long an ask may take in all.
const DEADLINE: Duration = Duration::from_secs(30);

/// Somebody wants to know where the door is.
pub(super) type Question = oneshot::Sender<Result<PathBuf, String>>;

/// The address of a home, held: no second server of it can start.
#[derive(Debug)]
pub(super) struct Whereabouts {
    answering: JoinHandle<()>,
}

impl Whereabouts {
    /// Takes the address of a home, and answers there. Without one, where the system has none or
    /// another user has taken the name, a server still serves.
    ///
    /// # Errors
    ///
    /// If a server of this home lives already.
    pub(super) async fn take(
        home: &Path,
    ) -> Result<(Option<Self>, mpsc::Receiver<Question>), ServerError> {
        let (ask, asked) = mpsc::channel(MOST_ASKS);
        let address = ServerAddress::of(home);
        for _ in 0..ATTEMPTS {
            match UnixListener::bind(address.as_path()) {
                Ok(listener) => {
                    let answering = tokio::spawn(answer(listener, ask));
                    return Ok((Some(Self { answering }), asked));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    match holder(&address).await {
                        Holder::Ending => {}
                        Holder::Lives(pid) => return Err(ServerError::RunsAlready { pid }),
                        Holder::Stranger => {
                            tracing::warn!("another user has the name of this home's server");
                            break;
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "clients cannot ask where the door is");
                    break;
                }
            }
        }
        Ok((None, asked))
    }

    /// Lets go of the address: the next server may start.
    pub(super) async fn end(self) {
        self.answering.abort();
        drop(self.answering.await);
    }
}

enum Holder {
    Lives(Option<u32>),
    Ending,
    Stranger,
}

async fn holder(address: &ServerAddress) -> Holder {
    let mut stream = match UnixStream::connect(address.as_path()).await {
        Ok(stream) => stream,
        // Its queue is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Holder::Lives(None),
        Err(_refused) => return Holder::Ending,
    };
    let Ok(peer) = stream.peer_cred() else {
        return Holder::Ending;
    };
    if peer.uid() != rustix::process::getuid().as_raw() {
        return Holder::Stranger;
    }
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    match timeout(FIRST_WORD, stream.read_u8()).await {
        Ok(Err(_ended)) => Holder::Ending,
        Ok(Ok(_)) | Err(_) => Holder::Lives(pid),
    }
}

async fn answer(listener: UnixListener, ask: mpsc::Sender<Question>) {
    let places = Arc::new(Semaphore::new(MOST_ASKS));
    let mut asks = JoinSet::new();
    loop {
        while asks.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a question could not be accepted");
                until_worth_another_try(std::future::pending()).await;
                continue;
            }
        };
        let own = rustix::process::getuid().as_raw();
        let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == own);
        let Some(place) = Arc::clone(&places)
            .try_acquire_owned()
            .ok()
            .filter(|_| is_own)
        else {
            continue;
        };
        let ask = ask.clone();
        asks.spawn(async move {
            // Who does not read, or has gone, misses the answer.
            drop(timeout(DEADLINE, tell(stream, ask)).await);
            drop(place);
        });
    }
}

async fn tell(mut stream: UnixStream, ask: mpsc::Sender<Question>) -> io::Result<()> {
    stream.write_all(b"+").await?;
    let (question, answer) = oneshot::channel();
    if ask.try_send(question).is_err() {
        return Ok(());
    }
    let Ok(answer) = answer.await else {
        return Ok(());
    };
    let (kind, bytes) = match &answer {
        Ok(path) => (b"@", path.as_os_str().as_bytes()),
        Err(sentence) => (b"!", sentence.as_bytes()),
    };
    stream.write_all(kind).await?;
    stream.write_all(bytes).await
}
