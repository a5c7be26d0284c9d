//! Starting programs.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitStatus;

use rustix::process::{Pid, kill_process_group};

use super::orphans::known;
use super::{Pidfd, ProcessError, Signal};

/// A descriptor for the new process.
#[derive(Debug)]
pub struct Stdio {
    /// Becomes descriptor 0.
    pub stdin: OwnedFd,
    /// Becomes descriptor 1.
    pub stdout: OwnedFd,
    /// Becomes descriptor 2.
    pub stderr: OwnedFd,
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program file.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub directory: PathBuf,
}

/// A process that was started here. Dropping it leaves it alone: a forkserver ends by itself, and in
/// better order, when its control socket closes.
#[derive(Debug)]
pub struct Spawned {
    child: tokio::process::Child,
    pid: u32,
    pidfd: Pidfd,
}

/// Starts a program with a clean environment.
///
/// # Errors
///
/// If it cannot be run.
pub fn spawn(program: Program, stdio: Stdio) -> Result<Spawned, ProcessError> {
    let name = program.program.display().to_string();
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that spawns"
    )]
    let mut command = tokio::process::Command::new(&program.program);
    // Until it is known it looks like an orphan: who ends those must not see it before.
    let mut known = known();
    let child = command
        .args(&program.arguments)
        .env_clear()
        .envs(program.environment)
        .current_dir(&program.directory)
        .stdin(stdio.stdin)
        .stdout(stdio.stdout)
        .stderr(stdio.stderr)
        .kill_on_drop(false)
        // Out of the terminal's foreground group from its first instant: Ctrl-C is for us.
        .process_group(0)
        .spawn();
    // The command still holds the descriptors; it must not outlive the call.
    drop(command);
    let child = child.map_err(|source| not_started(&name, source))?;
    let pid = child.id().unwrap_or(0);
    let pidfd = Pidfd::open(pid).map_err(|source| ProcessError::Spawn {
        program: name,
        source,
    })?;
    known.insert(pid);
    Ok(Spawned { child, pid, pidfd })
}

/// Tells a program that cannot be run from a system that starts none.
pub(super) fn not_started(name: &str, source: io::Error) -> ProcessError {
    let program = name.to_owned();
    match source.kind() {
        io::ErrorKind::WouldBlock => ProcessError::Processes { program, source },
        _ if source.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            let what = "what a new process needs";
            ProcessError::Descriptor { what, source }
        }
        _ => ProcessError::Spawn { program, source },
    }
}

impl Spawned {
    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills it.
    pub fn kill(&self) {
        self.pidfd.signal(Signal::Kill);
    }

    /// Interrupts it, and its process group with it.
    pub fn interrupt(&self, with_group: bool) {
        let group = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        match group {
            // It has not been waited for while this is there, so the number is still its own.
            Some(group) if with_group => {
                kill_process_group(group, rustix::process::Signal::INT).ok();
            }
            _ => drop(self.pidfd.signal(Signal::Interrupt)),
        }
    }

    /// Waits until it has ended, and says how.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.wait().await.ok();
        known().remove(&self.pid);
        status
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        known().remove(&self.pid);
    }
}
