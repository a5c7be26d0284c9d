//! Takes what one cell prints and shows, as its sink gets it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::artifacts::forms;
use super::shared::{Shared, Shown};
use super::store::Shelf;
use super::writer::write;
use super::{Files, Kept, Store};
use crate::jupyter::Published;
use crate::kernel::Pressure;
use crate::output::{whole_characters, with_commas};

/// Bytes that may wait for the disk before the kernel is made to wait.
const WAITING_BYTES: usize = 256 << 10;
/// Artifacts of one cell.
const MOST_ARTIFACTS: usize = 100;

/// What is to be kept of one cell. Dropped before it is [finished](Keeping::finish) nothing is.
#[derive(Debug)]
pub(in crate::execution) struct Keeping {
    shelf: Arc<dyn Shelf>,
    shared: Arc<Shared>,
    files: Files,
    /// The window of the result: an output that is shorter needs no file.
    window: usize,
    /// What was printed, as long as that may be so.
    early: Vec<u8>,
    /// Bytes of the output that are taken at most, and yet.
    most_bytes: u64,
    room: u64,
    stage: Stage,
    artifacts: usize,
    /// Artifacts beyond the limit.
    more: u64,
    task: Option<JoinHandle<Kept>>,
}

/// Where the output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// In memory.
    Early,
    /// On its way to a file.
    Written,
    /// In a file, as far as there was room.
    Full,
}

impl Keeping {
    /// For a new cell; nothing where no files are wanted. Whoever reads along has a pressure of its own,
    /// which this one adds to.
    pub(in crate::execution) fn new(
        store: &Arc<Store>,
        files: Files,
        window: usize,
        most_bytes: u64,
        pressure: Option<Arc<Pressure>>,
    ) -> Option<Self> {
        let shelf: Arc<dyn Shelf> = Arc::new(Arc::clone(store));
        (files != Files::None).then(|| Self::with(shelf, files, window, most_bytes, pressure))
    }

    fn with(
        shelf: Arc<dyn Shelf>,
        files: Files,
        window: usize,
        most_bytes: u64,
        pressure: Option<Arc<Pressure>>,
    ) -> Self {
        let pressure = pressure.unwrap_or_else(|| Arc::new(Pressure::new(WAITING_BYTES)));
        Self {
            room: most_bytes,
            most_bytes,
            shelf,
            shared: Shared::new(pressure),
            files,
            window,
            early: Vec::new(),
            stage: Stage::Early,
            artifacts: 0,
            more: 0,
            task: None,
        }
    }

    /// While it is full too much waits for the disk.
    pub(in crate::execution) fn pressure(&self) -> Arc<Pressure> {
        self.shared.pressure()
    }

    /// Text as a reader may see it, in order. Never blocks.
    pub(in crate::execution) fn text(&mut self, text: &[u8]) {
        match self.stage {
            _ if self.files != Files::All => {}
            Stage::Early if self.early.len() + text.len() <= self.window => {
                self.early.extend_from_slice(text);
            }
            Stage::Early => {
                self.stage = Stage::Written;
                let early = std::mem::take(&mut self.early);
                self.put(&early);
                self.put(text);
            }
            Stage::Written => self.put(text),
            Stage::Full => {}
        }
    }

    fn put(&mut self, text: &[u8]) {
        if self.stage == Stage::Full || text.is_empty() {
            return;
        }
        let room = usize::try_from(self.room).unwrap_or(usize::MAX);
        if text.len() <= room {
            self.room -= u64::try_from(text.len()).unwrap_or(u64::MAX);
            self.begin();
            return self.shared.text(text);
        }
        self.stage = Stage::Full;
        let most = self.most_bytes;
        if most == 0 {
            return;
        }
        let (text, _) = text.split_at(room);
        self.begin();
        self.shared.text(whole_characters(text));
        let most = with_commas(most);
        let line = format!("\n[... the output goes on; max_spill_bytes is {most} ...]\n");
        self.shared.text(line.as_bytes());
    }

    /// Something that the cell shows; its images and the like become files. Never blocks.
    pub(in crate::execution) fn show(&mut self, shown: &Arc<Published>) {
        for form in forms(shown) {
            if self.artifacts >= MOST_ARTIFACTS {
                self.more += 1;
                continue;
            }
            self.artifacts += 1;
            self.begin();
            let published = Arc::clone(shown);
            let bytes = shown.len();
            self.shared.shown(Shown { published, form }, bytes);
        }
    }

    fn begin(&mut self) {
        if self.task.is_none() {
            let writing = write(Arc::clone(&self.shared), Arc::clone(&self.shelf));
            self.task = Some(tokio::spawn(writing));
        }
    }

    /// What there is already of a cell that goes on.
    pub(in crate::execution) fn so_far(&self) -> Kept {
        let (output, artifacts) = self.shared.so_far();
        Kept {
            output,
            is_cut: self.stage == Stage::Full,
            ..Kept::default()
        }
        .with(artifacts)
    }

    /// The cell has ended: what was kept of it. The disk has so long.
    pub(in crate::execution) async fn finish(mut self, patience: Duration) -> Kept {
        self.shared.end();
        let mut kept = match self.task.take() {
            None => Kept::default(),
            Some(mut task) => {
                if let Ok(Ok(kept)) = timeout(patience, &mut task).await {
                    kept
                } else {
                    task.abort();
                    self.shared.give_up();
                    Kept {
                        place: self.shelf.place(),
                        lost: Some("the disk was too slow".to_owned()),
                        ..Kept::default()
                    }
                    .with(self.shared.artifacts())
                }
            }
        };
        let spills = self.stage != Stage::Early;
        kept.is_cut = self.stage == Stage::Full;
        if spills && self.most_bytes == 0 {
            kept.lost = Some("max_spill_bytes is 0".to_owned());
        }
        // Those of which nothing was heard went with the disk.
        let heard = kept.artifacts.len() as u64 + kept.unkept;
        let silent = kept.lost.clone().unwrap_or_default();
        kept.without((self.artifacts as u64).saturating_sub(heard), &silent);
        kept.without(self.more, "a cell may have 100");
        kept.lost = kept.lost.filter(|_| spills);
        kept
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            self.shared.give_up();
        }
    }
}

#[cfg(test)]
#[path = "keeping_tests.rs"]
mod tests;
