//! The processes that a program has started and waits for: those of its group, as a terminal would
//! interrupt them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::{ClockId, clock_gettime};

/// Processes that are looked at; it takes some microseconds for each, in the task of a kernel.
const MAX_PROCESSES: usize = 256;

/// Bytes of a program's arguments that tell it from another.
const MOST_ARGUMENTS: u64 = 4 << 10;

/// A moment as the system notes when processes start: in ticks since boot, 10 ms long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StartTick(u64);

impl StartTick {
    /// The tick that passes now. What starts from now on has this tick or a later one; what has
    /// started up to 10 ms before may have it too.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let per_second = clock_ticks_per_second();
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let rest = u64::try_from(now.tv_nsec).unwrap_or(0);
        let ticks = seconds.saturating_mul(per_second);
        Self(ticks.saturating_add(rest.saturating_mul(per_second) / 1_000_000_000))
    }
}

/// The descendants of the leader of a process group that are in its group and have started at some
/// tick or later, but not the leader. Daemons, in sessions of their own, and what was started before
/// are not meant.
#[derive(Debug)]
pub struct Foreground {
    began: StartTick,
    /// Those that were interrupted, and as which program.
    interrupted: HashMap<(u32, StartTick), Program>,
}

/// Tells one program from another.
type Program = u64;

impl Foreground {
    /// What has started at that tick or later.
    pub fn since(began: StartTick) -> Self {
        Self {
            began,
            interrupted: HashMap::new(),
        }
    }

    /// Interrupts each of them once, so that it can clean up; one that has become another program since
    /// then once more: what came between its fork and that was a matter of the program before.
    ///
    /// Looks at 256 processes at most. Where the system does not list children nothing is interrupted.
    pub fn interrupt(&mut self, leader: u32) {
        let mut looked_at = 0;
        let mut parents = vec![leader];
        while let Some(parent) = parents.pop() {
            for child in children_of(parent) {
                looked_at += 1;
                if looked_at > MAX_PROCESSES {
                    return;
                }
                if self.interrupt_one(child, leader) {
                    parents.push(child);
                }
            }
        }
    }

    /// Interrupts a process if it is meant and was not before; whether it is meant.
    fn interrupt_one(&mut self, pid: u32, group: u32) -> bool {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return false;
        };
        // Held by descriptor before it is looked at: if its number is somebody else's by then, the
        // signal reaches nobody.
        let Ok(pidfd) = pidfd_open(number, PidfdFlags::empty()) else {
            return false;
        };
        let Some((its, start)) = group_and_start(pid) else {
            return false;
        };
        if its != group || start < self.began {
            return false;
        }
        let program = program_of(pid);
        if self.interrupted.insert((pid, start), program) != Some(program) {
            // It may have ended meanwhile; what it has started is meant all the same.
            pidfd_send_signal(pidfd, Signal::INT).ok();
        }
        true
    }
}

/// Which program a process is, as far as its arguments tell.
fn program_of(pid: u32) -> Program {
    let mut arguments = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{pid}/cmdline")) {
        // One that is ending has none.
        drop(file.take(MOST_ARGUMENTS).read_to_end(&mut arguments));
    }
    let mut hasher = DefaultHasher::new();
    arguments.hash(&mut hasher);
    hasher.finish()
}

/// The children of a process, whichever of its threads has started them.
pub(super) fn children_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut children = Vec::new();
    for task in tasks.take(MAX_PROCESSES).flatten() {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let pids = list
            .split_whitespace()
            .filter_map(|pid| pid.parse::<u32>().ok());
        children.extend(pids.take(MAX_PROCESSES));
    }
    children
}

/// The group of a process, and when it has started.
fn group_and_start(pid: u32) -> Option<(u32, StartTick)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in parentheses and may hold anything, spaces and parentheses included. After
    // it come the state (field 3), the parent (4), the group (5), ... and the start (22).
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let group = fields.nth(2)?.parse().ok()?;
    let start = fields.nth(16)?.parse().ok()?;
    Some((group, StartTick(start)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test starts what it looks at")]
    fn a_process_is_found_with_its_group_and_its_start() {
        let before = StartTick::now();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let after = StartTick::now();
        let pid = child.id();
        let (group, start) = group_and_start(pid).unwrap();
        let own = rustix::process::getpgrp().as_raw_nonzero().get();
        assert_eq!(i32::try_from(group), Ok(own));
        assert!(before <= start && start <= after);
        assert!(children_of(std::process::id()).contains(&pid));
        // Of another group, or too old, it is not meant.
        assert!(!Foreground::since(before).interrupt_one(pid, group + 1));
        assert!(!Foreground::since(StartTick(after.0 + 1)).interrupt_one(pid, group));
        assert!(child.try_wait().unwrap().is_none());
        assert!(Foreground::since(before).interrupt_one(pid, group));
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(2)
        );
    }

    /// A shell between fork and exec catches what is meant for the program that it is to become.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test starts what it looks at")]
    fn a_process_is_interrupted_once_as_each_program_that_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let heard = temp.path().join("heard");
        let began = StartTick::now();
        let script = "trap 'echo heard >> \"$0\"' INT; echo on; \
                      until [ -s \"$0\" ]; do sleep 0.01; done; read line; exec sleep 60";
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .arg(&heard)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut on = [0; 3];
        child.stdout.take().unwrap().read_exact(&mut on).unwrap();
        let pid = child.id();
        let (group, _) = group_and_start(pid).unwrap();
        let mut foreground = Foreground::since(began);
        for _ in 0..3 {
            assert!(foreground.interrupt_one(pid, group));
            while fs::read(&heard).is_err() {
                std::thread::yield_now();
            }
        }
        assert_eq!(fs::read_to_string(&heard).unwrap(), "heard\n");
        let before = program_of(pid);
        drop(child.stdin.take());
        while program_of(pid) == before {
            std::thread::yield_now();
        }
        assert!(foreground.interrupt_one(pid, group));
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(2)
        );
    }
}
