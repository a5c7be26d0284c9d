//! What happens in a session, in order, for those who watch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::session::Shared;
use super::shown::{Shown, shown_in_event};
use crate::execution::{LiveEvent, Outcome, Watcher};
use crate::kernel::{KernelState, Transition};
use crate::output::Characters;
use crate::provisioner::KernelExit;

/// Events that a watcher may lag behind before it misses some.
const CAPACITY: usize = 256;
/// Bytes of text in one event.
const TEXT_BYTES: usize = 16 * 1024;

/// One thing that happened.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Rises by one in each session.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// The session's name.
    pub session: String,
    /// Which kernel of the session.
    pub generation: u64,
    /// The number of the cell, where it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<u64>,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// The kernel does something else now.
    KernelState {
        /// What it did.
        from: KernelState,
        /// What it does.
        to: KernelState,
        /// Why.
        reason: String,
    },
    /// A cell waits for its turn.
    CellQueued,
    /// A cell runs.
    CellStarted {
        /// Its number in its kernel, as in `<cell N>`.
        #[serde(skip)]
        execution_count: u64,
        /// Its code; of a long one the beginning, 16 KiB, and how much is missing.
        #[serde(skip)]
        code: Arc<str>,
    },
    /// It printed.
    Stdout {
        /// What, invalid UTF-8 replaced.
        text: String,
    },
    /// It printed as an error.
    Stderr {
        /// What, invalid UTF-8 replaced.
        text: String,
    },
    /// The value of its last expression.
    Result {
        /// Its repr.
        data: String,
        /// The value in all its forms, where it has others.
        #[serde(skip_serializing_if = "Option::is_none")]
        shown: Option<Shown>,
    },
    /// It shows something.
    Display(Shown),
    /// What is shown under a name changes.
    UpdateDisplay(Shown),
    /// What a front end shows of the cell is to go.
    ClearOutput {
        /// Only once there is something new.
        wait: bool,
    },
    /// It called a tool.
    ToolStarted {
        /// The number of the call in the cell.
        id: u64,
        /// The tool.
        tool: String,
    },
    /// A tool call has ended.
    ToolFinished {
        /// The number of the call in the cell.
        id: u64,
        /// Whether it has no error.
        ok: bool,
        /// How long it took.
        ms: u64,
    },
    /// A cell has ended.
    CellFinished {
        /// Its result.
        outcome: Box<Outcome>,
    },
    /// The kernel's process is gone.
    KernelExited {
        /// Its exit code.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// The signal that ended it.
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// Something was printed while no cell ran. The event bears the number of the last cell that has run.
    LateOutput {
        /// `stdout` or `stderr`.
        stream: &'static str,
        /// What, invalid UTF-8 replaced.
        text: String,
    },
    /// The watcher was too slow.
    Lagged {
        /// So many events are missing here.
        missed: u64,
    },
}

/// Numbers events and hands them to those who watch.
#[derive(Debug)]
pub(super) struct EventLog {
    session: String,
    /// Held while an event is handed out: those who watch see the numbers in order.
    seq: Mutex<u64>,
    generation: AtomicU64,
    sender: broadcast::Sender<Event>,
    /// Fires when nothing more will happen, whoever still holds a handle.
    ended: CancellationToken,
}

impl EventLog {
    pub(super) fn new(session: String) -> Self {
        Self {
            session,
            seq: Mutex::new(0),
            generation: AtomicU64::new(0),
            sender: broadcast::Sender::new(CAPACITY),
            ended: CancellationToken::new(),
        }
    }

    pub(super) fn watch(&self) -> EventStream {
        let seq = self.seq();
        EventStream {
            receiver: self.sender.subscribe(),
            ended: self.ended.clone(),
            seq: *seq,
            session: self.session.clone(),
            generation: self.generation.load(Ordering::Relaxed),
        }
    }

