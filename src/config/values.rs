//! What the configuration says, typed: nothing where it says nothing.

use std::path::PathBuf;
use std::time::Duration;

use super::{Bound, LogLevel, Mode, Policy, ProcessLimits, Resource, Settings};

/// What `<home>/config.yaml` and the variables `WARMCELL_*` say, each `None` where they do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Values {
    /// `code_execution.mode`.
    pub mode: Option<Mode>,
    /// `code_execution.timeout`, 1 ms to 86,400 s.
    pub timeout: Option<Duration>,
    /// `code_execution.max_tool_calls`.
    pub max_tool_calls: Option<u32>,
    /// `code_execution.max_stdout_bytes`, 1 to 10,000,000.
    pub max_stdout_bytes: Option<usize>,
    /// `code_execution.max_spill_bytes`, at most 1 TiB.
    pub max_spill_bytes: Option<u64>,
    /// `code_execution.kernel_idle_timeout`; zero for never.
    pub kernel_idle_timeout: Option<Duration>,
    /// `code_execution.max_session_kernels`, 1 to 1,000.
    pub max_session_kernels: Option<u32>,
    /// `code_execution.on_timeout`.
    pub on_timeout: Option<Policy>,
    /// `code_execution.on_interrupt`.
    pub on_interrupt: Option<Policy>,
    /// `code_execution.interrupt_grace`, at most 3,600 s.
    pub interrupt_grace: Option<Duration>,
    /// `code_execution.python`: an absolute path, `~/` and a path below the user's home, or the name of a
    /// program on the PATH.
    pub python: Option<PathBuf>,
    /// `terminal.env_passthrough`: names of variables.
    pub env_passthrough: Option<Vec<String>>,
    /// `terminal.timeout`, 1 ms to 86,400 s.
    pub terminal_timeout: Option<Duration>,
    /// `limits.memory`, in bytes, at least 64 MiB: address space of each process.
    pub memory: Option<u64>,
    /// `limits.processes`, at least 1: processes of the user.
    pub processes: Option<u64>,
    /// `journal.enabled`.
    pub journal_enabled: Option<bool>,
    /// `journal.days`, 1 to 3,650.
    pub journal_days: Option<u32>,
    /// `journal.bytes`, at most 1 TiB.
    pub journal_bytes: Option<u64>,
    /// `logging.level`.
    pub log_level: Option<LogLevel>,
}

impl Values {
    /// These limits with what the configuration limits more.
    #[must_use]
    pub fn limits(&self, mut limits: ProcessLimits) -> ProcessLimits {
        for (resource, most) in [
            (Resource::AddressSpace, self.memory),
            (Resource::Processes, self.processes),
        ] {
            let Some(most) = most else { continue };
            let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
            let bound = limits.bounds.get(&resource);
            let bound = Bound {
                soft: lower(bound.and_then(|bound| bound.soft)),
                hard: lower(bound.and_then(|bound| bound.hard)),
            };
            limits.bounds.insert(resource, bound);
        }
        limits
    }

    /// Whether processes of cells are limited at all.
    pub fn limit_processes(&self) -> bool {
        self.memory.is_some() || self.processes.is_some()
    }
}

impl Settings {
    /// These settings with what the configuration says; what processes may take
    /// ([`Values::limits`]) is left to whoever knows what they have.
    #[must_use]
    pub fn configured(mut self, values: &Values) -> Self {
        fn set<T: Clone>(setting: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                setting.clone_from(value);
            }
        }
        set(&mut self.mode, values.mode.as_ref());
        set(&mut self.limits.timeout, values.timeout.as_ref());
        set(
            &mut self.limits.max_tool_calls,
            values.max_tool_calls.as_ref(),
        );
        set(&mut self.max_stdout_bytes, values.max_stdout_bytes.as_ref());
        set(&mut self.max_spill_bytes, values.max_spill_bytes.as_ref());
        set(
            &mut self.max_session_kernels,
            values.max_session_kernels.as_ref(),
        );
        set(&mut self.on_timeout, values.on_timeout.as_ref());
        set(&mut self.on_interrupt, values.on_interrupt.as_ref());
        set(&mut self.interrupt_grace, values.interrupt_grace.as_ref());
        set(&mut self.terminal_timeout, values.terminal_timeout.as_ref());
        set(&mut self.passed_variables, values.env_passthrough.as_ref());
        set(&mut self.log_level, values.log_level.as_ref());
        if let Some(timeout) = values.kernel_idle_timeout {
            self.kernel_idle_timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
        }
        if values.python.is_some() {
            self.python.clone_from(&values.python);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays_as_it_is_and_zero_is_never() {
        let settings = || Settings::new("/home");
        assert_eq!(
            format!("{:?}", settings().configured(&Values::default())),
            format!("{:?}", settings())
        );
        let values = Values {
            timeout: Some(Duration::from_secs(5)),
            kernel_idle_timeout: Some(Duration::ZERO),
            env_passthrough: Some(vec!["A".to_owned()]),
            on_timeout: Some(Policy::Interrupt),
            ..Values::default()
        };
        let configured = settings().configured(&values);
        assert_eq!(configured.limits.timeout, Duration::from_secs(5));
        assert_eq!(configured.limits.max_tool_calls, 50);
        assert_eq!(configured.kernel_idle_timeout, None);
        assert_eq!(configured.passed_variables, ["A"]);
        assert_eq!(configured.on_timeout, Policy::Interrupt);
        assert_eq!(configured.on_interrupt, Policy::Restart);
    }

    #[test]
    fn a_limit_is_lowered_and_never_raised() {
        let bound = |soft, hard| Bound { soft, hard };
        let limits = |memory, had: Option<Bound>| {
            let values = Values {
                memory: Some(memory),
                ..Values::default()
            };
            let had = ProcessLimits {
                bounds: had
                    .map(|it| (Resource::AddressSpace, it))
                    .into_iter()
                    .collect(),
                nice: Some(3),
            };
            let limited = values.limits(had);
            assert_eq!(limited.nice, Some(3));
            assert_eq!(limited.bounds.len(), 1);
            limited.bounds[&Resource::AddressSpace]
        };
        assert_eq!(limits(8, None), bound(Some(8), Some(8)));
        assert_eq!(limits(8, Some(bound(None, None))), bound(Some(8), Some(8)));
        assert_eq!(
            limits(8, Some(bound(Some(4), None))),
            bound(Some(4), Some(8))
        );
        assert_eq!(
            limits(8, Some(bound(Some(4), Some(6)))),
            bound(Some(4), Some(6))
        );
    }
}
