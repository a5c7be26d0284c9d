//! What is no request is answered before anybody of ours hears of it, by the library and without a
//! word. Here that answer is swallowed and one of ours given in its place.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::execution::ErrorClass;

/// Whether a request was heard on a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard(Arc<AtomicBool>);

impl Heard {
    /// There is a request: what is written from now on is an answer to it.
    pub(super) fn yes(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Watches a stream.
    pub(super) fn on<S>(&self, stream: S) -> Listening<S> {
        Listening {
            stream,
            heard: self.clone(),
            answer: None,
        }
    }
}

/// A stream on which nothing is written before a request was heard but answers of ours.
#[derive(Debug)]
pub(super) struct Listening<S> {
    stream: S,
    heard: Heard,
    /// What is still to be written in place of what was swallowed.
    answer: Option<Vec<u8>>,
}

impl<S> Listening<S> {
    fn is_heard(&self) -> bool {
        self.heard.0.load(Ordering::Acquire)
    }

    fn swallow(&mut self, first: &[u8]) {
        if self.answer.is_none() {
            self.answer = Some(answer_instead_of(first));
        }
    }
}

impl<S: AsyncWrite + Unpin> Listening<S> {
    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(answer) = self.answer.as_mut().filter(|answer| !answer.is_empty()) {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, answer))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            answer.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Listening<S> {
    /// Answers a connection that the library has given up without a word, unless a request was heard.
    ///
    /// # Cancel safety
    ///
    /// May be dropped.
    pub(super) async fn answer(mut self, fault: &hyper::Error) {
        if self.is_heard() {
            return;
        }
        let (status, sentence) = if fault.is_timeout() {
            (
                "408 Request Timeout",
                "the head of the request did not come within 10 s; an empty line ends it",
            )
        } else if fault.is_incomplete_message() {
            (
                BAD_REQUEST,
                "the request ends before its head does; an empty line ends it",
            )
        } else if fault.is_parse_version_h2() {
            (
                BAD_REQUEST,
                "this is HTTP/2, and HTTP/1.1 is spoken here; ask in that (`curl --http1.1`)",
            )
        } else {
            (BAD_REQUEST, NO_REQUEST)
        };
        self.answer.get_or_insert_with(|| answer(status, sentence));
        // It may be gone.
        drop(self.shutdown().await);
    }
}

/// The status of what is no request.
const BAD_REQUEST: &str = "400 Bad Request";
/// What is said of it.
const NO_REQUEST: &str = "this is no request of HTTP/1.1: look at its first line and its headers (one host, \
    one content-length that is a number)";

/// The answer in place of one that begins so.
fn answer_instead_of(first: &[u8]) -> Vec<u8> {
    let beginning = String::from_utf8_lossy(first.get(..64).unwrap_or(first)).into_owned();
    let line = beginning.lines().next().unwrap_or_default();
    let (status, sentence) = match line.split(' ').nth(1) {
        Some("431") => (
            "431 Request Header Fields Too Large",
            "the head of the request has more than 64 KiB, or more headers than are read",
        ),
        Some("414") => ("414 URI Too Long", "the address of the request is too long"),
        _ => (BAD_REQUEST, NO_REQUEST),
    };
    answer(status, sentence)
}

fn answer(status: &str, sentence: &str) -> Vec<u8> {
    let body = json!({ "error": sentence, "error_class": ErrorClass::Usage }).to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

impl<S: AsyncRead + Unpin> AsyncRead for Listening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_heard() {
            return Pin::new(&mut self.stream).poll_write(context, bytes);
        }
        self.swallow(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_heard() {
            return Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        }
        self.swallow(slices.first().map_or(&[][..], |first| first));
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_was_not_heard_is_answered_in_our_words_and_the_rest_as_it_is() {
        for (own, status) in [
            ("HTTP/1.1 400 Bad Request\r\n", "400"),
            ("HTTP/1.1 431 x\r\n", "431"),
            ("HTTP/1.1 414 x\r\n", "414"),
            ("?", "400"),
        ] {
            // As slow as a stream can be.
            let (near, mut far) = tokio::io::duplex(1);
            let reading = tokio::spawn(async move {
                let mut text = String::new();
                far.read_to_string(&mut text).await.map(|_| text)
            });
            let mut stream = Heard::default().on(near);
            stream.write_all(own.as_bytes()).await.unwrap();
            stream
                .write_all(b"content-length: 0\r\n\r\n")
                .await
                .unwrap();
            stream.shutdown().await.unwrap();
            drop(stream);
            let text = reading.await.unwrap().unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("content-length: {}", body.len())));
            let refused: crate::server::Refused = serde_json::from_str(body).unwrap();
            assert_eq!(refused.error_class, ErrorClass::Usage);
        }
        let (near, mut far) = tokio::io::duplex(64);
        let heard = Heard::default();
        let mut stream = heard.on(near);
        heard.yes();
        stream.write_all(b"as it is").await.unwrap();
        stream.flush().await.unwrap();
        drop(stream);
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "as it is");
    }
}
