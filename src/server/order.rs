//! What a client asks of a manager: a cell, and on whose behalf it is to run. The same shapes go out of
//! a client and come in at a door; there they are read with a sentence for everything that will not
//! do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::faults::OrderError;
use super::kernel_order::KernelOrder;
use super::keys::Keys;
use super::limits::{LimitsOrder, NiceOrder};
use super::wire::seconds;
use crate::config::{Caller, Limits, Mode, ProcessLimits, parse_wait};
use crate::session::{Cell, Policy};
use crate::tools::Grant;

/// The keys of a cell.
const CELL_KEYS: &[&str] = &[
    "code",
    "reset",
    "timeout",
    "max_tool_calls",
    "tools",
    "on_timeout",
    "on_interrupt",
    "max_stdout_bytes",
    "configured",
    "caller",
    "stream",
    "quiet",
    "wait",
    "detach",
    "no_redact",
];
/// The keys of its caller.
const CALLER_KEYS: &[&str] = &[
    "environment",
    "cwd",
    "umask",
    "limits",
    "nice",
    "python",
    "kernel",
    "directory",
    "mode",
    "env",
];
/// The largest window that can be asked for, in bytes.
const MOST_WINDOW: u32 = 10_000_000;
/// The mask of a caller who names none.
const UMASK: u32 = 0o022;

/// A cell, and on whose behalf it is to run. Everything but `code` may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct CellOrder {
    /// The Python source.
    pub code: String,
    /// Discard the kernel's state first.
    #[serde(skip_serializing_if = "is_false")]
    pub reset: bool,
    /// The time limit, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// How many tool calls it may make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// The tools it may call: all if left out, none if the list is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What happens when its time is up; what the manager's configuration says if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<PolicyName>,
    /// What happens when it is interrupted; what the manager's configuration says if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_interrupt: Option<PolicyName>,
    /// The window of stdout in its result, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_stdout_bytes: Option<u32>,
    /// Whoever asks has read the configuration by itself, and been told what is wrong with it.
    #[serde(skip_serializing_if = "is_false")]
    pub configured: bool,
    /// Who asks; without it only a session that lives can be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerOrder>,
    /// Answer with what happens as it happens, a JSON object a line, the result last; otherwise with
    /// the result alone.
    #[serde(skip_serializing_if = "is_false")]
    pub stream: bool,
    /// Leave its output out of the stream: it stands in the result.
    #[serde(skip_serializing_if = "is_false")]
    pub quiet: bool,
    /// Answer after so many seconds at the latest; if the cell goes on by then, with what there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// Go on without the client: answer at once, as with a `wait` of 0. With `stream` the client may
    /// read along for as long as it likes, and leave without interrupting the cell.
    #[serde(skip_serializing_if = "is_false")]
    pub detach: bool,
    /// Secrets are not masked in what comes of it.
    #[serde(skip_serializing_if = "is_false")]
    pub no_redact: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "that is how it is asked for"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A policy, by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PolicyName {
    /// Kill the kernel and start a fresh one.
    #[default]
    Restart,
    /// Raise `KeyboardInterrupt` first.
    Interrupt,
}

/// The names of policies.
const POLICIES: [(&str, PolicyName); 2] = [
    ("restart", PolicyName::Restart),
    ("interrupt", PolicyName::Interrupt),
];

impl Serialize for PolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = POLICIES.iter().find(|(_, policy)| policy == self);
        serializer.serialize_str(named.map_or("restart", |(name, _)| name))
    }
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Restart => Self::Restart,
            PolicyName::Interrupt => Self::Interrupt,
        }
    }
}

impl From<Policy> for PolicyName {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Restart => Self::Restart,
            Policy::Interrupt => Self::Interrupt,
        }
    }
}

/// Who asks for a cell: what a new kernel takes over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallerOrder {
    /// Name and value of each variable.
    pub environment: Vec<(String, String)>,
    /// The caller's working directory, an absolute path.
    pub cwd: PathBuf,
    /// Its file mode creation mask; 0o022 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// What its processes may take of the system; left out, that is as in the manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsOrder>,
    /// How nice they are; left out, as the manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<NiceOrder>,
    /// An interpreter that was named: an absolute path, or the name of a program on the caller's PATH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
    /// A kernel that is not ours: the name of its kernelspec, or what that says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelOrder>,
    /// A directory that was named, whatever the caller's own is; relative to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// In which folder and with which Python; left out, as the manager's settings say, or the session's
    /// kernels are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Variables that were named on purpose, name and value of each: they pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
}

impl CallerOrder {
    fn read(keys: &Keys<'_>) -> Result<Self, OrderError> {
        let what = "the absolute path of the directory in which the caller is";
        Ok(Self {
            environment: keys.environment("environment")?.unwrap_or_default(),
            cwd: keys
                .text("cwd")?
                .ok_or_else(|| keys.missing("cwd", what))?
                .into(),
            umask: keys.whole("umask", 0o777, "an integer from 0 to 511 (0o777)")?,
            limits: keys.shape("limits")?,
            nice: keys.shape("nice")?,
            python: keys.text("python")?.map(PathBuf::from),
            kernel: keys.shape("kernel")?,
            directory: keys.text("directory")?.map(PathBuf::from),
            mode: keys.word("mode", &Mode::NAMES, "\"project\" or \"strict\"")?,
            env: keys.environment("env")?.unwrap_or_default(),
        })
    }

