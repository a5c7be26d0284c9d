//! Where files are kept, and when the old ones go.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::folders::kept::{KeptFile, KeptFolder, KeptKind};
use crate::process::start_thread;

/// Old files are looked for at a manager's first file, and again with one that comes so much later.
const PRUNING_PERIOD: Duration = Duration::from_secs(600);

/// Which files are made of what a cell prints and shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Files {
    /// Of all of its stdout, if that is more than the window of its result shows; and of what it shows.
    /// For readers of results.
    #[default]
    All,
    /// Of what it shows. For those who read all of its output as it comes.
    Artifacts,
    /// None. For front ends that show everything themselves.
    None,
}

/// Where the cells of one manager have their files.
#[derive(Debug)]
pub struct Store {
    home: PathBuf,
    pruned: Mutex<Option<Instant>>,
    /// How many threads look for old files.
    pruning: watch::Sender<usize>,
}

impl Store {
    /// Below this home. Nothing is made before it is needed.
    pub fn new(home: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            home,
            pruned: Mutex::default(),
            pruning: watch::Sender::new(0),
        })
    }

    /// Waits until nobody looks for old files, so long at most.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn settled(&self, patience: Duration) {
        let mut pruning = self.pruning.subscribe();
        let done = pruning.wait_for(|count| *count == 0);
        drop(tokio::time::timeout(patience, done).await);
    }

    /// Looks for old files, if it is time to; the thread that asks goes on.
    fn prune_if_due(self: &Arc<Self>, folder: &Arc<KeptFolder>) {
        {
            let mut pruned = self.pruned.lock().unwrap_or_else(PoisonError::into_inner);
            if pruned.is_some_and(|at| at.elapsed() < PRUNING_PERIOD) {
                return;
            }
            *pruned = Some(Instant::now());
        }
        let (store, folder) = (Arc::clone(self), Arc::clone(folder));
        self.pruning.send_modify(|count| *count += 1);
        let started = start_thread("pruning", move || {
            match folder.prune() {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "old kept files were removed"),
                Err(error) => tracing::warn!(%error, "old kept files could not be looked for"),
            }
            store.pruning.send_modify(|count| *count -= 1);
        });
        if started.is_err() {
            self.pruning.send_modify(|count| *count -= 1);
        }
    }
}

/// Where files can be made. Its calls block.
pub(super) trait Shelf: Send + Sync + std::fmt::Debug {
    /// Begins a file.
    fn create(&self, kind: KeptKind) -> io::Result<Box<dyn Keep>>;

    /// Where that is.
    fn place(&self) -> PathBuf;
}

/// A file that is being written. Dropped before it is finished it is gone.
pub(super) trait Keep: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Where it is for now.
    fn path(&self) -> PathBuf;

    /// It is whole: where it is from now on.
    fn finish(self: Box<Self>, may_be_renamed: bool) -> io::Result<PathBuf>;
}

impl Shelf for Arc<Store> {
    fn create(&self, kind: KeptKind) -> io::Result<Box<dyn Keep>> {
        // Anew each time: somebody may have removed it.
        let folder = KeptFolder::open(&self.home)?;
        let file = folder.create(kind)?;
        self.prune_if_due(&folder);
        Ok(Box::new(file))
    }

    fn place(&self) -> PathBuf {
        KeptFolder::place(&self.home)
    }
}

impl Keep for KeptFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        Self::append(self, bytes)
    }

    fn path(&self) -> PathBuf {
        Self::path(self)
    }

    fn finish(self: Box<Self>, may_be_renamed: bool) -> io::Result<PathBuf> {
        Self::finish(*self, may_be_renamed)
    }
}
