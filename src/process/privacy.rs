//! What this process does to itself so that others cannot read what it holds.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// This process's own program file, whatever has become of its name since.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Keeps other processes of the same user from reading this one's memory and environment through
/// `/proc`. Root may read them all the same: from root only what is not there is hidden, so the
/// command line starts itself anew without it ([`start_anew`]), and a forkserver is started without
/// it.
pub fn hide_memory() {
    // Where the call is missing nothing is hidden, and nothing else is lost.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}

/// Starts this program anew in this process, with the same arguments and another environment.
/// Memory is new too: nothing of what stood in the old environment is left.
///
/// Returns only if that cannot be done, and then nothing has changed.
pub fn start_anew(environment: Vec<(OsString, OsString)>) -> io::Error {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    #[expect(
        clippy::disallowed_methods,
        reason = "it starts no process, it becomes another program"
    )]
    std::process::Command::new(OWN_PROGRAM)
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .exec()
}

/// Gives this process back the name under which it was started: after [`start_anew`] lists of
/// processes would show `exe`.
pub fn mend_name() {
    let shown = rustix::thread::name().unwrap_or_default();
    let last = Path::new(OWN_PROGRAM)
        .file_name()
        .map(OsStr::as_encoded_bytes);
    if Some(shown.as_bytes()) != last {
        return;
    }
    let started_as = env::args_os().next().unwrap_or_default();
    let name = Path::new(&started_as).file_name().unwrap_or_default();
    if let Ok(name) = std::ffi::CString::new(name.as_encoded_bytes()) {
        // It is for people who look; nothing else depends on it.
        rustix::thread::set_name(&name).ok();
    }
}
