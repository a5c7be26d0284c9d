//! The page of one session in the ledger: written beside the session's work, never in its way.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::SessionName;
use super::keeper::Keeper;
use super::ledger::{self, Entry, Ledger, Remade};
use super::shelf::Shelf;
use super::untold::Untold;
use crate::execution::{Loss, LossReason, Lost};
use crate::process::in_a_thread;

/// Between two writes: many short cells in a row cost no more than this.
const PAUSE: Duration = Duration::from_millis(25);
/// A cell that takes longer is noted as running.
pub(super) const NOTED_AS_RUNNING: Duration = Duration::from_millis(50);
/// How long whoever gets the last result of a session may take to receive it: else the loss that it tells
/// is told again by the next manager.
const RECEIPT: Duration = Duration::from_millis(300);
/// How long the last write may hold up the end of a session.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// What is to stand there.
#[derive(Debug, Clone)]
struct Note {
    /// What the kernel holds.
    entry: Entry,
    /// What is lost already, and nobody may know of. Looked at when it is written: the result that
    /// tells it may have been received by then.
    untold: Untold,
    /// Results that nobody has received: looked at, too.
    shelf: Arc<Shelf>,
    /// Whether the session is closed: then nothing is to stand there.
    is_gone: bool,
    /// Whether nothing comes after it.
    is_last: bool,
}

/// Notes what one session holds.
#[derive(Debug)]
pub(super) struct Page {
    notes: Arc<watch::Sender<Note>>,
    writer: JoinHandle<()>,
    trouble: Trouble,
}

/// What a caller is to be told of a disk that takes nothing; once.
type Trouble = Arc<Mutex<Option<String>>>;

/// What managers that are gone have left of a session.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Its latest kernel.
    pub(super) generation: u64,
    /// What was lost with it.
    pub(super) untold: Untold,
}

/// Tells the page from elsewhere what has changed.
#[derive(Debug, Clone)]
pub(super) struct Reminder(Weak<watch::Sender<Note>>);

impl Reminder {
    /// A cell runs, in the kernel of this generation.
    pub(super) fn is_running(&self, generation: u64) {
        if let Some(notes) = self.0.upgrade() {
            notes.send_modify(|note| {
                note.entry.running = true;
                note.entry.generation = generation;
            });
        }
    }

    /// A cell has its number: one that has gone on without its caller is noted with that.
    pub(super) fn has_begun(&self) {
        if let Some(notes) = self.0.upgrade()
            && !notes.borrow().shelf.is_empty()
        {
            notes.send_modify(|_note| ());
        }
    }

    /// A loss was told, or a result.
    pub(super) fn look_again(&self) {
        if let Some(notes) = self.0.upgrade() {
            notes.send_modify(|_note| ());
        }
    }
}

impl Page {
    /// A page for a session, and what is left of an earlier one of that name.
    pub(super) fn new(ledger: &Ledger, session: &SessionName, shelf: &Arc<Shelf>) -> (Self, Left) {
        let left = ledger.take(session).map(left_by).unwrap_or_default();
        let mut entry = Entry::new(session);
        entry.generation = left.generation;
        let (notes, unwritten) = watch::channel(Note {
            entry,
            untold: left.untold.clone(),
            shelf: Arc::clone(shelf),
            is_gone: false,
            is_last: false,
        });
        let trouble = Trouble::default();
        let path = ledger.path(session);
        if let Some(reason) = ledger.fault() {
            tell(&trouble, &path, reason);
        }
        // What could not be had once may be there by now.
        let is_told = ledger.fault().is_some();
        let writer = Writer {
            path,
            trouble: Arc::clone(&trouble),
            is_told,
            remade: ledger.remade().clone(),
        };
        let writer = tokio::spawn(writer.write(unwritten));
        let notes = Arc::new(notes);
        shelf.noted_in(Reminder(Arc::downgrade(&notes)));
        let page = Self {
            notes,
            writer,
            trouble,
        };
        (page, left)
    }

    /// Why nothing could be written; once.
    fn trouble(&self) -> Option<String> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.take()
    }

    /// The session has ended: the page goes with it, or stays for the next manager.
    async fn end(self, stays: bool) {
        if stays {
            // The result that tells a loss may be on its way just now.
            let is_told = |note: &Note| {
                let pending = note.untold.clone().pending();
                pending.is_none_or(|(_, told)| told)
            };
            drop(timeout(RECEIPT, self.notes.subscribe().wait_for(is_told)).await);
        }
        self.notes.send_modify(|note| {
            note.is_gone = !stays;
            note.is_last = true;
        });
        if timeout(LAST_WRITE, self.writer).await.is_err() {
            tracing::warn!("the last record of a session is not written yet");
        }
    }
}

impl Keeper {
    /// Notes what would be lost now with the manager.
    pub(super) fn note(&self) {
        if let Some(page) = &self.page {
            page.notes.send_modify(|note| {
                note.entry.generation = self.generation;
                note.entry.running = false;
                note.entry.lost = self.shared.facts.record().as_lost();
                note.untold = self.untold.clone();
            });
        }
    }

    /// The session has ended, and its page with it unless that stays for the next manager: with what
    /// was noted last.
    pub(super) async fn end_page(&mut self, stays: bool) {
        if let Some(page) = self.page.take() {
            page.end(stays).await;
        }
    }

