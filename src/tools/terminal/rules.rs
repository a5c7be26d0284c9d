//! The rules that go by the name of a program and its arguments.

use std::path::Path;

use super::hard_floor::FloorRule;
use super::paths::{Protected, is_block_device, protected};
use super::words::{UNKNOWN, Word};

const RM_ROOT: FloorRule = FloorRule {
    name: "rm-root",
    sentence: "rm of / is never run: it would delete the whole system",
};
const RM_SYSTEM: FloorRule = FloorRule {
    name: "rm-system",
    sentence: "rm of a system directory is never run: name the files below it that are to go",
};
const RM_HOME: FloorRule = FloorRule {
    name: "rm-home",
    sentence: "rm of the home directory is never run: name the files below it that are to go",
};
const MAKE_FILE_SYSTEM: FloorRule = FloorRule {
    name: "make-file-system",
    sentence: "a command that makes a new file system is never run: it would erase the disk",
};
pub(super) const WRITE_DISK: FloorRule = FloorRule {
    name: "write-disk",
    sentence: "writing straight to a disk is never run: it would destroy what is on it",
};
const WIPE_DISK: FloorRule = FloorRule {
    name: "wipe-disk",
    sentence: "a command that wipes or repartitions a disk is never run",
};
const KILL_ALL: FloorRule = FloorRule {
    name: "kill-all",
    sentence: "kill of -1 is never run: it would end every process; give the process id that is \
               meant",
};
const POWER: FloorRule = FloorRule {
    name: "power",
    sentence: "a command that stops or restarts the machine is never run",
};

/// The rule that forbids this program with these arguments.
pub(super) fn forbidden(
    program: &str,
    arguments: &[Word],
    user_home: Option<&Path>,
) -> Option<FloorRule> {
    if let [only] = arguments
        && matches!(only.text.as_str(), "--help" | "--version")
    {
        return None;
    }
    let on_disk = || arguments.iter().any(|word| is_block_device(&word.text));
    match program {
        "rm" => removes(arguments, user_home),
        "mke2fs" | "mkfs" => Some(MAKE_FILE_SYSTEM),
        "mkswap" | "newfs" => on_disk().then_some(MAKE_FILE_SYSTEM),
        "diskutil" => erases(arguments).then_some(WIPE_DISK),
        "wipefs" => (has_flag(arguments, "a", "ot", &["--all"]) && may_be_disk(arguments))
            .then_some(WIPE_DISK),
        "sgdisk" => {
            let flags = ["--zap", "--zap-all", "--clear"];
            (has_flag(arguments, "zZo", "abcdehijklmnqrtuxyABCIOQRSTUV", &flags)
                && may_be_disk(arguments))
            .then_some(WIPE_DISK)
        }
        "blkdiscard" => may_be_disk(arguments).then_some(WIPE_DISK),
        "shred" => on_disk().then_some(WIPE_DISK),
        "dd" => arguments
            .iter()
            .filter_map(|word| word.text.strip_prefix("of="))
            .any(is_block_device)
            .then_some(WRITE_DISK),
        "kill" => kills_all(arguments).then_some(KILL_ALL),
        "shutdown" | "reboot" | "halt" | "poweroff" => Some(POWER),
        "init" | "telinit" => operands(arguments, "")
            .next()
            .is_some_and(|level| matches!(level.text.as_str(), "0" | "6"))
            .then_some(POWER),
        "systemctl" => stops_machine(arguments).then_some(POWER),
        _ if program.starts_with("mkfs.") => Some(MAKE_FILE_SYSTEM),
        _ if program.starts_with("newfs_") => on_disk().then_some(MAKE_FILE_SYSTEM),
        _ => None,
    }
}

/// The arguments that are not options; `valued` are the letters of those that take the next one.
fn operands<'a>(arguments: &'a [Word], valued: &str) -> impl Iterator<Item = &'a Word> {
    let mut options = true;
    let mut value = false;
    arguments.iter().filter(move |word| {
        let text = word.text.as_str();
        if std::mem::take(&mut value) {
            return false;
        }
        if !options || !text.starts_with('-') || text == "-" {
            return true;
        }
        options = text != "--";
        value = !text.starts_with("--") && text.ends_with(|c| valued.contains(c));
        false
    })
}

fn removes(arguments: &[Word], user_home: Option<&Path>) -> Option<FloorRule> {
    let options = arguments.iter().take_while(|word| word.text != "--");
    if options
        .clone()
        .any(|word| word.text == "--no-preserve-root")
    {
        return Some(RM_ROOT);
    }
    operands(arguments, "")
        .find_map(|word| protected(word, user_home))
        .map(|place| match place {
            Protected::Root => RM_ROOT,
            Protected::System => RM_SYSTEM,
            Protected::Home => RM_HOME,
        })
}

/// Whether one of the single-letter flags is set, alone or together with others.
fn has_flag(arguments: &[Word], flags: &str, valued: &str, long: &[&str]) -> bool {
    let set = |text: &str| {
        let before_value = |c: &char| !valued.contains(*c);
        match text.strip_prefix('-') {
            Some(letters) if !letters.starts_with('-') => letters
                .chars()
                .take_while(|c| flags.contains(*c) || before_value(c))
                .any(|c| flags.contains(c)),
            _ => long.contains(&text),
        }
    };
    arguments
        .iter()
        .take_while(|word| word.text != "--")
        .any(|word| set(&word.text))
}

/// Whether an argument is a device, or could be one.
fn may_be_disk(arguments: &[Word]) -> bool {
    arguments.iter().any(|word| {
        let text = &word.text;
        is_block_device(text)
            || text.starts_with("/dev/")
            || (text.contains(UNKNOWN) && !text.starts_with('-'))
    })
}

fn erases(arguments: &[Word]) -> bool {
    const VERBS: [&str; 7] = [
        "erase",
        "partition",
        "reformat",
        "secureerase",
        "zerodisk",
        "randomdisk",
        "deletecontainer",
    ];
    // The verb may come after `quiet`, `apfs` or `appleRAID`.
    operands(arguments, "").take(3).any(|word| {
        let word = word.text.to_ascii_lowercase();
        VERBS.iter().any(|verb| word.starts_with(verb))
    })
}

/// Whether a process id is -1, as opposed to a signal of 1.
fn kills_all(arguments: &[Word]) -> bool {
    let mut rest = arguments.iter().map(|word| word.text.as_str());
    let mut signal_given = false;
    let mut ids = 0_usize;
    let mut signal_one = false;
    let mut options = true;
    while let Some(text) = rest.next() {
        match text {
            "--" if options => options = false,
            "-s" | "-n" | "--signal" if options && ids == 0 => {
                signal_given = true;
                rest.next();
            }
            "-1" if options && !signal_given => {
                signal_given = true;
                signal_one = true;
            }
            "-1" => return true,
            "-l" | "-L" | "--list" | "--table" if options => return false,
            _ if options && text.starts_with('-') => signal_given = true,
            _ => ids += 1,
        }
    }
    signal_one && ids == 0
}

fn stops_machine(arguments: &[Word]) -> bool {
    let mut operands = operands(arguments, "HMtpPnos").map(|word| word.text.as_str());
    match operands.next() {
        Some("poweroff" | "reboot" | "halt" | "kexec") => true,
        Some("start" | "isolate") => operands.any(|unit| {
            matches!(
                unit,
                "poweroff.target" | "reboot.target" | "halt.target" | "kexec.target"
            )
        }),
        _ => false,
    }
}
