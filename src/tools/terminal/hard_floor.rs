//! Commands that never run, whatever the settings say.

use std::path::Path;

use super::normalise::{normalised, without_marks};
use super::paths::is_block_device;
use super::rules::WRITE_DISK;
use super::script::{read_heredoc, read_script};
use super::unwrap::{Inspection, Payload};

/// Payloads inside payloads are read to this depth.
const DEEPEST: usize = 8;
/// All payloads together are read up to so many times the length of the command.
const LONGEST: usize = 8;
/// What payloads may be long in any case.
const SHORT: usize = 64 * 1024;

const FORK_BOMB: FloorRule = FloorRule {
    name: "fork-bomb",
    sentence: "a function that starts itself twice is never run: it would fill the process table",
};
/// What cannot be read cannot be cleared.
pub(super) const MALFORMED: FloorRule = FloorRule {
    name: "malformed-payload",
    sentence: "malformed executable payload: a command inside this command has open quotes or is \
               nested too deep to be checked; write it to a file or quote it plainly",
};

/// A rule of the floor: commands that it matches are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloorRule {
    /// A short name, for logs and messages.
    pub name: &'static str,
    /// What is refused, and why or what to do instead.
    pub sentence: &'static str,
}

/// The rule that forbids this command, from its text alone; nothing is run or looked up.
///
/// `user_home` is the directory that `~` and `$HOME` stand for.
///
/// It reads the text as a shell would, with the payloads of `sh -c`, `eval`, `xargs`, heredocs and
/// substitutions. It is a floor under honest mistakes and plain disguises: what a program computes
/// at run time it cannot know. The time is bounded whatever the text is.
pub fn hard_floor(command: &str, user_home: Option<&Path>) -> Option<FloorRule> {
    let original = without_marks(command);
    let folded = normalised(command);
    let folded_is_new = folded != original;
    check(original, user_home).or_else(|| {
        if folded_is_new {
            check(folded, user_home)
        } else {
            None
        }
    })
}

fn check(command: String, user_home: Option<&Path>) -> Option<FloorRule> {
    let mut allowance = command.len().saturating_mul(LONGEST).saturating_add(SHORT);
    let mut open = vec![(Payload::Script(command), 0_usize)];
    while let Some((payload, depth)) = open.pop() {
        let (script, whole) = match &payload {
            Payload::Script(text) => {
                let script = read_script(text);
                let whole = depth == 0 || !script.unclosed;
                (script, whole)
            }
            Payload::Heredoc(text) => (read_heredoc(text), true),
        };
        if script.too_deep {
            return Some(MALFORMED);
        }
        if script.fork_bomb {
            return Some(FORK_BOMB);
        }
        let mut inspection = Inspection::new(&script, user_home);
        for command in &script.commands {
            if command
                .outputs
                .iter()
                .any(|word| is_block_device(&word.text))
            {
                return Some(WRITE_DISK);
            }
            if let Some(rule) = inspection.inspect(command) {
                return Some(rule);
            }
        }
        if !whole {
            return Some(MALFORMED);
        }
        for payload in inspection.into_payloads() {
            let (Payload::Script(text) | Payload::Heredoc(text)) = &payload;
            match allowance.checked_sub(text.len()) {
                Some(rest) if depth < DEEPEST => allowance = rest,
                _ => return Some(MALFORMED),
            }
            open.push((payload, depth + 1));
        }
    }
    None
}
