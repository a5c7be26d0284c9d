//! Writes what waits, in a thread of its own, and gives up a disk that does not answer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::artifacts::{bytes_of, form};
use super::shared::{Batch, Shared, Shown};
use super::store::{Keep, Shelf};
use super::{Artifact, Kept};
use crate::folders::kept::KeptKind;
use crate::process::{OwnThread, in_words};

/// A disk that takes nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of the largest artifact.
const ARTIFACT_BYTES: usize = 64 << 20;
/// Bytes of all artifacts of a cell.
const ARTIFACTS_BYTES: u64 = 256 << 20;

/// What the thread has.
struct Desk {
    shelf: Arc<dyn Shelf>,
    shared: Arc<Shared>,
    output: Option<Box<dyn Keep>>,
    /// It was given up: a part of it alone would be taken for all.
    is_lost: bool,
    artifact_bytes: u64,
}

/// What has become of a batch.
#[derive(Default)]
struct Done {
    /// Its buffer, empty.
    spare: Vec<u8>,
    /// Why the text could not be written.
    failed: Option<io::Error>,
    /// How many artifacts could not, and why the first.
    unkept: Option<(u64, String)>,
}

/// Writes until everything was written that will come.
pub(super) async fn write(shared: Arc<Shared>, shelf: Arc<dyn Shelf>) -> Kept {
    let mut kept = Kept {
        place: shelf.place(),
        ..Kept::default()
    };
    let desk = Desk {
        shelf,
        shared: Arc::clone(&shared),
        output: None,
        is_lost: false,
        artifact_bytes: 0,
    };
    let thread = match OwnThread::start("kept files", desk) {
        Ok(thread) => thread,
        Err(error) => {
            shared.give_up();
            kept.lost = Some(error.to_string());
            return kept;
        }
    };
    let silent = || Some("the disk did not answer for 2 s".to_owned());
    let mut spare = Vec::new();
    while let Some(batch) = shared.next(spare).await {
        let done = timeout(PATIENCE, thread.run(move |desk| desk.put(batch))).await;
        let Ok(Ok(done)) = done else {
            shared.give_up();
            kept.lost = silent();
            return kept.with(shared.artifacts());
        };
        if let Some((count, why)) = done.unkept {
            kept.without(count, &why);
        }
        if let Some(error) = done.failed {
            shared.give_up_text();
            kept.lost.get_or_insert(in_words(&error));
        }
        spare = done.spare;
    }
    match timeout(PATIENCE, thread.run(Desk::finish)).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(Ok(path)))) => kept.output = Some(path),
        Ok(Ok(Some(Err(error)))) => kept.lost = Some(in_words(&error)),
        Ok(Err(_)) | Err(_) => kept.lost = silent(),
    }
    kept.with(shared.artifacts())
}

impl Desk {
    fn put(&mut self, batch: Batch) -> Done {
        let Batch { mut text, shown } = batch;
        let mut done = Done::default();
        if !text.is_empty() && !self.is_lost {
            done.failed = self.append(&text).err();
            if done.failed.is_some() {
                self.is_lost = true;
                // What there is of it is taken away: it may be what fills the disk.
                self.output = None;
            }
        }
        text.clear();
        done.spare = text;
        for shown in shown {
            if let Err(why) = self.keep(&shown) {
                done.unkept.get_or_insert((0, why)).0 += 1;
            }
        }
        done
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if self.output.is_none() {
            let file = self.shelf.create(KeptKind::Stdout)?;
            self.shared.writes_to(file.path());
            self.output = Some(file);
        }
        match &mut self.output {
            Some(file) => file.append(text),
            None => Ok(()),
        }
    }

    /// Writes an artifact; why it could not.
    fn keep(&mut self, shown: &Shown) -> Result<(), String> {
        let (mime, extension) = form(shown.form);
        let Some(bytes) = bytes_of(&shown.published, mime) else {
            return Err(format!("it is no {mime} in base64"));
        };
        if bytes.is_empty() {
            return Err("it is empty".to_owned());
        }
        let total = self.artifact_bytes + wide(bytes.len());
        if bytes.len() > ARTIFACT_BYTES || total > ARTIFACTS_BYTES {
            let limits = "one may have 64 MiB, those of a cell 256 MiB";
            return Err(limits.to_owned());
        }
        let written = self.written(extension, &bytes);
        let path = written.map_err(|error| in_words(&error))?;
        self.artifact_bytes = total;
        self.shared.made(Artifact {
            mime: mime.to_owned(),
            path: path.to_string_lossy().into_owned(),
            bytes: wide(bytes.len()),
        });
        Ok(())
    }

    fn written(&self, extension: &'static str, bytes: &[u8]) -> io::Result<PathBuf> {
        let mut file = self.shelf.create(KeptKind::Artifact(extension))?;
        file.append(bytes)?;
        file.finish(true)
    }

    fn finish(&mut self) -> Option<io::Result<PathBuf>> {
        let may_be_renamed = self.shared.close();
        Some(self.output.take()?.finish(may_be_renamed))
    }
}

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
