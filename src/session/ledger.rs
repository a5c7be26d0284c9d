//! What sessions hold, noted in files: the manager that comes next can then say what was lost when
//! this one was killed.
//!
//! One small file for each session, replaced at once or not at all. Whatever stands there when a
//! manager starts is from one that is gone. One that could not be brought up to date is marked by its
//! mode, 0400 in place of 0600: that needs no room on a disk that is full. Everything here blocks.

use std::collections::HashMap;
use std::fs::{self, DirEntry, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, Mode, OFlags};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::SessionName;
use super::record::shown;
use crate::execution::{Lost, LostName};
use crate::folders::{is_private, private_folder};

/// The version of what is written.
const VERSION: u32 = 1;
/// A record is kept for so long.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// The most bytes of a record: 20 names and types of 100 characters, each escaped, and a rest.
const MAX_BYTES: u64 = 64 << 10;
/// The most names of files that are read at a start.
const MOST_READ: usize = 4_096;
/// The most records that are taken over at a start, the youngest first.
const MOST_TAKEN: usize = 1_024;
/// Counts beyond this are no counts: JSON's numbers are exact up to here.
const MAX_COUNT: u64 = 1 << 53;
/// How the names of records end. No session name holds a plus, which stands for its slash.
const ENDING: &str = ".json";
/// The mode of a record that could not be brought up to date.
const STALE: Mode = Mode::RUSR;
/// How unfinished records begin. No session name begins with a dot.
const UNFINISHED: &str = ".unfinished-";

/// The record of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    version: u32,
    session: String,
    /// Which kernel of the session it was.
    pub(super) generation: u64,
    /// Whether a cell was running.
    pub(super) running: bool,
    /// Whether some caller knows already what is gone.
    pub(super) told: bool,
    /// What is gone with it.
    pub(super) lost: Lost,
    /// Whether it could not be kept up to date: then there may be more, or all else may be wrong.
    #[serde(skip)]
    pub(super) is_stale: bool,
}

impl Entry {
    /// A session without a kernel.
    pub(super) fn new(session: &SessionName) -> Self {
        Self {
            version: VERSION,
            session: session.to_string(),
            ..Self::default()
        }
    }

    /// Whether there is anything to be told of it.
    pub(super) fn is_loss(&self) -> bool {
        self.is_stale
            || self.running
            || self.told
            || self.lost.cells > 0
            || self.lost.names_total > 0
            || !self.lost.unreceived.is_empty()
    }

    /// One of which is known only that it could not be written.
    fn unknown(session: &SessionName) -> Self {
        Self {
            is_stale: true,
            ..Self::new(session)
        }
    }

    /// That of a file.
    fn of((bytes, is_stale): &(Vec<u8>, bool), session: &SessionName) -> Result<Self, String> {
        if *is_stale && bytes.is_empty() {
            return Ok(Self::unknown(session));
        }
        let entry = Self::parse(bytes, session)?;
        Ok(Self {
            is_stale: *is_stale,
            ..entry
        })
    }

    /// Reads a record; whatever it holds, what comes out is harmless.
    fn parse(bytes: &[u8], session: &SessionName) -> Result<Self, String> {
        let mut entry: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no record: {error}"))?;
        if entry.version != VERSION {
            return Err(format!("it has version {}, not {VERSION}", entry.version));
        }
        if entry.session != session.as_str() {
            return Err("it is the record of another session".to_owned());
        }
        let counts = [entry.generation, entry.lost.cells, entry.lost.names_total];
        if counts.iter().any(|count| *count > MAX_COUNT) {
            return Err("it counts too far".to_owned());
        }
        let from = entry.lost.names.len().saturating_sub(Lost::NAMES);
        entry.lost.names.drain(..from);
        entry.lost.unreceived.truncate(Lost::RESULTS);
        for LostName { name, kind } in &mut entry.lost.names {
            *name = shown(name);
            *kind = shown(kind);
        }
        Ok(entry)
    }
}

/// The folder of records.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: PathBuf,
    /// What managers that are gone have left.
    left: Mutex<HashMap<SessionName, Entry>>,
    /// Why nothing can be noted.
    fault: Option<String>,
    remade: Remade,
}

/// Changes when the folder was gone and was made again: then all records are to be written anew.
pub(super) type Remade = watch::Sender<()>;

