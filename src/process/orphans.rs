//! Processes that have lost the one that owned them.
//!
//! A forkserver ends what its kernels leave behind. If the forkserver itself is killed, its orphans
//! fall to this process where it has asked for them ([`adopt_orphans`]), and are found by a mark in
//! their environment otherwise.

use std::collections::HashSet;
use std::fs;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::process::{
    Pid, WaitId, WaitIdOptions, getpgid, getpgrp, kill_process_group, set_child_subreaper, waitid,
};

use super::{Pidfd, Signal};

/// Rounds of killing after which the rest is left to be reported: each round ends all that it sees,
/// and only what forks faster than it is killed needs another.
const MAX_ROUNDS: usize = 200;

/// A look at all processes can miss one that forks and dies meanwhile; so many in a row do not. All
/// but the first look only at processes that are new, so they take little time.
const QUIET_ROUNDS: usize = 30;

/// Children of this process that have an owner; locked only for one call.
static KNOWN: LazyLock<Mutex<HashSet<u32>>> = LazyLock::new(Mutex::default);

pub(super) fn known() -> MutexGuard<'static, HashSet<u32>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mark in the environment of everything that a forkserver starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The entry, `NAME=VALUE`.
    pub entry: String,
}

/// Makes this process the parent of its descendants' orphans.
///
/// For programs whose children are all started here; a library in somebody else's program must not.
/// Returns whether the system could do it.
pub fn adopt_orphans() -> bool {
    set_child_subreaper(Some(rustix::process::getpid())).is_ok()
}

/// Ends every orphan of a dead forkserver: children of this process that it does not know, if it
/// adopts; else whatever bears one of the marks. Returns how many are left.
pub async fn end_orphans(adopts: bool, markers: &[Marker]) -> usize {
    let mut left = 0;
    let mut quiet = 0;
    let mut others = HashSet::new();
    for _ in 0..MAX_ROUNDS {
        let victims = if adopts {
            // What this process adopts needs no mark, and reading those of all processes takes
            // time. First the children, then who is known: a child that is being started is known
            // by the time it was seen.
            let children = children();
            let known = known();
            let unknown = children.into_iter().filter(|pid| !known.contains(pid));
            unknown
                .filter_map(|pid| ended_with_its_group(pid, || true))
                .collect()
        } else {
            marked(markers, &mut others)
        };
        left = victims.len();
        if victims.is_empty() {
            quiet += 1;
            if adopts || quiet == QUIET_ROUNDS {
                return 0;
            }
            tokio::task::yield_now().await;
            continue;
        }
        quiet = 0;
        for (pid, pidfd) in &victims {
            // A killed process ends unless the system itself is stuck; then it stays counted.
            let ended = tokio::time::timeout(std::time::Duration::from_secs(2), pidfd.ended());
            if ended.await.is_err() {
                return left;
            }
            if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw)
                && adopts
            {
                waitid(
                    WaitId::Pid(pid),
                    WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
                )
                .ok();
            }
        }
    }
    left
}

/// Takes note of the ends of orphans that fell to this process: without that they would stay as zombies.
pub fn reap_orphans() {
    // First the children, then who is known.
    let children = children();
    let known = known();
    for pid in children.into_iter().filter(|pid| !known.contains(pid)) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            waitid(WaitId::Pid(pid), ended).ok();
        }
    }
}

/// The children of this process, whichever thread they count to.
pub(super) fn children() -> Vec<u32> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Kills a process and its group, at once: what forks and dies faster than it is found passes its
/// group on, and no member of a group that is killed can fork any more.
///
/// All groups below a forkserver are its own: what it forks is in sessions that began there.
fn ended_with_its_group(pid: u32, is_meant: impl Fn() -> bool) -> Option<(u32, Pidfd)> {
    // Held by descriptor before it is asked: a number that was given to somebody else meanwhile is
    // not meant.
    let pidfd = Pidfd::open(pid).ok().filter(|_| is_meant())?;
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    let group = getpgid(Some(number)).ok();
    if let Some(group) = group.filter(|group| !group.is_init() && *group != getpgrp()) {
        kill_process_group(group, rustix::process::Signal::KILL).ok();
    }
    pidfd.signal(Signal::Kill);
    Some((pid, pidfd))
}

/// Kills the living processes with one of the marks. `others` are those that were there at the last
/// look and bore none.
fn marked(markers: &[Marker], others: &mut HashSet<u32>) -> Vec<(u32, Pidfd)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let own = std::process::id();
    let there: HashSet<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .collect();
    let mut new: Vec<u32> = there.difference(others).copied().collect();
    // The latest first: what forks and dies is among them, and not there for long.
    new.sort_unstable_by(|a, b| b.cmp(a));
    let victims: Vec<(u32, Pidfd)> = new
        .into_iter()
        .filter(|pid| bears(*pid, markers))
        .filter_map(|pid| ended_with_its_group(pid, || bears(pid, markers)))
        .collect();
    *others = there;
    for (pid, _) in &victims {
        others.remove(pid);
    }
    victims
}

pub(super) fn bears(pid: u32, markers: &[Marker]) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    environment.split(|byte| *byte == 0).any(|entry| {
        markers
            .iter()
            .any(|marker| entry == marker.entry.as_bytes())
    })
}

/// Whether a process is the given one or descends from it.
///
/// Orphans of a kernel fall to the kernel, so the chain of parents holds while it lives.
pub fn is_descendant(mut pid: u32, ancestor: u32) -> bool {
    // Deeper than any real tree; a loop cannot occur but a chain may change while it is read.
    for _ in 0..1_000 {
        if pid == ancestor {
            return true;
        }
        match parent(pid) {
            Some(next) if next > 1 => pid = next,
            _ => return false,
        }
    }
    false
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in parentheses and may hold anything, spaces and parentheses included.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
