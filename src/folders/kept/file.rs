//! A kept file, from its beginning to its name.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW, fchmod,
    flock, fstat, futimens, openat, renameat_with, statat, unlinkat,
};
use sha2::{Digest, Sha256};

use super::folder::FILE_MODE;
use super::{KeptFolder, KeptKind, KeptName};

/// Names that are tried; each is one of 2^32.
const TRIES: usize = 8;
/// Longer ones are not compared with those that are there: that would take longer than a result may
/// wait. Each is a file of its own.
const MOST_COMPARED: u64 = 8 << 20;

/// A file that is being written. Dropped before it is [finished](Self::finish) it is gone.
#[derive(Debug)]
pub struct KeptFile {
    folder: Arc<KeptFolder>,
    file: File,
    kind: KeptKind,
    name: KeptName,
    bytes: u64,
    /// Of what was written, while that is short enough to look for its equal.
    digest: Option<Sha256>,
    is_finished: bool,
}

impl KeptFile {
    pub(super) fn create(folder: Arc<KeptFolder>, kind: KeptKind) -> io::Result<Self> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(FILE_MODE);
        for last in (0..TRIES).rev() {
            let name = KeptName::random(kind);
            match openat(folder.fd(), name.as_str(), flags, mode) {
                Ok(file) => {
                    // Whoever prunes sees that it is being written; where there are no locks, by its
                    // age.
                    flock(&file, FlockOperation::NonBlockingLockShared).ok();
                    let made = Self {
                        folder,
                        file: File::from(file),
                        kind,
                        name,
                        bytes: 0,
                        digest: Some(Sha256::new()),
                        is_finished: false,
                    };
                    // The umask may have taken more than it should.
                    fchmod(&made.file, mode)?;
                    return Ok(made);
                }
                Err(rustix::io::Errno::EXIST) if last > 0 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where it is for now.
    pub fn path(&self) -> PathBuf {
        self.folder.path_of(&self.name)
    }

    /// Writes at its end.
    ///
    /// # Errors
    ///
    /// If not all of it could be written.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.bytes = self
            .bytes
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if self.bytes > MOST_COMPARED {
            self.digest = None;
        }
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        Ok(())
    }

    /// It is whole: where it is from now on. If it may be renamed, the same is always found under
    /// the same name (up to 8 MiB), and an equal file that is there already takes its place.
    ///
    /// # Errors
    ///
    /// If it is not there any more.
    pub fn finish(mut self, may_be_renamed: bool) -> io::Result<PathBuf> {
        touch(&self.file)?;
        if let Some(digest) = self.digest.take().filter(|_| may_be_renamed) {
            let wanted = KeptName::of_digest(self.kind, &digest.finalize());
            let (from, to) = (self.folder.fd(), self.folder.fd());
            let renamed = renameat_with(
                from,
                self.name.as_str(),
                to,
                wanted.as_str(),
                RenameFlags::NOREPLACE,
            );
            // Where that cannot be done it keeps the name that it has.
            if renamed.is_ok() {
                self.name = wanted;
            } else if renamed == Err(rustix::io::Errno::EXIST) && self.is_there_already(&wanted) {
                // Dropped, this one goes.
                return Ok(self.folder.path_of(&wanted));
            }
        }
        // What the path leads to is what a reader finds.
        let path = self.path();
        let (there, here) = (std::fs::symlink_metadata(&path)?, self.file.metadata()?);
        if (there.dev(), there.ino()) != (here.dev(), here.ino()) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "it was removed or moved while the cell ran",
            ));
        }
        self.is_finished = true;
        Ok(path)
    }

    /// Whether a file of ours of that name is equal to this one; then it counts as written just now.
    fn is_there_already(&mut self, name: &KeptName) -> bool {
        let Ok((mut other, stat)) = self.folder.look(name) else {
            return false;
        };
        if u64::try_from(stat.st_size).ok() != Some(self.bytes) {
            return false;
        }
        // While it is held nobody prunes it.
        if flock(&other, FlockOperation::NonBlockingLockShared).is_err() {
            return false;
        }
        if !are_equal(&mut self.file, &mut other).unwrap_or(false) || touch(&other).is_err() {
            return false;
        }
        let now = statat(self.folder.fd(), name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        now.is_ok_and(|now| (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino))
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // Only what is still this file.
        let there = statat(
            self.folder.fd(),
            self.name.as_str(),
            AtFlags::SYMLINK_NOFOLLOW,
        );
        let here = fstat(&self.file);
        if let (Ok(there), Ok(here)) = (there, here)
            && (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
        {
            let name = self.name.as_str();
            unlinkat(self.folder.fd(), name, AtFlags::empty()).ok();
        }
    }
}

fn touch(file: &File) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    futimens(
        file,
        &Timestamps {
            last_access: now,
            last_modification: now,
        },
    )?;
    Ok(())
}

/// Whether two files of the same size hold the same.
fn are_equal(one: &mut File, other: &mut File) -> io::Result<bool> {
    one.rewind()?;
    let (mut ours, mut theirs) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let count = one.read(&mut ours)?;
        if count == 0 {
            return Ok(other.read(&mut theirs)? == 0);
        }
        let (Some(ours), Some(theirs)) = (ours.get(..count), theirs.get_mut(..count)) else {
            return Ok(false);
        };
        if other.read_exact(theirs).is_err() || ours != theirs {
            return Ok(false);
        }
    }
}
