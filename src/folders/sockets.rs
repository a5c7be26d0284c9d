//! The folder that holds the sockets of one manager.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::claim::{Claim, is_random_name, sweep};
use super::{is_private, private_folder};
use crate::ids::random_hex;

/// The longest path of a socket, in bytes; the system's limit is 107.
const MAX_SOCKET_PATH: usize = 100;
/// What a socket's own name takes, with the separator.
const SOCKET_NAME_BYTES: usize = 20;
/// The random part of a folder's name.
const RANDOM_BYTES: usize = 4;
/// How many sockets of a folder that is swept are removed at once; a session has one.
const MOST_SOCKETS: usize = 1_024;

/// No folder could be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "no private folder for sockets: {}; set XDG_RUNTIME_DIR or TMPDIR to a short path on a local \
     file system that you can write to",
    tried.join("; ")
)]
pub struct FolderError {
    /// Each place that was tried, and why it would not do.
    pub tried: Vec<String>,
}

/// Makes a folder of this manager's own for sockets, in the first base that can hold one, and removes
/// those of managers that are gone from all of them.
///
/// Usually a forkserver removes the folder of its manager; one that was killed too, or did not run
/// yet, cannot. Blocks for a few system calls.
///
/// # Errors
///
/// If no base will do; each is named with the reason.
pub fn socket_folder(bases: &[PathBuf]) -> Result<OwnFolder, FolderError> {
    for base in bases {
        sweep(base, is_socket_folder, remove_sockets);
    }
    let mut tried = Vec::new();
    for base in bases {
        match try_socket_folder(base) {
            Ok(folder) => return Ok(folder),
            Err(reason) => tried.push(format!("{}: {reason}", base.display())),
        }
    }
    Err(FolderError { tried })
}

fn try_socket_folder(base: &Path) -> Result<OwnFolder, String> {
    let name = || {
        let random = random_hex(RANDOM_BYTES);
        base.join(format!("m-{}-{random}", std::process::id()))
    };
    let length = name().as_os_str().len() + SOCKET_NAME_BYTES;
    if length > MAX_SOCKET_PATH {
        return Err(format!(
            "a socket there would have a path of {length} bytes, the limit is 100"
        ));
    }
    private_folder(base).map_err(|error| error.to_string())?;
    let (path, claim) = Claim::make(name).map_err(|error| error.to_string())?;
    let folder = OwnFolder {
        path,
        claim: Mutex::new(claim),
    };
    // Some file systems cannot hold sockets; only trying tells.
    let trial = folder.path.join("trial");
    let bound = UnixListener::bind(&trial);
    drop(fs::remove_file(&trial));
    match bound {
        Ok(_) => Ok(folder),
        Err(error) => Err(format!("cannot hold a socket ({error})")),
    }
}

/// Whether a name is one that [`try_socket_folder`] gives.
fn is_socket_folder(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix("m-"));
    rest.and_then(|rest| rest.split_once('-'))
        .is_some_and(|(pid, random)| {
            !pid.is_empty()
                && pid.bytes().all(|digit| digit.is_ascii_digit())
                && is_random_name(OsStr::new(random), "", RANDOM_BYTES)
        })
}

/// Of a kernel that is not ours and was just being started.
fn is_connection_file(name: &OsStr) -> bool {
    let random = name.to_str().and_then(|name| name.strip_suffix(".json"));
    random.is_some_and(|random| is_random_name(OsStr::new(random), "k-", RANDOM_BYTES))
}

/// Removes a folder with the sockets in it; with anything else in it, it stays.
fn remove_sockets(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.take(MOST_SOCKETS) {
        let entry = entry?;
        if entry.file_type()?.is_socket() || is_connection_file(&entry.file_name()) {
            // The forkserver may be at it too.
            drop(fs::remove_file(entry.path()));
        }
    }
    fs::remove_dir(folder)
}

/// A folder of this process's own; removed, if it is empty, when the last one who uses it is gone.
///
/// While it lives no other process takes it for a leftover.
#[derive(Debug)]
pub struct OwnFolder {
    path: PathBuf,
    claim: Mutex<Claim>,
}

impl OwnFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it again where it was, if it was removed or moved away. Blocks for a few system calls.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn stand(&self) -> io::Result<()> {
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        if is_private(&self.path).is_ok() {
            return Ok(());
        }
        if let Some(base) = self.path.parent() {
            private_folder(base)?;
        }
        let (_path, made) = Claim::make(|| self.path.clone())?;
        *claim = made;
        Ok(())
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // Usually a forkserver has removed it.
        drop(fs::remove_dir(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_long_base_is_passed_over_for_a_short_one() {
        let temp = tempfile::tempdir_in("/tmp").unwrap();
        let long = temp.path().join("a".repeat(120));
        let short = temp.path().join("s");
        let folder = socket_folder(&[long.clone(), short.clone()]).unwrap();
        assert!(folder.path().starts_with(&short));
        assert!(!long.exists());
        assert_eq!(
            fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn links_and_open_folders_are_refused_by_name() {
        let temp = tempfile::tempdir_in("/tmp").unwrap();
        let open = temp.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let link = temp.path().join("link");
        symlink(&open, &link).unwrap();
        let error = socket_folder(&[open.clone(), link.clone()]).unwrap_err();
        assert_eq!(error.tried.len(), 2);
        assert!(error.to_string().contains("open to other users"), "{error}");
        assert!(error.to_string().contains("a link or a file"), "{error}");
        assert!(
            error.to_string().contains("set XDG_RUNTIME_DIR or TMPDIR"),
            "{error}"
        );
    }
    #[test]
    fn folders_of_managers_that_are_gone_are_swept_from_every_base() {
        let temp = tempfile::tempdir_in("/tmp").unwrap();
        let bases = [temp.path().join("a"), temp.path().join("b")];
        let live = socket_folder(&bases[1..]).unwrap();
        let leave = |base: &Path, name: &str, file: Option<&str>| {
            let folder = base.join(name);
            private_folder(base).unwrap();
            private_folder(&folder).unwrap();
            // Its listener is gone, the socket stays.
            drop(UnixListener::bind(folder.join("t-0123.sock")).unwrap());
            if let Some(file) = file {
                fs::write(folder.join(file), "").unwrap();
            }
            folder
        };
        // Whatever process has that number now.
        let own_number = format!("m-{}-0123abcd", std::process::id());
        let gone = [
            leave(&bases[0], &own_number, None),
            leave(&bases[0], "m-1-0123abcd", Some("k-0123abcd.json")),
            leave(&bases[1], "m-4194305-0123abcd", None),
        ];
        let kept = [
            leave(&bases[0], "m-1-0123abcd.bak", None),
            leave(&bases[0], "m--0123abcd", None),
            leave(&bases[0], "m-1-0123abc", None),
            leave(&bases[0], "python", None),
            leave(&bases[0], "m-2-0123abcd", Some("notes.txt")),
        ];
        let made = socket_folder(&bases).unwrap();
        for folder in &gone {
            assert!(!folder.exists(), "{}", folder.display());
        }
        for folder in &kept {
            assert!(folder.exists(), "{}", folder.display());
        }
        assert!(kept[4].join("notes.txt").exists());
        assert!(live.path().exists() && made.path().exists());
        let paths = [live.path().to_owned(), made.path().to_owned()];
        drop((live, made));
        assert!(!paths[0].exists() && !paths[1].exists());
    }
}
