//! What a cell prints, handed on as it comes to somebody who must get all of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::jupyter::Published;
use crate::kernel::Pressure;

/// Bytes that may wait for the reader before the kernel is made to wait.
const WAITING_BYTES: usize = 256 * 1024;
/// About what one takes beside its content.
const PUBLISHED_BYTES: usize = 512;

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveEvent {
    /// Bytes of stdout.
    Stdout(Bytes),
    /// Bytes of stderr.
    Stderr(Bytes),
    /// The repr of the last expression, where it has no other form.
    Result(String),
    /// A value that has, a display, a comm.
    Published(Arc<Published>),
}

impl LiveEvent {
    /// A display of which only the text is known.
    pub fn display(text: &str) -> Self {
        Self::Published(Arc::new(Published::text_only(text)))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Stdout(bytes) | Self::Stderr(bytes) => bytes.len(),
            Self::Result(text) => text.len(),
            // With what is around it: many small ones take room too.
            Self::Published(published) => published.len() + PUBLISHED_BYTES,
        }
    }
}

/// The writing end, held by the sink of the cell.
#[derive(Debug, Clone)]
pub struct LiveSender {
    // Bounded by the pressure: the pipes are not read while too many bytes wait.
    events: mpsc::UnboundedSender<LiveEvent>,
    pressure: Arc<Pressure>,
}

/// The reading end. Whoever holds it and does not read slows the cell down, as in a pipe.
#[derive(Debug)]
pub struct LiveOutput {
    events: mpsc::UnboundedReceiver<LiveEvent>,
    pressure: Arc<Pressure>,
    /// A piece that was taken and not yet handed on.
    after: Option<LiveEvent>,
    /// Text of one stream that waits for more of it, and until when.
    gathered: Option<Gathered>,
}

#[derive(Debug)]
struct Gathered {
    is_stderr: bool,
    bytes: Vec<u8>,
    until: Instant,
}

impl From<Gathered> for LiveEvent {
    fn from(gathered: Gathered) -> Self {
        let bytes = Bytes::from(gathered.bytes);
        if gathered.is_stderr {
            Self::Stderr(bytes)
        } else {
            Self::Stdout(bytes)
        }
    }
}

/// A pair of ends.
pub fn live_output() -> (LiveSender, LiveOutput) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let pressure = Arc::new(Pressure::new(WAITING_BYTES));
    (
        LiveSender {
            events: sender,
            pressure: Arc::clone(&pressure),
        },
        LiveOutput {
            events: receiver,
            pressure,
            after: None,
            gathered: None,
        },
    )
}

impl LiveSender {
    /// Hands a piece on; one that nobody reads any more is dropped. Never blocks: whoever sends much
    /// looks at the pressure.
    pub fn send(&self, event: LiveEvent) {
        let bytes = event.len();
        // A reader that is gone slows nobody down.
        if self.events.send(event).is_ok() {
            self.pressure.add(bytes);
        }
    }

    /// How much waits for the reader.
    pub fn pressure(&self) -> Arc<Pressure> {
        Arc::clone(&self.pressure)
    }
}

impl LiveOutput {
    /// A piece that is there already.
    pub fn next_now(&mut self) -> Option<LiveEvent> {
        if let Some(event) = self.after.take() {
            return Some(event);
        }
        let event = self.events.try_recv().ok()?;
        self.pressure.take(event.len());
        Some(event)
    }

    /// As [`LiveOutput::next`]; pieces of stdout that follow one another and are there already come
    /// as one, up to about so many bytes: for those to whom each piece is a way.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again: nothing is lost.
    pub async fn next_together(&mut self, most: usize) -> Option<LiveEvent> {
        let first = self.next().await?;
        Some(self.with_those_that_follow(first, most))
    }

    /// As [`LiveOutput::next_together`], for people and files that keep what they get piece by piece:
    /// text waits up to `patience` for more of the same stream, and less if something else comes. What
    /// comes without a pause is cut at line ends, where it has one.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again: nothing is lost, and [`LiveOutput::gathered_now`] has what
    /// waits.
    pub async fn next_gathered(&mut self, most: usize, patience: Duration) -> Option<LiveEvent> {
        loop {
            let waiting = self.gathered.as_ref();
            if waiting.is_some_and(|it| it.bytes.len() >= most) {
                return self.gathered_lines(most, patience);
            }
            let next = match waiting.map(|it| it.until) {
                None => self.next().await,
                Some(until) => match timeout_at(until, self.next()).await {
                    Ok(next) => next,
                    Err(_elapsed) => return self.gathered_lines(most, patience),
                },
            };
            let (is_stderr, bytes) = match next {
                Some(LiveEvent::Stdout(bytes)) => (false, bytes),
                Some(LiveEvent::Stderr(bytes)) => (true, bytes),
                other if self.gathered.is_none() => return other,
                other => {
                    self.after = other;
                    return self.gathered_now();
                }
            };
            match &mut self.gathered {
                Some(waiting) if waiting.is_stderr == is_stderr => {
                    waiting.bytes.extend_from_slice(&bytes);
                }
                gathered => {
                    let next = Gathered {
                        is_stderr,
                        bytes: bytes.into(),
                        until: Instant::now() + patience,
                    };
                    if let Some(before) = gathered.replace(next) {
                        return Some(before.into());
                    }
                }
            }
        }
    }

