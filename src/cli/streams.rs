//! Descriptors 0 to 2 as this process was given them. Rust opens `/dev/null` in the place of one that
//! is closed, before `main`: what would be written to a closed stdout would then look as if it were.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Notes whether stdout is closed. To be called before Rust itself looks at it, by what the system
/// runs first of all in a program; later it finds what Rust has put there.
pub extern "C" fn note_closed_streams() {
    let is_closed = fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF);
    STDOUT_WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Whether there is no stdout.
pub(super) fn is_stdout_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// What writing to a stdout that is closed comes to.
pub(super) fn closed() -> io::Error {
    Errno::BADF.into()
}

/// What was closed is closed again in a program that this process becomes.
pub(super) fn keep_closed() {
    if is_stdout_closed() {
        // It is ours: Rust has opened it.
        fcntl_setfd(rustix::stdio::stdout(), FdFlags::CLOEXEC).ok();
    }
}

/// Our stdout, for what may wait for its reader.
pub(super) fn stdout() -> impl Write {
    Stdout(io::stdout())
}

struct Stdout(io::Stdout);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if is_stdout_closed() {
            return Err(closed());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Why stdout takes no more, if that is worth a word: a reader of a pipe that has gone away is not.
pub(super) fn unwritten(error: &io::Error) -> Option<String> {
    let words = crate::process::in_words(error);
    (error.kind() != io::ErrorKind::BrokenPipe).then(|| format!("cannot write to stdout: {words}"))
}
