//! Memory and processor time of a process and its descendants.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::param::{clock_ticks_per_second, page_size};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::in_a_thread;

/// Processes of the system that are looked at.
const MAX_SEEN: usize = 100_000;
/// Processes of a tree that are counted.
const MAX_COUNTED: usize = 4_096;
/// Processes of a tree whose shares are added up: that takes the system a millisecond for each, and
/// more for a big one.
const MAX_SHARES: usize = 256;

/// Looks that are under way. One at a process that the system holds up can take for ever.
static LOOKS: Semaphore = Semaphore::const_new(4);

/// What a process and its descendants use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Memory that is resident, in bytes; what several of them share counts for each.
    pub rss_bytes: u64,
    /// The same with what is shared divided among those who share it; left out if it cannot be read
    /// of all of them, or if there are more than 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Processor time since the start, that of children that have ended included.
    pub cpu_seconds: f64,
    /// How many they are, at most 4,096.
    pub processes: u64,
}

/// What a process and its descendants use now. `None` if it is gone, if it takes longer than the
/// deadline, or if no thread can be had for it.
///
/// What ends or is forked meanwhile may be missing or counted half.
///
/// # Cancel safety
///
/// May be dropped; the look goes on by itself.
pub async fn usage(pid: u32, deadline: Duration) -> Option<Usage> {
    let look = async {
        let permit = LOOKS.acquire().await.ok()?;
        let work = move || {
            let found = look_at(pid);
            drop(permit);
            found
        };
        in_a_thread(work).await.ok()?
    };
    timeout(deadline, look).await.ok()?
}

/// The directory in which a process is now; `None` if it is gone or somebody else's. One that is not
/// there any more ends in ` (deleted)`.
pub fn directory_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Looks at all processes once, for who is whose child.
fn look_at(root: u32) -> Option<Usage> {
    let first = read_stat(root)?;
    let mut children: HashMap<u32, Vec<(u32, Stat)>> = HashMap::new();
    let pids = fs::read_dir("/proc").ok()?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    for pid in pids.take(MAX_SEEN) {
        if let Some(stat) = read_stat(pid) {
            children.entry(stat.parent).or_default().push((pid, stat));
        }
    }
    let mut tree = vec![(root, first)];
    let mut next = 0;
    while let Some(&(parent, _)) = tree.get(next)
        && tree.len() < MAX_COUNTED
    {
        next += 1;
        // Each list is taken once, so a loop ends; one that is read while parents change may be one.
        tree.append(&mut children.remove(&parent).unwrap_or_default());
    }
    tree.truncate(MAX_COUNTED);
    Some(sum(&tree))
}

fn sum(tree: &[(u32, Stat)]) -> Usage {
    let mut usage = Usage {
        rss_bytes: 0,
        pss_bytes: (tree.len() <= MAX_SHARES).then_some(0),
        cpu_seconds: 0.0,
        processes: tree.len() as u64,
    };
    let mut ticks = 0;
    for (pid, stat) in tree {
        ticks += stat.ticks;
        let mut resident = stat.resident_pages * page_size() as u64;
        if usage.pss_bytes.is_some() && resident > 0 {
            match read_shares(*pid) {
                Ok(Some(shares)) => {
                    resident = shares.resident;
                    usage.pss_bytes = usage.pss_bytes.map(|sum| sum + shares.proportional);
                }
                // It has ended.
                Ok(None) => {}
                Err(_) => usage.pss_bytes = None,
            }
        }
        usage.rss_bytes += resident;
    }
    #[expect(clippy::cast_precision_loss, reason = "2^52 ticks are a million years")]
    {
        usage.cpu_seconds = ticks as f64 / clock_ticks_per_second().max(1) as f64;
    }
    usage
}

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Its own, and those of its children that have ended and were waited for.
    ticks: u64,
    resident_pages: u64,
}

fn read_stat(pid: u32) -> Option<Stat> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&stat))
}

fn parse_stat(stat: &str) -> Option<Stat> {
    // The name stands in parentheses and may hold anything, spaces and parentheses included.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Counted from the state, which is the third of all.
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    let time = |at: usize| number(at).and_then(|ticks| u64::try_from(ticks).ok());
    let ticks = [11, 12, 13, 14].into_iter().filter_map(time).sum();
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        ticks,
        resident_pages: u64::try_from(number(21)?).unwrap_or(0),
    })
}

/// What `/proc/PID/smaps_rollup` says, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    resident: u64,
    proportional: u64,
}

/// `None` if the process has ended.
fn read_shares(pid: u32) -> io::Result<Option<Shares>> {
    match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        Ok(text) => parse_shares(&text)
            .map(Some)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData)),
        Err(error) => {
            let gone = [Errno::NOENT, Errno::SRCH].map(Errno::raw_os_error);
            if error.raw_os_error().is_some_and(|it| gone.contains(&it)) {
                Ok(None)
            } else {
                Err(error)
            }
        }
    }
}

fn parse_shares(text: &str) -> Option<Shares> {
    let bytes = |key: &str| {
        let mut lines = text.lines();
        let kilobytes = lines.find_map(|line| line.strip_prefix(key))?;
        let number: u64 = kilobytes.split_whitespace().next()?.parse().ok()?;
        Some(number * 1024)
    };
    Some(Shares {
        resident: bytes("Rss:")?,
        proportional: bytes("Pss:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let rest = "S 7 8 8 0 -1 4194560 90 80 70 60 11 22 33 44 20 0 1 0 555 10000 25 1844";
        for name in ["python", "a b", ") S 1 1 (", "\u{fffd}"] {
            let stat = parse_stat(&format!("9 ({name}) {rest} 1 1")).unwrap();
            let expected = Stat {
                parent: 7,
                ticks: 110,
                resident_pages: 25,
            };
            assert_eq!(stat, expected);
        }
        for text in ["", "9", "9 (x)", "9 (x) S", "9 (x) S -1 2", "9 (x) S a b"] {
            assert_eq!(parse_stat(text), None, "{text}");
        }
    }

    #[test]
    fn shares_are_read_from_their_own_lines() {
        let text = "55-7f ---p 00000000 00:00 0    [rollup]\nRss:      1000 kB\nPss:       400 kB\n\
                    Pss_Dirty: 5 kB\nPss_Anon: 3 kB\n";
        let shares = parse_shares(text).unwrap();
        assert_eq!(
            (shares.resident, shares.proportional),
            (1000 * 1024, 400 * 1024)
        );
        assert_eq!(parse_shares("Pss_Anon: 3 kB\nRss: 1 kB"), None);
    }

    #[tokio::test]
    async fn a_process_that_is_there_uses_something_and_one_that_is_gone_is_none() {
        let deadline = Duration::from_secs(30);
        let own = usage(std::process::id(), deadline).await.unwrap();
        assert!(own.rss_bytes > 500_000, "{own:?}");
        assert!(own.processes >= 1, "{own:?}");
        assert!(own.pss_bytes.is_none_or(|pss| pss <= own.rss_bytes));
        // No process has a number as high.
        assert_eq!(usage(u32::MAX, deadline).await, None);
    }
}
