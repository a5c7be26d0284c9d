//! What a process and its descendants hold of the system's: descriptors and threads.

use std::fs;

use super::foreground::children_of;

/// Processes of a tree that are counted.
const MOST: usize = 1_024;

/// What a process and its descendants hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// How many they are.
    pub processes: u64,
    /// Their open descriptors, of those that let themselves be looked at.
    pub descriptors: u64,
    /// Their threads.
    pub threads: u64,
    /// Processes whose descriptors cannot be counted by this user.
    pub hidden: u64,
}

/// What a process and its descendants hold now, at most 1,024 processes. What ends or is forked
/// meanwhile may be missing.
///
/// Blocking, some system calls for each.
pub fn holdings(root: u32) -> Holdings {
    let mut all = Holdings::default();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        if usize::try_from(all.processes).unwrap_or(MOST) >= MOST {
            break;
        }
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        all.processes += 1;
        all.threads += tasks.count() as u64;
        match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(descriptors) => all.descriptors += descriptors.count() as u64,
            Err(_) => all.hidden += 1,
        }
        next.extend(children_of(pid));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_is_counted() {
        let before = holdings(std::process::id());
        assert!(before.processes >= 1 && before.threads >= 1 && before.descriptors >= 3);
        // Others of these tests open and close meanwhile.
        let opened: Vec<_> = (0..500)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        let after = holdings(std::process::id());
        assert!(
            after.descriptors >= before.descriptors + 300,
            "{before:?} {after:?}"
        );
        drop(opened);
        assert_eq!(holdings(u32::MAX), Holdings::default());
    }
}
