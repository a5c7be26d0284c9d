//! One of our own streams, written by a thread of its own: whoever stands at its other end may make
//! that thread wait for ever, and nobody else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
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
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        name: &str,
        stream: impl AsFd + Send + 'static,
        taken: Taken,
    ) -> Result<Self, ProcessError> {
        let (jobs, queue) = mpsc::channel::<Job>();
        start_thread(name, move || {
            for (bytes, done) in queue {
                // Whoever waited may have given up.
                drop(done.send(write_all(stream.as_fd(), &bytes, &taken)));
            }
        })?;
        Ok(Self { jobs })
    }

    /// Writes all of it.
    ///
    /// If dropped, it is written all the same, as far as somebody takes it.
    pub(super) async fn write(&self, bytes: Bytes) -> io::Result<()> {
        let (done, wait) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.jobs.send((bytes, done)).map_err(|_its_end| gone())?;
        wait.await.map_err(|_its_end| gone())?
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

    use super::*;

    #[tokio::test]
    async fn everything_is_written_in_order_and_counted() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let taken = Taken::default();
        let stream = Writer::start("test", writer, taken.clone()).unwrap();
        let first = vec![b'a'; 200_000];
        let writing = async {
            stream.write(Bytes::from(first.clone())).await.unwrap();
            stream.write(Bytes::from_static(b"b")).await.unwrap();
            drop(stream);
        };
        let reading = crate::process::in_a_thread(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
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
        let stream = Writer::start("test", writer, Taken::default()).unwrap();
        for _ in 0..2 {
            let error = stream.write(Bytes::from_static(b"x")).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
