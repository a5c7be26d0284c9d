//! An answer that comes line by line, as things happen.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Lines that may wait for a client.
const WAITING_LINES: usize = 8;
/// A client that takes nothing for so long is not waited for any longer: what it misses is counted.
const STALL: Duration = Duration::from_secs(1);
/// What must not be missed waits so long for a client.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is done once a line is on its way.
type Then = Box<dyn FnOnce() + Send>;

struct Piece {
    bytes: Bytes,
    then: Option<Then>,
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Lines {
    sender: mpsc::Sender<Piece>,
    /// The client does not read just now.
    stalled: bool,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece")
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// A pair: what is written to the one is the answer.
pub(super) fn lines() -> (Lines, Response) {
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    let body = Body::new(LineBody {
        receiver,
        then: None,
    });
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson"),
        (CACHE_CONTROL, "no-store"),
    ];
    let lines = Lines {
        sender,
        stalled: false,
    };
    (lines, (headers, body).into_response())
}

impl Lines {
    /// Writes a line that may be missed; false if it is, because the client does not read.
    pub(super) async fn may_miss(&mut self, line: &impl Serialize) -> bool {
        let piece = Piece {
            bytes: bytes_of(line),
            then: None,
        };
        if self.stalled {
            self.stalled = self.sender.try_send(piece).is_err();
        } else {
            self.stalled = timeout(STALL, self.sender.send(piece)).await.is_err();
        }
        !self.stalled
    }

    /// Writes a line that must not be missed, and does something once it is on its way; false if the
    /// client is gone.
    pub(super) async fn must(&mut self, line: &impl Serialize, then: Option<Then>) -> bool {
        let bytes = bytes_of(line);
        let sending = self.sender.send(Piece { bytes, then });
        matches!(timeout(PATIENCE, sending).await, Ok(Ok(())))
    }

    /// Waits until the client is gone.
    pub(super) async fn gone(&self) {
        self.sender.closed().await;
    }
}

fn bytes_of(line: &impl Serialize) -> Bytes {
    // Shapes of ours have no key that is no string, so this does not fail.
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes.into()
}

/// The reading end, as the body of an answer.
struct LineBody {
    receiver: mpsc::Receiver<Piece>,
    /// Done when the next piece is asked for: then the last one has been taken.
    then: Option<Then>,
}

impl hyper::body::Body for LineBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(then) = self.then.take() {
            then();
        }
        self.receiver.poll_recv(context).map(|piece| {
            let Piece { bytes, then } = piece?;
            self.then = then;
            Some(Ok(Frame::data(bytes)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_waited_for_once() {
        let (mut lines, response) = lines();
        for _ in 0..WAITING_LINES {
            assert!(lines.may_miss(&1).await);
        }
        let began = tokio::time::Instant::now();
        assert!(!lines.may_miss(&2).await);
        assert_eq!(began.elapsed(), STALL);
        assert!(!lines.may_miss(&3).await);
        assert_eq!(began.elapsed(), STALL);
        let mut body = response.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first, "1\n");
        assert!(lines.may_miss(&4).await);
        drop(body);
        lines.gone().await;
        assert!(!lines.must(&5, None).await);
    }

    #[tokio::test]
    async fn what_is_to_be_done_is_done_once_the_line_was_taken() {
        let (mut lines, response) = lines();
        let taken = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&taken);
        let then: Then = Box::new(move || flag.store(true, Ordering::Release));
        assert!(lines.must(&1, Some(then)).await);
        drop(lines);
        let mut body = response.into_body();
        body.frame().await.unwrap().unwrap();
        assert!(!taken.load(Ordering::Acquire));
        assert!(body.frame().await.is_none());
        assert!(taken.load(Ordering::Acquire));
    }
}
