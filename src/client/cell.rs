//! A cell that runs in a manager, seen from here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::spool::{Missed, Spool};
use super::{Client, ClientError};
use crate::execution::{LiveEvent, LiveSender, Outcome};
use crate::server::{Line, Refused};

/// The longest line: a result with two windows, all of it escaped, is much shorter.
const MOST_LINE_BYTES: usize = 64 << 20;

/// A cell that was taken. Dropping it interrupts the cell: its connection ends.
#[derive(Debug)]
pub struct RemoteCell {
    /// With which it can be interrupted.
    pub id: String,
    /// Whether its session was made for it.
    pub opened: bool,
    lines: JsonLines,
    client: Client,
    live: Option<LiveSender>,
}

impl RemoteCell {
    pub(super) async fn begin(
        answer: hyper::Response<Incoming>,
        client: Client,
    ) -> Result<Self, ClientError> {
        let mut lines = JsonLines::new(answer.into_body());
        match lines.next().await? {
            Some(Line::Accepted { id, opened }) => Ok(Self {
                id,
                opened,
                lines,
                client,
                live: None,
            }),
            other => Err(ClientError::Senseless {
                what: format!("{other:?}").chars().take(200).collect(),
            }),
        }
    }

    /// Has what it prints handed on as it comes; whoever reads slowly slows down how it comes.
    pub fn hand_on(&mut self, live: LiveSender) {
        self.live = Some(live);
    }

    /// The manager it runs in.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads along to the end: the result, and what of the output this stream has left out.
    /// What is handed on may still be on its way then.
    ///
    /// # Errors
    ///
    /// If the connection ends before the result.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the cell is interrupted.
    pub async fn outcome(mut self) -> Result<(Outcome, Missed), ClientError> {
        let mut missed = Missed::default();
        let mut hand = self.live.take().map(Hand::new);
        loop {
            // In turn: who reads along sees a flood as it comes.
            let line = tokio::select! {
                line = self.lines.next() => line?,
                () = handed_on(hand.as_mut()) => continue,
            };
            let event = match line {
                Some(Line::Stdout(text)) => LiveEvent::Stdout(text.into()),
                Some(Line::Stderr(text)) => LiveEvent::Stderr(text.into()),
                Some(Line::StdoutBase64(text)) => LiveEvent::Stdout(decoded(&text)?),
                Some(Line::StderrBase64(text)) => LiveEvent::Stderr(decoded(&text)?),
                Some(Line::Result(text)) => LiveEvent::Result(text),
                Some(Line::MissedBytes(bytes)) => {
                    missed.bytes += bytes;
                    continue;
                }
                Some(Line::Finished(finished)) => {
                    if let Some(mut hand) = hand {
                        let here = hand.spool.take_missed();
                        missed.bytes += here.bytes;
                        missed.why = here.why;
                        tokio::spawn(async move { while hand.on().await {} });
                    }
                    return Ok((finished.into_outcome(), missed));
                }
                Some(Line::Accepted { .. }) => continue,
                None => break,
            };
            if let Some(hand) = &mut hand {
                hand.take(event).await;
            }
        }
        Err(ClientError::Lost {
            what: "how the cell ended is not known, and its session may be gone",
            reason: "it was closed".to_owned(),
        })
    }
}

/// Hands output on: what the reader does not take at once waits on disk.
#[derive(Debug)]
struct Hand {
    live: LiveSender,
    spool: Spool,
}

impl Hand {
    fn new(live: LiveSender) -> Self {
        Self {
            live,
            spool: Spool::default(),
        }
    }

    async fn take(&mut self, event: LiveEvent) {
        if self.spool.is_empty() && !self.live.pressure().is_full() {
            self.live.send(event);
        } else {
            self.spool.push(event).await;
        }
    }

    /// Hands the next piece on once the reader takes more; false if there is none.
    async fn on(&mut self) -> bool {
        if self.spool.is_empty() {
            return false;
        }
        self.live.pressure().relieved().await;
        match self.spool.pop().await {
            Ok(Some(event)) => self.live.send(event),
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!(%error, "output that waited on disk is lost");
                self.spool = Spool::default();
                return false;
            }
        }
        true
    }
}

/// Waits until a piece was handed on.
async fn handed_on(hand: Option<&mut Hand>) {
    match hand {
        Some(hand) if !hand.spool.is_empty() => drop(hand.on().await),
        _ => std::future::pending().await,
    }
}

fn decoded(text: &str) -> Result<Bytes, ClientError> {
    let bytes = BASE64.decode(text);
    bytes
        .map(Bytes::from)
        .map_err(|error| ClientError::Senseless {
            what: error.to_string(),
        })
}

/// An answer that comes as JSON, a line each.
#[derive(Debug)]
pub(super) struct JsonLines {
    body: Incoming,
    read: BytesMut,
    /// So much of it holds no end of a line.
    searched: usize,
}

impl JsonLines {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            read: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next line; `None` at the end.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub(super) async fn next_text(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let fresh = self.read.get(self.searched..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.read.len();
            if self.read.len() > MOST_LINE_BYTES {
                return Err(ClientError::Senseless {
                    what: "a line without an end".to_owned(),
                });
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    return Err(ClientError::Lost {
                        what: "how the cell ended is not known, and its session may be gone",
                        reason: error.to_string(),
                    });
                }
            }
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Line>, ClientError> {
        let Some(text) = self.next_text().await? else {
            return Ok(None);
        };
        match serde_json::from_slice(&text) {
            Ok(line) => Ok(Some(line)),
            Err(error) => Err(match serde_json::from_slice::<Refused>(&text) {
                Ok(refused) => ClientError::Refused(Box::new(refused)),
                Err(_other) => ClientError::Senseless {
                    what: error.to_string(),
                },
            }),
        }
    }
}
