//! New kernels for one session: always with the same interpreter and environment, unless a caller
//! wants others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::following::Configured;
use crate::config::{Caller, Had, Mode, ProcessLimits};
use crate::environment::{
    Candidate, DroppedNames, HIDDEN, Interpreter, Ladder, Source, visible, with_harmless_programs,
};
use crate::folders::Scratch;
use crate::ids::random_key;
use crate::kernel::{FrameBudget, Kernel, LateSink};
use crate::output::redact::{Hidden, Rules};
use crate::process::in_a_thread;
use crate::provisioner::{KernelRequest, ProvisionError, Provisioner};
use crate::python_source::Sources;
use crate::telemetry::ALWAYS;

/// Starts the kernels of one session.
#[derive(Debug, Clone)]
pub(super) struct Starter {
    means: Arc<Means>,
    request: KernelRequest,
    commands: Variables,
    rules: Rules,
    /// What its kernels do not see.
    dropped: Arc<DroppedNames>,
    /// Whether each kernel has a working directory of its own.
    mode: Mode,
    /// Which Python; as long as a session's kernels have one, that stays.
    ladder: Ladder,
    /// What its caller's environment says of secrets that were taken out of it.
    hidden: String,
    /// The Python of the kernels that were started.
    interpreter: Option<Interpreter>,
    /// What its kernels do not have of the limits that were asked for was told.
    limits_told: bool,
}

/// With what the kernels of a session are started, whoever wants them.
#[derive(Debug, Clone)]
pub(super) struct Means {
    pub(super) provisioner: Arc<dyn Provisioner>,
    pub(super) budget: Arc<FrameBudget>,
    /// What a kernel must know to call tools.
    pub(super) tool_variables: Vec<(String, String)>,
    /// The unpacked Python half.
    pub(super) sources: Arc<Sources>,
    /// The limits of kernels whose caller sends none.
    pub(super) limits: Option<ProcessLimits>,
    /// Variables that pass because they were named.
    pub(super) passed: Vec<String>,
    /// Mode and Python of callers who name none.
    pub(super) configured: Configured,
    /// Working directories for kernels that have one of their own.
    pub(super) scratch: Arc<Scratch>,
}

/// An environment.
pub(super) type Variables = Arc<Vec<(String, String)>>;

/// What the kernels and commands of a session see.
#[derive(Debug)]
struct Environments {
    kernel: Vec<(String, String)>,
    /// Of commands that tools run.
    commands: Vec<(String, String)>,
    /// What is masked in all that comes of its cells.
    rules: Rules,
    /// What of the caller's is not among them.
    dropped: DroppedNames,
    /// What was let through for this caller on purpose.
    own: Vec<String>,
}

/// Makes the environments from the caller's: scrubbed, with what keeps programs from waiting for a
/// person; for kernels also what tool calls need.
fn environments(
    caller: &Caller,
    place: &Path,
    passed: &[String],
    tool_variables: &[(String, String)],
    sources: &Path,
) -> Environments {
    let seen = visible(caller, passed);
    note_dropped(&seen.dropped);
    let secrets = seen.secrets.iter();
    let secrets = secrets.map(|(name, value)| (name.as_str(), value.as_str()));
    let hidden = Hidden::of(random_key(), secrets);
    [hidden.clone()]
        .into_iter()
        .chain(fingerprints(caller))
        .for_each(crate::telemetry::hide);
    let rules = Rules::new([hidden]);
    let rules = fingerprints(caller).fold(rules, Rules::and);
    let mut kept = seen.variables;
    let named = caller.named.iter().map(|(name, _)| name);
    let own = named.chain(passed).cloned().collect();
    kept.retain(|(name, _)| name != "PWD");
    kept.push(("PWD".to_owned(), place.display().to_string()));
    let commands = with_harmless_programs(kept);
    let mut kernel = commands.clone();
    kernel.extend_from_slice(tool_variables);
    let tools = sources.join("tools").display().to_string();
    match kernel.iter_mut().find(|(name, _)| name == "PYTHONPATH") {
        Some((_, path)) if !path.is_empty() => *path = format!("{path}:{tools}"),
        Some((_, path)) => *path = tools,
        None => kernel.push(("PYTHONPATH".to_owned(), tools)),
    }
    Environments {
        kernel,
        commands,
        rules,
        dropped: seen.dropped,
        own,
    }
}

