//! What a kernel prints while no cell runs, told to those who watch.

use std::sync::{Arc, Mutex, PoisonError};

use super::EventKind;
use super::event::pieces_of;
use super::session::Shared;
use crate::kernel::LateSink;
use crate::output::Characters;

/// Makes events of it. The kernel itself keeps the end of it for the next result.
#[derive(Debug)]
pub(super) struct LateOutput {
    shared: Arc<Shared>,
    /// The unfinished characters of stdout and stderr.
    unfinished: Mutex<[Characters; 2]>,
}

impl LateOutput {
    /// Of a kernel of this session.
    pub(super) fn of(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            unfinished: Mutex::default(),
        })
    }
}

impl LateSink for LateOutput {
    fn printed(&self, is_stderr: bool, chunk: &[u8]) {
        let events = &self.shared.events;
        if !events.is_watched() {
            return;
        }
        let mut unfinished = self
            .unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let [stdout, stderr] = &mut *unfinished;
        let (stream, characters) = if is_stderr {
            ("stderr", stderr)
        } else {
            ("stdout", stdout)
        };
        let whole = characters.whole(chunk);
        let cell = self.shared.facts.latest_cell();
        for text in pieces_of(&whole) {
            events.emit(cell, EventKind::LateOutput { stream, text });
        }
    }
}
