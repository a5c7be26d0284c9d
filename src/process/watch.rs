//! Descriptors that the runtime watches.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the runtime watch a descriptor, which must be non-blocking.
pub(super) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(
        unsafe_code,
        reason = "the safe constructor is deprecated for types that lie"
    )]
    // SAFETY: an `OwnedFd` owns one open descriptor, names it for its whole life and closes it when
    // it is dropped. Nobody exchanges it: this room uses `get_ref` only, never `get_mut`.
    let watched = unsafe { AsyncFd::register_with_interest(fd, interest) };
    watched.map_err(|error| error.into_parts().1)
}
