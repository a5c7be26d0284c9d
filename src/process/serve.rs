//! Starts this program as a background server.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader};
use std::process::Stdio;

use super::ProcessError;
use super::privacy::OWN_PROGRAM;
use super::spawn::not_started;

/// Starts this program with other arguments and another environment, in the root folder. It holds
/// the lock as its stdin; what it writes to its stdout comes back. It outlives this process: it
/// leaves its group and session by itself ([`leave_session`]).
///
/// # Errors
///
/// If it cannot be started.
pub fn start_server(
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    lock: File,
) -> Result<PipeReader, ProcessError> {
    let failed = |source: io::Error| not_started("the server", source);
    let (reader, writer) = io::pipe().map_err(failed)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "this room spawns; nobody waits for this one"
    )]
    let mut command = std::process::Command::new(OWN_PROGRAM);
    let started = std::os::unix::process::CommandExt::arg0(&mut command, "warmcell")
        .args(arguments)
        .env_clear()
        .envs(environment)
        .current_dir("/")
        .stdin(lock)
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn();
    // The command still holds the descriptors; the end of the pipe must be that of the server.
    drop(command);
    // It is no child that anybody waits for: it goes to init when this process ends.
    started.map(drop).map_err(failed)?;
    Ok(reader)
}

/// Leaves the session and the process group that this process was started in: signals of its
/// terminal are not for it.
pub fn leave_session() {
    // It fails for the leader of a group, which has left its starter already.
    rustix::process::setsid().ok();
}

/// Lets go of stdin and stdout: whoever waits for their end goes on.
///
/// # Errors
///
/// If there is no `/dev/null`, or no descriptor is left for it.
pub fn let_go_of_standard_streams() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}
