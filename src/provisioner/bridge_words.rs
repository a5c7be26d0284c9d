//! What a manager and the bridge to a kernel that is not ours say to each other beside messages of
//! Jupyter's.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::KernelExit;
use crate::config::{ForeignKernel, KernelTransport};

/// What a bridge is told before anything else: JSON in a file that it is handed over its link,
/// behind the interrupt page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BridgeSetup {
    /// The version of whoever starts it; it must be the bridge's own.
    pub version: String,
    /// The kernel.
    pub kernel: ForeignKernel,
    /// Where it runs.
    pub cwd: PathBuf,
    /// The beginning of the names of its sockets and its connection file, in a private folder.
    pub prefix: PathBuf,
    /// The file of the tools for Python.
    pub tools: PathBuf,
    /// How long the kernel may take to answer, in milliseconds.
    pub patience_ms: u64,
}

impl BridgeSetup {
    /// The type of the message that says that the kernel is there; see [`BridgeReady`].
    pub const READY: &str = "warmcell_ready";
    /// The type of the message that says that it is started once more: what it has said so far is of no
    /// interest. Its content is empty.
    pub const AGAIN: &str = "warmcell_again";
    /// The type of the message that says that it did not start; see [`BridgeFailure`].
    pub const FAILED: &str = "warmcell_failed";
    /// The type of the message that says how the kernel has ended; see [`BridgeEnd`].
    pub const ENDED: &str = "warmcell_ended";
}

/// A kernel behind a bridge is there.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgeReady {
    /// How it is reached.
    pub transport: KernelTransport,
    /// The content of its `kernel_info_reply`; `None` if that makes no sense.
    pub info: Option<Box<RawValue>>,
}

/// How a kernel behind a bridge has ended. Its code may be any, also one that means something of
/// ours, so the bridge does not end with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgeEnd {
    code: Option<i32>,
    signal: Option<i32>,
}

impl From<KernelExit> for BridgeEnd {
    fn from(exit: KernelExit) -> Self {
        match exit {
            KernelExit::Code(code) => Self {
                code: Some(code),
                signal: None,
            },
            KernelExit::Signal(signal) => Self {
                code: None,
                signal: Some(signal),
            },
            KernelExit::ForkserverGone { .. } | KernelExit::Unknown => Self::default(),
        }
    }
}

impl From<BridgeEnd> for KernelExit {
    fn from(end: BridgeEnd) -> Self {
        match (end.code, end.signal) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

/// Why there is no kernel behind a bridge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BridgeFailure {
    /// As it goes on after the name of the kernel.
    pub reason: String,
}
