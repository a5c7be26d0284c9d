//! The words of the conversation with a forkserver: one JSON object a message.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::config::{ProcessLimits, Resource};

/// The version of this conversation.
pub(super) const PROTOCOL: u32 = 1;

/// What a forkserver says.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum Report {
    Hello {
        protocol: u32,
        pid: u32,
        version: String,
        executable: PathBuf,
        prefix: PathBuf,
        supervises: bool,
    },
    Forked {
        id: u64,
        pid: u32,
    },
    Failed {
        id: u64,
        errno: i32,
    },
    Exit {
        pid: u32,
        code: Option<i32>,
        signal: Option<i32>,
    },
    Clear {
        pid: u32,
        survivors: usize,
    },
    Pong {},
}

/// What a forkserver is told.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum Order {
    Ack {
        pid: u32,
    },
    Kill {
        pid: u32,
    },
    Ping {},
    /// The manager lives and does not need it any more.
    Leave {},
}

/// A process to be forked: a kernel, a job of one, or another program in the place of a kernel.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ForkOrder {
    /// `fork`, `job` or `exec`.
    pub(super) op: &'static str,
    /// Answers name it.
    pub(super) id: u64,
    /// The kernel with which a job ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel: Option<u32>,
    /// The file of another program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<AnyPath>,
    pub(super) argv: Vec<String>,
    #[serde(serialize_with = "path_as_it_is")]
    pub(super) cwd: PathBuf,
    pub(super) umask: u32,
    #[serde(flatten)]
    pub(super) limits: LimitsOrder,
    pub(super) env: BTreeMap<String, String>,
    /// Names of variables that the forkserver itself never has.
    #[serde(skip_serializing_if = "is_empty")]
    #[serde(serialize_with = "as_list")]
    pub(super) own: Arc<Vec<String>>,
}

fn as_list<S: Serializer>(names: &Arc<Vec<String>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter())
}

fn is_empty(names: &Arc<Vec<String>>) -> bool {
    names.is_empty()
}

/// What a process may take of the system.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LimitsOrder {
    /// Resource limits to set, `[soft, hard]`, -1 for none, in the order in which they are set.
    #[serde(serialize_with = "as_map")]
    rlimits: Vec<(&'static str, [i64; 2])>,
    /// Its nice value.
    #[serde(skip_serializing_if = "Option::is_none")]
    nice: Option<i32>,
}

impl LimitsOrder {
    /// With these limits on open descriptors, unless others are wanted.
    pub(super) fn new(nofile: [i64; 2], wanted: Option<&ProcessLimits>) -> Self {
        let number = |limit: Option<u64>| limit.and_then(|it| i64::try_from(it).ok()).unwrap_or(-1);
        let rlimit = |resource: Resource| {
            let bound = wanted.and_then(|wanted| wanted.bounds.get(&resource));
            let limits = bound.map(|bound| [number(bound.soft), number(bound.hard)]);
            let own = (resource == Resource::OpenFiles).then_some(nofile);
            Some((resource.name(), limits.or(own)?))
        };
        Self {
            rlimits: Resource::ALL.into_iter().filter_map(rlimit).collect(),
            nice: wanted.and_then(|wanted| wanted.nice),
        }
    }
}

fn as_map<S: Serializer>(
    rlimits: &[(&'static str, [i64; 2])],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(rlimits.iter().copied())
}

/// In place of an order that is too long for a message: it is in the last descriptor.
#[derive(Debug, Serialize)]
pub(super) struct LongOrder {
    pub(super) op: &'static str,
    pub(super) id: u64,
    pub(super) elsewhere: bool,
}

/// A path as text, or as a list of bytes where it is not UTF-8.
fn path_as_it_is<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => serializer.serialize_str(text),
        None => path.as_os_str().as_bytes().serialize(serializer),
    }
}

/// A path as text, or as a list of bytes where it is not UTF-8.
#[derive(Debug, Clone, Serialize)]
pub(super) struct AnyPath(#[serde(serialize_with = "path_as_it_is")] pub(super) PathBuf);