impl Ledger {
    /// Takes over what is in a folder, and makes it if it is not there.
    pub(super) fn open(folder: PathBuf) -> Self {
        let fault = private_folder(&folder).err();
        let mut left = match &fault {
            None => taken_over(&folder),
            Some(_) => HashMap::new(),
        };
        // What cannot be written now could perhaps not be written before.
        if rustix::fs::access(&folder, Access::WRITE_OK).is_err() {
            for entry in left.values_mut() {
                entry.is_stale = true;
            }
        }
        Self {
            left: Mutex::new(left),
            fault: fault.map(|error| error.to_string()),
            folder,
            remade: Remade::default(),
        }
    }

    /// Why nothing can be noted.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// What is left of a session of that name; once.
    pub(super) fn take(&self, session: &SessionName) -> Option<Entry> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.remove(session)
    }

    /// What tells that the folder was made again.
    pub(super) fn remade(&self) -> &Remade {
        &self.remade
    }

    /// Where the record of a session stands.
    pub(super) fn path(&self, session: &SessionName) -> PathBuf {
        let name = session.as_str().replace('/', "+");
        self.folder.join(name + ENDING)
    }
}

/// Writes a record in the place of an earlier one, in a folder that is made again if it is gone and not
/// used if it is not private; whether it was gone.
///
/// It need not survive the machine: nothing that it tells of does.
pub(super) fn put(path: &Path, entry: &Entry) -> io::Result<bool> {
    let bytes = serde_json::to_vec(entry)?;
    let folder = path.parent().unwrap_or(path);
    let was_gone = !folder.exists();
    private_folder(folder)?;
    // Its mode is 0600.
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder)?;
    file.write_all(&bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(was_gone)
}

/// Marks a record as one that could not be brought up to date; where there is none, makes one that says
/// no more than that.
pub(super) fn mark(path: &Path) -> io::Result<()> {
    is_private(path.parent().unwrap_or(path))?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags | OFlags::RDONLY, Mode::empty()) {
        Ok(file) => rustix::fs::fchmod(file, STALE)?,
        Err(rustix::io::Errno::NOENT) => {
            let flags = flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            drop(rustix::fs::open(path, flags, STALE)?);
        }
        Err(errno) => return Err(errno.into()),
    }
    Ok(())
}

/// Removes a record, if there is one.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let folder = is_private(path.parent().unwrap_or(path));
    match folder.and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The records in a folder, without those that make no sense. What is too old goes, and what was
/// not finished.
fn taken_over(folder: &Path) -> HashMap<SessionName, Entry> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "records cannot be read");
            return HashMap::new();
        }
    };
    let now = SystemTime::now();
    let mut found: Vec<(SystemTime, SessionName, PathBuf)> = entries
        .take(MOST_READ)
        .flatten()
        .filter_map(|entry| young(&entry, now))
        .collect();
    found.sort_unstable_by(|(one, ..), (other, ..)| other.cmp(one));
    if found.len() > MOST_TAKEN {
        let count = found.len() - MOST_TAKEN;
        tracing::warn!(count, "there are too many records; the oldest are ignored");
    }
    let mut left = HashMap::new();
    for (_, session, path) in found.into_iter().take(MOST_TAKEN) {
        match read(&path).and_then(|found| Entry::of(&found, &session)) {
            Ok(entry) => drop(left.insert(session, entry)),
            Err(reason) => {
                tracing::warn!(path = %path.display(), reason, "a record is ignored");
            }
        }
    }
    left
}

/// A file that may be a record, with its age. Removes what is not worth a look.
fn young(entry: &DirEntry, now: SystemTime) -> Option<(SystemTime, SessionName, PathBuf)> {
    let name = entry.file_name();
    let name = name.to_str()?;
    // Not that of what a link names.
    let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    let changed = found.modified().ok()?;
    let is_old = now.duration_since(changed).is_ok_and(|age| age > KEPT);
    let session = name
        .strip_suffix(ENDING)
        .and_then(|name| SessionName::parse(&name.replace('+', "/")).ok());
    if name.starts_with(UNFINISHED) || (session.is_some() && is_old) {
        if let Err(error) = fs::remove_file(entry.path()) {
            tracing::debug!(name, %error, "an old record could not be removed");
        }
        return None;
    }
    Some((changed, session?, entry.path()))
}

/// What stands in a record, and whether it is marked.
fn read(path: &Path) -> Result<(Vec<u8>, bool), String> {
    // A pipe that bears the name holds nobody up.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| errno.to_string())?;
    let file = File::from(file);
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no file".to_owned());
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if found.len() > MAX_BYTES {
        return Err(format!("it has {} bytes", found.len()));
    }
    let is_stale = found.permissions().mode() & Mode::WUSR.as_raw_mode() == 0;
    let mut bytes = Vec::new();
    let reading = file.take(MAX_BYTES).read_to_end(&mut bytes);
    reading
        .map(|_| (bytes, is_stale))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
