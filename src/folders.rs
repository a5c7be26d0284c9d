//! Where sockets and staged files live: private folders with short paths.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::ids::random_hex;

/// The longest path of a socket, in bytes; the system's limit is 107.
const MAX_SOCKET_PATH: usize = 100;
/// What a socket's own name takes, with the separator.
const SOCKET_NAME_BYTES: usize = 20;

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

/// The places for private files, best first: the runtime folder, the user's and the system's
/// temporary folder.
pub fn private_bases(runtime_dir: Option<&Path>, temp_dir: Option<&Path>) -> Vec<PathBuf> {
    let own = format!("warmcell-{}", rustix::process::getuid().as_raw());
    let mut bases = Vec::new();
    bases.extend(
        runtime_dir
            .filter(|path| path.is_absolute())
            .map(|path| path.join("warmcell")),
    );
    bases.extend(
        temp_dir
            .filter(|path| path.is_absolute())
            .map(|path| path.join(&own)),
    );
    bases.push(Path::new("/tmp").join(own));
    bases
}

/// Makes a folder of this manager's own for sockets, in the first base that can hold one.
///
/// Blocks for a few system calls.
///
/// # Errors
///
/// If no base will do; each is named with the reason.
pub fn socket_folder(bases: &[PathBuf]) -> Result<PathBuf, FolderError> {
    let mut tried = Vec::new();
    for base in bases {
        match try_socket_folder(base) {
            Ok(folder) => return Ok(folder),
            Err(reason) => tried.push(format!("{}: {reason}", base.display())),
        }
    }
    Err(FolderError { tried })
}

fn try_socket_folder(base: &Path) -> Result<PathBuf, String> {
    let folder = base.join(format!("m-{}-{}", std::process::id(), random_hex(4)));
    let length = folder.as_os_str().len() + SOCKET_NAME_BYTES;
    if length > MAX_SOCKET_PATH {
        return Err(format!(
            "a socket there would have a path of {length} bytes, the limit is 100"
        ));
    }
    private_folder(base).map_err(|error| error.to_string())?;
    private_folder(&folder).map_err(|error| error.to_string())?;
    // Some file systems cannot hold sockets; only trying tells.
    let trial = folder.join("trial");
    let bound = UnixListener::bind(&trial);
    drop(fs::remove_file(&trial));
    if let Err(error) = bound {
        drop(fs::remove_dir(&folder));
        return Err(format!("cannot hold a socket ({error})"));
    }
    Ok(folder)
}

/// A folder of this process's own; removed, if it is empty, when the last one who uses it is gone.
#[derive(Debug)]
pub struct OwnFolder {
    path: PathBuf,
}

impl OwnFolder {
    /// Takes over a folder.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // Usually a forkserver has removed it.
        drop(fs::remove_dir(&self.path));
    }
}

/// Makes a folder with mode 0700, or accepts one that is ours, private and no link.
///
/// # Errors
///
/// If it cannot be made, or what is there is a link, belongs to somebody else or is open to others.
pub fn private_folder(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(path)?;
    let refuse = |what: &str| {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            what.to_owned(),
        ))
    };
    if !found.is_dir() {
        return refuse("it is a link or a file, not a folder");
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return refuse("it belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return refuse("it is open to other users (chmod 700 mends it)");
    }
    Ok(())
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
        assert!(folder.starts_with(&short));
        assert!(!long.exists());
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
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
}
