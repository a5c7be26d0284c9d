//! What a kernel prints while no cell runs, told to those who watch when it comes. A result tells it
//! too, later and in short.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::event::Texts;
use super::session::Shared;
use crate::execution::LiveEvent;
use crate::kernel::{Bystander, StreamName};

/// Makes events that concern no cell.
#[derive(Debug)]
pub(super) struct LateEvents {
    shared: Arc<Shared>,
    texts: Mutex<Texts>,
}

impl LateEvents {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            texts: Mutex::default(),
        }
    }
}

impl Bystander for LateEvents {
    fn sees(&self, stream: StreamName, chunk: &[u8]) {
        let events = &self.shared.events;
        if !events.is_watched() {
            return;
        }
        let bytes = Bytes::copy_from_slice(chunk);
        let event = match stream {
            StreamName::Stdout => LiveEvent::Stdout(bytes),
            StreamName::Stderr => LiveEvent::Stderr(bytes),
        };
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        events.output(None, &mut texts, &event);
    }
}
