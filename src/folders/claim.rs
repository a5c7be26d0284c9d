//! Folders that are somebody's for as long as he lives.
//!
//! Whoever makes one holds an flock on the folder itself. It goes with its process, whatever ends
//! that, and it holds across namespaces, where the number of a process says nothing. So a folder
//! that can be locked has lost its maker, and is swept. Between making and locking a sweep may come
//! first: then the maker sees it, and makes another one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::is_private;
use crate::ids::random_hex;

/// How often a folder is made anew because a sweep took it.
const ATTEMPTS: usize = 16;
/// How much one sweep does at most; what is left is for the next.
const MOST_SWEPT: usize = 16;
/// How many folders one sweep tries to lock.
const MOST_TRIED: usize = 64;
/// How many names one sweep reads.
const MOST_READ: usize = 4_096;

/// The lock on a folder. Dropping it lets go; what it locks is not removed.
#[derive(Debug)]
pub(crate) struct Claim {
    /// `None` on a file system that cannot lock folders: there nobody can sweep either.
    _folder: Option<File>,
}

/// What came of an attempt to lock a folder.
#[derive(Debug)]
enum Attempt {
    Locked(File),
    /// Somebody else holds it.
    Taken,
    /// It has gone, or bears another name by now.
    Gone,
    /// The file system does not lock folders.
    Unable,
}

impl Claim {
    /// Makes a folder with mode 0700 under a name that nobody else has, and locks it.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub(crate) fn make(name: impl Fn() -> PathBuf) -> io::Result<(PathBuf, Self)> {
        for _ in 0..ATTEMPTS {
            let path = name();
            DirBuilder::new().mode(0o700).create(&path)?;
            let folder = match attempt(&path)? {
                Attempt::Locked(folder) => Some(folder),
                Attempt::Unable => None,
                Attempt::Taken | Attempt::Gone => continue,
            };
            return Ok((path, Self { _folder: folder }));
        }
        Err(io::Error::other("other programs remove what is made there"))
    }
}

fn attempt(path: &Path) -> io::Result<Attempt> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => File::from(folder),
        Err(rustix::io::Errno::NOENT) => return Ok(Attempt::Gone),
        Err(errno) => return Err(errno.into()),
    };
    let found = folder.metadata()?;
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Attempt::Taken),
        Err(TryLockError::Error(_)) => return Ok(Attempt::Unable),
    }
    // Before it was locked it may have been removed, or been given the name that it was made for.
    let is_same = fs::symlink_metadata(path)
        .is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
    Ok(if is_same {
        Attempt::Locked(folder)
    } else {
        Attempt::Gone
    })
}

/// Removes folders whose maker is gone from a private folder of ours: those with a name of ours.
///
/// Links, other users' folders and other names are not touched. Bounded: what is too much for once
/// is left to the next. Blocks for some system calls.
pub(crate) fn sweep(
    base: &Path,
    is_ours: impl Fn(&OsStr) -> bool,
    remove: impl Fn(&Path) -> io::Result<()>,
) {
    if is_private(base).is_err() {
        return;
    }
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    let mut names: Vec<OsString> = entries
        .take(MOST_READ)
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| is_ours(name))
        .collect();
    if names.len() > MOST_TRIED {
        // Where many live, each has its turn.
        let turn = usize::from_str_radix(&random_hex(2), 16).unwrap_or(0) % names.len();
        names.rotate_left(turn);
    }
    let mut swept = 0;
    for name in names.iter().take(MOST_TRIED) {
        let path = base.join(name);
        let Ok(Attempt::Locked(folder)) = attempt(&path) else {
            continue;
        };
        let uid = folder.metadata().map(|found| found.uid());
        if uid.ok() != Some(rustix::process::getuid().as_raw()) {
            continue;
        }
        match remove(&path) {
            Ok(()) => tracing::debug!(path = %path.display(), "a leftover was removed"),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "a leftover could not be removed");
            }
        }
        swept += 1;
        if swept == MOST_SWEPT {
            return;
        }
    }
}

