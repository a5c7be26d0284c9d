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
    if was_there(path)? {
        is_private(path)?;
    }
    Ok(())
}

/// Makes a folder with mode 0700, or accepts one in which nobody else can write: it is shared with another
/// system, which lets others look into it; what is private there are the files.
///
/// # Errors
///
/// If it cannot be made, or what is there is a link, belongs to somebody else or is one where others write.
pub fn own_folder(path: &Path) -> io::Result<()> {
    if was_there(path)? {
        is_ours(path, 0o022, "others can write in it (chmod go-w mends it)")?;
    }
    Ok(())
}

/// Makes it with mode 0700 if it is not there.
fn was_there(path: &Path) -> io::Result<bool> {
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
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
    is_ours(
        path,
        0o077,
        "it is open to other users (chmod 700 mends it)",
    )
}

/// Accepts a folder that is there, ours, no link, and has none of these rights.
fn is_ours(path: &Path, not: u32, open: &str) -> io::Result<()> {
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
    if found.mode() & not != 0 {
        return refuse(open);
    }
    Ok(())
}
