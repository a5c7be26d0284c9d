//! Lines of the log that come.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

use super::reading::{Filter, LogFiles, Query, open};

/// Hands on the entries that are wanted and come after what `files` holds, for ever; over files that are
/// put aside. Ends when `reader` (a pipe, say) has lost its other end.
///
/// Blocks; nothing is done while nothing happens.
///
/// # Errors
///
/// If the folder cannot be watched or the log not be read, or what `show` says.
pub fn follow(
    files: &LogFiles,
    query: &Query,
    reader: BorrowedFd<'_>,
    show: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let folder = files.path.parent().unwrap_or(&files.path);
    let what = WatchFlags::MODIFY
        | WatchFlags::CREATE
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::ONLYDIR;
    add_watch(&inotify, folder, what)?;
    // From here on nothing is missed: what was written before is read first.
    let (mut file, mut at) = files.newest()?;
    let mut filter = Filter::new(query);
    loop {
        at += rest(&file, at, &mut filter, show)?;
        if let Some(next) = successor(files, &file)? {
            // What came before it was put aside.
            rest(&file, at, &mut filter, show)?;
            (file, at) = (next, 0);
            continue;
        }
        if !has_happened(&inotify, reader)? {
            return Ok(());
        }
    }
}

/// Hands on what is new; how much that was. A file that has become shorter is begun again.
fn rest(
    mut file: &File,
    at: u64,
    filter: &mut Filter<'_>,
    show: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    file.seek(SeekFrom::Start(at))?;
    filter.pass(file.take(u64::MAX), show)
}

/// The file that bears the name now, if that is another one.
fn successor(files: &LogFiles, file: &File) -> io::Result<Option<File>> {
    let Some(there) = open(&files.path)? else {
        return Ok(None);
    };
    let identity = |file: &File| file.metadata().map(|it| (it.dev(), it.ino()));
    Ok((identity(&there)? != identity(file)?).then_some(there))
}

/// Waits until something has happened in the folder; no if nobody reads any more.
fn has_happened(inotify: &impl AsFd, reader: BorrowedFd<'_>) -> io::Result<bool> {
    let mut watched = [
        PollFd::new(inotify, PollFlags::IN),
        PollFd::from_borrowed_fd(reader, PollFlags::empty()),
    ];
    loop {
        match poll(&mut watched, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let [changes, reader] = &watched;
    if reader.revents().intersects(PollFlags::ERR | PollFlags::HUP) {
        return Ok(false);
    }
    if !changes.revents().is_empty() {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4_096];
        while rustix::io::read(inotify, &mut buffer).is_ok_and(|(read, _)| !read.is_empty()) {}
    }
    Ok(true)
}
