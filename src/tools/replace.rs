//! Putting bytes in the place of a file, whole or not at all, and looking whether they are there.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::files::{self, OpenFailure};

/// How much is written between two looks at the token.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Why the bytes are not in place.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The system said no; the old file is as it was.
    Io(io::Error),
    /// The cell ended; the old file is as it was.
    Stopped,
    /// Everything went well, and still the file holds something else.
    Differs,
    /// Writing in place failed and so did putting the old bytes back.
    Damaged(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Makes `bytes` the content of `path`, whose old file (if any) is described by `old`.
///
/// `path` has no links in it, and its folder exists.
pub(crate) fn put(
    path: &Path,
    old: Option<&Metadata>,
    bytes: &[u8],
    stop: &CancellationToken,
) -> Result<(), Trouble> {
    let written = match old {
        Some(old) if old.nlink() > 1 => overwrite(path, old, bytes, stop)?,
        Some(old) => match replace(path, Some(old), bytes, stop) {
            // The file may well be writable where its folder is not, or be a mount of its own.
            Err(Trouble::Io(error)) if only_the_folder_refuses(&error) => {
                overwrite(path, old, bytes, stop)?
            }
            outcome => outcome?,
        },
        None => replace(path, None, bytes, stop)?,
    };
    check(path, &written, bytes)
}

fn only_the_folder_refuses(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BUSY | Errno::XDEV)
    )
}

/// Writes a new file in the same folder and gives it the name.
fn replace(
    path: &Path,
    old: Option<&Metadata>,
    bytes: &[u8],
    stop: &CancellationToken,
) -> Result<File, Trouble> {
    // Until it has the mode of the old file, nobody else may look into the new one. A file that
    // was not there before gets what the umask leaves.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let folder = path.parent().unwrap_or(Path::new("/"));
    // The file is removed again when `temporary` is dropped before it got its name.
    let mut temporary = tempfile::Builder::new()
        .prefix(".warmcell-")
        .suffix(".tmp")
        .make_in(folder, |name| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(name)
        })?;
    let file = temporary.as_file_mut();
    write_all(file, bytes, stop)?;
    if let Some(old) = old {
        take_owner_and_mode(file, old)?;
    }
    // Before the old file is given up.
    if !holds(file, bytes)? {
        return Err(Trouble::Differs);
    }
    if stop.is_cancelled() {
        return Err(Trouble::Stopped);
    }
    temporary
        .persist(path)
        .map_err(|failure| Trouble::Io(failure.error))
}

fn take_owner_and_mode(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o7777;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        let kept = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid())).is_ok();
        let group_kept = kept || std::os::unix::fs::fchown(file, None, Some(old.gid())).is_ok();
        // A file that runs as its owner must not begin to run as somebody else.
        if !kept && new.uid() != old.uid() {
            mode &= !0o4000;
        }
        if !group_kept {
            mode &= !0o2000;
        }
    }
    if new.mode() & 0o7777 != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Writes into the file that is there, for the sake of its other names.
///
/// The old bytes that are written over are kept meanwhile (as many as the new ones at most): on
/// failure they go back to where they were, which takes no new space on the disk.
fn overwrite(
    path: &Path,
    old: &Metadata,
    bytes: &[u8],
    stop: &CancellationToken,
) -> Result<File, Trouble> {
    let (mut file, metadata) = open_again(path, OFlags::RDWR)?;
    if (metadata.dev(), metadata.ino()) != (old.dev(), old.ino()) {
        return Err(Trouble::Differs);
    }
    let mut backup = Vec::new();
    (&file).take(bytes.len() as u64).read_to_end(&mut backup)?;
    file.rewind()?;
    let outcome = write_all(&mut file, bytes, stop)
        .and_then(|()| file.set_len(bytes.len() as u64).map_err(Trouble::Io));
    if let Err(trouble) = outcome {
        let put_back = file
            .rewind()
            .and_then(|()| file.write_all(&backup))
            .and_then(|()| file.set_len(metadata.len()));
        return Err(put_back.err().map_or(trouble, Trouble::Damaged));
    }
    Ok(file)
}

fn open_again(path: &Path, access: OFlags) -> Result<(File, Metadata), Trouble> {
    files::open_regular(path, access).map_err(|failure| match failure {
        OpenFailure::Io(error) => Trouble::Io(error),
        OpenFailure::NotRegular(_) => Trouble::Differs,
    })
}

fn write_all(file: &mut File, bytes: &[u8], stop: &CancellationToken) -> Result<(), Trouble> {
    for chunk in bytes.chunks(CHUNK_BYTES) {
        if stop.is_cancelled() {
            return Err(Trouble::Stopped);
        }
        file.write_all(chunk)?;
    }
    Ok(())
}

/// Reads back by name what was written by descriptor.
fn check(path: &Path, written: &File, bytes: &[u8]) -> Result<(), Trouble> {
    let written = written.metadata()?;
    let (mut file, metadata) = open_again(path, OFlags::RDONLY)?;
    let is_same = (metadata.dev(), metadata.ino()) == (written.dev(), written.ino());
    if is_same && holds(&mut file, bytes)? {
        Ok(())
    } else {
        Err(Trouble::Differs)
    }
}

fn holds(file: &mut File, bytes: &[u8]) -> io::Result<bool> {
    file.seek(SeekFrom::Start(0))?;
    let mut rest = bytes;
    let mut chunk = vec![0_u8; 64 * 1024];
    loop {
        let count = match file.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if count == 0 {
            return Ok(rest.is_empty());
        }
        match chunk.get(..count).and_then(|read| rest.strip_prefix(read)) {
            Some(left) => rest = left,
            None => return Ok(false),
        }
    }
}

/// Folders that were made for a file; unless kept they go again, for a failed write leaves nothing.
#[derive(Debug)]
pub(crate) struct NewFolders {
    made: Vec<PathBuf>,
}

impl NewFolders {
    /// Makes a folder and those above it, where they are missing.
    pub(crate) fn make(folder: &Path) -> io::Result<Self> {
        let mut folders = Self { made: Vec::new() };
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|folder| !folder.exists())
            .collect();
        for folder in missing.into_iter().rev() {
            match std::fs::create_dir(folder) {
                Ok(()) => folders.made.push(folder.to_path_buf()),
                // Another call made it in the meantime.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(folders)
    }

    /// Lets them stay; whether there are any.
    pub(crate) fn keep(mut self) -> bool {
        !std::mem::take(&mut self.made).is_empty()
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // Not empty means that somebody else uses it by now.
            if let Err(error) = std::fs::remove_dir(folder) {
                tracing::debug!(%error, "a new folder stays after a failed write");
            }
        }
    }
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