    /// Whether anybody watches: what costs is left out otherwise.
    pub(super) fn is_watched(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Nothing more will happen: those who watch see the end once they have seen everything.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    pub(super) fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    pub(super) fn emit(&self, cell: Option<u64>, kind: EventKind) {
        let mut seq = self.seq();
        *seq += 1;
        if !self.is_watched() {
            return;
        }
        let event = Event {
            seq: *seq,
            at: Timestamp::now(),
            session: self.session.clone(),
            generation: self.generation.load(Ordering::Relaxed),
            cell,
            kind,
        };
        // Nobody watches any more.
        drop(self.sender.send(event));
    }

    fn seq(&self) -> MutexGuard<'_, u64> {
        self.seq.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn transition(&self, transition: Option<Transition>, reason: &str) {
        if let Some(Transition { from, to }) = transition {
            tracing::debug!(session = %self.session, ?from, ?to, reason, "kernel state");
            let reason = reason.to_owned();
            self.emit(None, EventKind::KernelState { from, to, reason });
        }
    }

    pub(super) fn exited(&self, exit: &KernelExit) {
        let (code, signal) = match exit {
            KernelExit::Code(code) => (Some(*code), None),
            KernelExit::Signal(signal) => (None, Some(*signal)),
            KernelExit::ForkserverGone { .. } | KernelExit::Unknown => (None, None),
        };
        self.emit(None, EventKind::KernelExited { code, signal });
    }

    /// Output of a cell, as events of a bounded size. A character that was cut by the pipe is put
    /// together again.
    fn output(&self, cell: u64, texts: &mut Texts, event: &LiveEvent) {
        match event {
            LiveEvent::Stdout(bytes) => {
                for text in pieces_of(&texts.stdout.whole(bytes)) {
                    self.emit(Some(cell), EventKind::Stdout { text });
                }
            }
            LiveEvent::Stderr(bytes) => {
                for text in pieces_of(&texts.stderr.whole(bytes)) {
                    self.emit(Some(cell), EventKind::Stderr { text });
                }
            }
            LiveEvent::Result(data) => {
                let data = data.clone();
                self.emit(Some(cell), EventKind::Result { data, shown: None });
            }
            LiveEvent::Published(published) => {
                if let Some(kind) = shown_in_event(published) {
                    self.emit(Some(cell), kind);
                }
            }
        }
    }
}

/// The unfinished characters of a cell's streams.
#[derive(Debug, Default)]
struct Texts {
    stdout: Characters,
    stderr: Characters,
}

/// Makes events of what a cell prints, for those who watch, whenever they have come.
#[derive(Debug)]
pub(super) struct OutputEvents {
    shared: Arc<Shared>,
    cell: u64,
    texts: Texts,
}

impl OutputEvents {
    pub(super) fn new(shared: Arc<Shared>, cell: u64) -> Self {
        Self {
            shared,
            cell,
            texts: Texts::default(),
        }
    }
}

impl Watcher for OutputEvents {
    fn is_watching(&self) -> bool {
        self.shared.events.is_watched()
    }

    fn see(&mut self, event: &LiveEvent) {
        let events = &self.shared.events;
        events.output(self.cell, &mut self.texts, event);
    }
}

/// The code of a cell as it is shown beside its output: of a long one the beginning.
pub(super) fn shown_code(code: &str) -> Arc<str> {
    if code.len() <= TEXT_BYTES {
        return code.into();
    }
    let mut end = TEXT_BYTES;
    while !code.is_char_boundary(end) {
        end -= 1;
    }
    let (beginning, rest) = code.split_at(end);
    format!("{beginning}\n# [{} more bytes]", rest.len()).into()
}

/// The text of bytes, in pieces of a bounded size.
pub(super) fn pieces_of(bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    let text = String::from_utf8_lossy(bytes);
    let mut text = text.as_ref();
    while !text.is_empty() {
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, more) = text.split_at(end);
        texts.push(piece.to_owned());
        text = more;
    }
    texts
}

/// The events of a session from some moment on.
#[derive(Debug)]
pub struct EventStream {
    receiver: broadcast::Receiver<Event>,
    ended: CancellationToken,
    /// The number of the latest event that was seen or missed.
    seq: u64,
    session: String,
    generation: u64,
}

impl EventStream {
    /// The next event; `None` when the session was closed and all its events were seen. A watcher that was too slow gets
    /// [`EventKind::Lagged`] in place of what it missed.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Option<Event> {
        let received = tokio::select! {
            biased;
            received = self.receiver.recv() => received,
            () = self.ended.cancelled() => match self.receiver.try_recv() {
                Ok(event) => Ok(event),
                Err(broadcast::error::TryRecvError::Lagged(missed)) => {
                    Err(broadcast::error::RecvError::Lagged(missed))
                }
                Err(_nothing_is_left) => return None,
            },
        };
        match received {
            Ok(event) => {
                self.seq = event.seq;
                self.generation = event.generation;
                Some(event)
            }
            Err(broadcast::error::RecvError::Closed) => None,
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                self.seq += missed;
                Some(Event {
                    seq: self.seq,
                    at: Timestamp::now(),
                    session: self.session.clone(),
                    generation: self.generation,
                    cell: None,
                    kind: EventKind::Lagged { missed },
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_watcher_is_told_how_much_it_missed() {
        let log = EventLog::new("s".to_owned());
        let mut stream = log.watch();
        for _ in 0..CAPACITY + 10 {
            log.emit(Some(1), EventKind::CellQueued);
        }
        let lagged = stream.next().await.unwrap();
        assert!(
            matches!(lagged.kind, EventKind::Lagged { missed: 10 }),
            "{lagged:?}"
        );
        assert_eq!(lagged.seq, 10);
        let next = stream.next().await.unwrap();
        assert_eq!(next.seq, 11);
        let json = serde_json::to_value(&next).unwrap();
        assert_eq!(json["kind"], "cell_queued");
        assert_eq!(json["cell"], 1);
    }
}
