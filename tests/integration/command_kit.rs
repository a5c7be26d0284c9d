//! What the tests of `warmcell exec` share: a command that runs and is ended with its test, pipes that
//! are full.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat};

use crate::lifecycle_support::{signal, until};
use crate::support::{Place, text};

/// A command that runs; killed if the test fails.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for the end; its code.
    pub async fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("the end", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().code()
    }

    /// Waits until it handles a signal by itself.
    pub async fn catches(&self, number: rustix::process::Signal) {
        let path = format!("/proc/{}/status", self.pid());
        until("a handler", || {
            let status = fs::read_to_string(&path).unwrap_or_default();
            bit(&status, "SigCgt:", number)
        })
        .await;
    }

    /// What it has printed, once it has ended.
    pub fn printed(&mut self) -> (String, String) {
        (all(self.0.stdout.take()), all(self.0.stderr.take()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            signal(self.pid(), rustix::process::Signal::KILL);
            drop(self.0.wait());
        }
    }
}

/// Whether a signal is in a set of `/proc/PID/status`.
pub fn bit(status: &str, set: &str, number: rustix::process::Signal) -> bool {
    let bits = status
        .lines()
        .find_map(|line| line.strip_prefix(set))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (number.as_raw() - 1) & 1 == 1)
}

/// A user who is not root: this one, or else nobody, who then has the place.
pub struct Unprivileged<'a> {
    place: &'a Place,
    program: PathBuf,
}

impl<'a> Unprivileged<'a> {
    const NOBODY: u32 = 65_534;

    pub fn new(place: &'a Place) -> Self {
        let original = PathBuf::from(env!("CARGO_BIN_EXE_warmcell"));
        if !rustix::process::getuid().is_root() {
            return Self {
                place,
                program: original,
            };
        }
        // Another user cannot reach these as they are.
        let program = place.folder.path().join("warmcell");
        fs::copy(original, &program).unwrap();
        for path in [place.folder.path(), &place.home(), &place.work(), &program] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            chown(path, Some(Self::NOBODY), Some(Self::NOBODY)).unwrap();
        }
        let run = place.folder.path().join("run");
        chown(run, Some(Self::NOBODY), Some(Self::NOBODY)).unwrap();
        Self { place, program }
    }

    /// A line of shell in which `$0` is `warmcell`.
    pub fn shell(&self, line: &str) -> Command {
        let mut command = self.place.command("/bin/sh");
        command
            .args(["-c", line])
            .arg(&self.program)
            .current_dir(self.place.work());
        if rustix::process::getuid().is_root() {
            command.uid(Self::NOBODY).gid(Self::NOBODY);
        }
        command
    }
}

fn all(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).unwrap();
    }
    text(&bytes)
}

/// Both streams in pipes.
pub fn piped(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// A pipe that takes nothing more: the end to read, which must be kept, and the one to write.
pub fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&writer, &[b'.'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// A named pipe in the working directory.
pub fn fifo(place: &Place, name: &str) -> String {
    let path = place.work().join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    path.display().to_string()
}

/// Nothing is left: no process, no socket in the runtime folder.
pub async fn assert_nothing_left(place: &Place) {
    place.assert_no_survivors().await;
    let run = place.folder.path().join("run/warmcell");
    let left = fs::read_dir(run).into_iter().flatten().flatten();
    // What is unpacked there is a cache.
    let left: Vec<_> = left.filter(|it| it.file_name() != "python").collect();
    assert!(left.is_empty(), "left in the runtime folder: {left:?}");
}
