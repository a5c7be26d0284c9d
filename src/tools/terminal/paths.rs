//! Which words name a place that must not be removed, or a disk.

use std::path::Path;

use super::words::{HOME, UNKNOWN, Word};

/// Directories at the root without which the system or its users' work is gone.
const SYSTEM: [&str; 9] = [
    "home", "root", "etc", "usr", "var", "bin", "sbin", "boot", "lib",
];

/// A place that `rm` must leave alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protected {
    /// `/` or everything in it.
    Root,
    /// A directory of the system, or everything in it.
    System,
    /// The user's home, or everything in it.
    Home,
}

/// What the word names, if it is one of the places that must stay.
pub(super) fn protected(word: &Word, user_home: Option<&Path>) -> Option<Protected> {
    let home = home_path(user_home);
    let text = with_home(&word.text, &home)?;
    let path = parts(&text);
    let home = parts(&home);
    if !home.is_empty() && is_it_or_all_of_it(&path, |path| path == home) {
        return Some(Protected::Home);
    }
    if path.iter().all(|part| matches_everything(part)) {
        return Some(Protected::Root);
    }
    let in_system = |path: &[&str]| matches!(path, [name] if SYSTEM.iter().any(|known| matches_glob(name, known)));
    is_it_or_all_of_it(&path, in_system).then_some(Protected::System)
}

fn home_path(user_home: Option<&Path>) -> String {
    match user_home.and_then(Path::to_str) {
        Some(home) if home.starts_with('/') => home.to_owned(),
        _ => format!("/home/{HOME}"),
    }
}

/// The absolute path that the word is; `None` if it is a relative one.
fn with_home(text: &str, home: &str) -> Option<String> {
    let tilde = |rest: &str| {
        let (user, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let own = user.is_empty() || home.rsplit('/').next() == Some(user);
        match user {
            _ if own => Some(format!("{home}/{rest}")),
            "root" => Some(format!("/root/{rest}")),
            _ => None,
        }
    };
    if text.starts_with('/') {
        Some(text.replace(HOME, home))
    } else if let Some(rest) = text.strip_prefix(HOME) {
        // `$HOMEx` is another variable, but `"$HOME"x` is a sibling.
        Some(format!("{home}{rest}"))
    } else {
        text.strip_prefix('~').and_then(tilde)
    }
}

/// The parts of an absolute path, `.` and `..` resolved.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts
}

fn is_it_or_all_of_it(path: &[&str], is_it: impl Fn(&[&str]) -> bool) -> bool {
    is_it(path)
        || path
            .split_last()
            .is_some_and(|(last, parent)| matches_everything(last) && is_it(parent))
}

/// `*`, `.*`, `?*`, `.[!.]*` and such.
fn matches_everything(part: &str) -> bool {
    part.contains('*')
        && part
            .split('[')
            .skip(1)
            .all(|set| set.starts_with(['!', '^']))
        && without_brackets(part)
            .chars()
            .all(|c| matches!(c, '*' | '?' | '.'))
}

/// A set of characters is taken for any one character.
fn without_brackets(pattern: &str) -> String {
    let mut plain = String::new();
    let mut rest = pattern;
    while let Some((before, set)) = rest.split_once('[') {
        plain.push_str(before);
        // A bracket that comes first belongs to the set.
        let Some((first, _)) = set.char_indices().nth(1) else {
            rest = set;
            break;
        };
        let Some(end) = set.get(first..).and_then(|set| set.find(']')) else {
            rest = set;
            break;
        };
        plain.push('?');
        rest = set.get(first + end + 1..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

fn matches_glob(pattern: &str, name: &str) -> bool {
    // The names are short, so a longer pattern matches by its stars alone.
    if pattern == name {
        return true;
    }
    if !pattern.contains(['*', '?', '[']) {
        return false;
    }
    let pattern = without_brackets(pattern);
    // For each place in the name, whether the pattern so far can end there.
    let mut reached: Vec<bool> = vec![false; name.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    for c in pattern.chars() {
        let mut next = vec![false];
        match c {
            '*' => {
                let mut any = false;
                next = reached
                    .iter()
                    .map(|&here| {
                        any |= here;
                        any
                    })
                    .collect();
            }
            _ => next.extend(
                reached
                    .iter()
                    .zip(name.chars())
                    .map(|(&here, n)| here && (c == '?' || c == n)),
            ),
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

/// Whether the word names a block device.
pub(super) fn is_block_device(text: &str) -> bool {
    if !text.starts_with('/') {
        return false;
    }
    let path = parts(text);
    match path.as_slice() {
        ["dev", "mapper", _, ..] => true,
        ["dev", "disk", by, _, ..] => by.starts_with("by-"),
        ["dev", name] => is_disk_name(name),
        _ => false,
    }
}

fn is_disk_name(name: &str) -> bool {
    let name = without_brackets(name);
    let open = |c: char| matches!(c, '*' | '?' | UNKNOWN);
    let letter = |c: char| c.is_ascii_lowercase() || open(c);
    let digit = |c: char| c.is_ascii_digit() || open(c);
    // The letters of a drive, then the number of a partition.
    let drive =
        |rest: &str| rest.starts_with(letter) && rest.trim_start_matches(letter).chars().all(digit);
    ["sd", "hd", "vd", "xvd"]
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(drive))
        || [
            "nvme", "mmcblk", "md", "dm-", "loop", "nbd", "disk", "rdisk",
        ]
        .iter()
        .any(|kind| {
            name.strip_prefix(kind)
                .is_some_and(|rest| rest.starts_with(digit))
        })
}
