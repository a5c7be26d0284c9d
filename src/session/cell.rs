//! A cell, and the terms on which it is to run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Caller, CallerError, LimitError, Limits, Policy};
use crate::environment::{CredentialError, refuse_credentials};
use crate::execution::{Files, Wishes};
use crate::tools::{Grant, ToolTable, UnknownTools};

/// The most bytes of code in a cell.
const MAX_CODE_BYTES: usize = 8 << 20;

/// A cell, and the terms on which it is to run.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// The Python source; not empty unless expressions are to be evaluated, at most 8 MiB, no NUL.
    pub code: String,
    /// Discard the kernel's state first.
    pub reset: bool,
    /// The time limit; the session's default if none.
    pub timeout: Option<Duration>,
    /// The number of tool calls; the session's default if none.
    pub max_tool_calls: Option<u32>,
    /// Which tools it may call.
    pub grant: Grant,
    /// What happens when its time is up; what the manager's settings say if none.
    pub on_timeout: Option<Policy>,
    /// What happens when it is interrupted; what the manager's settings say if none.
    pub on_interrupt: Option<Policy>,
    /// The window of stdout in its result, in bytes; the session's default if none.
    pub max_stdout_bytes: Option<usize>,
    /// Who hands it over; the session's first caller if none. The kernel goes to the caller's
    /// directory if that is not the one of the caller before. An interpreter that the caller names
    /// replaces the kernel if it is another one, and so does another mode; a reset takes all from the
    /// caller. Anything else of the environment stays what it was when the kernel was started.
    pub caller: Option<Arc<Caller>>,
    /// Where it is to run, whatever the caller's directory is; relative to that. In strict mode the
    /// kernel's own folder is the only place, and a cell that names another is refused.
    pub directory: Option<PathBuf>,
    /// What a front end wants of it beyond its code.
    pub wishes: Wishes,
    /// Sentences that its result is to say in `warning`, beside others.
    pub warnings: Vec<String>,
    /// Secrets are not masked in what comes of it: for a person's own pipe. Control sequences stay in
    /// what is read as it comes, in either case.
    pub unmasked: bool,
    /// Which files are made of what it prints and shows, in `<home>/cache/exec`.
    pub files: Files,
}

impl Cell {
    /// A cell on the default terms.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            ..Self::default()
        }
    }

    /// With a time limit of its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// With the kernel's state discarded first.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.reset = true;
        self
    }

    /// With these tools only.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self
    }

    /// Handed over by this caller.
    #[must_use]
    pub fn caller(mut self, caller: Arc<Caller>) -> Self {
        self.caller = Some(caller);
        self
    }

    /// In this directory.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// With a number of tool calls of its own.
    #[must_use]
    pub fn max_tool_calls(mut self, calls: u32) -> Self {
        self.max_tool_calls = Some(calls);
        self
    }

    /// With what a front end wants of it beyond its code.
    #[must_use]
    pub fn wishes(mut self, wishes: Wishes) -> Self {
        self.wishes = wishes;
        self
    }

    /// Whether it can be run, on the terms that it gives.
    ///
    /// # Errors
    ///
    /// The first that will not do; a session refuses such a cell with class `usage`.
    pub fn check(&self, tools: &ToolTable) -> Result<(), CellError> {
        if self.code.trim().is_empty() && self.wishes.user_expressions.is_none() {
            return Err(CellError::Empty);
        }
        if self.code.len() > MAX_CODE_BYTES {
            let bytes = self.code.len();
            return Err(CellError::TooLong { bytes });
        }
        if let Some(at) = self.code.find('\0') {
            return Err(CellError::Nul { at });
        }
        if let Some(timeout) = self.timeout {
            Limits::check_timeout(timeout)?;
        }
        tools.check(&self.grant)?;
        if let Some(caller) = &self.caller {
            caller.check()?;
            refuse_credentials(caller)?;
            let named = caller.kernel.as_ref().filter(|it| it.is_another_language());
            if let Some(kernel) = named.filter(|_| self.grant.names_some()) {
                let (kernel, language) = (kernel.name.clone(), kernel.language.clone());
                return Err(CellError::NoTools { kernel, language });
            }
        }
        match &self.directory {
            Some(directory) if directory.as_os_str().is_empty() => Err(CellError::NoDirectory),
            _ => Ok(()),
        }
    }
}

/// A cell that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// There is nothing to run.
    #[error("the code is empty; give Python source")]
    Empty,
    /// There is too much of it.
    #[error("the code has {bytes} bytes, the limit is 8 MiB; put data into a file and read it")]
    TooLong {
        /// How much.
        bytes: usize,
    },
    /// Python takes no such character.
    #[error("the code holds a NUL character at byte {at}; remove it")]
    Nul {
        /// Where the first one stands.
        at: usize,
    },
    /// Its time limit is out of range.
    #[error(transparent)]
    Timeout(#[from] LimitError),
    /// It is to have tools that do not exist.
    #[error("`tools`: {0}")]
    Tools(#[from] UnknownTools),
    /// It is to have tools, and its kernel can call none.
    #[error(
        "`tools`: cells of the kernel {kernel} are {language}, and only Python can call tools; leave them out"
    )]
    NoTools {
        /// The name of its kernelspec.
        kernel: String,
        /// The language of its cells.
        language: String,
    },
    /// Its caller's circumstances will not do.
    #[error(transparent)]
    Caller(#[from] CallerError),
    /// Its caller has named a variable that never passes.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// Its directory is named by an empty path.
    #[error("the `directory` of the cell is empty; leave it out, or name one")]
    NoDirectory,
}
