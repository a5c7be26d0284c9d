//! Collects what one cell prints and shows.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::kept::{Keeping, Kept};
use super::live::{LiveEvent, LiveSender};
use super::transcript::Transcript;
use crate::jupyter::{Published, PublishedKind, RawMessage, awaited_display};
use crate::kernel::{CellSink, Pressure, SharedSink};
use crate::output::redact::{Redactor, Rules};
use crate::output::{Part, Windowed};

/// How much of the output a result shows, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Of stdout.
    pub stdout: usize,
    /// Of stderr.
    pub stderr: usize,
}

/// Watches the output as it comes; for event streams.
pub trait Watcher: Send {
    /// Whether what comes now is of any interest.
    fn is_watching(&self) -> bool;

    /// Is shown what has come.
    fn see(&mut self, event: &LiveEvent);
}

/// The sink of one cell.
pub(super) struct CellOutput {
    stdout: Transcript,
    stderr: Transcript,
    result: Option<String>,
    unreadable: u64,
    /// What is masked; nothing if there are none.
    rules: Option<Rules>,
    /// Secrets in values and displays.
    redacted: u64,
    /// Makes files of it; nothing if none are wanted.
    keeping: Option<Keeping>,
    live: Option<LiveSender>,
    watcher: Option<Box<dyn Watcher>>,
}

/// What was collected.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) stdout: Windowed,
    pub(super) stderr: Windowed,
    pub(super) result: Option<String>,
    /// Messages that could not be read.
    pub(super) unreadable: u64,
    /// Secrets that were masked.
    pub(super) redacted: u64,
    /// What is in files by now.
    pub(super) kept: Kept,
}

impl std::fmt::Debug for CellOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellOutput")
            .field("stdout_bytes", &self.stdout.total())
            .finish_non_exhaustive()
    }
}

impl CellOutput {
    pub(super) fn new(
        caps: Caps,
        rules: Option<&Rules>,
        keeping: Option<Keeping>,
        live: Option<LiveSender>,
        watcher: Option<Box<dyn Watcher>>,
    ) -> Self {
        Self {
            stdout: Transcript::new(caps.stdout, rules),
            stderr: Transcript::new(caps.stderr, rules),
            result: None,
            unreadable: 0,
            rules: rules.cloned(),
            redacted: 0,
            keeping,
            live,
            watcher,
        }
    }

    /// What was collected so far.
    pub(super) fn so_far(&self) -> Collected {
        Collected {
            kept: self
                .keeping
                .as_ref()
                .map(Keeping::so_far)
                .unwrap_or_default(),
            ..self.collected(self.stdout.clone(), self.stderr.clone())
        }
    }

    /// Takes out what makes files of it, once all was [taken](Self::take).
    pub(super) fn take_keeping(&mut self) -> Option<Keeping> {
        self.keeping.take()
    }

    /// Takes out what was collected; the live stream ends.
    pub(super) fn take(&mut self) -> Collected {
        self.flush();
        self.live = None;
        self.watcher = None;
        let stdout = std::mem::replace(&mut self.stdout, Transcript::new(0, None));
        let stderr = std::mem::replace(&mut self.stderr, Transcript::new(0, None));
        self.collected(stdout, stderr)
    }

    fn collected(&self, stdout: Transcript, stderr: Transcript) -> Collected {
        let (stdout, out) = stdout.finish();
        let (stderr, err) = stderr.finish();
        Collected {
            stdout,
            stderr,
            result: self.result.clone(),
            unreadable: self.unreadable,
            redacted: self.redacted + out + err,
            kept: Kept::default(),
        }
    }

    /// What was held back since it might be the beginning of a secret is seen now.
    fn flush(&mut self) {
        self.pass(Stream::Stdout, None);
        self.pass(Stream::Stderr, None);
    }

