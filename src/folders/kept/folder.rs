//! The folder of kept files.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, mkdirat,
    openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::{Found, KeptFile, KeptKind, KeptName, condemned};

/// Names of ours that are looked at in one pruning; of more the rest has its turn another time.
const MOST_FILES: usize = 65_536;
/// Only we may look into it.
const FOLDER_MODE: u32 = 0o700;
/// And into what is kept there.
pub(super) const FILE_MODE: u32 = 0o600;

/// `<home>/cache/exec`, open.
#[derive(Debug)]
pub struct KeptFolder {
    path: PathBuf,
    folder: OwnedFd,
}

impl KeptFolder {
    /// Where it is.
    pub fn place(home: &Path) -> PathBuf {
        home.join("cache").join("exec")
    }

    /// Opens it; it is made with mode 0700 where it is not there, and gets that mode back where it has
    /// another. The home itself may be a link.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or if it, or `cache`, is a link or belongs to somebody else. A link of our
    /// own in place of `cache` is followed: who has a small disk puts it elsewhere.
    pub fn open(home: &Path) -> io::Result<Arc<Self>> {
        if !home.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(FOLDER_MODE)
                .create(home)?;
        }
        let home_folder = openat(
            CWD,
            home,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let cache = subfolder(&home_folder, "cache", Links::Ours)?;
        let folder = subfolder(&cache, "exec", Links::None)?;
        if fstat(&folder)?.st_mode & 0o777 != FOLDER_MODE {
            fchmod(&folder, Mode::from_raw_mode(FOLDER_MODE))?;
        }
        Ok(Arc::new(Self {
            path: Self::place(home),
            folder,
        }))
    }

    /// Where a file of that name is.
    pub fn path_of(&self, name: &KeptName) -> PathBuf {
        self.path.join(name.as_str())
    }

    /// Begins a file that nobody else has, under a name that it may keep.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn create(self: &Arc<Self>, kind: KeptKind) -> io::Result<KeptFile> {
        KeptFile::create(Arc::clone(self), kind)
    }

    pub(super) fn fd(&self) -> impl AsFd + '_ {
        &self.folder
    }

    /// Opens a file of ours to look at it: nothing but a regular one, of ours alone, is touched.
    pub(super) fn look(&self, name: &KeptName) -> io::Result<(File, Stat)> {
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "it is no file of ours");
        // Before it is opened: what is no file might do something then.
        let seen = statat(&self.folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        if !is_own_file(&seen) {
            return Err(strange());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.folder, name.as_str(), flags, Mode::empty())?);
        let stat = fstat(&file)?;
        if is_own_file(&stat) {
            Ok((file, stat))
        } else {
            Err(strange())
        }
    }

    /// Removes files of ours that are too old or too much ([`condemned`]); how many went.
    ///
    /// Files that are being written, or that a result is about to name, stay; what others remove at the
    /// same time is no matter.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn prune(&self) -> io::Result<usize> {
        let now = SystemTime::now();
        let (mut names, mut files) = (Vec::new(), Vec::new());
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_str().ok().and_then(KeptName::parse);
            let Some(name) = name else { continue };
            let seen = statat(&self.folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
            if let Some(stat) = seen.ok().filter(is_own_file) {
                files.push(found(&stat, now));
                names.push(name);
            }
            if names.len() >= MOST_FILES {
                break;
            }
        }
        let mut removed = 0;
        for place in condemned(&files) {
            let (Some(name), Some(file)) = (names.get(place), files.get(place)) else {
                continue;
            };
            removed += usize::from(self.remove(name, file, now));
        }
        Ok(removed)
    }

    /// Removes a file that is as it was seen, and that nobody uses; whether it did.
    fn remove(&self, name: &KeptName, seen: &Found, now: SystemTime) -> bool {
        let Ok((file, _)) = self.look(name) else {
            return false;
        };
        // Who writes it, or has just found it again, holds it.
        // Where there are no locks that cannot be asked.
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            return false;
        }
        let unchanged = fstat(&file).is_ok_and(|stat| found(&stat, now) == *seen);
        unchanged && unlinkat(&self.folder, name.as_str(), AtFlags::empty()).is_ok()
    }
}

fn found(stat: &Stat, now: SystemTime) -> Found {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let written = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos));
    Found {
        // What is from the future is young.
        age: written
            .and_then(|written| now.duration_since(written).ok())
            .unwrap_or_default(),
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
    }
}

/// Whether it is a file as we make them.
pub(super) fn is_own_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && is_ours(stat)
        && stat.st_mode & 0o777 == FILE_MODE
        && stat.st_nlink == 1
}

fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::getuid().as_raw()
}

/// Which links are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    None,
    /// Those that this user has made.
    Ours,
}

/// A folder of ours in another one; made if it is not there.
fn subfolder(parent: &OwnedFd, name: &str, links: Links) -> io::Result<OwnedFd> {
    match mkdirat(parent, name, Mode::from_raw_mode(FOLDER_MODE)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let refuse =
        |what: &str| io::Error::new(io::ErrorKind::PermissionDenied, format!("{name}: {what}"));
    let seen = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mut flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match FileType::from_raw_mode(seen.st_mode) {
        FileType::Directory => {}
        FileType::Symlink if links == Links::Ours && is_ours(&seen) => flags -= OFlags::NOFOLLOW,
        _ => return Err(refuse("it is a link or a file, not a folder")),
    }
    let folder = openat(parent, name, flags, Mode::empty())?;
    if is_ours(&fstat(&folder)?) {
        Ok(folder)
    } else {
        Err(refuse("it belongs to another user"))
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
