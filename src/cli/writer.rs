//! One of our own streams, written by a thread of its own: whoever stands at its other end may make
//! that thread wait for ever, and nobody else. What a pipe takes at once needs no thread.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};

use bytes::{Buf, Bytes};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use tokio::sync::oneshot;

use crate::process::{ProcessError, start_thread};

/// Bytes that go out in one call: how much is taken meanwhile is seen after each.
const WRITE_BYTES: usize = 16 * 1024;

/// Bytes, and who waits until they are written.
type Job = (Bytes, oneshot::Sender<io::Result<()>>);

/// How much was taken of us, on all streams that it is given to.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken(Arc<AtomicU64>);

impl Taken {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// The stream.
#[derive(Debug)]
pub(super) struct Writer {
    name: &'static str,
    stream: BorrowedFd<'static>,
    taken: Taken,
    /// The thread, once there is one.
    jobs: OnceLock<mpsc::Sender<Job>>,
}

impl Writer {
    /// A stream whose thread is started when something cannot be written at once.
    pub(super) fn new(name: &'static str, stream: BorrowedFd<'static>, taken: Taken) -> Self {
        Self {
            name,
            stream,
            taken,
            jobs: OnceLock::new(),
        }
    }

    /// Starts the thread now: later there may be none to be had.
    pub(super) fn start(&self) -> Result<(), ProcessError> {
        self.thread().map(drop)
    }

    fn thread(&self) -> Result<&mpsc::Sender<Job>, ProcessError> {
        if let Some(jobs) = self.jobs.get() {
            return Ok(jobs);
        }
        let (jobs, queue) = mpsc::channel::<Job>();
        let (stream, taken) = (self.stream, self.taken.clone());
        start_thread(self.name, move || {
            for (bytes, done) in queue {
                // Whoever waited may have given up.
                drop(done.send(write_all(stream, &bytes, &taken)));
            }
        })?;
        Ok(self.jobs.get_or_init(|| jobs))
    }

    /// Writes all of it.
    ///
    /// If dropped, it is written all the same, as far as somebody takes it.
    pub(super) async fn write(&self, mut bytes: Bytes) -> io::Result<()> {
        if self.jobs.get().is_none() {
            let written = self.write_at_once(&bytes)?;
            bytes.advance(written);
            if bytes.is_empty() {
                return Ok(());
            }
        }
        let (done, wait) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let jobs = self.thread().map_err(io::Error::other)?;
        jobs.send((bytes, done)).map_err(|_its_end| gone())?;
        wait.await.map_err(|_its_end| gone())?
    }

    /// Writes to a pipe what it takes without waiting; a thread would cost more than the rest of a
    /// short command. Of anything else nothing is known.
    fn write_at_once(&self, bytes: &[u8]) -> io::Result<usize> {
        let pieces = [IoSlice::new(bytes)];
        match pwritev2(self.stream, &pieces, u64::MAX, ReadWriteFlags::NOWAIT) {
            Ok(count) => {
                self.taken.add(count);
                Ok(count)
            }
            Err(Errno::PIPE) => Err(Errno::PIPE.into()),
            // It would wait, or the stream cannot be asked so.
            Err(_) => Ok(0),
        }
    }
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8], taken: &Taken) -> io::Result<()> {
    while !bytes.is_empty() {
        let piece = bytes.get(..WRITE_BYTES).unwrap_or(bytes);
        match rustix::io::write(fd, piece) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                taken.add(count);
                bytes = bytes.get(count..).unwrap_or_default();
            }
            Err(Errno::INTR) => {}
            // Somebody who shares the stream has made it so.
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::{AsFd, OwnedFd};

    use super::*;

    /// As our own streams are: there until the end.
    fn kept(writer: impl Into<OwnedFd>) -> BorrowedFd<'static> {
        let kept: &'static OwnedFd = Box::leak(Box::new(writer.into()));
        kept.as_fd()
    }

    #[tokio::test]
    async fn everything_is_written_in_order_and_counted() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let taken = Taken::default();
        let stream = Writer::new("test", kept(writer), taken.clone());
        let first = vec![b'a'; 200_000];
        let writing = async {
            stream.write(Bytes::from(first.clone())).await.unwrap();
            stream.write(Bytes::from_static(b"b")).await.unwrap();
            drop(stream);
        };
        let reading = crate::process::in_a_thread(move || {
            let mut all = vec![0; 200_001];
            reader.read_exact(&mut all).unwrap();
            all
        });
        let ((), all) = tokio::join!(writing, reading);
        assert_eq!(all.unwrap(), [first.as_slice(), b"b"].concat());
        assert_eq!(taken.bytes(), 200_001);
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_is_an_error_each_time() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let stream = Writer::new("test", kept(writer), Taken::default());
        for _ in 0..2 {
            let error = stream.write(Bytes::from_static(b"x")).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
