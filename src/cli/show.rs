//! Prints what cells print, as it comes.

use std::io::{self, IsTerminal, Write};

use bytes::Bytes;

use super::streams;
use super::writer::{Taken, Writer};
use crate::execution::{LiveEvent, LiveOutput, Outcome};
use crate::output::{Ansi, Part, strip};
use crate::process::ProcessError;
use crate::words::{agreeing, counted};

/// Bytes that go out together: each write is a way to another thread and back.
const TOGETHER_BYTES: usize = 256 * 1024;

/// Our own stdout and stderr.
#[derive(Debug)]
pub(super) struct Screen {
    stdout: Writer,
    stderr: Writer,
    taken: Taken,
    lines: Lines,
    /// Of streams that are no terminals: there control sequences mean nothing.
    stdout_plain: Option<Ansi>,
    stderr_plain: Option<Ansi>,
}

/// Where lines have begun and not ended.
#[derive(Debug)]
struct Lines {
    /// Whether both streams are one terminal, pipe or file.
    one_place: bool,
    stdout_open: bool,
    stderr_open: bool,
}

impl Lines {
    fn stdout(&mut self, bytes: &[u8]) {
        self.stdout_open = is_open(bytes, self.stdout_open);
        if self.one_place {
            self.stderr_open = self.stdout_open;
        }
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.stderr_open = is_open(bytes, self.stderr_open);
        if self.one_place {
            self.stdout_open = self.stderr_open;
        }
    }
}

/// Prints one result before, or without, a screen.
pub(super) fn json_line(outcome: &Outcome) -> io::Result<()> {
    let line = serde_json::to_string(outcome).unwrap_or_default();
    writeln!(streams::stdout(), "{line}")
}

fn is_open(bytes: &[u8], before: bool) -> bool {
    bytes.last().map_or(before, |last| *last != b'\n')
}

impl Screen {
    pub(super) fn new() -> Self {
        let taken = Taken::default();
        let place = |stream| {
            let found = rustix::fs::fstat(stream).ok()?;
            Some((found.st_dev, found.st_ino))
        };
        let (stdout, stderr) = (rustix::stdio::stdout(), rustix::stdio::stderr());
        let one_place = place(stdout).is_some_and(|it| Some(it) == place(stderr));
        Self {
            stdout: Writer::new("stdout", stdout, taken.clone()),
            stderr: Writer::new("stderr", stderr, taken.clone()),
            taken,
            lines: Lines {
                one_place,
                stdout_open: false,
                stderr_open: false,
            },
            stdout_plain: (!io::stdout().is_terminal()).then(Ansi::default),
            stderr_plain: (!io::stderr().is_terminal()).then(Ansi::default),
        }
    }

    /// Takes now what it may need of the system: later there may be nothing to be had.
    pub(super) fn prepare(&self) -> Result<(), ProcessError> {
        self.stdout.start()?;
        self.stderr.start()
    }

    /// How much was taken of it; rises while somebody reads.
    pub(super) fn taken(&self) -> Taken {
        self.taken.clone()
    }

    /// Shows a cell's output to its end. Fails if stdout is closed; a closed stderr loses what
    /// would stand there.
    pub(super) async fn follow(&mut self, pieces: &mut LiveOutput) -> io::Result<()> {
        // Nothing stands between cells: half a line of the last one is no business of this one.
        self.lines.stdout_open = false;
        while let Some(event) = pieces.next_together(TOGETHER_BYTES).await {
            self.piece(&event).await?;
        }
        let rest = ended(&mut self.stdout_plain);
        self.out(rest).await?;
        let rest = ended(&mut self.stderr_plain);
        self.error_text(rest).await;
        Ok(())
    }

    /// Shows what is left on stdout alone: nobody reads stderr.
    pub(super) async fn leftovers(&mut self, pieces: &mut LiveOutput) -> io::Result<()> {
        while let Some(event) = pieces.next_together_now(TOGETHER_BYTES) {
            if !matches!(event, LiveEvent::Stderr(_)) {
                self.piece(&event).await?;
            }
        }
        Ok(())
    }

