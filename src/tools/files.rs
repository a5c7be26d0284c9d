//! What the file tools share: blocking work, opening only regular files, and words for errors.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::shown::shown;
use super::{ToolContext, ToolFailure};

/// What a folder is called.
const FOLDER: &str = "a directory";

/// Runs blocking work that looks at the token now and then.
///
/// The token fires when the cell ends and also when the returned future is dropped, so that the
/// thread never works on for a caller that is gone.
pub(crate) async fn run_blocking<T, W>(
    tool: &'static str,
    context: &ToolContext,
    work: W,
) -> Result<T, ToolFailure>
where
    T: Send + 'static,
    W: FnOnce(&ToolContext, &CancellationToken) -> Result<T, ToolFailure> + Send + 'static,
{
    let stop = context.cancelled.child_token();
    let _fires_on_drop = stop.clone().drop_guard();
    let context = context.clone();
    match tokio::task::spawn_blocking(move || work(&context, &stop)).await {
        Ok(outcome) => outcome,
        Err(error) => Err(ToolFailure::failed(format!(
            "{tool}: its thread ended early ({error}); try again"
        ))),
    }
}

/// The failure of a tool that was told to stop.
pub(crate) fn stopped(tool: &str, path: &str) -> ToolFailure {
    ToolFailure::new(
        "interrupted",
        format!(
            "{tool}: stopped at '{}' because the cell ended",
            shown(path)
        ),
    )
}

/// Why a file could not be had.
#[derive(Debug)]
pub(crate) enum OpenFailure {
    /// The path names something else than a regular file.
    NotRegular(&'static str),
    /// The system said no.
    Io(io::Error),
}

/// Opens a regular file and nothing else, without waiting for anybody.
///
/// Anything but a regular file is refused before it is opened, since opening alone can have
/// effects on a device, and once more by its descriptor, since the file may have been swapped.
pub(crate) fn open_regular(path: &Path, access: OFlags) -> Result<(File, Metadata), OpenFailure> {
    let before = std::fs::symlink_metadata(path).map_err(OpenFailure::Io)?;
    must_be_regular(before.file_type())?;
    let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let descriptor = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| OpenFailure::Io(errno.into()))?;
    let file = File::from(descriptor);
    let metadata = file.metadata().map_err(OpenFailure::Io)?;
    must_be_regular(metadata.file_type())?;
    Ok((file, metadata))
}

fn must_be_regular(kind: FileType) -> Result<(), OpenFailure> {
    if kind.is_file() {
        return Ok(());
    }
    Err(OpenFailure::NotRegular(if kind.is_dir() {
        FOLDER
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_symlink() {
        "a link that was made this moment"
    } else {
        "a device"
    }))
}

/// What a tool wants of a file, in the words of its failures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Errand {
    /// The tool.
    pub(crate) tool: &'static str,
    /// What it does, after "cannot".
    pub(crate) attempt: &'static str,
    /// What to do instead with a folder.
    pub(crate) with_folder: &'static str,
    /// What to do instead with a device, a FIFO or a socket.
    pub(crate) with_other: &'static str,
}

impl Errand {
    /// Opens a regular file to read it; `None` if there is none of that name.
    pub(crate) fn open(
        self,
        path: &Path,
        name: &str,
    ) -> Result<Option<(File, Metadata)>, ToolFailure> {
        match open_regular(path, OFlags::RDONLY) {
            Ok(opened) => Ok(Some(opened)),
            Err(OpenFailure::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(OpenFailure::Io(error)) => Err(self.failed(name, &error)),
            Err(OpenFailure::NotRegular(kind)) => {
                let Self { tool, attempt, .. } = self;
                let instead = if kind == FOLDER {
                    self.with_folder
                } else {
                    self.with_other
                };
                Err(ToolFailure::refused(format!(
                    "{tool}: cannot {attempt} {name}: it is {kind}, and only regular files will do; \
                     {instead}"
                )))
            }
        }
    }

    /// A failure of the system.
    pub(crate) fn failed(self, name: &str, error: &io::Error) -> ToolFailure {
        system_failure(self.tool, self.attempt, name, error)
    }
}

/// A failure of the system in words: what was tried, the error, and what can be done about it.
fn system_failure(tool: &str, attempt: &str, name: &str, error: &io::Error) -> ToolFailure {
    let remedy = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            "choose a path that you have access to, or ask the user to change its permissions"
        }
        Some(Errno::ROFS) => "the file system is read-only, so choose a path on another one",
        Some(Errno::NOSPC | Errno::DQUOT) => "free some space or choose a path on another disk",
        Some(Errno::NOTDIR) => "a part of the path that should be a folder is a file; correct it",
        Some(Errno::ISDIR) => "the path names a folder; name a file in it",
        Some(Errno::LOOP) => {
            "links lead in a circle or were changed meanwhile; name the file itself"
        }
        Some(Errno::NAMETOOLONG) => "use a shorter name",
        Some(Errno::NOENT) => "it went away meanwhile; check the path",
        Some(Errno::FBIG) => "the file would be larger than allowed; write it in parts",
        Some(Errno::MFILE | Errno::NFILE) => "too many files are open; try again later",
        _ => "check the path and try again",
    };
    ToolFailure::failed(format!(
        "{tool}: cannot {attempt} {name}: {error}; {remedy}"
    ))
}
