//! The keys of the configuration: the one table from which reading, variables, suggestions and the table in
//! README.md come.

use super::given::{Fault, Given, set};
use super::not_there::{backend, sandbox};
use super::scalars::{flag, program, size, time, time_limit, variable, whole, word};
use super::{LogLevel, Mode, Policy, Values};

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// With its section: `code_execution.timeout`.
    pub name: &'static str,
    /// Whether it protects something: then a value that will not do is refused, never replaced.
    pub protects: bool,
    /// What is in force where nothing is said.
    pub default: &'static str,
    /// What its value must be.
    pub must: &'static str,
    /// Words that it may be, for suggestions.
    pub(super) words: &'static [&'static str],
    pub(super) read: fn(Given<'_>, &mut Values) -> Result<(), Fault>,
}

impl Key {
    /// The variable of the environment that says the same.
    pub fn variable(&self) -> String {
        format!(
            "WARMCELL_{}",
            self.name.replace('.', "_").to_ascii_uppercase()
        )
    }

    /// Its section, and its name in there.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or((self.name, ""))
    }
}

/// All keys, in the order in which they are documented.
pub fn keys() -> &'static [Key] {
    &KEYS
}

const POLICIES: [(&str, Policy); 2] = [
    ("restart", Policy::Restart),
    ("interrupt", Policy::Interrupt),
];
const LEVELS: [(&str, LogLevel); 7] = [
    ("trace", LogLevel::Trace),
    ("debug", LogLevel::Debug),
    ("info", LogLevel::Info),
    ("warning", LogLevel::Warning),
    ("warn", LogLevel::Warning),
    ("error", LogLevel::Error),
    // Of the other system's: nothing of ours is above an error.
    ("critical", LogLevel::Error),
];
const ANSWERS: [(&str, ()); 2] = [("deny", ()), ("approve", ())];
const MOST_BYTES: u64 = 1 << 40;
const MOST_WINDOW: u64 = 10_000_000;
const LEAST_MEMORY: u64 = 64 << 20;
const YEAR: u64 = 31_536_000;