    /// Shows what a kernel printed as it was ended.
    pub(super) async fn last_words(&mut self, pieces: &[LiveEvent]) -> io::Result<()> {
        for piece in pieces {
            self.piece(piece).await?;
        }
        Ok(())
    }

    async fn piece(&mut self, event: &LiveEvent) -> io::Result<()> {
        match event {
            LiveEvent::Stdout(bytes) => {
                let bytes = passing(&mut self.stdout_plain, bytes);
                self.out(bytes).await
            }
            LiveEvent::Published(shown) => match shown.text() {
                Some(text) => self.value(&text).await,
                None => Ok(()),
            },
            LiveEvent::Result(text) => self.value(text).await,
            LiveEvent::Stderr(bytes) => {
                let bytes = passing(&mut self.stderr_plain, bytes);
                self.error_text(bytes).await;
                Ok(())
            }
        }
    }

    /// What a cell shows, on a line of its own.
    async fn value(&mut self, text: &str) -> io::Result<()> {
        let newline = if self.lines.stdout_open { "\n" } else { "" };
        let mut shown = format!("{newline}{text}\n").into_bytes();
        if self.stdout_plain.is_some() {
            shown = strip(&shown);
        }
        self.out(shown.into()).await
    }

    /// Shows what no stream has carried.
    pub(super) async fn rest(&mut self, outcome: &Outcome) {
        if let Some(traceback) = &outcome.beside_streams.traceback {
            self.line(traceback).await;
        }
        for notice in &outcome.beside_streams.notices {
            self.line(notice).await;
        }
        if let Some(warning) = &outcome.warning {
            self.notice(warning).await;
        }
        if outcome.redacted > 0 {
            let (secrets, were) = (
                counted(outcome.redacted, "secret"),
                agreeing(outcome.redacted, "was", "were"),
            );
            let sentence =
                format!("{secrets} {were} masked as [redacted:KIND]; --no-redact shows all");
            self.notice(&sentence).await;
        }
    }

    /// A sentence of ours.
    pub(super) async fn notice(&mut self, sentence: &str) {
        self.line(&format!("warmcell: {sentence}")).await;
    }

    /// One JSON object on a line.
    pub(super) async fn json(&mut self, outcome: &Outcome) -> io::Result<()> {
        let mut line = serde_json::to_vec(outcome)?;
        line.push(b'\n');
        self.out(line.into()).await
    }

    /// Lines of ours on stderr; they do not stand behind half a line of a cell's.
    async fn line(&mut self, text: &str) {
        let newline = if self.lines.stderr_open { "\n" } else { "" };
        self.error_text(format!("{newline}{text}\n").into()).await;
    }

    async fn out(&mut self, bytes: Bytes) -> io::Result<()> {
        if streams::is_stdout_closed() && !bytes.is_empty() {
            return Err(streams::closed());
        }
        self.lines.stdout(&bytes);
        self.stdout.write(bytes).await
    }

    async fn error_text(&mut self, bytes: Bytes) {
        self.lines.stderr(&bytes);
        // With stderr closed there is nobody to tell.
        drop(self.stderr.write(bytes).await);
    }
}

/// What goes out of what has come: all of it, or the text alone.
fn passing(plain: &mut Option<Ansi>, bytes: &Bytes) -> Bytes {
    let Some(ansi) = plain else {
        return bytes.clone();
    };
    let mut text = Vec::with_capacity(bytes.len());
    ansi.push(bytes, &mut |part| {
        if let Part::Text(bytes) = part {
            text.extend_from_slice(bytes);
        }
    });
    text.into()
}

/// What was held back since it might be the beginning of a sequence; the cell has ended.
fn ended(plain: &mut Option<Ansi>) -> Bytes {
    let mut text = Vec::new();
    if let Some(ansi) = plain {
        ansi.finish(&mut |part| {
            if let Part::Text(bytes) = part {
                text.extend_from_slice(bytes);
            }
        });
    }
    text.into()
}
