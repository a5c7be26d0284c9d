//! A cell that runs in a manager, seen from here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::sight::Process;
use super::spool::{Missed, Spool};
use super::{Client, ClientError};
use crate::config::{STDERR_WINDOW_BYTES, STDOUT_WINDOW_BYTES};
use crate::execution::{Caps, KernelReport, LiveEvent, LiveSender, LossReason, Outcome, Seen};
use crate::server::{Line, Refused};

/// The longest line: a result with two windows, all of it escaped, is much shorter.
const MOST_LINE_BYTES: usize = 64 << 20;

/// What is seen of a cell.
#[derive(Debug)]
pub(super) struct Watched {
    /// The manager.
    process: Arc<Process>,
    /// In which kernel it has begun, and when that was seen.
    begun: Option<(KernelReport, Instant)>,
    output: Seen,
}

impl Watched {
    pub(super) fn new(process: Arc<Process>) -> Self {
        Self {
            process,
            begun: None,
            output: Seen::new(Caps {
                stdout: STDOUT_WINDOW_BYTES,
                stderr: STDERR_WINDOW_BYTES,
            }),
        }
    }

    /// The result, if the connection has ended before it: what was seen, and what is not known.
    pub(super) async fn cut_off(self, reason: &str, missed: u64) -> Outcome {
        let loss = self.process.loss().await;
        let what = match &self.begun {
            Some(_) => "how the cell ended is not known",
            None => "whether the cell ran is not known",
        };
        let why = match loss {
            LossReason::ManagerRestarted => {
                "the manager has ended, and its kernels with it; the next cell of the session says what \
                 is lost"
                    .to_owned()
            }
            _ => format!(
                "the connection to the manager ended ({reason}), and whether its kernel lives is not \
                 known; the next cell of the session says so"
            ),
        };
        let (kernel, time) = match self.begun {
            Some((kernel, at)) => (kernel, at.elapsed()),
            None => (KernelReport::none(), Duration::ZERO),
        };
        let more = match missed {
            0 => "",
            _ => "; it has printed more than is shown",
        };
        let sentence = format!("{what}: {why}{more}");
        self.output.cut_off(&sentence, kernel.lost(loss), time)
    }

    /// The result, if it is not waited for any longer, for this reason: what was seen.
    fn given_up(self, error: &ClientError) -> Outcome {
        let (kernel, time) = match self.begun {
            Some((kernel, at)) => (kernel, at.elapsed()),
            None => (KernelReport::none(), Duration::ZERO),
        };
        let kernel = kernel.lost(LossReason::ConnectionLost);
        self.output.cut_off(&error.to_string(), kernel, time)
    }
}

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
    watched: Watched,
    when_begun: Option<WhenBegun>,
    given_up: Option<oneshot::Receiver<ClientError>>,
    missed: Missed,
}

/// Told of the kernel in which a cell begins.
struct WhenBegun(Box<dyn FnOnce(&KernelReport) + Send>);

impl std::fmt::Debug for WhenBegun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WhenBegun").finish_non_exhaustive()
    }
}

impl RemoteCell {
    pub(super) async fn begin(
        answer: hyper::Response<Incoming>,
        client: Client,
        process: Arc<Process>,
    ) -> Result<Self, ClientError> {
        let mut lines = JsonLines::new(answer.into_body());
        match lines.next().await? {
            Some(Line::Accepted { id, opened }) => Ok(Self {
                id,
                opened,
                lines,
                client,
                live: None,
                watched: Watched::new(process),
                when_begun: None,
                given_up: None,
                missed: Missed::default(),
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

    /// Has this done once the cell begins, before anything that it prints is handed on; with its
    /// kernel.
    pub fn when_begun(&mut self, done: impl FnOnce(&KernelReport) + Send + 'static) {
        self.when_begun = Some(WhenBegun(Box::new(done)));
    }

    /// With which waiting for it is given up, for a reason: its result is then what was seen of it.
    pub fn giving_up(&mut self) -> oneshot::Sender<ClientError> {
        let (giving_up, given_up) = oneshot::channel();
        self.given_up = Some(given_up);
        giving_up
    }

    /// The manager it runs in.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads along to the end: the result, and what of the output this stream has left out. What is
    /// handed on may still be on its way then. If the connection ends before the result, that is what
    /// was seen of the cell, and says so.
    ///
    /// # Errors
    ///
    /// If the manager says what makes no sense.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the cell is interrupted.
    pub async fn outcome(mut self) -> Result<(Outcome, Missed), ClientError> {
        let outcome = match self.follow().await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(given_up)) => self.watched.given_up(&given_up),
            Err(ClientError::Lost { reason, .. }) => {
                self.watched.cut_off(&reason, self.missed.bytes).await
            }
            Err(error) => return Err(error),
        };
        Ok((outcome, self.missed))
    }

    /// To its end, or until it is given up.
    async fn follow(&mut self) -> Result<Result<Outcome, ClientError>, ClientError> {
        let mut hand = self.live.take().map(Hand::new);
        let given_up = self.given_up.take();
        let given_up = async {
            match given_up {
                Some(given_up) => given_up.await.ok(),
                None => None,
            }
        };
        let ended = tokio::select! {
            biased;
            ended = self.read(&mut hand) => ended.map(Ok),
            Some(error) = given_up => Ok(Err(error)),
        };
        if let Some(mut hand) = hand {
            let here = hand.spool.take_missed();
            self.missed.bytes += here.bytes;
            self.missed.why = here.why;
            tokio::spawn(async move { while hand.on().await {} });
        }
        ended
    }

    async fn read(&mut self, hand: &mut Option<Hand>) -> Result<Outcome, ClientError> {
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
                Some(Line::Display(text)) => LiveEvent::display(&text),
                Some(Line::MissedBytes(bytes)) => {
                    self.missed.bytes += bytes;
                    continue;
                }
                Some(Line::Finished(finished)) => return Ok(finished.into_outcome()),
                Some(Line::Started { kernel }) => {
                    if let Some(WhenBegun(done)) = self.when_begun.take() {
                        done(&kernel);
                    }
                    self.watched.begun = Some((kernel, Instant::now()));
                    continue;
                }
                Some(Line::Accepted { .. }) => continue,
                None => break,
            };
            self.watched.output.take(&event);
            if let Some(hand) = hand {
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
