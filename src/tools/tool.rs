//! What a tool is: a name, parameters, a result shape, and a call.
//!
//! Tools run in the manager, on behalf of code in a cell. A tool never panics, never prints and
//! never blocks the runtime: work that blocks goes through [`tokio::task::spawn_blocking`].

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Arguments;
use super::shown::shown_path;
use crate::provisioner::JobRunner;

/// The JSON object that a tool returns.
///
/// A tool has one set of keys on every path. On failure `error` (a sentence that says what to do)
/// and `error_class` are added and the other keys are still there, `null` where unknown.
pub type ToolResult = Map<String, Value>;

/// What a parameter is when the caller leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterDefault {
    /// The caller must give it.
    Required,
    /// `None` in Python, `null` on the wire.
    Null,
    /// An integer.
    Integer(i64),
    /// A string.
    Text(&'static str),
    /// A boolean.
    Boolean(bool),
}

/// One parameter of a tool, in the order of its Python signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, the same in Python, in JSON and in the schema.
    pub name: &'static str,
    /// Its JSON type, as a word of JSON Schema.
    pub json_type: &'static str,
    /// What it is when left out.
    pub default: ParameterDefault,
    /// One sentence for the schema and the help.
    pub about: &'static str,
}

/// The description of a tool from which stubs, schema and help are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolSpec {
    /// The name under which cells call it.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// Its parameters, in order.
    pub parameters: &'static [Parameter],
    /// The keys of its result, in order, without `error` and `error_class`.
    pub returns: &'static [&'static str],
    /// Keywords that belong to a wider form of this tool and are refused by name, not dropped.
    pub refused: &'static [&'static str],
}

/// What a call may use: where the caller is, how long it may take, and the manager's services.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The caller's working directory (`os.getcwd()` of the process that called), absolute; `None` if
    /// it is gone.
    pub cwd: Option<PathBuf>,
    /// The home of agent settings (`HERMES_HOME`); files that hold credentials there are denied.
    pub agent_home: PathBuf,
    /// The user's home, for `~`.
    pub user_home: Option<PathBuf>,
    /// The end of the cell's time; `None` where the cell has no limit.
    pub deadline: Option<Instant>,
    /// Fires when the cell or the kernel ends: work in flight stops.
    pub cancelled: CancellationToken,
    /// Runs commands whose whole process tree ends with the kernel.
    pub jobs: Arc<dyn JobRunner>,
    /// The environment for commands, already scrubbed.
    pub environment: Arc<Vec<(String, String)>>,
    /// The time limit of one `terminal` call, before the rest of the cell's time is applied.
    pub terminal_timeout: Duration,
}

impl ToolContext {
    /// A path of the caller as an absolute one: `~` expanded, relative to the caller's directory.
    ///
    /// # Errors
    ///
    /// If the path is relative and the caller's directory is gone.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, ToolFailure> {
        if let (Some(home), Some(rest)) = (&self.user_home, path.strip_prefix('~')) {
            if rest.is_empty() {
                return Ok(home.clone());
            }
            if let Some(rest) = rest.strip_prefix('/') {
                return Ok(home.join(rest));
            }
        }
        let path = Path::new(path);
        match &self.cwd {
            Some(cwd) => Ok(cwd.join(path)),
            None if path.is_absolute() => Ok(path.to_owned()),
            None => Err(ToolFailure::failed(format!(
                "'{}' is relative to the working directory, which is gone; change to another one \
                 with os.chdir() or give an absolute path",
                shown_path(path)
            ))),
        }
    }
}

/// A host tool that code in a cell may call.
#[async_trait]
pub trait Tool: Send + Sync + Debug {
    /// What it is called, what it takes and what it returns.
    fn spec(&self) -> &'static ToolSpec;

    /// Does the work.
    ///
    /// Failures are values: see [`ToolResult`].
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any await point, when the cell ends or its caller goes away;
    /// then everything it started must end.
    async fn call(&self, arguments: Arguments, context: &ToolContext) -> ToolResult;
}

/// A refusal or failure of a tool: a class and a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    /// `usage`, `refused`, `limit`, `timeout`, `interrupted` or `exception`.
    pub class: &'static str,
    /// What is wrong, with the value at fault, and what to do next.
    pub message: String,
}

impl ToolFailure {
    /// A failure of the given class.
    pub fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }

    /// The arguments are at fault.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new("usage", message)
    }

    /// A guard says no.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new("refused", message)
    }

    /// The work went wrong (no such file, no permission, ...).
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new("exception", message)
    }

    /// The result that says so: the tool's keys as `null`, then `error` and `error_class`.
    pub fn into_result(self, spec: &ToolSpec) -> ToolResult {
        let mut result = ToolResult::new();
        for key in spec.returns {
            result.insert((*key).to_owned(), Value::Null);
        }
        self.add_to(&mut result);
        result
    }

    /// Adds `error` and `error_class` to a result that already has its keys.
    pub fn add_to(self, result: &mut ToolResult) {
        result.insert("error".to_owned(), Value::String(self.message));
        result.insert(
            "error_class".to_owned(),
            Value::String(self.class.to_owned()),
        );
    }
}
