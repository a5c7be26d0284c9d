//! One request to a manager, over its socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::ClientError;
use super::sight::Peer;
use crate::execution::ErrorClass;
use crate::server::{ROOT, Refused, VERSION, VERSION_HEADER};

/// How long a manager may take to accept, and to answer what it can answer at once.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer that is no stream.
const MOST_BYTES: usize = 64 << 20;

/// A connection on which nothing was asked yet.
#[derive(Debug)]
pub(super) struct Connection(UnixStream);

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
    /// Connects to a socket.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` if nobody listens any more, `NotFound` if there is none.
    pub(super) async fn open(socket: &Path) -> io::Result<Self> {
        match timeout(DEADLINE, UnixStream::connect(socket)).await {
            Ok(connected) => connected.map(Self),
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Who is at the other end.
    pub(super) fn peer(&self) -> Peer {
        Peer::of(&self.0)
    }

    /// Asks, and waits for the beginning of the answer; `at_once` within 10 s.
    ///
    /// # Errors
    ///
    /// If the connection ends before, or it takes too long.
    pub(super) async fn ask(
        self,
        question: Question,
        at_once: bool,
    ) -> Result<Response<Incoming>, ClientError> {
        let lost = |error: hyper::Error| ClientError::Lost {
            what: "whether it was done is not known",
            reason: error.to_string(),
        };
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(self.0)).await.map_err(lost)?;
        tokio::spawn(async move {
            // Whoever reads the answer sees its end.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a manager ended early");
            }
        });
        let request = Request::builder()
            .method(question.method)
            .uri(question.path)
            .header("host", "warmcell")
            .header("content-type", "application/json")
            .header(VERSION_HEADER, VERSION)
            .body(Full::new(Bytes::from(question.body)))
            .map_err(|error| ClientError::Senseless {
                what: error.to_string(),
            })?;
        let answering = sender.send_request(request);
        if !at_once {
            return answering.await.map_err(lost);
        }
        match timeout(DEADLINE, answering).await {
            Ok(answer) => answer.map_err(lost),
            Err(_elapsed) => Err(ClientError::Silent {
                seconds: DEADLINE.as_secs(),
            }),
        }
    }

    /// Asks for an answer in one piece.
    ///
    /// # Errors
    ///
    /// As [`Connection::ask`]; and if the manager refuses, or answers something else.
    pub(super) async fn json<T: DeserializeOwned>(
        self,
        question: Question,
        at_once: bool,
    ) -> Result<T, ClientError> {
        let answer = accepted(self.ask(question, at_once).await?).await?;
        let bytes = whole(answer).await?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Senseless {
            what: error.to_string(),
        })
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
