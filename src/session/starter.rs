//! New kernels for one session: always with the same interpreter and environment.

use std::path::Path;
use std::sync::Arc;

use crate::config::Caller;
use crate::environment::{Candidate, candidates, scrub, with_harmless_programs};
use crate::kernel::{FrameBudget, Kernel};
use crate::provisioner::{KernelRequest, ProvisionError, Provisioner};

/// Starts the kernels of one session.
#[derive(Debug, Clone)]
pub(super) struct Starter {
    provisioner: Arc<dyn Provisioner>,
    budget: Arc<FrameBudget>,
    request: KernelRequest,
}

/// What the kernels and commands of a session see.
#[derive(Debug, Clone)]
pub(super) struct Environments {
    /// Of the kernels.
    pub(super) kernel: Arc<Vec<(String, String)>>,
    /// Of commands that tools run.
    pub(super) commands: Arc<Vec<(String, String)>>,
}

/// Makes the environments from the caller's: scrubbed, with what keeps programs from waiting for a
/// person; for kernels also what tool calls need.
pub(super) fn environments(
    caller: &Caller,
    tool_variables: Vec<(String, String)>,
    sources: &Path,
) -> Environments {
    let scrubbed = scrub(caller.environment.iter().cloned());
    if !scrubbed.dropped.is_empty() {
        let mut names = scrubbed.dropped;
        names.sort_unstable();
        tracing::debug!(
            names = names.join(", "),
            "variables that the kernel does not see"
        );
    }
    let mut kept = scrubbed.kept;
    kept.retain(|(name, _)| name != "PWD");
    kept.push(("PWD".to_owned(), caller.cwd.display().to_string()));
    let commands = with_harmless_programs(kept);
    let mut kernel = commands.clone();
    kernel.extend(tool_variables);
    let tools = sources.join("tools").display().to_string();
    match kernel.iter_mut().find(|(name, _)| name == "PYTHONPATH") {
        Some((_, path)) if !path.is_empty() => *path = format!("{path}:{tools}"),
        Some((_, path)) => *path = tools,
        None => kernel.push(("PYTHONPATH".to_owned(), tools)),
    }
    Environments {
        kernel: Arc::new(kernel),
        commands: Arc::new(commands),
    }
}

impl Starter {
    pub(super) fn new(
        provisioner: Arc<dyn Provisioner>,
        budget: Arc<FrameBudget>,
        caller: &Caller,
        environments: &Environments,
    ) -> Self {
        let request = KernelRequest {
            candidates: candidates(caller),
            environment: Arc::clone(&environments.kernel),
            cwd: caller.cwd.clone(),
            umask: caller.umask,
            argv: vec![String::new()],
        };
        Self {
            provisioner,
            budget,
            request,
        }
    }

    /// Starts one.
    pub(super) async fn start(self) -> Result<Kernel, ProvisionError> {
        let started = self.provisioner.start(&self.request).await?;
        Ok(Kernel::new(started, self.budget)?)
    }

    /// From now on only the interpreter of this kernel is used: a session never changes it silently.
    pub(super) fn keep_interpreter(&mut self, kernel: &Kernel) {
        self.request.candidates = vec![Candidate {
            path: kernel.interpreter().executable.clone(),
            source: "this session",
            explicit: true,
        }];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_see_what_passes_and_what_tools_need() {
        let caller = Caller {
            environment: vec![
                ("PATH".into(), "/bin".into()),
                ("PWD".into(), "/elsewhere".into()),
                ("MY_TOKEN".into(), "secret".into()),
                ("PYTHONPATH".into(), "/mine".into()),
                ("LANG".into(), "C.UTF-8".into()),
            ],
            cwd: "/tmp".into(),
            umask: 0o022,
            python: None,
        };
        let tools = vec![("HERMES_RPC_SOCKET".to_owned(), "/s".to_owned())];
        let made = environments(&caller, tools, Path::new("/src"));
        let kernel = |name: &str| {
            let all: Vec<_> = made.kernel.iter().filter(|(n, _)| n == name).collect();
            assert!(all.len() < 2, "{name} stands twice");
            all.first().map(|(_, value)| value.as_str())
        };
        assert_eq!(kernel("PATH"), Some("/bin"));
        assert_eq!(kernel("PWD"), Some("/tmp"));
        assert_eq!(kernel("MY_TOKEN"), None);
        assert_eq!(kernel("PYTHONPATH"), Some("/mine:/src/tools"));
        assert_eq!(kernel("LANG"), Some("C.UTF-8"));
        assert_eq!(kernel("HERMES_RPC_SOCKET"), Some("/s"));
        assert!(kernel("PAGER").is_some());
        let commands = |name: &str| made.commands.iter().find(|(n, _)| n == name);
        assert_eq!(commands("HERMES_RPC_SOCKET"), None);
        assert_eq!(commands("PYTHONPATH").unwrap().1, "/mine");
    }
}