/// One line in the log, whatever its level: whoever misses a variable in a cell finds it here.
fn note_dropped(dropped: &DroppedNames) {
    if !dropped.is_empty() {
        let names: Vec<&str> = dropped.listed().collect();
        tracing::debug!(
            target: ALWAYS,
            names = names.join(", "),
            with_secret_names = dropped.secrets(),
            "variables that the kernel does not see; `exec --env NAME` or terminal.env_passthrough lets \
             one through"
        );
    }
}

/// What of a caller's environment was hidden before it came here.
fn fingerprints(caller: &Caller) -> impl Iterator<Item = Hidden> {
    hidden_text(caller).split(',').filter_map(Hidden::parse)
}

fn hidden_text(caller: &Caller) -> &str {
    let mut variables = caller.environment.iter();
    let hidden = variables.find(|(name, _)| name == HIDDEN);
    hidden.map_or("", |(_, text)| text)
}

impl Starter {
    /// Kernels as this caller wants them, in its directory.
    pub(super) fn new(means: Means, caller: &Caller) -> Self {
        let mode = caller.mode.unwrap_or(means.configured.mode);
        Self::with(Arc::new(means), caller, &caller.cwd, mode)
    }

    /// Kernels of the same session as another caller wants them, in this place.
    pub(super) fn for_caller(
        &self,
        caller: &Caller,
        place: &Path,
        mode: Mode,
        configured: &Configured,
    ) -> Self {
        let mut means = Arc::clone(&self.means);
        if means.configured != *configured {
            means = Arc::new(Means {
                configured: configured.clone(),
                ..Means::clone(&means)
            });
        }
        Self::with(means, caller, place, mode)
    }

    fn with(means: Arc<Means>, caller: &Caller, place: &Path, mode: Mode) -> Self {
        let made = environments(
            caller,
            place,
            &means.passed,
            &means.tool_variables,
            &means.sources.folder(),
        );
        let ladder = Ladder::of(caller, means.configured.python.as_deref(), mode).in_place(place);
        Self {
            request: KernelRequest {
                candidates: ladder.candidates(),
                environment: Arc::new(made.kernel),
                own_variables: Arc::new(made.own),
                cwd: place.to_owned(),
                umask: caller.umask,
                limits: caller.limits.clone().or_else(|| means.limits.clone()),
                argv: vec![String::new()],
                foreign: caller.kernel.clone().map(Arc::new),
            },
            commands: Arc::new(made.commands),
            rules: made.rules,
            dropped: Arc::new(made.dropped),
            mode,
            ladder,
            hidden: hidden_text(caller).to_owned(),
            means,
            interpreter: None,
            limits_told: false,
        }
    }

    /// Starts one. What it prints while no cell runs goes to `late`.
    pub(super) async fn start(mut self, late: Arc<dyn LateSink>) -> Result<Kernel, ProvisionError> {
        let mut folder = None;
        if self.mode == Mode::Strict {
            let scratch = Arc::clone(&self.means.scratch);
            let made = in_a_thread(move || scratch.folder()).await??;
            self.stand_in(made.path().to_owned());
            folder = Some(made);
        }
        let mut started = self.means.provisioner.start(&self.request).await?;
        started.scratch = folder;
        Ok(Kernel::new(started, Arc::clone(&self.means.budget), late)?)
    }

    /// Has the Python half be there, if somebody has removed it: kernels import parts of it when they
    /// need them, and so do their children.
    pub(super) async fn stand(&self) {
        let sources = &self.means.sources;
        if sources.are_there() {
            return;
        }
        let sources = Arc::clone(sources);
        // Where it cannot be, a start says so; a kernel that lives may need none of it.
        drop(in_a_thread(move || sources.stand()).await);
    }

    /// What is masked in all that comes of its kernels.
    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// And in what comes of a cell of this caller.
    pub(super) fn rules_for(&self, caller: Option<&Caller>) -> Rules {
        let rules = self.rules.clone();
        match caller {
            Some(caller) if hidden_text(caller) != self.hidden => {
                fingerprints(caller).fold(rules, Rules::and)
            }
            _ => rules,
        }
    }

