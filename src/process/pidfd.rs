//! A process named by a descriptor.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::watch::watch;

/// A signal that this program sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Interrupt, as Ctrl-C.
    Interrupt,
    /// End in good order.
    Terminate,
    /// End at once.
    Kill,
    /// Go on, if it is stopped.
    Continue,
}

/// One process, whatever becomes of its number.
#[derive(Debug)]
pub struct Pidfd {
    fd: AsyncFd<OwnedFd>,
}

impl Pidfd {
    /// Names a process. It must not have been reaped yet: then the number is still its own.
    ///
    /// # Errors
    ///
    /// If there is no such process.
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let fd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        Ok(Self {
            fd: watch(fd, Interest::READABLE)?,
        })
    }

    /// Sends a signal; `false` if the process is gone.
    pub fn signal(&self, signal: Signal) -> bool {
        let signal = match signal {
            Signal::Interrupt => rustix::process::Signal::INT,
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
            Signal::Continue => rustix::process::Signal::CONT,
        };
        pidfd_send_signal(self.fd.get_ref(), signal).is_ok()
    }

    /// Waits until the process has ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn ended(&self) {
        // The readiness is not cleared: an ended process stays ended. An error means that the
        // runtime is shutting down; then nobody waits for the answer.
        if let Ok(guard) = self.fd.readable().await {
            drop(guard);
        }
    }
}
