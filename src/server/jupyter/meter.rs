//! Keeps what all clients of WebSockets send together within bounds, while it comes.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What each message may have without asking for room.
const FREE_BYTES: usize = 64 << 10;

/// One connection, as the requests that come over it know it.
#[derive(Debug, Clone)]
pub(in crate::server) struct Peer {
    /// Its place among the connections: kept by whoever goes on using it.
    _place: Arc<OwnedSemaphorePermit>,
    meter: Arc<Meter>,
    /// Its socket, to be asked whether the client is still there; not of every kind.
    socket: Option<Arc<OwnedFd>>,
}

#[derive(Debug)]
struct Meter {
    /// A WebSocket: before that the limits of requests hold.
    is_on: AtomicBool,
    bodies: Arc<Semaphore>,
    unfinished: Mutex<Unfinished>,
}

/// A message that has not come to its end.
#[derive(Debug, Default)]
struct Unfinished {
    bytes: usize,
    granted: usize,
    room: Option<OwnedSemaphorePermit>,
}

impl Peer {
    /// A connection at its place; `bodies` is the room for all long messages, in kilobytes.
    pub(in crate::server) fn new(
        place: OwnedSemaphorePermit,
        bodies: Arc<Semaphore>,
        socket: Option<OwnedFd>,
    ) -> Self {
        Self {
            socket: socket.map(Arc::new),
            _place: Arc::new(place),
            meter: Arc::new(Meter {
                is_on: AtomicBool::new(false),
                bodies,
                unfinished: Mutex::default(),
            }),
        }
    }

    /// Whether the client has closed its end, of a kind of socket that tells: what it has asked and was
    /// not begun is not to be begun. One that has only said all that it has to say is there.
    pub(in crate::server) fn has_gone(&self) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let mut ends = [PollFd::new(&**socket, PollFlags::empty())];
        let now = Timespec::default();
        poll(&mut ends, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Counts what is read from its stream.
    pub(in crate::server) fn metered<S>(&self, stream: S) -> Metered<S> {
        Metered {
            stream,
            meter: Arc::clone(&self.meter),
        }
    }

    /// From now on it is counted.
    pub(super) fn begin(&self) {
        self.meter.is_on.store(true, Ordering::Release);
    }

    /// A message is there: what comes now belongs to the next.
    pub(super) fn finished(&self) {
        *self.meter.unfinished() = Unfinished::default();
    }

    /// Room for a message that waits; `None` if there is too much already.
    pub(super) fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.meter.room(bytes)
    }
}

impl Meter {
    fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kilobytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let bodies = Arc::clone(&self.bodies);
        bodies.try_acquire_many_owned(kilobytes).ok()
    }

    fn read(&self, bytes: usize) -> io::Result<()> {
        let mut unfinished = self.unfinished();
        unfinished.bytes += bytes;
        let allowed = FREE_BYTES + unfinished.granted;
        if unfinished.bytes <= allowed {
            return Ok(());
        }
        // It may double at once, so that it need not ask for each piece.
        let more = (unfinished.bytes - allowed).max(allowed);
        let Some(permit) = self.room(more) else {
            let sentence = "too many long messages at once; send it again in a moment";
            return Err(io::Error::other(sentence));
        };
        unfinished.granted += more;
        match &mut unfinished.room {
            Some(room) => room.merge(permit),
            None => unfinished.room = Some(permit),
        }
        Ok(())
    }

    fn unfinished(&self) -> MutexGuard<'_, Unfinished> {
        self.unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream whose reading is counted.
#[derive(Debug)]
pub(in crate::server) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(polled, Poll::Ready(Ok(()))) && self.meter.is_on.load(Ordering::Acquire) {
            self.meter.read(buffer.filled().len() - before)?;
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn long_messages_share_their_room_and_give_it_back() {
        let places = Arc::new(Semaphore::new(1));
        let bodies = Arc::new(Semaphore::new(100));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let peer = Peer::new(place, Arc::clone(&bodies), None);
        let long = vec![0; 100 << 10];
        let mut stream = peer.metered(io::Cursor::new(long.repeat(4)));
        let mut buffer = vec![0; 100 << 10];
        stream.read_exact(&mut buffer).await.unwrap();
        assert_eq!(bodies.available_permits(), 100);
        peer.begin();
        stream.read_exact(&mut buffer).await.unwrap();
        assert_eq!(bodies.available_permits(), 36);
        peer.finished();
        assert_eq!(bodies.available_permits(), 100);
        let waits = peer.room(99 << 10).unwrap();
        let error = stream.read_exact(&mut buffer).await.unwrap_err();
        assert!(error.to_string().contains("too many"), "{error}");
        drop((waits, stream));
        assert_eq!(places.available_permits(), 0);
        drop(peer);
        assert_eq!(places.available_permits(), 1);
    }
}
