//! A socket under a name in a folder of doors, and what others need to find it there. Everything here
//! blocks.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::folders::{FolderLock, ServerLock, is_private, make_private, private_folder};
use crate::ids::random_hex;

/// A name that somebody listens at. Dropping it takes the name away, unless somebody else has it by
/// now, and the folder if nothing else is in it.
#[derive(Debug)]
pub(super) struct Published {
    path: PathBuf,
    /// Device and number of the socket.
    identity: (u64, u64),
    /// What the background server holds in the folder.
    lock: Option<Arc<ServerLock>>,
}

impl Published {
    /// Publishes a socket in a folder, which is made if it is not there.
    pub(super) fn in_folder(folder: &Path, name: &str) -> io::Result<(Self, UnixListener)> {
        private_folder(folder)?;
        let path = folder.join(name);
        // It gets its name when it listens already: who finds a socket that refuses him knows that
        // nobody is behind it any more.
        let early = folder.join(format!("n-{}", random_hex(4)));
        let listener = UnixListener::bind(&early)?;
        let named = listener
            .set_nonblocking(true)
            .and_then(|()| fs::set_permissions(&early, fs::Permissions::from_mode(0o600)))
            .and_then(|()| fs::symlink_metadata(&early))
            .and_then(|found| fs::rename(&early, &path).map(|()| found));
        match named {
            Ok(found) => {
                let published = Self {
                    path,
                    identity: (found.dev(), found.ino()),
                    lock: None,
                };
                Ok((published, listener))
            }
            Err(error) => {
                drop(fs::remove_file(&early));
                Err(error)
            }
        }
    }

    /// The same for the background server, under its lock.
    pub(super) fn under_lock(
        folder: &Path,
        name: &str,
        lock: Arc<ServerLock>,
    ) -> io::Result<(Self, UnixListener)> {
        let (mut published, listener) = Self::in_folder(folder, name)?;
        published.lock = Some(lock);
        Ok((published, listener))
    }

    /// Publishes again what cannot be found any more: where it was, if that can be, or in another of
    /// these folders.
    pub(super) fn again(&self, folders: &[PathBuf]) -> io::Result<(Self, UnixListener)> {
        let here = self.folder();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let others = folders.iter().map(PathBuf::as_path);
        let mut tried = Vec::new();
        for folder in [here].into_iter().chain(others.filter(|it| *it != here)) {
            let made = match &self.lock {
                None => Self::in_folder(folder, &name),
                Some(lock) => Self::server_again(folder, &name, lock),
            };
            match made {
                // Another server is found there, so nobody looks for this one elsewhere.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                Err(error) => tried.push(format!("{}: {error}", folder.display())),
                made => return made,
            }
        }
        Err(io::Error::other(tried.join("; ")))
    }

    fn server_again(
        folder: &Path,
        name: &str,
        lock: &Arc<ServerLock>,
    ) -> io::Result<(Self, UnixListener)> {
        // As at a start: nobody starts a server meanwhile.
        let locked = FolderLock::wait(folder)?;
        if lock.is_in_place(folder) {
            return Self::under_lock(folder, name, Arc::clone(lock));
        }
        let taken = ServerLock::take(&locked)?.map_err(|pid| {
            let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
            let sentence = format!("another background server (process {pid}) is there");
            io::Error::new(io::ErrorKind::AlreadyExists, sentence)
        });
        let lock = Arc::new(taken?);
        let made = Self::under_lock(folder, name, Arc::clone(&lock));
        if made.is_err() {
            lock.release(&locked);
        }
        made
    }

    /// The lock of its folder, for its end: as at a start, so the folder is made if it is not there.
    pub(super) fn lock_folder(&self) -> io::Result<FolderLock> {
        // Nobody takes a folder that is open to others.
        self.stands();
        FolderLock::wait(self.folder())
    }

    /// Whether it can be found where it was published. Modes that were changed are changed back: for a
    /// folder that is open to others clients would not look into.
    pub(super) fn stands(&self) -> bool {
        let folder = self.folder();
        let is_locked = self.lock.as_ref().is_none_or(|lock| {
            let parent = folder.parent().unwrap_or(folder);
            make_private(parent).is_ok() && lock.is_in_place(folder)
        });
        is_locked && make_private(folder).is_ok() && self.is_named()
    }

    /// Whether the name is that of this socket, and lets clients in.
    fn is_named(&self) -> bool {
        let Ok(found) = fs::symlink_metadata(&self.path) else {
            return false;
        };
        let is_it = found.file_type().is_socket() && (found.dev(), found.ino()) == self.identity;
        let mode = found.mode() & 0o777;
        let owner_only = fs::Permissions::from_mode(0o600);
        is_it && (mode == 0o600 || fs::set_permissions(&self.path, owner_only).is_ok())
    }

    /// Takes the name away.
    pub(super) fn hide(&self) {
        if self.is_named() {
            drop(fs::remove_file(&self.path));
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    pub(super) fn lock(&self) -> Option<&Arc<ServerLock>> {
        self.lock.as_ref()
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.hide();
        if is_private(self.folder()).is_ok() {
            // Goes with the last door in it.
            drop(fs::remove_dir(self.folder()));
        }
    }
}