    /// The lines that are whole; what follows them waits for its own end, or in vain. All of it, if
    /// there is no line end or much behind the last one.
    fn gathered_lines(&mut self, most: usize, patience: Duration) -> Option<LiveEvent> {
        let waiting = self.gathered.as_mut()?;
        let end = memchr::memrchr(b'\n', &waiting.bytes).map_or(0, |at| at + 1);
        let behind = waiting.bytes.len() - end;
        if end == 0 || behind == 0 || behind >= most {
            return self.gathered_now();
        }
        let rest = Gathered {
            is_stderr: waiting.is_stderr,
            bytes: waiting.bytes.split_off(end),
            until: Instant::now() + patience,
        };
        self.gathered.replace(rest).map(LiveEvent::from)
    }

    /// What [`LiveOutput::next_gathered`] holds back, and then what is there already.
    pub fn gathered_now(&mut self) -> Option<LiveEvent> {
        let gathered = self.gathered.take().map(LiveEvent::from);
        gathered.or_else(|| self.next_now())
    }

    /// As [`LiveOutput::next_together`], of what is there already.
    pub fn next_together_now(&mut self, most: usize) -> Option<LiveEvent> {
        let first = self.next_now()?;
        Some(self.with_those_that_follow(first, most))
    }

    fn with_those_that_follow(&mut self, first: LiveEvent, most: usize) -> LiveEvent {
        let LiveEvent::Stdout(first) = first else {
            return first;
        };
        let mut joined: Option<Vec<u8>> = None;
        while joined.as_ref().map_or(first.len(), Vec::len) < most {
            match self.next_now() {
                Some(LiveEvent::Stdout(bytes)) => joined
                    .get_or_insert_with(|| first.to_vec())
                    .extend_from_slice(&bytes),
                other => {
                    self.after = other;
                    break;
                }
            }
        }
        LiveEvent::Stdout(joined.map_or(first, Bytes::from))
    }

    /// The next piece; `None` when the cell has ended and everything was read.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        if let Some(event) = self.after.take() {
            return Some(event);
        }
        let event = self.events.recv().await?;
        self.pressure.take(event.len());
        Some(event)
    }
}

impl Drop for LiveOutput {
    fn drop(&mut self) {
        self.events.close();
        while let Ok(event) = self.events.try_recv() {
            self.pressure.take(event.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

    fn stdout(text: &'static str) -> LiveEvent {
        LiveEvent::Stdout(Bytes::from_static(text.as_bytes()))
    }

    fn stderr(text: &'static str) -> LiveEvent {
        LiveEvent::Stderr(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_in_pieces_is_read_as_one() {
        let (sender, mut live) = live_output();
        let writing = async move {
            let value = LiveEvent::Result("1".to_owned());
            for (pause, event) in [
                (0, stdout("Hello")),
                (60, stdout("\n")),
                // The patience is with the first of them.
                (60, stdout("later")),
                // What is something else waits for nothing and holds nothing up.
                (10, stderr("oh")),
                (10, value),
                (10, stdout("last")),
            ] {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                sender.send(event);
            }
        };
        let reading = async {
            let mut seen = Vec::new();
            let begun = Instant::now();
            while let Some(event) = live.next_gathered(1_000, PATIENCE).await {
                seen.push((begun.elapsed().as_millis(), event));
            }
            seen
        };
        let (seen, ()) = tokio::join!(reading, writing);
        assert_eq!(
            seen,
            [
                (100, stdout("Hello\n")),
                (130, stdout("later")),
                (140, stderr("oh")),
                (140, LiveEvent::Result("1".to_owned())),
                // At its end nothing more can come.
                (150, stdout("last")),
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_more_can_be_had_at_once() {
        let (sender, mut live) = live_output();
        for text in ["a", "b"] {
            sender.send(stdout(text));
        }
        let gathering = live.next_gathered(1_000, PATIENCE);
        let gathered = tokio::time::timeout(PATIENCE / 2, gathering).await;
        assert!(gathered.is_err());
        sender.send(stderr("c"));
        let now: Vec<_> = std::iter::from_fn(|| live.gathered_now()).collect();
        assert_eq!(now, [stdout("ab"), stderr("c")]);
        // Nor does much wait.
        sender.send(stdout("long"));
        let long = tokio::time::timeout(PATIENCE / 2, live.next_gathered(4, PATIENCE)).await;
        assert_eq!(long, Ok(Some(stdout("long"))));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_without_a_pause_is_cut_at_line_ends() {
        let (sender, mut live) = live_output();
        for text in ["one\ntwo\nth", "ree\nfour", "\n", "long", "long"] {
            sender.send(stdout(text));
        }
        drop(sender);
        let mut seen = Vec::new();
        while let Some(event) = live.next_gathered(8, PATIENCE).await {
            seen.push(event);
        }
        // Of a line that is as long as what goes together there is no end to wait for.
        let wanted = ["one\ntwo\n", "three\n", "four\n", "longlong"];
        assert_eq!(seen, wanted.map(stdout));
    }
}
