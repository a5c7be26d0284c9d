//! What a kernel prints while no cell runs, told to those who watch.

use std::sync::{Arc, Mutex, PoisonError};

use super::EventKind;
use super::event::pieces_of;
use super::session::Shared;
use crate::kernel::LateSink;
use crate::output::redact::Rules;
use crate::output::{Characters, Part, Pipe};

/// Makes events of it. The kernel itself keeps the end of it for the next result.
#[derive(Debug)]
pub(super) struct LateOutput {
    shared: Arc<Shared>,
    /// Of stdout and stderr: what is on its way, and unfinished characters.
    streams: Mutex<[(Pipe, Characters); 2]>,
}

impl LateOutput {
    /// Of a kernel of this session. What may be the beginning of a secret waits for what follows.
    pub(super) fn of(shared: &Arc<Shared>, rules: &Rules) -> Arc<Self> {
        let stream = || (Pipe::new(Some(rules)), Characters::default());
        Arc::new(Self {
            shared: Arc::clone(shared),
            streams: Mutex::new([stream(), stream()]),
        })
    }
}

impl LateSink for LateOutput {
    fn printed(&self, is_stderr: bool, chunk: &[u8]) {
        let events = &self.shared.events;
        if !events.is_watched() {
            return;
        }
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let [stdout, stderr] = &mut *streams;
        let (stream, (pipe, characters)) = if is_stderr {
            ("stderr", stderr)
        } else {
            ("stdout", stdout)
        };
        let mut seen = Vec::new();
        pipe.push(chunk, &mut |part| {
            let (Part::Text(bytes) | Part::Escape(bytes)) = part;
            seen.extend_from_slice(bytes);
        });
        let whole = characters.whole(&seen);
        let cell = self.shared.facts.latest_cell();
        for text in pieces_of(&whole) {
            events.emit(cell, EventKind::LateOutput { stream, text });
        }
    }
}
