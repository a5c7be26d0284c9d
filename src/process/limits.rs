//! The limits of this process: told to kernels as the user has set them, raised for a manager.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{
    Resource, Rlimit, Signal, getpriority_process, getrlimit, setpriority_process, setrlimit,
};

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::ProcessError;
use crate::config;
use crate::config::{Bound, ProcessLimits};

/// The stack that a manager has, in bytes, and so the threads of its kernels: what is usual.
const STACK_BYTES: u64 = 8 << 20;
/// Descriptors that a program may expect to have.
const USUAL_DESCRIPTORS: u64 = 1_024;

/// The limits of this process, and how nice it is.
pub fn own_limits() -> ProcessLimits {
    let bound = |resource: config::Resource| {
        let limits = getrlimit(system_name(resource));
        let bound = Bound {
            soft: limits.current,
            hard: limits.maximum,
        };
        (resource, bound)
    };
    ProcessLimits {
        bounds: config::Resource::ALL.into_iter().map(bound).collect(),
        nice: getpriority_process(None).ok(),
    }
}

/// From now on a write beyond the limit on file size is an error like any other, and ends nobody.
/// Programs that are started find the signal as it is by default.
///
/// Does nothing where there is no limit, and outside of that takes a few descriptors.
pub fn survive_file_size_limit() {
    if getrlimit(Resource::Fsize).current.is_none() {
        return;
    }
    // What is caught is not inherited, as what is ignored would be. It stays caught when nobody
    // listens any more.
    let Ok(runtime) = Builder::new_current_thread().enable_io().build() else {
        return;
    };
    let _entered = runtime.enter();
    drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw())));
}

/// Takes this process out of limits under which it happens to have been started: they were meant
/// for something else. What it may not raise stays.
pub fn leave_limits_of_starter() {
    for resource in [
        Resource::Cpu,
        Resource::Fsize,
        Resource::Data,
        Resource::As,
        Resource::Nproc,
    ] {
        let hard = getrlimit(resource).maximum;
        // Root may raise the hard limit too.
        if setrlimit(resource, both(None)).is_err() {
            setrlimit(resource, both(hard)).ok();
        }
    }
    for (resource, usual) in [
        (Resource::Stack, STACK_BYTES),
        (Resource::Nofile, USUAL_DESCRIPTORS),
    ] {
        let Rlimit { current, maximum } = getrlimit(resource);
        let current = match resource {
            Resource::Stack => usual,
            _ => current.unwrap_or(u64::MAX).max(usual),
        };
        let raised = Rlimit {
            current: Some(current.min(maximum.unwrap_or(u64::MAX))),
            maximum,
        };
        setrlimit(resource, raised).ok();
    }
}

/// As nice as is usual, if that is allowed.
pub fn leave_nice_value_of_starter() {
    if getpriority_process(None).is_ok_and(|nice| nice != 0) {
        setpriority_process(None, 0).ok();
    }
}

fn both(limit: Option<u64>) -> Rlimit {
    Rlimit {
        current: limit,
        maximum: limit,
    }
}

fn system_name(resource: config::Resource) -> Resource {
    match resource {
        config::Resource::Cpu => Resource::Cpu,
        config::Resource::FileSize => Resource::Fsize,
        config::Resource::Stack => Resource::Stack,
        config::Resource::Resident => Resource::Rss,
        config::Resource::Processes => Resource::Nproc,
        config::Resource::OpenFiles => Resource::Nofile,
        config::Resource::LockedMemory => Resource::Memlock,
        config::Resource::PendingSignals => Resource::Sigpending,
        config::Resource::MessageQueues => Resource::Msgqueue,
        config::Resource::Nice => Resource::Nice,
        config::Resource::RealTimePriority => Resource::Rtprio,
        config::Resource::RealTime => Resource::Rttime,
        config::Resource::Data => Resource::Data,
        config::Resource::AddressSpace => Resource::As,
    }
}

/// The soft and hard limit on open descriptors, for kernels that should see what the user has set.
pub fn nofile_limits() -> (Option<u64>, Option<u64>) {
    let limits = getrlimit(Resource::Nofile);
    (limits.current, limits.maximum)
}

/// Raises the soft limit on open descriptors to the hard one: a manager holds several a kernel.
pub fn raise_nofile() {
    let hard = getrlimit(Resource::Nofile).maximum;
    // A refusal leaves the old limit, which is enough for a few kernels.
    setrlimit(Resource::Nofile, both(hard)).ok();
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
