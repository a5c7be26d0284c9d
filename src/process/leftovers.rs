//! What is left of a program that has ended: who is still there, and whether it goes by itself.

use std::collections::HashSet;
use std::fs;

use tokio::time::{Instant, timeout_at};

use super::foreground::children_of;
use super::orphans::{Marker, bears, children, known};
use super::{Pidfd, reap_orphans};

/// Processes that are looked at.
const MOST: usize = 4_096;
/// Characters of a command line that are kept.
const COMMAND_CHARS: usize = 80;

/// A process that has outlived the one to which it belongs.
#[derive(Debug)]
pub struct Leftover {
    /// Its number.
    pub pid: u32,
    /// Its command line, or its name, shortened.
    pub command: String,
    process: Pidfd,
}

/// What bears one of the marks in its environment, and, if this process adopts orphans, what descends
/// from it but for children that have an owner here. What has ended already is not counted.
///
/// Looks at all processes (blocking, some milliseconds).
pub fn leftovers(adopts: bool, markers: &[Marker]) -> Vec<Leftover> {
    let mut pids = if adopts {
        adopted()
    } else {
        HashSet::default()
    };
    let own = std::process::id();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.extend(numbers.filter(|pid| *pid != own && bears(*pid, markers)));
    let mut found: Vec<Leftover> = pids.into_iter().take(MOST).filter_map(living).collect();
    found.sort_by_key(|it| it.pid);
    found
}

/// Waits until nothing is left, at most until the deadline: what is left then.
///
/// # Cancel safety
///
/// May be dropped and called again.
pub async fn left_by(deadline: Instant, adopts: bool, markers: &[Marker]) -> Vec<Leftover> {
    loop {
        let left = leftovers(adopts, markers);
        if adopts {
            reap_orphans();
        }
        if left.is_empty() {
            return left;
        }
        let ends = async {
            for one in &left {
                one.process.ended().await;
            }
        };
        if timeout_at(deadline, ends).await.is_err() {
            // Some of them have ended.
            return left.into_iter().filter_map(|it| living(it.pid)).collect();
        }
    }
}

/// Descendants of this process that nobody here owns.
fn adopted() -> HashSet<u32> {
    let children = children();
    let mut found: HashSet<u32> = {
        let known = known();
        children
            .into_iter()
            .filter(|pid| !known.contains(pid))
            .collect()
    };
    let mut next: Vec<u32> = found.iter().copied().collect();
    while let Some(parent) = next.pop().filter(|_| found.len() < MOST) {
        next.extend(
            children_of(parent)
                .into_iter()
                .filter(|pid| found.insert(*pid)),
        );
    }
    found
}

/// A process that runs; `None` if it has ended, whether that was noted or not.
fn living(pid: u32) -> Option<Leftover> {
    let process = Pidfd::open(pid).ok()?;
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (before, after) = stat.rsplit_once(')')?;
    if after.trim_start().starts_with(['Z', 'X']) {
        return None;
    }
    let name = before.split_once('(').map_or("", |(_, name)| name);
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    let command = match words.trim() {
        "" => name,
        words => words,
    };
    Some(Leftover {
        pid,
        command: command
            .chars()
            .take(COMMAND_CHARS)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect(),
        process,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a test starts what it looks at")]
    async fn what_bears_a_mark_is_found_until_it_has_ended() {
        let entry = format!("LEFTOVER_TEST={}", std::process::id());
        let (name, value) = entry.split_once('=').unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .env(name, value)
            .spawn()
            .unwrap();
        let markers = [Marker {
            entry: entry.clone(),
        }];
        let soon = Instant::now() + Duration::from_millis(20);
        let left = left_by(soon, false, &markers).await;
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(
            (left[0].pid, left[0].command.as_str()),
            (child.id(), "sleep 60")
        );
        let deadline = Instant::now() + Duration::from_secs(30);
        let waiting = left_by(deadline, false, &markers);
        child.kill().unwrap();
        assert!(waiting.await.is_empty());
        child.wait().unwrap();
        assert!(leftovers(false, &markers).is_empty());
    }
}
