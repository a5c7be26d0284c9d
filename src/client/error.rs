//! What can go wrong between a client and a manager.

use std::io;

use crate::execution::ErrorClass;
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
    #[error("the manager did not answer within {seconds} s; `warmcell serve --stop` ends it")]
    Silent {
        /// For how long.
        seconds: u64,
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
    /// There are several of that name.
    #[error(
        "several managers have a session {name}: {}; say which with --manager",
        managers.iter().map(|it| format!("{} ({}, process {})", it.id, it.kind, it.pid)).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// Its name.
        name: String,
        /// Who.
        managers: Vec<ManagerInfo>,
    },
}

impl ClientError {
    /// Its kind, as in a result.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused(refused) => refused.error_class,
            Self::NoSession { .. } | Self::Ambiguous { .. } => ErrorClass::Usage,
            _ => ErrorClass::Unavailable,
        }
    }
}
