//! Which files the file tools may touch.
//!
//! A path is judged under every name it goes by: as it was given (with `..` taken out), at each
//! symbolic link on its way, and as the file that it ends at. One bad name is enough to refuse.
//! The rules keep an agent from accidents with secrets, devices and the system. They are no wall:
//! code in a cell can open files by itself. For walls there is the sandbox.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};

use super::devices::device_rule;
use super::shown::{is_long, other_name, shown, shown_path};
use super::trail::{Fault, MAX_LINKS, Trail, without_dots};
use super::{ToolContext, ToolFailure};

const ENVIRONMENT_FILES: &[&str] = &[
    ".env",
    ".env.local",
    ".env.development",
    ".env.production",
    ".env.test",
    ".env.staging",
    ".envrc",
];

/// Files and folders below an agent home that hold credentials.
const AGENT_SECRETS: &[&str] = &[
    ".env",
    "auth.json",
    "auth.lock",
    ".anthropic_oauth.json",
    "webhook_subscriptions.json",
    "auth/google_oauth.json",
    "cache/bws_cache.json",
    "mcp-tokens",
    "skills/.hub",
];

/// Files and folders below an agent home that only the agent itself writes.
const AGENT_STATE: &[&str] = &["sessions", "pairing"];

/// Files and folders below the user's home that hold credentials.
const USER_SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".azure",
    ".config/gh",
    ".config/gcloud",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
];

/// `/proc` and `/sys` are here because their files cannot be replaced as files are.
const SYSTEM_FOLDERS: &[&str] = &[
    "/etc",
    "/boot",
    "/usr/lib/systemd",
    "/lib/systemd",
    "/proc",
    "/sys",
    "/private/etc",
    "/private/var",
];

/// Where macOS keeps temporary files.
const SYSTEM_EXCEPTIONS: &[&str] = &["/private/var/folders", "/private/var/tmp"];

/// Why a name is off limits, and what to do instead.
#[derive(Debug)]
pub(super) struct Rule {
    why: String,
    instead: &'static str,
}

impl Rule {
    pub(super) fn new(why: impl Into<String>, instead: &'static str) -> Self {
        Self {
            why: why.into(),
            instead,
        }
    }
}

/// The rules for one caller.
#[derive(Debug)]
pub(crate) struct PathGuard {
    agent_homes: Vec<PathBuf>,
    user_homes: Vec<PathBuf>,
}

impl PathGuard {
    /// Takes the homes from the context. Blocks: links in the homes are resolved.
    pub(crate) fn new(context: &ToolContext) -> Self {
        let mut agent_homes = vec![context.agent_home.clone()];
        // A profile's home lies in the main one; the credentials of both are off limits.
        if let Some(profiles) = context.agent_home.parent()
            && profiles.file_name() == Some(OsStr::new("profiles"))
            && let Some(main) = profiles.parent()
        {
            agent_homes.push(main.to_path_buf());
        }
        if let Some(home) = &context.user_home {
            agent_homes.push(home.join(".hermes"));
        }
        Self {
            agent_homes: under_all_names(agent_homes),
            user_homes: under_all_names(context.user_home.iter().cloned().collect()),
        }
    }

    /// The file behind a path that is to be read, or why it may not be read.
    ///
    /// Blocks: links are followed.
    pub(crate) fn for_reading(&self, given: &str, path: &Path) -> Result<PathBuf, ToolFailure> {
        let end = judge("Access denied", given, path, |name| self.read_rule(name))?;
        match end {
            (_, Some(Fault::Missing(missing))) => {
                let also = other_name(given, &missing)
                    .map_or_else(String::new, |folder| format!(" ({folder} does not exist)"));
                let given = shown(given);
                Err(ToolFailure::failed(format!(
                    "File not found: {given}{also}"
                )))
            }
            (end, _) => Ok(end),
        }
    }

    /// The file behind a path that is to be written, or why it may not be written.
    ///
    /// Neither the file nor its folders need to exist. Blocks: links are followed.
    pub(crate) fn for_writing(&self, given: &str, path: &Path) -> Result<PathBuf, ToolFailure> {
        // Folders that are missing are made.
        judge("Write denied", given, path, |name| self.write_rule(name)).map(|(end, _missing)| end)
    }

