//! On which terms cells run: what the flags say, else the configuration, else the defaults.

use std::time::Duration;

use super::args::ExecArguments;
use crate::config::{Policy, Settings};

/// Terms of every cell of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellTerms {
    pub(super) timeout: Duration,
    pub(super) max_tool_calls: u32,
    pub(super) on_timeout: Policy,
    pub(super) on_interrupt: Policy,
    pub(super) max_stdout_bytes: usize,
}

impl CellTerms {
    pub(super) fn of(arguments: &ExecArguments, settings: &Settings) -> Self {
        let limits = settings.limits;
        let policy = |flag: Option<_>, setting| flag.map_or(setting, Policy::from);
        Self {
            timeout: arguments.timeout.unwrap_or(limits.timeout),
            max_tool_calls: arguments.max_tool_calls.unwrap_or(limits.max_tool_calls),
            on_timeout: policy(arguments.on_timeout, settings.on_timeout),
            on_interrupt: policy(arguments.on_interrupt, settings.on_interrupt),
            max_stdout_bytes: settings.max_stdout_bytes,
        }
    }
}
