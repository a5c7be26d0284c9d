//! Folders that nobody else can look into.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

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
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => is_private(path),
        Err(error) => Err(error),
    }
}

/// Gives a folder of ours its mode 0700 back; nothing that is a link or another user's is touched.
///
/// # Errors
///
/// If it is not there, or not ours.
pub fn make_private(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::getuid().as_raw();
    if is_ours && found.mode() & 0o777 != 0o700 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    is_private(path)
}

/// Accepts a folder that is there, ours, private and no link.
///
/// # Errors
///
/// If it is not; the sentence says what is wrong.
pub fn is_private(path: &Path) -> io::Result<()> {
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
