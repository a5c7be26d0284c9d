//! Working directories for kernels that have one of their own: empty, private, and gone with them.
//!
//! All those of a manager are in one folder, which it holds locked (`claim`). A kernel's goes when the
//! kernel and all that it has started are gone; that of a manager, with the manager, or by its
//! forkservers if that is killed; and what both have left, when the next manager starts.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::claim::{Claim, is_random_name, sweep};
use super::{is_private, private_folder};
use crate::ids::random_hex;

/// What the name of a manager's folder begins with.
const MANAGER: &str = "m-";
/// What the name of a kernel's begins with.
const KERNEL: &str = "work-";
/// The random part of those names.
const RANDOM_BYTES: usize = 6;
/// How deep a folder is given its rights back before it is removed.
const MOST_DEPTH: usize = 64;

/// No such folder can be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "no private folder for kernels in strict mode: {}; set HERMES_HOME or TMPDIR to a folder that you \
     can write to",
    tried.join("; ")
)]
pub struct ScratchError {
    /// Each place that was tried, and why it would not do.
    pub tried: Vec<String>,
}

/// Where a manager's kernels have working directories of their own. Nothing is made before one is
/// wanted.
#[derive(Debug)]
pub struct Scratch {
    bases: Vec<PathBuf>,
    name: String,
    made: Mutex<Option<(PathBuf, Claim)>>,
}

impl Scratch {
    /// In the first of these folders that will do.
    pub fn new(bases: Vec<PathBuf>) -> Self {
        Self {
            bases,
            name: format!("{MANAGER}{}", random_hex(RANDOM_BYTES)),
            made: Mutex::default(),
        }
    }

    /// Where this manager's folder may be: for those who remove it when it is killed.
    pub fn places(&self) -> Vec<PathBuf> {
        let at = |base: &PathBuf| base.join(&self.name);
        self.bases.iter().map(at).collect()
    }

    /// Whether there may be something to sweep: a blocking call for each place.
    pub fn was_used(&self) -> bool {
        self.bases.iter().any(|base| base.exists())
    }

    /// Removes what managers that are gone have left. Blocks for file operations.
    pub fn sweep(&self) {
        for base in &self.bases {
            sweep(base, is_of_a_manager, remove_tree);
        }
    }

    /// A new empty folder with mode 0700. Blocks for file operations.
    ///
    /// # Errors
    ///
    /// If none can be made; each place is named with the reason.
    pub fn folder(self: &Arc<Self>) -> Result<ScratchFolder, ScratchError> {
        let mut made = self.made();
        if let Some((path, _)) = &*made
            && let Ok(folder) = self.kernels(path)
        {
            return Ok(folder);
        }
        // The first one, or somebody has removed what was there.
        let mut tried = Vec::new();
        for base in &self.bases {
            let attempt = private_folder(base)
                .and_then(|()| Claim::make(|| base.join(&self.name)))
                .and_then(|(path, claim)| Ok((self.kernels(&path)?, path, claim)));
            match attempt {
                Ok((folder, path, claim)) => {
                    *made = Some((path, claim));
                    return Ok(folder);
                }
                Err(error) => tried.push(format!("{}: {error}", base.display())),
            }
        }
        Err(ScratchError { tried })
    }

    fn kernels(self: &Arc<Self>, manager: &Path) -> io::Result<ScratchFolder> {
        is_private(manager)?;
        let path = manager.join(format!("{KERNEL}{}", random_hex(RANDOM_BYTES)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(ScratchFolder {
            path,
            _manager: Arc::clone(self),
        })
    }

    fn made(&self) -> MutexGuard<'_, Option<(PathBuf, Claim)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some((path, _claim)) = self.made().take() {
            drop(remove_tree(&path));
        }
    }
}

fn is_of_a_manager(name: &OsStr) -> bool {
    is_random_name(name, MANAGER, RANDOM_BYTES)
}

/// The working directory of one kernel; removed, with all that is in it, when this is dropped, which
/// blocks for as long as that takes.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
    /// The manager's goes after it.
    _manager: Arc<Scratch>,
}

impl ScratchFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a kernel's folder stays for now");
        }
    }
}

/// Removes a folder whatever rights cells have taken from those in it. No link is followed.
fn remove_tree(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            give_rights(folder, MOST_DEPTH);
            fs::remove_dir_all(folder)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn give_rights(folder: &Path, depth: usize) {
    if depth == 0 || fs::set_permissions(folder, Permissions::from_mode(0o700)).is_err() {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            give_rights(&entry.path(), depth - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn names(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn each_kernel_has_an_empty_private_folder_that_goes_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().join("base");
        let scratch = Arc::new(Scratch::new(vec![base.clone()]));
        assert!(!base.exists());
        let (one, other) = (scratch.folder().unwrap(), scratch.folder().unwrap());
        assert_ne!(one.path(), other.path());
        for folder in [&one, &other] {
            assert!(
                scratch
                    .places()
                    .iter()
                    .any(|it| folder.path().starts_with(it))
            );
            assert_eq!((mode(folder.path()), names(folder.path())), (0o700, 0));
        }
        // Whatever a cell has put there, and taken from it.
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "").unwrap();
        symlink(&outside, one.path().join("link")).unwrap();
        let closed = one.path().join("a/b");
        fs::create_dir_all(&closed).unwrap();
        fs::write(closed.join("file"), "").unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && outside.join("file").exists());
        // The manager's folder is removed with its last kernel.
        drop(scratch);
        assert_eq!(names(&base), 1);
        drop(other);
        assert_eq!(names(&base), 0);
    }

    #[test]
    fn what_managers_have_left_is_swept_and_what_lives_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let bases = vec![temp.path().join("a"), temp.path().join("b")];
        let living = Arc::new(Scratch::new(bases.clone()));
        let folder = living.folder().unwrap();
        let left = bases[0].join("m-0123456789ab/work-0123456789ab");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("file"), "").unwrap();
        fs::create_dir(bases[0].join("notes")).unwrap();
        Scratch::new(bases.clone()).sweep();
        assert!(!left.exists() && folder.path().exists() && bases[0].join("notes").exists());
        // One that is removed under a manager is made again.
        fs::remove_dir_all(&bases[0]).unwrap();
        assert!(living.folder().unwrap().path().exists());
    }

    #[test]
    fn a_place_that_will_not_do_is_passed_over_and_named() {
        let temp = tempfile::tempdir().unwrap();
        let (file, good) = (temp.path().join("file"), temp.path().join("good"));
        fs::write(&file, "").unwrap();
        let scratch = Arc::new(Scratch::new(vec![file.clone(), good.clone()]));
        assert!(scratch.folder().unwrap().path().starts_with(&good));
        let nowhere = Arc::new(Scratch::new(vec![file.clone()]));
        let told = nowhere.folder().unwrap_err().to_string();
        assert!(told.contains(&file.display().to_string()), "{told}");
        assert!(told.contains("set HERMES_HOME or TMPDIR"), "{told}");
    }
}