    /// Why its kernels do not see a variable of their caller's, if that was taken out, and how it can be
    /// let through.
    pub(super) fn why_dropped(&self, name: &str) -> Option<String> {
        let reason = self.dropped.reason(name)?;
        let way = if reason.can_be_named() {
            format!(
                "; `exec --env {name}` or terminal.env_passthrough lets it through, into a new kernel"
            )
        } else {
            String::new()
        };
        Some(format!("{reason}{way}"))
    }

    /// The environment of commands that tools run.
    pub(super) fn commands(&self) -> Variables {
        Arc::clone(&self.commands)
    }

    /// Where the next kernel starts.
    pub(super) fn place(&self) -> &Path {
        &self.request.cwd
    }

    /// In which folder and with which Python kernels run.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// From now on kernels start here; where they started before.
    pub(super) fn start_in(&mut self, place: PathBuf) -> PathBuf {
        if self.interpreter.is_none() {
            self.ladder = self.ladder.clone().in_place(&place);
            self.request.candidates = self.ladder.candidates();
        }
        self.stand_in(place)
    }

    fn stand_in(&mut self, place: PathBuf) -> PathBuf {
        let variables = Arc::make_mut(&mut self.request.environment);
        if let Some((_, value)) = variables.iter_mut().find(|(name, _)| name == "PWD") {
            *value = place.display().to_string();
        }
        std::mem::replace(&mut self.request.cwd, place)
    }

    /// The kernelspec of the kernels, where they are not ours.
    pub(super) fn foreign(&self) -> Option<&str> {
        Some(&self.request.foreign.as_ref()?.name)
    }

    /// The Python of the kernels that were started.
    pub(super) fn interpreter(&self) -> Option<&Interpreter> {
        self.interpreter.as_ref()
    }

    /// Whether kernels have had this Python before, by whatever name.
    ///
    /// Looks at the file system (a few blocking calls).
    pub(super) fn has_interpreter(&self, other: &Interpreter) -> bool {
        let file = |it: &Interpreter| std::fs::canonicalize(&it.executable).ok();
        self.interpreter.as_ref().is_some_and(|own| {
            own.executable == other.executable
                || (own.prefix == other.prefix
                    && file(own).is_some_and(|it| Some(it) == file(other)))
        })
    }

    /// What of the limits that were asked for a kernel does not have, in a sentence; once.
    pub(super) fn limits_not_given(&mut self, had: &[Had]) -> Option<String> {
        if self.limits_told {
            return None;
        }
        let sentence = self.request.limits.as_ref()?.not_given(had)?;
        self.limits_told = true;
        Some(sentence)
    }

    /// From now on only the interpreter of this kernel is used: a session never changes it silently. A
    /// sentence, if it has become another one.
    pub(super) fn keep_interpreter(&mut self, kernel: &Kernel) -> Option<String> {
        let interpreter = kernel.interpreter();
        self.request.candidates = vec![Candidate {
            path: interpreter.executable.clone(),
            source: Source::Session,
        }];
        let before = self.interpreter.replace(interpreter.clone())?;
        if before == *interpreter {
            return None;
        }
        let said = |it: &Interpreter| format!("{} ({})", it.version, it.executable.display());
        Some(format!(
            "the Python of this session is another one now: {}; it was {}",
            said(interpreter),
            said(&before)
        ))
    }

    /// The next kernel has the Python that the caller's circumstances say by now.
    pub(super) fn look_anew(&mut self) {
        self.request.candidates = self.ladder.candidates();
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
            limits: None,
            python: None,
            kernel: None,
            mode: None,
            named: Vec::new(),
        };
        let tools = vec![("HERMES_RPC_SOCKET".to_owned(), "/s".to_owned())];
        let made = environments(&caller, Path::new("/place"), &[], &tools, Path::new("/src"));
        assert_eq!(made.dropped.secrets(), 1);
        assert!(made.own.is_empty());
        let kernel = |name: &str| {
            let all: Vec<_> = made.kernel.iter().filter(|(n, _)| n == name).collect();
            assert!(all.len() < 2, "{name} stands twice");
            all.first().map(|(_, value)| value.as_str())
        };
        assert_eq!(kernel("PATH"), Some("/bin"));
        assert_eq!(kernel("PWD"), Some("/place"));
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
