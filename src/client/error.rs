//! What can go wrong between a client and a manager.

use std::io;
use std::path::{Path, PathBuf};

use super::Found;
use crate::execution::ErrorClass;
use crate::folders::SERVER_SOCKET;
use crate::server::{ManagerInfo, Refused};

/// A manager did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No background server could be started.
    #[error("the background server did not start: {reason}")]
    NotStarted {
        /// Its last words, or what went wrong before it could say any.
        reason: String,
    },
    /// The background server cannot be reached.
    #[error("the background server cannot be reached: {source}")]
    Unreachable {
        /// Why not.
        source: io::Error,
    },
    /// The connection ended in the middle.
    #[error("{what}: the connection to the manager ended ({reason})")]
    Lost {
        /// What that means for what was asked.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// It did not answer in time.
    #[error("{}", silence(*pid, socket, *seconds, what))]
    Silent {
        /// The number of its process, if it is known.
        pid: Option<u32>,
        /// Its socket.
        socket: PathBuf,
        /// For how long.
        seconds: u64,
        /// What that means for what was asked; may be empty.
        what: &'static str,
    },
    /// The background server lives, and its socket is not to be had.
    #[error(
        "the background server{} lives, but it cannot be reached: {reason}; `warmcell serve --stop` ends it \
         with its sessions, then the next call starts another",
        process(*pid)
    )]
    Unfound {
        /// The number of its process, if it is known.
        pid: Option<u32>,
        /// Why.
        reason: String,
    },
    /// It answered what makes no sense.
    #[error("the manager answered what makes no sense: {what}")]
    Senseless {
        /// What.
        what: String,
    },
    /// It refused.
    #[error("{}", .0.error)]
    Refused(Box<Refused>),
    /// There is no such session.
    #[error("there is no session {name}; `warmcell sessions` lists those there are")]
    NoSession {
        /// Its name.
        name: String,
    },
    /// There is no such manager.
    #[error(
        "there is no manager {wanted}; {}; name one by its process or the beginning of its id",
        known(managers)
    )]
    NoManager {
        /// What was named.
        wanted: String,
        /// Those there are, in words.
        managers: Vec<String>,
    },
    /// There are several of that name.
    #[error(
        "several managers have a session {name}: {}; `warmcell sessions` commands take --manager to say which, \
         and `warmcell sessions close {name} --manager ID` ends one",
        managers.iter().map(|it| format!("{} ({}, process {})", it.id, it.kind, it.pid)).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// Its name.
        name: String,
        /// Who.
        managers: Vec<ManagerInfo>,
    },
}

/// A manager, for those who choose among several.
fn one(info: &ManagerInfo) -> String {
    format!("{} ({}, process {})", info.id, info.kind, info.pid)
}

fn known(managers: &[String]) -> String {
    match managers {
        [] => "no manager runs".to_owned(),
        some => format!("there are {}", some.join(", ")),
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

fn silence(pid: Option<u32>, socket: &Path, seconds: u64, what: &str) -> String {
    let kind = if socket.ends_with(SERVER_SOCKET) {
        "background server"
    } else {
        "manager"
    };
    let advice = match pid {
        Some(pid) => format!(
            "if it is stopped, `kill -CONT {pid}` lets it go on; `kill -9 {pid}` ends it with its sessions"
        ),
        None => "`warmcell serve --stop` ends the background server with its sessions".to_owned(),
    };
    let colon = if what.is_empty() { "" } else { ": " };
    format!(
        "the {kind}{} at {} does not answer (for {seconds} s){colon}{what}; {advice}",
        process(pid),
        socket.display()
    )
}

impl ClientError {
    /// There is no manager of that name among those.
    pub(super) fn no_manager(wanted: &str, found: &[Found]) -> Self {
        let known = |found: &Found| match &found.info {
            Ok(info) => one(info),
            Err(_) => format!("one that does not answer{}", process(found.client.pid())),
        };
        Self::NoManager {
            wanted: wanted.chars().take(80).collect(),
            managers: found.iter().map(known).collect(),
        }
    }

    /// Its kind, as in a result.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused(refused) => refused.error_class,
            Self::NoSession { .. } | Self::NoManager { .. } | Self::Ambiguous { .. } => {
                ErrorClass::Usage
            }
            _ => ErrorClass::Unavailable,
        }
    }
}
