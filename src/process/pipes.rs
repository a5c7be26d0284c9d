//! The descriptors between a manager and its kernels.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::pwrite;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::ProcessError;
use super::watch::watch;

/// A connected pair of stream sockets: ours (non-blocking) and theirs (blocking).
///
/// # Errors
///
/// If no descriptors are left.
pub fn socket_pair() -> Result<(UnixStream, OwnedFd), ProcessError> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(ProcessError::descriptor("a socket pair"))?;
    let ours = UnixStream::from(ours);
    ours.set_nonblocking(true)
        .map_err(|source| ProcessError::Descriptor {
            what: "a socket pair",
            source,
        })?;
    Ok((ours, theirs))
}

/// A pipe whose read end is ours.
///
/// # Errors
///
/// If no descriptors are left.
pub fn output_pipe() -> Result<(PipeReader, OwnedFd), ProcessError> {
    let (ours, theirs) =
        pipe_with(PipeFlags::CLOEXEC).map_err(ProcessError::descriptor("a pipe"))?;
    Ok((PipeReader::new(ours)?, theirs))
}

/// An anonymous file with the given contents, read from its start.
///
/// # Errors
///
/// If it cannot be made.
pub fn memory_file(contents: &[u8]) -> Result<OwnedFd, ProcessError> {
    let fd = memfd_create("warmcell", MemfdFlags::CLOEXEC)
        .map_err(ProcessError::descriptor("a memory file"))?;
    let mut written = 0;
    while let Some(rest) = contents.get(written..).filter(|rest| !rest.is_empty()) {
        written +=
            pwrite(&fd, rest, written as u64).map_err(ProcessError::descriptor("a memory file"))?;
    }
    Ok(fd)
}

/// The read end of a pipe that carries output.
#[derive(Debug)]
pub struct PipeReader {
    fd: AsyncFd<OwnedFd>,
}

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Empty,
    /// No writer is left.
    End,
}

impl PipeReader {
    /// Takes over a read end.
    ///
    /// # Errors
    ///
    /// If it cannot be made non-blocking or watched.
    pub fn new(fd: OwnedFd) -> Result<Self, ProcessError> {
        rustix::io::ioctl_fionbio(&fd, true).map_err(ProcessError::descriptor("a pipe"))?;
        let fd = watch(fd, Interest::READABLE).map_err(|source| ProcessError::Descriptor {
            what: "a pipe",
            source,
        })?;
        Ok(Self { fd })
    }

    /// Waits until there is something to read or no writer is left.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn readable(&self) {
        if let Ok(mut guard) = self.fd.readable().await {
            guard.retain_ready();
        }
    }

    /// How many bytes are in the pipe now.
    pub fn waiting(&self) -> usize {
        rustix::io::ioctl_fionread(self.fd.get_ref())
            .ok()
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(0)
    }

    /// Reads what is there now, at most a buffer full.
    ///
    /// An error of the descriptor counts as the end: nothing will come any more.
    pub fn read(&self, buffer: &mut [u8]) -> ReadOutcome {
        let mut outcome = None;
        // Within, so that what comes between the look and the forgetting is not forgotten.
        let watched: io::Result<()> = self.fd.try_io(Interest::READABLE, |fd| {
            let read = read_now(fd, buffer);
            outcome = Some(read);
            match read {
                // Less than a buffer full: the pipe is empty (see epoll(7)), `readable` waits.
                ReadOutcome::Bytes(count) if count < buffer.len() => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                ReadOutcome::Empty => Err(io::ErrorKind::WouldBlock.into()),
                ReadOutcome::Bytes(_) | ReadOutcome::End => Ok(()),
            }
        });
        watched.ok();
        // The runtime has not been told yet that there is something.
        outcome.unwrap_or_else(|| read_now(self.fd.get_ref(), buffer))
    }
}

fn read_now(fd: &OwnedFd, buffer: &mut [u8]) -> ReadOutcome {
    match rustix::io::read(fd, buffer) {
        Ok(0) => ReadOutcome::End,
        Ok(count) => ReadOutcome::Bytes(count),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => ReadOutcome::Empty,
        Err(_) => ReadOutcome::End,
    }
}

/// A page shared with a kernel: the number of the cell that is to be interrupted.
#[derive(Debug)]
pub struct InterruptPage {
    fd: OwnedFd,
}

impl InterruptPage {
    /// Makes a page that names no cell.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn new() -> Result<Self, ProcessError> {
        let fd = memfd_create("warmcell-interrupt", MemfdFlags::CLOEXEC)
            .map_err(ProcessError::descriptor("the interrupt page"))?;
        ftruncate(&fd, 4096).map_err(ProcessError::descriptor("the interrupt page"))?;
        Ok(Self { fd })
    }

    /// Names a cell. The page is ours alone to write, so this fails only if memory is gone; then
    /// the interrupt is lost and the kernel is killed after the grace.
    pub fn name(&self, cell: u64) {
        pwrite(&self.fd, &cell.to_le_bytes(), 0).ok();
    }

    /// A descriptor of the page for the kernel.
    ///
    /// # Errors
    ///
    /// If no descriptors are left.
    pub fn share(&self) -> Result<OwnedFd, ProcessError> {
        self.fd
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| ProcessError::Descriptor {
                what: "the interrupt page",
                source,
            })
    }
}

/// The page as the kernel has it.
#[derive(Debug)]
pub struct InterruptNumber {
    fd: OwnedFd,
}

impl InterruptNumber {
    /// Takes over the descriptor of a page.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The cell that is to be interrupted; 0 for none.
    pub fn read(&self) -> u64 {
        let mut number = [0; 8];
        match rustix::io::pread(&self.fd, &mut number, 0) {
            Ok(8) => u64::from_le_bytes(number),
            _ => 0,
        }
    }
}
