//! Programs that run other programs, and where in their arguments those are.

use super::words::{UNKNOWN, Word};

/// A program that runs the command in its arguments.
#[derive(Debug)]
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Letters of options that take a value.
    letters: &'static str,
    /// Long options that take a value.
    long: &'static [&'static str],
    /// How many arguments come before the command.
    operands: usize,
}

const fn wrapper(name: &'static str, letters: &'static str) -> Wrapper {
    Wrapper {
        name,
        letters,
        long: &[],
        operands: 0,
    }
}

const SUDO: [&str; 11] = [
    "user",
    "group",
    "host",
    "prompt",
    "close-from",
    "chdir",
    "chroot",
    "role",
    "type",
    "other-user",
    "command-timeout",
];
const XARGS: [&str; 7] = [
    "arg-file",
    "delimiter",
    "max-lines",
    "max-args",
    "max-procs",
    "max-chars",
    "process-slot-var",
];

pub(super) const WRAPPERS: [Wrapper; 15] = [
    Wrapper {
        long: &SUDO,
        ..wrapper("sudo", "ughpCDRrtTUa")
    },
    wrapper("doas", "Cau"),
    Wrapper {
        long: &["unset", "chdir", "argv0"],
        ..wrapper("env", "uCa")
    },
    wrapper("exec", "a"),
    wrapper("nohup", ""),
    wrapper("setsid", ""),
    Wrapper {
        long: &["format", "output"],
        ..wrapper("time", "fo")
    },
    Wrapper {
        long: &["adjustment"],
        ..wrapper("nice", "n")
    },
    Wrapper {
        long: &["class", "classdata"],
        ..wrapper("ionice", "cn")
    },
    Wrapper {
        long: &["input", "output", "error"],
        ..wrapper("stdbuf", "ioe")
    },
    wrapper("command", ""),
    wrapper("builtin", ""),
    wrapper("busybox", ""),
    Wrapper {
        long: &["signal", "kill-after"],
        operands: 1,
        ..wrapper("timeout", "ks")
    },
    Wrapper {
        long: &XARGS,
        ..wrapper("xargs", "IaEdLnPs")
    },
];

impl Wrapper {
    /// What comes after the wrapper's own options: the command, perhaps with assignments first.
    pub(super) fn after_options<'w>(&self, arguments: &'w [Word]) -> &'w [Word] {
        let mut rest = arguments;
        while let Some((first, after)) = rest.split_first() {
            let text = first.text.as_str();
            let Some(option) = text.strip_prefix('-').filter(|_| text != "-") else {
                break;
            };
            rest = after;
            if option == "-" {
                break;
            }
            let takes_next = match option.strip_prefix('-') {
                Some(long) => self.long.contains(&long),
                None => option
                    .char_indices()
                    .find(|(_, letter)| self.letters.contains(*letter))
                    .is_some_and(|(at, letter)| at + letter.len_utf8() == option.len()),
            };
            if takes_next {
                rest = after.get(1..).unwrap_or_default();
            }
        }
        rest.get(self.operands..).unwrap_or_default()
    }
}

/// The name by which rules go; a path counts if it can lead to the system's programs.
pub(super) fn program_name(text: &str) -> String {
    let known: String = text.chars().filter(|&c| c != UNKNOWN).collect();
    let Some((folder, name)) = known.rsplit_once('/') else {
        return known;
    };
    let is_system = folder.is_empty()
        || folder.starts_with('/')
        || matches!(folder.rsplit('/').next(), Some("bin" | "sbin"));
    if is_system { name.to_owned() } else { known }
}

pub(super) fn asks_on_stdin(arguments: &[Word]) -> bool {
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        let Some(option) = text.strip_prefix('-') else {
            return false;
        };
        if option == "-" || option.is_empty() {
            return false;
        }
        if let Some(long) = option.strip_prefix('-') {
            if long == "stdin" {
                return true;
            }
            if SUDO.contains(&long) {
                rest.next();
            }
            continue;
        }
        let end = option.find(|c| "ughpCDRrtTUa".contains(c));
        let flags = end.and_then(|end| option.get(..end)).unwrap_or(option);
        if flags.contains('S') {
            return true;
        }
        if end.is_some_and(|end| end + 1 == option.len()) {
            rest.next();
        }
    }
    false
}

/// `command -v` and `command -V`.
pub(super) fn asks_what(arguments: &[Word]) -> bool {
    arguments
        .iter()
        .map_while(|word| word.text.strip_prefix('-'))
        .any(|option| !option.starts_with('-') && option.contains(['v', 'V']))
}

/// The command in `env -S`.
pub(super) fn env_split(arguments: &[Word]) -> Option<String> {
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        let text = first.plain();
        let option = text.strip_prefix('-')?;
        let (value, after) = if let Some(long) = option.strip_prefix('-') {
            match long.strip_prefix("split-string") {
                Some("") => (None, after),
                Some(value) => (value.strip_prefix('='), after),
                None => {
                    rest = after;
                    continue;
                }
            }
        } else if let Some((flags, value)) = option.split_once('S')
            && !flags.contains(['u', 'C'])
        {
            (Some(value).filter(|value| !value.is_empty()), after)
        } else {
            let skipped = usize::from(option.ends_with(['u', 'C']));
            rest = after.get(skipped..).unwrap_or_default();
            continue;
        };
        return match value {
            Some(value) => Some(format!("{value} {}", joined(after))),
            None => Some(joined(after)),
        };
    }
    None
}

/// The value of `-cVALUE`, `-c VALUE`, `--command VALUE` and `--command=VALUE`.
pub(super) fn option_value(arguments: &[Word], letter: char, long: &str) -> Option<String> {
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.plain();
        if text == long || (text.starts_with('-') && text.ends_with(letter)) {
            return rest.next().map(Word::plain);
        }
        let value = text
            .strip_prefix(long)
            .and_then(|value| value.strip_prefix('='))
            .or_else(|| {
                text.strip_prefix('-')
                    .and_then(|value| value.strip_prefix(letter))
            });
        if let Some(value) = value {
            return Some(value.to_owned());
        }
    }
    None
}

pub(super) fn joined(words: &[Word]) -> String {
    words.iter().map(Word::plain).collect::<Vec<_>>().join(" ")
}
