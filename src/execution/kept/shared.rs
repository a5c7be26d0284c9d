//! What waits to be written, between the cell's sink and the task that writes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Artifact;
use crate::jupyter::Published;
use crate::kernel::Pressure;

/// Bytes that are worth a write, while more may come.
const PIECE_BYTES: usize = 128 << 10;

/// Something shown that is to be a file.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) published: Arc<Published>,
    /// Which of its forms.
    pub(super) form: usize,
}

/// The next things to be written.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) text: Vec<u8>,
    pub(super) shown: Vec<Shown>,
}

/// Bounded by the pressure: while too much waits the kernel is not read.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Notify,
    pressure: Arc<Pressure>,
}

#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is set once, by another side"
)]
struct State {
    waiting: Batch,
    /// The sizes of what waits, as the pressure knows them.
    bytes: usize,
    /// What waits is to be written now.
    is_wanted: bool,
    /// Nothing more comes.
    ended: bool,
    /// Nothing more of the text, or of anything, is taken.
    text_given_up: bool,
    given_up: bool,
    /// Where the output is being written.
    path: Option<PathBuf>,
    /// Somebody was told that.
    told: bool,
    /// It gets its last name.
    closing: bool,
    artifacts: Vec<Artifact>,
}

impl State {
    /// Whether something is to be written. A flood is, in large pieces; its first one makes the file.
    fn is_due(&self) -> bool {
        let now = self.path.is_none() || self.is_wanted || self.ended;
        let text = &self.waiting.text;
        !self.waiting.shown.is_empty() || text.len() >= PIECE_BYTES || (now && !text.is_empty())
    }
}

impl Shared {
    pub(super) fn new(pressure: Arc<Pressure>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Notify::new(),
            pressure,
        })
    }

    pub(super) fn pressure(&self) -> Arc<Pressure> {
        Arc::clone(&self.pressure)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The side of the sink.

    /// Takes text; never blocks.
    pub(super) fn text(&self, bytes: &[u8]) {
        {
            let mut state = self.state();
            if state.text_given_up || state.given_up {
                return;
            }
            state.waiting.text.extend_from_slice(bytes);
            state.bytes += bytes.len();
            self.pressure.add(bytes.len());
            if !state.is_due() {
                return;
            }
        }
        self.changed.notify_one();
    }

    pub(super) fn shown(&self, shown: Shown, bytes: usize) {
        {
            let mut state = self.state();
            if state.given_up {
                return;
            }
            state.waiting.shown.push(shown);
            state.bytes += bytes;
            self.pressure.add(bytes);
        }
        self.changed.notify_one();
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.changed.notify_one();
    }

    /// What there is already, for one who does not wait for the end: the output stays where it is from
    /// then on.
    pub(super) fn so_far(&self) -> (Option<PathBuf>, Vec<Artifact>) {
        let mut state = self.state();
        let path = state.path.clone().filter(|_| !state.closing);
        state.told |= path.is_some();
        // Whoever asks looks into it.
        state.is_wanted = true;
        let artifacts = state.artifacts.clone();
        drop(state);
        self.changed.notify_one();
        (path, artifacts)
    }

    pub(super) fn artifacts(&self) -> Vec<Artifact> {
        self.state().artifacts.clone()
    }

    // The side of the task.

    /// What is to be written next; `None` once everything was. An empty buffer takes the place of the
    /// one that goes.
    pub(super) async fn next(&self, spare: Vec<u8>) -> Option<Batch> {
        let mut spare = Some(spare);
        loop {
            {
                let mut state = self.state();
                if state.is_due() {
                    state.is_wanted = false;
                    let text = spare.take().unwrap_or_default();
                    let empty = Batch {
                        text,
                        shown: Vec::new(),
                    };
                    self.pressure.take(std::mem::take(&mut state.bytes));
                    return Some(std::mem::replace(&mut state.waiting, empty));
                }
                if state.ended {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    pub(super) fn writes_to(&self, path: PathBuf) {
        self.state().path = Some(path);
    }

    /// The text will not be kept.
    pub(super) fn give_up_text(&self) {
        let mut state = self.state();
        state.text_given_up = true;
        state.path = None;
    }

    /// Nothing more will be kept.
    pub(super) fn give_up(&self) {
        let mut state = self.state();
        state.given_up = true;
        state.path = None;
        state.waiting = Batch::default();
        self.pressure.take(std::mem::take(&mut state.bytes));
    }

    /// The output gets its last name: whether it may be another.
    pub(super) fn close(&self) -> bool {
        let mut state = self.state();
        state.closing = true;
        !state.told
    }

    pub(super) fn made(&self, artifact: Artifact) {
        self.state().artifacts.push(artifact);
    }
}
