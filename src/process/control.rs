//! A `SOCK_SEQPACKET` socket on which whole messages travel, descriptors attached.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::ProcessError;
use super::watch::watch;

/// The longest message, in bytes.
pub const MAX_CONTROL_MESSAGE_BYTES: usize = 60_000;
const MAX_DESCRIPTORS: usize = 8;

/// One end of the control socket.
#[derive(Debug)]
pub struct ControlSocket {
    fd: AsyncFd<OwnedFd>,
}

impl ControlSocket {
    /// A connected pair: ours, and the one that becomes descriptor 0 of the other process.
    ///
    /// # Errors
    ///
    /// If no descriptors are left.
    pub fn pair() -> Result<(Self, OwnedFd), ProcessError> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(ProcessError::descriptor("a control socket"))?;
        rustix::io::ioctl_fionbio(&ours, true)
            .map_err(ProcessError::descriptor("a control socket"))?;
        let fd = watch(ours, Interest::READABLE | Interest::WRITABLE).map_err(|source| {
            ProcessError::Descriptor {
                what: "a control socket",
                source,
            }
        })?;
        Ok((Self { fd }, theirs))
    }

    /// Sends one message with descriptors.
    ///
    /// # Errors
    ///
    /// If the other end is gone or the message is too long.
    ///
    /// # Cancel safety
    ///
    /// A message is sent whole or not at all.
    pub async fn send(
        &self,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ProcessError> {
        self.fd
            .async_io(Interest::WRITABLE, |fd| {
                let mut space =
                    [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                if !descriptors.is_empty()
                    && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
                {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                sendmsg(
                    fd.as_fd(),
                    &[IoSlice::new(message)],
                    &mut ancillary,
                    SendFlags::NOSIGNAL,
                )?;
                Ok(())
            })
            .await
            .map_err(|source| ProcessError::Control { source })
    }

    /// Receives one message; `None` when the other end is gone.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again: no message is lost.
    pub async fn receive(&self) -> Result<Option<Vec<u8>>, ProcessError> {
        let received = self
            .fd
            .async_io(Interest::READABLE, |fd| {
                let mut buffer = vec![0; MAX_CONTROL_MESSAGE_BYTES];
                // Nobody sends us descriptors; without room for them none can be received.
                let mut ancillary = RecvAncillaryBuffer::default();
                let message = recvmsg(
                    fd.as_fd(),
                    &mut [IoSliceMut::new(&mut buffer)],
                    &mut ancillary,
                    RecvFlags::CMSG_CLOEXEC,
                )?;
                buffer.truncate(message.bytes);
                Ok(buffer)
            })
            .await;
        match received {
            Ok(message) if message.is_empty() => Ok(None),
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(source) => Err(ProcessError::Control { source }),
        }
    }

    /// Ends the conversation: the other end reads that nobody is there.
    pub fn close(&self) {
        // A socket whose other end is gone cannot be closed twice; either way it is closed.
        rustix::net::shutdown(self.fd.get_ref(), rustix::net::Shutdown::Both).ok();
    }
}