    /// What tells the page that something has changed.
    pub(super) fn reminder(&self) -> Option<Reminder> {
        let page = self.page.as_ref()?;
        Some(Reminder(Arc::downgrade(&page.notes)))
    }

    /// Has the next result say that nothing can be noted, if that is so; once.
    pub(super) fn notice_trouble(&mut self) {
        let trouble = self.page.as_ref().and_then(Page::trouble);
        if let Some(trouble) = trouble {
            self.notice(trouble);
        }
    }
}

impl Note {
    /// What is to be told if this is the last that is written.
    fn entry(&mut self) -> Entry {
        let mut entry = self.entry.clone();
        entry.lost.unreceived = self.shelf.unreceived();
        let holds_nothing = !entry.is_loss();
        match self.untold.pending() {
            Some((loss, false)) => entry.lost = loss.lost.and_then(&entry.lost),
            // Its names are known, not yet why the next kernel is new.
            Some((loss, true)) if holds_nothing => {
                entry.lost = loss.lost;
                entry.told = true;
            }
            _ => {}
        }
        entry
    }
}

fn left_by(entry: Entry) -> Left {
    let mut left = Left {
        // One of which nothing could be noted had a kernel.
        generation: entry.generation.max(u64::from(entry.is_stale)),
        untold: Untold::default(),
    };
    if entry.is_loss() {
        let reason = LossReason::ManagerRestarted;
        let why = match (entry.is_stale, entry.lost.cells) {
            (true, 0) if entry.lost.names.is_empty() => {
                "; its record could not be kept: what is lost is not known".to_owned()
            }
            (true, cells) => {
                format!("; its record could not be kept after cell {cells}: more may be lost")
            }
            (false, _) if entry.running => " while a cell ran".to_owned(),
            (false, _) => String::new(),
        };
        let loss = Loss {
            reason,
            detail: reason.word().to_owned() + &why,
            lost: Lost {
                at_least: entry.is_stale || entry.lost.at_least,
                ..entry.lost
            },
        };
        left.untold = Untold::left(loss, entry.told && !entry.is_stale);
    }
    left
}

/// Writes a page.
#[derive(Debug)]
struct Writer {
    path: PathBuf,
    trouble: Trouble,
    /// Whether some caller knows, or will know, that nothing can be written.
    is_told: bool,
    remade: Remade,
}

impl Writer {
    /// Writes what was noted last, one write at a time, until there is no more.
    async fn write(mut self, mut notes: watch::Receiver<Note>) {
        let mut remade = self.remade.subscribe();
        let mut written = None;
        loop {
            tokio::select! {
                biased;
                noted = notes.changed() => if noted.is_err() { return },
                // Its sender is our own.
                _ = remade.changed() => written = None,
            }
            let mut note = notes.borrow_and_update().clone();
            let entry = (!note.is_gone).then(|| note.entry());
            if entry.is_none() || entry != written {
                written = self.put(entry).await;
                remade.mark_unchanged();
            }
            if note.is_last {
                return;
            }
            pause(&notes, PAUSE).await;
        }
    }

    /// What stands there now, if that is known.
    async fn put(&mut self, entry: Option<Entry>) -> Option<Entry> {
        let (to, next) = (self.path.clone(), entry.clone());
        let done = in_a_thread(move || put_or_mark(&to, next.as_ref())).await;
        let done = done.map_err(|error| error.to_string()).flatten();
        match &done {
            Ok(false) => {}
            Ok(true) => {
                tracing::warn!(path = %self.path.display(), "the folder of records is there again");
                self.remade.send_replace(());
            }
            Err(reason) => {
                tracing::warn!(path = %self.path.display(), reason, "a record could not be written");
                if !self.is_told {
                    tell(&self.trouble, &self.path, reason);
                }
            }
        }
        self.is_told = done.is_err();
        entry.filter(|_| done.is_ok())
    }
}

/// Waits, unless what is noted is the last.
async fn pause(notes: &watch::Receiver<Note>, long: Duration) {
    let mut ahead = notes.clone();
    // Either there was a pause, or there is no need for one.
    drop(timeout(long, ahead.wait_for(|note| note.is_last)).await);
}

/// Writes it, and says whether its folder had gone; if that cannot be done, why not, and what stands there is marked: it must not be read as
/// if it were all.
fn put_or_mark(path: &Path, entry: Option<&Entry>) -> Result<bool, String> {
    let error = match put(path, entry) {
        Ok(remade) => return Ok(remade),
        Err(error) => error,
    };
    let text = error.to_string();
    // The name of what was not finished helps nobody.
    let reason = text.split(" at path ").next().unwrap_or_default();
    match entry.map(|_| ledger::mark(path)) {
        Some(Err(unmarked)) => Err(format!(
            "{reason}; and what stands there could not be marked as out of date ({unmarked})"
        )),
        _ => Err(reason.to_owned()),
    }
}

fn put(path: &Path, entry: Option<&Entry>) -> io::Result<bool> {
    match entry {
        None => ledger::remove(path).map(|()| false),
        // There was no kernel yet.
        Some(entry) if entry.generation == 0 => Ok(false),
        Some(entry) => ledger::put(path, entry),
    }
}

fn tell(trouble: &Trouble, path: &Path, reason: &str) {
    let place = path.display();
    let sentence = format!(
        "what this session holds cannot be noted in {place}: {reason}; if its manager is killed, the next one \
         cannot say all that was lost"
    );
    *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(sentence);
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