const fn ordinary(
    name: &'static str,
    default: &'static str,
    must: &'static str,
    read: fn(Given<'_>, &mut Values) -> Result<(), Fault>,
) -> Key {
    Key {
        name,
        protects: false,
        default,
        must,
        words: &[],
        read,
    }
}

const fn protecting(
    name: &'static str,
    default: &'static str,
    must: &'static str,
    read: fn(Given<'_>, &mut Values) -> Result<(), Fault>,
) -> Key {
    Key {
        protects: true,
        ..ordinary(name, default, must, read)
    }
}

const fn of_words(key: Key, words: &'static [&'static str]) -> Key {
    Key { words, ..key }
}

/// Checked, and of no effect as long as nothing here asks for it.
fn any_flag(given: Given<'_>, _values: &mut Values) -> Result<(), Fault> {
    flag(given.text()?).map(drop).ok_or(Fault::Bad)
}

fn any_answer(given: Given<'_>, _values: &mut Values) -> Result<(), Fault> {
    word(given.text()?, &ANSWERS).ok_or(Fault::Bad)
}

fn any_text(given: Given<'_>, _values: &mut Values) -> Result<(), Fault> {
    given.text().map(drop)
}

const POLICY: &str = "restart or interrupt";
const SECONDS: &str = "a number of seconds from 0.001 to 86400";
const TRUE_OR_FALSE: &str = "true or false";
const DENY_OR_APPROVE: &str = "deny or approve";

static KEYS: [Key; 38] = [
    of_words(
        protecting(
            "code_execution.mode",
            "project",
            "project or strict",
            |it, values| set(&mut values.mode, word(it.text()?, &Mode::NAMES)),
        ),
        &["project", "strict"],
    ),
    ordinary("code_execution.timeout", "300", SECONDS, |it, values| {
        set(&mut values.timeout, time_limit(it.text()?))
    }),
    ordinary(
        "code_execution.max_tool_calls",
        "50",
        "a whole number from 0 to 4294967295",
        |it, values| {
            let calls = whole(it.text()?, 0, u32::MAX.into());
            set(
                &mut values.max_tool_calls,
                calls.and_then(|it| it.try_into().ok()),
            )
        },
    ),
    ordinary(
        "code_execution.max_stdout_bytes",
        "50000",
        "a number of bytes from 1 to 10000000",
        |it, values| {
            let bytes = size(it.text()?, 1, MOST_WINDOW);
            set(
                &mut values.max_stdout_bytes,
                bytes.and_then(|it| it.try_into().ok()),
            )
        },
    ),
    ordinary(
        "code_execution.max_spill_bytes",
        "256M",
        "a number of bytes, or of K, M or G, up to 1024G",
        |it, values| set(&mut values.max_spill_bytes, size(it.text()?, 0, MOST_BYTES)),
    ),
    ordinary(
        "code_execution.kernel_idle_timeout",
        "1800",
        "a number of seconds from 0 (never) to 31536000",
        |it, values| set(&mut values.kernel_idle_timeout, time(it.text()?, YEAR)),
    ),
    ordinary(
        "code_execution.max_session_kernels",
        "4",
        "a whole number from 1 to 1000",
        |it, values| {
            let kernels = whole(it.text()?, 1, 1_000);
            set(
                &mut values.max_session_kernels,
                kernels.and_then(|it| it.try_into().ok()),
            )
        },
    ),
    of_words(
        ordinary(
            "code_execution.on_timeout",
            "restart",
            POLICY,
            |it, values| set(&mut values.on_timeout, word(it.text()?, &POLICIES)),
        ),
        &["restart", "interrupt"],
    ),
    of_words(
        ordinary(
            "code_execution.on_interrupt",
            "restart",
            POLICY,
            |it, values| set(&mut values.on_interrupt, word(it.text()?, &POLICIES)),
        ),
        &["restart", "interrupt"],
    ),
    ordinary(
        "code_execution.interrupt_grace",
        "3",
        "a number of seconds from 0 to 3600",
        |it, values| set(&mut values.interrupt_grace, time(it.text()?, 3_600)),
    ),
    ordinary(
        "code_execution.python",
        "none",
        "an absolute path, one below ~/, or the name of a program on the PATH",
        |it, values| set(&mut values.python, program(it.text()?)),
    ),
    protecting("code_execution.sandbox", "false", TRUE_OR_FALSE, sandbox),
    protecting(
        "terminal.env_passthrough",
        "none",
        "a list of names of variables",
        |it, values| {
            let names = it.texts()?.into_iter().map(variable).collect();
            set(&mut values.env_passthrough, names)
        },
    ),
    ordinary("terminal.timeout", "180", SECONDS, |it, values| {
        set(&mut values.terminal_timeout, time_limit(it.text()?))
    }),
    protecting("terminal.backend", "local", "local", backend),
    protecting(
        "limits.memory",
        "none",
        "a number of bytes, or of K, M or G, from 64M to 1024G",
        |it, values| {
            set(
                &mut values.memory,
                size(it.text()?, LEAST_MEMORY, MOST_BYTES),
            )
        },
    ),
    protecting(
        "limits.processes",
        "none",
        "a whole number from 1 to 4194304",
        |it, values| set(&mut values.processes, whole(it.text()?, 1, 4_194_304)),
    ),
    ordinary("journal.enabled", "true", TRUE_OR_FALSE, |it, values| {
        set(&mut values.journal_enabled, flag(it.text()?))
    }),
    ordinary(
        "journal.days",
        "7",
        "a whole number from 1 to 3650",
        |it, values| {
            let days = whole(it.text()?, 1, 3_650);
            set(
                &mut values.journal_days,
                days.and_then(|it| it.try_into().ok()),
            )
        },
    ),
    ordinary(
        "journal.bytes",
        "50M",
        "a number of bytes, or of K, M or G, up to 1024G",
        |it, values| set(&mut values.journal_bytes, size(it.text()?, 0, MOST_BYTES)),
    ),
    of_words(
        protecting(
            "approvals.mode",
            "smart",
            "smart, manual or off",
            super::not_there::approvals,
        ),
        &["smart", "manual", "off"],
    ),
    protecting("approvals.timeout", "300", SECONDS, |it, _| {
        time_limit(it.text()?).map(drop).ok_or(Fault::Bad)
    }),
    of_words(
        protecting(
            "approvals.unattended_mode",
            "deny",
            DENY_OR_APPROVE,
            any_answer,
        ),
        &["deny", "approve"],
    ),
    of_words(
        protecting("approvals.cron_mode", "deny", DENY_OR_APPROVE, any_answer),
        &["deny", "approve"],
    ),
    of_words(
        protecting(
            "approvals.single_query_mode",
            "deny",
            DENY_OR_APPROVE,
            any_answer,
        ),
        &["deny", "approve"],
    ),
    protecting(
        "approvals.deny",
        "none",
        "a list of patterns of commands",
        super::not_there::denied,
    ),
    protecting(
        "approvals.allow_execute_code",
        "false",
        TRUE_OR_FALSE,
        any_flag,
    ),
    ordinary("web.backend", "none", "a name", any_text),
    ordinary("web.search_backend", "none", "a name", any_text),
    ordinary("web.extract_backend", "none", "a name", any_text),
    ordinary(
        "web.extract_char_limit",
        "15000",
        "a whole number from 2000 to 500000",
        |it, _| {
            whole(it.text()?, 2_000, 500_000)
                .map(drop)
                .ok_or(Fault::Bad)
        },
    ),
    protecting(
        "security.redact_secrets",
        "true",
        TRUE_OR_FALSE,
        super::not_there::redaction,
    ),
    protecting(
        "security.allow_private_urls",
        "false",
        TRUE_OR_FALSE,
        any_flag,
    ),
    protecting(
        "security.allow_tun_fakeip",
        "false",
        TRUE_OR_FALSE,
        any_flag,
    ),
    protecting(
        "security.website_blocklist",
        "none",
        "a mapping or a list",
        super::not_there::blocklist,
    ),
    of_words(
        ordinary(
            "logging.level",
            "info",
            "trace, debug, info, warning or error",
            |it, values| set(&mut values.log_level, word(it.text()?, &LEVELS)),
        ),
        &["trace", "debug", "info", "warning", "error"],
    ),
    ordinary(
        "logging.max_size_mb",
        "5",
        "a whole number",
        super::not_there::any_number,
    ),
    ordinary(
        "logging.backup_count",
        "3",
        "a whole number",
        super::not_there::any_number,
    ),
];