    /// The caller, as sessions know it.
    pub fn caller(&self) -> Caller {
        let limits = (self.limits.is_some() || self.nice.is_some()).then(|| ProcessLimits {
            bounds: self.limits.clone().unwrap_or_default().0,
            nice: self.nice.map(|NiceOrder(nice)| nice),
        });
        Caller {
            environment: self.environment.clone(),
            cwd: self.cwd.clone(),
            umask: self.umask.unwrap_or(UMASK),
            limits,
            python: self.python.clone(),
            kernel: self.kernel.as_ref().and_then(KernelOrder::found).cloned(),
            mode: self.mode,
            named: self.env.clone(),
        }
    }
}

impl CellOrder {
    /// Reads an order as it comes through the door.
    ///
    /// # Errors
    ///
    /// If it is no JSON object, has keys that mean nothing, or values that are of another kind or out of
    /// range. What a session refuses by itself (no code, unknown tools, a caller who is nowhere) is left
    /// to it.
    pub fn parse(text: &[u8]) -> Result<Self, OrderError> {
        let keys = Keys::read(text, "the order of a cell", CELL_KEYS)?;
        let caller = keys.object("caller", "`caller`", "caller.", CALLER_KEYS)?;
        Ok(Self {
            code: keys
                .text("code")?
                .ok_or_else(|| keys.missing("code", "Python source"))?,
            reset: keys.flag("reset")?,
            timeout: keys.seconds("timeout", Limits::parse_timeout)?,
            max_tool_calls: keys.whole(
                "max_tool_calls",
                u32::MAX,
                "an integer from 0 to 4294967295",
            )?,
            tools: keys.names("tools")?,
            on_timeout: policy(&keys, "on_timeout")?,
            on_interrupt: policy(&keys, "on_interrupt")?,
            max_stdout_bytes: keys.whole(
                "max_stdout_bytes",
                MOST_WINDOW,
                "an integer from 0 to 10000000",
            )?,
            configured: keys.flag("configured")?,
            caller: caller.as_ref().map(CallerOrder::read).transpose()?,
            stream: keys.flag("stream")?,
            quiet: keys.flag("quiet")?,
            wait: keys.seconds("wait", parse_wait)?,
            detach: keys.flag("detach")?,
            no_redact: keys.flag("no_redact")?,
        })
    }

    /// The cell.
    pub fn cell(&self) -> Cell {
        Cell {
            code: self.code.clone(),
            reset: self.reset,
            timeout: self.timeout.map(seconds),
            max_tool_calls: self.max_tool_calls,
            grant: match &self.tools {
                None => Grant::All,
                Some(names) => Grant::Only(names.iter().cloned().collect()),
            },
            on_timeout: self.on_timeout.map(Policy::from),
            on_interrupt: self.on_interrupt.map(Policy::from),
            max_stdout_bytes: self.max_stdout_bytes.map(|bytes| bytes as usize),
            caller: self.caller.as_ref().map(|caller| Arc::new(caller.caller())),
            directory: self.caller.as_ref().and_then(|it| it.directory.clone()),
            unmasked: self.no_redact,
            ..Cell::default()
        }
    }

    /// How long the answer may take; `None` for as long as the cell takes, or its client reads along.
    pub fn patience(&self) -> Option<Duration> {
        if self.detach && !self.stream {
            return Some(Duration::ZERO);
        }
        self.wait.map(seconds)
    }
}

fn policy(keys: &Keys<'_>, key: &str) -> Result<Option<PolicyName>, OrderError> {
    keys.word(key, &POLICIES, "\"restart\" or \"interrupt\"")
}

/// The keys of [`InterruptOrder`].
const INTERRUPT_KEYS: &[&str] = &["on_interrupt"];

/// How a cell is to be interrupted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct InterruptOrder {
    /// Whatever the cell's own policy is; that, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_interrupt: Option<PolicyName>,
}

impl InterruptOrder {
    /// Reads it as it comes through the door.
    pub(super) fn parse(text: &[u8]) -> Result<Self, OrderError> {
        let keys = Keys::read(text, "the order to interrupt", INTERRUPT_KEYS)?;
        let on_interrupt = policy(&keys, "on_interrupt")?;
        Ok(Self { on_interrupt })
    }

    /// The policy, as sessions know it.
    pub(super) fn policy(self) -> Option<Policy> {
        self.on_interrupt.map(Policy::from)
    }
}

/// The keys of [`WaitOrder`].
const WAIT_KEYS: &[&str] = &["timeout"];

/// How long to wait for the results of a session.
#[derive(Debug, Default, PartialEq)]
pub(super) struct WaitOrder {
    /// For as long as it takes if left out.
    pub(super) timeout: Option<Duration>,
}

impl WaitOrder {
    /// Reads it as it comes through the door.
    pub(super) fn parse(text: &[u8]) -> Result<Self, OrderError> {
        let keys = Keys::read(text, "the order to wait", WAIT_KEYS)?;
        let timeout = keys.seconds("timeout", parse_wait)?.map(seconds);
        Ok(Self { timeout })
    }
}

/// Reads an order that has nothing to say but what it is: nothing, or an object without keys.
pub(super) fn nothing(text: &[u8]) -> Result<(), OrderError> {
    Keys::read(text, "this order", &[]).map(drop)
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
