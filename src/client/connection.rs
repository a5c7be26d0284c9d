//! One request to a manager, over its socket.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::ClientError;
use super::handing::Handing;
use crate::execution::ErrorClass;
use crate::server::{ROOT, Refused, VERSION, VERSION_HEADER};

/// How long a manager may take to answer what it can answer at once.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer that is no stream.
const MOST_BYTES: usize = 64 << 20;

/// A connection on which nothing was asked yet.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    /// Who it is with.
    pub(super) peer: Peer,
}

/// The other side of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Its socket.
    pub(super) socket: PathBuf,
    /// Its process, as the system knows it.
    pub(super) pid: Option<u32>,
}

impl Peer {
    /// It has not answered.
    pub(super) fn silent(&self, waited: Duration, what: &'static str) -> ClientError {
        ClientError::Silent {
            pid: self.pid,
            socket: self.socket.clone(),
            seconds: waited.as_secs(),
            what,
        }
    }
}

/// The number of the process that listens at the other end; an error if that is another user's.
pub(super) fn peer_of(stream: &UnixStream) -> io::Result<Option<u32>> {
    let peer = stream.peer_cred()?;
    if peer.uid() != rustix::process::getuid().as_raw() {
        let sentence = "its socket belongs to another user";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, sentence));
    }
    // From another namespace of processes it has no number here.
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    Ok(pid.filter(|pid| *pid > 0))
}

/// What is asked.
#[derive(Debug)]
pub(super) struct Question {
    method: Method,
    path: String,
    body: Vec<u8>,
}

impl Question {
    pub(super) fn get(path: &str) -> Self {
        Self::new(Method::GET, path, Vec::new())
    }

    pub(super) fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path, Vec::new())
    }

    pub(super) fn post(path: &str, body: &impl Serialize) -> Self {
        // Shapes of ours have no key that is no string, so this does not fail.
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self::new(Method::POST, path, body)
    }

    fn new(method: Method, path: &str, body: Vec<u8>) -> Self {
        Self {
            method,
            path: format!("{ROOT}{path}"),
            body,
        }
    }
}

/// A session's name as one part of a path.
pub(super) fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            text.push(char::from(byte));
        } else {
            text.extend(format!("%{byte:02X}").chars());
        }
    }
    text
}

impl Connection {
    /// Connects to a socket. It is connected to at once or not at all: the system does it, whether or
    /// not the manager runs.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` if nobody listens any more, `NotFound` if there is none, `WouldBlock` if as
    /// many wait as may, `PermissionDenied` if it is another user's.
    pub(super) async fn open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket).await?;
        let pid = peer_of(&stream)?;
        Ok(Self {
            stream,
            peer: Peer {
                socket: socket.to_owned(),
                pid,
            },
        })
    }

    /// Asks, and waits for the beginning of the answer.
    ///
    /// # Errors
    ///
    /// If the connection ends before.
    pub(super) async fn ask(self, question: Question) -> Result<Response<Incoming>, ClientError> {
        let body = Full::new(Bytes::from(question.body));
        self.send(question.method, &question.path, body).await
    }

    /// Hands over what must not be handed over twice: `handing` tells whether it has gone out.
    ///
    /// # Errors
    ///
    /// As [`Connection::ask`].
    pub(super) async fn hand_over(
        self,
        question: Question,
        handing: &Handing,
    ) -> Result<Response<Incoming>, ClientError> {
        let body = handing.body(Bytes::from(question.body));
        self.send(question.method, &question.path, body).await
    }

    async fn send<B>(
        self,
        method: Method,
        path: &str,
        body: B,
    ) -> Result<Response<Incoming>, ClientError>
    where
        B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
    {
        let lost = |error: hyper::Error| ClientError::Lost {
            what: "whether it was done is not known",
            reason: error.to_string(),
        };
        let io = TokioIo::new(self.stream);
        let (mut sender, connection) = http1::handshake(io).await.map_err(lost)?;
        tokio::spawn(async move {
            // Whoever reads the answer sees its end.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a manager ended early");
            }
        });
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "warmcell")
            .header("content-type", "application/json")
            .header(VERSION_HEADER, VERSION)
            .body(body)
            .map_err(|error| ClientError::Senseless {
                what: error.to_string(),
            })?;
        sender.send_request(request).await.map_err(lost)
    }

    /// Asks for an answer in one piece.
    ///
    /// # Errors
    ///
    /// As [`Connection::ask`]; and if the manager refuses, answers something else, or does not answer
    /// in time.
    pub(super) async fn json<T: DeserializeOwned>(
        self,
        question: Question,
        within: Duration,
    ) -> Result<T, ClientError> {
        let peer = self.peer.clone();
        let answering = async {
            let answer = accepted(self.ask(question).await?).await?;
            let bytes = whole(answer).await?;
            serde_json::from_slice(&bytes).map_err(|error| ClientError::Senseless {
                what: error.to_string(),
            })
        };
        match timeout(within, answering).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(peer.silent(within, "")),
        }
    }
}

/// An answer that is no refusal.
///
/// # Errors
///
/// The refusal, if it is one.
pub(super) async fn accepted(
    answer: Response<Incoming>,
) -> Result<Response<Incoming>, ClientError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let bytes = whole(answer).await?;
    let refused = serde_json::from_slice(&bytes).unwrap_or_else(|_other| Refused {
        error: format!("the manager answered {status}"),
        error_class: if status == StatusCode::NOT_FOUND {
            ErrorClass::Usage
        } else {
            ErrorClass::Unavailable
        },
        going: false,
        other_version: None,
    });
    Err(ClientError::Refused(Box::new(refused)))
}

/// The body of an answer.
///
/// # Errors
///
/// If it is cut off or too long.
pub(super) async fn whole(answer: Response<Incoming>) -> Result<Bytes, ClientError> {
    let body = Limited::new(answer.into_body(), MOST_BYTES);
    let collected = body.collect().await.map_err(|error| ClientError::Lost {
        what: "the answer is not whole",
        reason: error.to_string(),
    })?;
    Ok(collected.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(escaped("lead/worker-3"), "lead%2Fworker-3");
        assert_eq!(escaped("a b\0é/.."), "a%20b%00%C3%A9%2F..");
    }
}
