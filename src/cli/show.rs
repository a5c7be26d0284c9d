//! Prints what cells print, as it comes.

use std::cell::Cell;
use std::io;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, Stderr, Stdout};

use crate::execution::{LiveEvent, LiveOutput, Outcome};

/// Bytes that go out in one write.
const WRITE_BYTES: usize = 256 * 1024;

/// Our own stdout and stderr.
#[derive(Debug)]
pub(super) struct Screen {
    stdout: Stdout,
    stderr: Stderr,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self {
            stdout: tokio::io::stdout(),
            stderr: tokio::io::stderr(),
        }
    }

    /// Shows a cell's output to its end. Fails if stdout is closed; a closed stderr loses what
    /// would stand there.
    /// `progress` rises with every piece that was taken.
    pub(super) async fn follow(
        &mut self,
        live: &mut LiveOutput,
        progress: &Cell<u64>,
    ) -> io::Result<()> {
        let mut at_line_start = true;
        let mut next = live.next().await;
        while let Some(event) = next {
            // What has come meanwhile goes out in the same write: each one is a way to another
            // thread and back.
            let (event, after) = together(event, live);
            self.piece(&event, &mut at_line_start).await?;
            progress.set(progress.get() + 1);
            next = match after {
                Some(event) => Some(event),
                None => live.next().await,
            };
        }
        Ok(())
    }

    /// Shows what a kernel printed as it was ended.
    pub(super) async fn last_words(&mut self, pieces: &[LiveEvent]) -> io::Result<()> {
        let mut at_line_start = true;
        for piece in pieces {
            self.piece(piece, &mut at_line_start).await?;
        }
        Ok(())
    }

    async fn piece(&mut self, event: &LiveEvent, at_line_start: &mut bool) -> io::Result<()> {
        match event {
            LiveEvent::Stdout(bytes) => {
                *at_line_start = bytes.ends_with(b"\n");
                self.stdout.write_all(bytes).await?;
                self.stdout.flush().await
            }
            LiveEvent::Result(text) => {
                let newline = if *at_line_start { "" } else { "\n" };
                let line = format!("{newline}{text}\n");
                *at_line_start = true;
                self.stdout.write_all(line.as_bytes()).await?;
                self.stdout.flush().await
            }
            LiveEvent::Stderr(bytes) => {
                self.error_text(bytes).await;
                Ok(())
            }
        }
    }

    /// Shows what no stream has carried.
    pub(super) async fn rest(&mut self, outcome: &Outcome) {
        if let Some(traceback) = &outcome.beside_streams.traceback {
            self.error_text(format!("{traceback}\n").as_bytes()).await;
        }
        for notice in &outcome.beside_streams.notices {
            self.error_text(format!("{notice}\n").as_bytes()).await;
        }
        if let Some(warning) = &outcome.warning {
            self.notice(warning).await;
        }
    }

    /// A sentence of ours.
    pub(super) async fn notice(&mut self, sentence: &str) {
        self.error_text(format!("warmcell: {sentence}\n").as_bytes())
            .await;
    }

    /// One JSON object on a line.
    pub(super) async fn json(&mut self, outcome: &Outcome) -> io::Result<()> {
        let mut line = serde_json::to_vec(outcome)?;
        line.push(b'\n');
        self.stdout.write_all(&line).await?;
        self.stdout.flush().await
    }

    async fn error_text(&mut self, bytes: &[u8]) {
        // With stderr closed there is nobody to tell.
        drop(self.stderr.write_all(bytes).await);
        drop(self.stderr.flush().await);
    }
}

/// A piece of stdout with those that follow it and are there already, and the one after them.
fn together(first: LiveEvent, live: &mut LiveOutput) -> (LiveEvent, Option<LiveEvent>) {
    let LiveEvent::Stdout(first) = first else {
        return (first, None);
    };
    let mut joined: Option<Vec<u8>> = None;
    let mut after = None;
    while joined.as_ref().map_or(first.len(), Vec::len) < WRITE_BYTES {
        match live.next_now() {
            Some(LiveEvent::Stdout(bytes)) => {
                let joined = joined.get_or_insert_with(|| first.to_vec());
                joined.extend_from_slice(&bytes);
            }
            other => {
                after = other;
                break;
            }
        }
    }
    (LiveEvent::Stdout(joined.map_or(first, Bytes::from)), after)
}
