//! Which variables of a caller reach a kernel.
//!
//! A name passes if it is on a short list and no word of it speaks of a secret. Everything else is
//! dropped, so that a credential under a name that nobody thought of stays outside too.

use super::dropped::{DroppedNames, Reason};
use super::never_passes;

/// Variables that a kernel needs to find its files, speak the user's language and reach the net.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "TMP",
    "TEMP",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYTHONPATH",
    "HERMES_HOME",
    "HERMES_PROFILE",
    "HERMES_CONFIG",
    "HERMES_ENV",
    "LD_LIBRARY_PATH",
    "NVIDIA_VISIBLE_DEVICES",
    "MPLBACKEND",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// Beginnings of names that pass: locale, folders, and the settings of numeric libraries.
const PASSED_FAMILIES: &[&str] = &["LC_", "XDG_", "CUDA_", "OMP_", "MKL_", "OPENBLAS_"];

/// Proxies, all in lower or all in upper case. They pass if their value has no user part.
const PROXIES: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "ftp_proxy",
    "no_proxy",
];

/// Words that make a name the name of a secret, their plurals included.
const SECRET_WORDS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "AUTH",
    "DSN",
    "WEBHOOK",
    "CREDS",
    "BEARER",
    "APIKEY",
];

/// Values with which editors fail and pagers do not page, so that nothing waits for a person.
///
/// An editor that succeeded without a word would have `git commit --amend` or `git rebase -i` accept
/// a text that nobody wrote; one that fails makes git name the option to use instead.
const HARMLESS_PROGRAMS: &[(&str, &str)] = &[
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("LESS", "-FRX"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_MERGE_AUTOEDIT", "no"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PIP_NO_INPUT", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PYTHONIOENCODING", "utf-8"),
    ("PYTHONUTF8", "1"),
];

/// A variable that holds fingerprints of secrets that were taken out of an environment before, several
/// with commas between. No kernel sees it.
pub const HIDDEN: &str = "WARMCELL_HIDDEN";

/// A variable that holds the [names](DroppedNames::to_text) of what was taken out of an environment
/// before. No kernel sees it.
pub const DROPPED: &str = "WARMCELL_DROPPED";

/// An environment, divided.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Variables that pass, in the order in which they came.
    pub kept: Vec<(String, String)>,
    /// Those that do not, in the order in which they came.
    pub dropped: Vec<Dropped>,
    /// Variables whose names speak of a secret, with their values, whether they pass or not: what a
    /// reader must not see.
    pub secrets: Vec<(String, String)>,
}

/// A variable that does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its name, never its value.
    pub name: String,
    /// Why.
    pub reason: Reason,
}

impl std::fmt::Debug for Scrubbed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrubbed")
            .field("kept", &self.kept.len())
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

impl Scrubbed {
    /// The names of what does not pass, with the reasons.
    pub fn dropped_names(&self) -> DroppedNames {
        let mut names = DroppedNames::default();
        for Dropped { name, reason } in &self.dropped {
            if ![HIDDEN, DROPPED].contains(&name.as_str()) {
                names.add(name, *reason, has_secret_word(name));
            }
        }
        names
    }
}

/// Divides an environment into what passes and what does not.
///
/// Names are compared exactly, as the system does; words that speak of a secret are found in any
/// case, between underscores, digits and other signs, and at the borders of `camelCase`. What cannot
/// be a variable (an empty name, `=` or NUL in the name, NUL in the value) is dropped.
pub fn scrub(variables: impl IntoIterator<Item = (String, String)>) -> Scrubbed {
    scrub_but(variables, &[])
}

/// The same, and variables that were named on purpose pass too; but never the agent's own credentials
/// ([`never_passes`]), and never what cannot be a variable.
pub fn scrub_but(
    variables: impl IntoIterator<Item = (String, String)>,
    named: &[String],
) -> Scrubbed {
    let mut scrubbed = Scrubbed::default();
    for (name, value) in variables {
        let is_secret = has_secret_word(&name);
        if let Some(reason) = fate(&name, &value, named) {
            // What follows such a sign may be a value.
            let shown = name.split(['=', '\0']).next().unwrap_or_default();
            scrubbed.dropped.push(Dropped {
                name: shown.to_owned(),
                reason,
            });
            if is_secret {
                scrubbed.secrets.push((name, value));
            }
            continue;
        }
        if is_secret {
            scrubbed.secrets.push((name.clone(), value.clone()));
        }
        scrubbed.kept.push((name, value));
    }
    scrubbed
}

/// Why a variable does not pass; `None` if it does.
fn fate(name: &str, value: &str, named: &[String]) -> Option<Reason> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Some(Reason::NoVariable);
    }
    if never_passes(name) {
        return Some(Reason::NeverPasses);
    }
    if named.iter().any(|it| it == name) {
        return None;
    }
    if has_secret_word(name) {
        return Some(Reason::Secret);
    }
    if is_proxy(name) {
        // Wherever the sign stands: a password may hold the slash that seems to end the user part.
        return value.contains('@').then_some(Reason::ProxyWithUser);
    }
    let is_listed = PASSED.contains(&name)
        || PASSED_FAMILIES
            .iter()
            .any(|family| name.starts_with(family));
    (!is_listed).then_some(Reason::NotListed)
}

fn is_proxy(name: &str) -> bool {
    PROXIES.iter().any(|proxy| {
        name == *proxy || (name.eq_ignore_ascii_case(proxy) && !name.contains(char::is_lowercase))
    })
}

/// Whether a word of the name is one that names secrets.
pub(super) fn has_secret_word(name: &str) -> bool {
    let is_secret = |word: &str| {
        let singular = word.strip_suffix(['s', 'S']).unwrap_or(word);
        SECRET_WORDS.iter().any(|secret| {
            word.eq_ignore_ascii_case(secret) || singular.eq_ignore_ascii_case(secret)
        })
    };
    name.split(|c: char| !c.is_alphabetic()).any(|run| {
        // A word that is written as one: the borders of case may be accidents (`ApiKey`, `TOKENs`).
        is_secret(run) || camel_words(run).iter().any(|word| is_secret(word))
    })
}

/// The words of `camelCase` and of `HTTPServer`.
fn camel_words(run: &str) -> Vec<String> {
    let letters: Vec<char> = run.chars().collect();
    let mut words = vec![String::new()];
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(index + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase() || after.is_some_and(|after| after.is_lowercase())
            });
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(*letter);
        }
    }
    words
}

/// Variables that keep programs from waiting for a person, and Python from guessing encodings.
pub fn harmless_programs() -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    HARMLESS_PROGRAMS.iter().map(owned).collect()
}

/// Adds [`harmless_programs`], except those that are already there: the user named them.
pub fn with_harmless_programs(mut kept: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut added = harmless_programs();
    added.retain(|(name, _)| kept.iter().all(|(present, _)| present != name));
    kept.append(&mut added);
    kept
}

#[cfg(test)]
#[path = "scrub_tests.rs"]
mod tests;