    /// Bytes of a stream on their way; or what of it was held back.
    fn pass(&mut self, stream: Stream, bytes: Option<&[u8]>) {
        let is_seen =
            self.live.is_some() || self.watcher.as_ref().is_some_and(|it| it.is_watching());
        let mut seen = Vec::new();
        let (transcript, mut keeping) = match stream {
            Stream::Stdout => (&mut self.stdout, self.keeping.as_mut()),
            Stream::Stderr => (&mut self.stderr, None),
        };
        let mut tell = |part: Part<'_>| {
            let (Part::Text(bytes) | Part::Escape(bytes)) = part;
            if is_seen {
                seen.extend_from_slice(bytes);
            }
            if let (Some(keeping), Part::Text(text)) = (&mut keeping, part) {
                keeping.text(text);
            }
        };
        match bytes {
            Some(bytes) => transcript.print(bytes, &mut tell),
            None => transcript.flush(&mut tell),
        }
        if !seen.is_empty() {
            let seen = Bytes::from(seen);
            self.hand_on(|| match stream {
                Stream::Stdout => LiveEvent::Stdout(seen),
                Stream::Stderr => LiveEvent::Stderr(seen),
            });
        }
    }

    /// The cell shows something.
    pub(super) fn publish(&mut self, mut shown: Published) {
        self.flush();
        if let Some(rules) = &self.rules {
            let redacted = &mut self.redacted;
            shown.change_texts(&mut |text| {
                let (text, count) = Redactor::once(rules, text);
                *redacted += count;
                (count > 0).then_some(text)
            });
        }
        let text = shown.text();
        let shown = Arc::new(shown);
        if let Some(keeping) = &mut self.keeping {
            keeping.show(&shown);
        }
        if shown.kind == PublishedKind::Result {
            self.result.clone_from(&text);
            if shown.data.mimes().eq(["text/plain"]) {
                return self.hand_on(|| LiveEvent::Result(text.unwrap_or_default()));
            }
        } else if let Some(text) = text {
            let line = self.stdout.show(&text);
            if let Some(keeping) = &mut self.keeping {
                keeping.text(line.as_bytes());
            }
        }
        self.hand_on(|| LiveEvent::Published(shown));
    }

    fn hand_on(&mut self, event: impl FnOnce() -> LiveEvent) {
        let mut watcher = self.watcher.as_mut().filter(|it| it.is_watching());
        if self.live.is_none() && watcher.is_none() {
            return;
        }
        let event = event();
        if let Some(watcher) = &mut watcher {
            watcher.see(&event);
        }
        if let Some(live) = &self.live {
            live.send(event);
        }
    }
}

/// One of the two streams of a cell.
#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

/// A sink for what a kernel prints while it is ended in good order, or of a question. By rules secrets
/// are masked.
pub fn shutdown_sink(live: LiveSender, rules: Option<&Rules>) -> SharedSink {
    let caps = Caps {
        stdout: 0,
        stderr: 0,
    };
    Arc::new(Mutex::new(CellOutput::new(
        caps,
        rules,
        None,
        Some(live),
        None,
    )))
}

impl CellSink for CellOutput {
    fn stdout(&mut self, chunk: &[u8]) {
        self.pass(Stream::Stdout, Some(chunk));
    }

    fn stderr(&mut self, chunk: &[u8]) {
        self.pass(Stream::Stderr, Some(chunk));
    }

    fn message(&mut self, msg_type: &str, message: RawMessage) {
        let Some(kind) = PublishedKind::parse(msg_type) else {
            return;
        };
        if kind == PublishedKind::Error && awaited_display(&message.metadata).is_none() {
            // How a cell failed stands in its reply; kernels that are not ours say it here too.
            return;
        }
        match Published::read(kind, message) {
            Ok(shown) => self.publish(shown),
            Err(error) => {
                self.unreadable += 1;
                tracing::warn!(%error, "what a cell shows could not be read");
            }
        }
    }

    fn pressure(&self) -> Option<Arc<Pressure>> {
        let keeping = self.keeping.as_ref().map(Keeping::pressure);
        keeping.or_else(|| self.live.as_ref().map(LiveSender::pressure))
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
