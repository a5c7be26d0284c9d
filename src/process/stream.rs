//! Our end of a stream socket to a process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::watch::watch;

/// The end, non-blocking. It is watched for reading only, and for writing only while the other side
/// is behind: a socket that is always watched for writing wakes us each time its peer takes in what
/// we wrote, and it is the peer who pays for that, at the start of each cell.
#[derive(Debug)]
pub struct StreamEnd {
    fd: AsyncFd<OwnedFd>,
    behind: Option<AsyncFd<OwnedFd>>,
}

impl StreamEnd {
    /// Takes over a non-blocking end.
    ///
    /// # Errors
    ///
    /// If it cannot be watched.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        Ok(Self {
            fd: watch(stream.into(), Interest::READABLE)?,
            behind: None,
        })
    }

    /// Reads what is there now; 0 at the end, `WouldBlock` if there is nothing.
    ///
    /// # Errors
    ///
    /// See `read(2)`.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut short = None;
        let read = self.fd.try_io(Interest::READABLE, |fd| {
            let count = rustix::io::read(fd, &mut *buffer)?;
            if 0 < count && count < buffer.len() {
                // Nothing is left: the next look need not ask the system (see epoll(7)).
                short = Some(count);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        short.map_or(read, Ok)
    }

    /// Writes what fits now; after `WouldBlock` it is to be waited until it is [`writable`].
    ///
    /// [`writable`]: Self::writable
    ///
    /// # Errors
    ///
    /// See `send(2)`.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = rustix::net::send(self.fd.get_ref(), bytes, SendFlags::NOSIGNAL);
        match (sent, &self.behind) {
            (Err(rustix::io::Errno::AGAIN), None) => {
                let again = self.fd.get_ref().as_fd().try_clone_to_owned()?;
                self.behind = Some(watch(again, Interest::WRITABLE)?);
            }
            (Err(rustix::io::Errno::AGAIN), Some(behind)) => {
                let full = |_: &OwnedFd| Err::<(), _>(io::ErrorKind::WouldBlock.into());
                behind.try_io(Interest::WRITABLE, full).ok();
            }
            _ => {}
        }
        Ok(sent?)
    }

    /// Nothing waits to be written any more.
    pub fn caught_up(&mut self) {
        self.behind = None;
    }

    /// Waits until there is something to read, or the other side is gone.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn readable(&self) {
        if let Ok(mut guard) = self.fd.readable().await {
            guard.retain_ready();
        }
    }

    /// Waits until something can be written; for ever if nothing waits for that.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn writable(&self) {
        match &self.behind {
            Some(behind) => {
                if let Ok(mut guard) = behind.writable().await {
                    guard.retain_ready();
                }
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_is_written_when_the_other_side_has_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut stream = StreamEnd::new(ours).unwrap();
        let sent = vec![7; 4 << 20];
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).unwrap();
            read
        });
        let mut rest = sent.as_slice();
        while !rest.is_empty() {
            match stream.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await,
                Err(error) => panic!("{error}"),
            }
        }
        stream.caught_up();
        drop(stream);
        assert!(reader.join().unwrap() == sent);
    }

    #[tokio::test]
    async fn the_end_is_readable() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream = StreamEnd::new(ours).unwrap();
        let mut buffer = [0; 8];
        let nothing = stream.try_read(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(theirs);
        stream.readable().await;
        assert_eq!(stream.try_read(&mut buffer).unwrap(), 0);
    }
}
