//! What this process does to itself: hide its memory, raise its limit on descriptors.

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// Keeps other processes of the same user from reading this one's memory and environment through
/// `/proc`. As root it has no effect: there only a clean environment would help, which the forkserver
/// has and the manager has not yet.
pub fn hide_memory() {
    // Where the call is missing nothing is hidden, and nothing else is lost.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}

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
