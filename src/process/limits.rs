//! The limit on open descriptors: told to kernels as the user has set it, raised for this process.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ProcessError;

/// The soft and hard limit on open descriptors, for kernels that should see what the user has set.
pub fn nofile_limits() -> (Option<u64>, Option<u64>) {
    let limits = getrlimit(Resource::Nofile);
    (limits.current, limits.maximum)
}

/// Raises the soft limit on open descriptors to the hard one: a manager holds several a kernel.
pub fn raise_nofile() {
    let limits = getrlimit(Resource::Nofile);
    // A refusal leaves the old limit, which is enough for a few kernels.
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limits.maximum,
            maximum: limits.maximum,
        },
    )
    .ok();
}

/// Whether so many more descriptors can be opened.
///
/// # Errors
///
/// If not: it names the limit.
pub fn try_descriptors(count: usize) -> Result<(), ProcessError> {
    let mut held: Vec<OwnedFd> = Vec::with_capacity(count);
    for _ in 0..count {
        match eventfd(0, EventfdFlags::CLOEXEC) {
            Ok(fd) => held.push(fd),
            Err(errno) => {
                return Err(ProcessError::Descriptors {
                    needed: count,
                    had: held.len(),
                    source: errno.into(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_descriptors_are_refused_by_the_limit() {
        try_descriptors(3).unwrap();
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // Not where opening so many would take its time.
        if let Some(count) = usize::try_from(limit).ok().filter(|it| *it <= 1 << 16) {
            let error = try_descriptors(count).unwrap_err().to_string();
            assert!(error.contains("ulimit -n"), "{error}");
        }
    }
}