/// Whether a name is a prefix and so many random bytes as [`random_hex`] writes them.
pub(crate) fn is_random_name(name: &OsStr, prefix: &str, bytes: usize) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(prefix))
        .is_some_and(|digits| {
            digits.len() == bytes * 2
                && digits
                    .bytes()
                    .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const BYTES: usize = 4;

    fn is_ours(name: &OsStr) -> bool {
        is_random_name(name, "x-", BYTES)
    }

    fn base() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        folder
    }

    fn name_in(base: &Path) -> PathBuf {
        base.join(format!("x-{}", random_hex(BYTES)))
    }

    fn names(base: &Path) -> Vec<String> {
        let entries = fs::read_dir(base).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_has_lost_its_maker_is_swept_and_nothing_else() {
        let base = base();
        let (held, claim) = Claim::make(|| name_in(base.path())).unwrap();
        let left = name_in(base.path());
        fs::create_dir(&left).unwrap();
        fs::write(left.join("file"), "").unwrap();
        for other in ["x-1234567", "x-1234567g", "X-12345678", "y", ".x-12345678"] {
            fs::create_dir(base.path().join(other)).unwrap();
        }
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), base.path().join("x-00000000")).unwrap();
        fs::write(base.path().join("x-00000001"), "a file").unwrap();
        let before = names(base.path());
        sweep(base.path(), is_ours, |path| fs::remove_dir_all(path));
        let gone = left.file_name().unwrap().to_str().unwrap();
        let expected: Vec<String> = before.into_iter().filter(|name| name != gone).collect();
        assert_eq!(names(base.path()), expected);
        assert!(held.exists() && elsewhere.path().exists());
        drop(claim);
        sweep(base.path(), is_ours, |path| fs::remove_dir_all(path));
        assert!(!held.exists());
    }

    #[test]
    fn a_base_that_is_a_link_or_open_to_others_is_left_alone() {
        let base = base();
        fs::create_dir(name_in(base.path())).unwrap();
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link");
        symlink(base.path(), &link).unwrap();
        sweep(&link, is_ours, |path| fs::remove_dir_all(path));
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        sweep(base.path(), is_ours, |path| fs::remove_dir_all(path));
        sweep(&place.path().join("none"), is_ours, |path| {
            fs::remove_dir_all(path)
        });
        assert_eq!(names(base.path()).len(), 1);
    }

    #[test]
    fn a_sweep_does_no_more_than_it_may_and_the_next_goes_on() {
        let base = base();
        let claims: Vec<_> = (0..100)
            .map(|_| Claim::make(|| name_in(base.path())).unwrap())
            .collect();
        for _ in 0..40 {
            fs::create_dir(name_in(base.path())).unwrap();
        }
        let mut left = names(base.path()).len();
        for round in 0.. {
            sweep(base.path(), is_ours, |path| fs::remove_dir(path));
            let now = names(base.path()).len();
            assert!(left - now <= MOST_SWEPT);
            left = now;
            if now == 100 {
                break;
            }
            assert!(round < 10_000, "{now} are left");
        }
        assert!(claims.iter().all(|(path, _)| path.exists()));
    }

    /// A maker never has a folder that a sweep takes away, whenever the sweep comes.
    #[test]
    fn sweeps_and_makers_at_the_same_time_do_not_disturb_each_other() {
        let base = base();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        sweep(base.path(), is_ours, |path| fs::remove_dir_all(path));
                    }
                });
            }
            let makers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for round in 0..500 {
                            let (path, claim) = Claim::make(|| name_in(base.path())).unwrap();
                            fs::write(path.join("file"), "").unwrap();
                            let named = base.path().join(random_hex(8));
                            if round % 2 == 0 {
                                // It is given its name while it is held.
                                fs::rename(&path, &named).unwrap();
                                drop(claim);
                                assert!(named.join("file").exists());
                            } else {
                                std::thread::yield_now();
                                assert!(path.join("file").exists());
                            }
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = makers
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect();
            done.store(true, Ordering::Relaxed);
            for maker in ended {
                maker.unwrap();
            }
        });
        // A sweep does no more than it may: as many as it takes for all that can be left.
        for _ in 0..=1_000 / MOST_SWEPT {
            sweep(base.path(), is_ours, |path| fs::remove_dir_all(path));
        }
        let left = names(base.path());
        let ours = left.iter().filter(|name| name.starts_with("x-")).count();
        assert_eq!(ours, 0);
    }
}