    /// Judges a descriptor by the file it is open on: a link may have been swapped since
    /// [`PathGuard::for_reading`] looked.
    pub(crate) fn opened_for_reading(&self, given: &str, file: &File) -> Result<(), ToolFailure> {
        // Where there is no such link (no /proc), the answer from before stands.
        let Ok(name) = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) else {
            return Ok(());
        };
        match self.read_rule(&name) {
            Some(rule) => Err(refusal("Access denied", given, None, &name, &rule)),
            None => Ok(()),
        }
    }

    fn read_rule(&self, name: &Path) -> Option<Rule> {
        if let Some(rule) = device_rule(name) {
            return Some(rule);
        }
        let is_environment_file = name.file_name().is_some_and(|file| {
            ENVIRONMENT_FILES
                .iter()
                .any(|known| file == OsStr::new(known))
        });
        if is_environment_file {
            return Some(Rule::new(
                "an environment file, which usually holds credentials (a guard against accidents, \
                 no security boundary)",
                "use the variables that are set, or ask the user for the value you need",
            ));
        }
        self.agent_secret(name)
    }

    fn write_rule(&self, name: &Path) -> Option<Rule> {
        if let Some(rule) = device_rule(name) {
            return Some(rule);
        }
        if name.file_name() == Some(OsStr::new("docker.sock")) {
            return Some(Rule::new(
                "the socket of the container service",
                "talk to it with the docker command",
            ));
        }
        let is_exception = SYSTEM_EXCEPTIONS
            .iter()
            .any(|folder| name.starts_with(folder));
        if let Some(folder) = SYSTEM_FOLDERS
            .iter()
            .find(|folder| name.starts_with(folder))
            && !is_exception
        {
            return Some(Rule::new(
                format!("a system path (below {folder})"),
                "write into your working directory and ask the user to install the file",
            ));
        }
        for relative in below(&self.user_homes, name) {
            if let Some(secret) = USER_SECRETS
                .iter()
                .find(|known| relative.starts_with(known))
            {
                return Some(Rule::new(
                    format!("protected because ~/{secret} holds credentials"),
                    "ask the user to make this change",
                ));
            }
        }
        if let Some(rule) = self.agent_secret(name) {
            return Some(rule);
        }
        for relative in below(&self.agent_homes, name) {
            let relative = in_profile(relative);
            if relative == Path::new("config.yaml") {
                return Some(Rule::new(
                    "the agent's own configuration, which is the user's to change",
                    "tell the user which setting to change, and to what",
                ));
            }
            // The database comes with a journal and a shared-memory file beside it.
            let is_database = relative.to_string_lossy().starts_with("state.db")
                && relative.components().count() == 1;
            if is_database || AGENT_STATE.iter().any(|known| relative.starts_with(known)) {
                return Some(Rule::new(
                    "state that only the agent itself writes",
                    "write into your working directory",
                ));
            }
        }
        None
    }

    fn agent_secret(&self, name: &Path) -> Option<Rule> {
        below(&self.agent_homes, name)
            .map(in_profile)
            .find_map(|relative| {
                AGENT_SECRETS.iter().find(|known| relative.starts_with(known)).map(|known| {
                Rule::new(
                    format!(
                        "protected because {known} in the agent's home holds credentials or \
                         internal data (a guard against accidents, no security boundary)"
                    ),
                    "ask the user for what you need from it",
                )
            })
            })
    }
}

/// Asks for a rule against each name of a path; the file behind it if there is none, and a folder on
/// the way to it that is missing.
fn judge(
    verdict: &str,
    given: &str,
    path: &Path,
    rule_for: impl Fn(&Path) -> Option<Rule>,
) -> Result<(PathBuf, Option<Fault>), ToolFailure> {
    if given.is_empty() {
        return Err(ToolFailure::usage(
            "'path' is empty; give the path of a file",
        ));
    }
    if given.contains('\0') {
        return Err(ToolFailure::usage(format!(
            "'path' holds a NUL character, which no file name can: {:?}",
            shown(given)
        )));
    }
    let literal = without_dots(path);
    let trail = Trail::follow(path);
    for name in std::iter::once(&literal).chain(&trail.names) {
        if let Some(rule) = rule_for(name) {
            return Err(refusal(verdict, given, Some(&literal), name, &rule));
        }
    }
    let Some(end) = trail.end else {
        return Err(ToolFailure::failed(format!(
            "'{}' leads through more than {MAX_LINKS} symbolic links, probably in a circle; \
             name the file itself",
            shown(given)
        )));
    };
    match trail.fault {
        Some(Fault::NoFolder(file)) => {
            let path = if is_long(given) {
                "the path".to_owned()
            } else {
                format!("'{given}'")
            };
            Err(ToolFailure::failed(format!(
                "'{}' is not a directory, and {path} leads through it; correct the path",
                shown_path(&file)
            )))
        }
        fault => Ok((end, fault)),
    }
}

fn refusal(
    verdict: &str,
    given: &str,
    literal: Option<&Path>,
    name: &Path,
    rule: &Rule,
) -> ToolFailure {
    let alias = if literal == Some(name) {
        String::new()
    } else {
        format!(" (it leads to {})", shown_path(name))
    };
    ToolFailure::refused(format!(
        "{verdict}: '{}'{alias} is {}; {}",
        shown(given),
        rule.why,
        rule.instead
    ))
}

/// What is left of `name` below each of the folders it lies in.
fn below<'a>(folders: &'a [PathBuf], name: &'a Path) -> impl Iterator<Item = &'a Path> {
    folders
        .iter()
        .filter_map(move |folder| name.strip_prefix(folder).ok())
}

/// A path below an agent home, seen from the home of the profile it belongs to.
fn in_profile(relative: &Path) -> &Path {
    let mut parts = relative.components();
    if parts.next() == Some(Component::Normal(OsStr::new("profiles"))) && parts.next().is_some() {
        parts.as_path()
    } else {
        relative
    }
}

fn under_all_names(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in folders.into_iter().filter(|folder| folder.is_absolute()) {
        if let Some(end) = Trail::follow(&folder).end
            && end != folder
        {
            all.push(end);
        }
        all.push(without_dots(&folder));
    }
    all
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
