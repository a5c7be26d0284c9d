//! Whom a session follows: its cells come from many callers, and its kernel lives on between them.
//!
//! A kernel goes to the directory in which its latest caller is. It keeps the environment and the
//! interpreter with which it was started: what another caller has in their place is told, once. Only
//! an interpreter or a mode that is asked for, and a reset, take over from a later caller.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Cell;
use crate::config::{Caller, Mode, Settings};
use crate::environment::{Interpreter, candidates};
use crate::execution::{How, LossReason};
use crate::words::agreeing;

/// Variables whose difference changes what a cell finds.
const TOLD: [&str; 3] = ["VIRTUAL_ENV", "CONDA_PREFIX", "PATH"];
/// Characters of a value in a sentence.
const VALUE_CHARS: usize = 200;
/// Entries of a PATH that a sentence names; the rest is counted.
const MOST_ENTRIES: usize = 3;
/// Variables that a sentence names.
const MOST_NAMED: usize = 10;
/// Values that are remembered as told; beyond that the oldest is forgotten, and told again.
const MOST_TOLD: usize = 64;
/// Ways to name one interpreter that are remembered.
const MOST_KNOWN: usize = 16;

/// What a manager's configuration says of the kernels of callers who say nothing of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Configured {
    pub(super) mode: Mode,
    pub(super) python: Option<PathBuf>,
}

impl Configured {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            mode: settings.mode,
            python: settings.python.clone(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Following {
    /// The caller whose environment, mask, limits and interpreter the session's kernels have.
    origin: Arc<Caller>,
    /// The caller of the latest cell that ran.
    latest: Arc<Caller>,
    /// The mode of the session's kernels.
    mode: Mode,
    /// What was configured when they were started.
    configured: Configured,
    /// Other names of the interpreter in force.
    known: Vec<PathBuf>,
    /// What was told of other callers' variables.
    told: Vec<(&'static str, Option<String>)>,
}

/// What a cell's caller wants of the kernel before the cell runs. Nothing, if it is the same caller
/// in the same place.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// A caller that is not the latest in every respect.
    caller: Option<Arc<Caller>>,
    /// The kernel is to change to this directory.
    pub(super) directory: Option<PathBuf>,
    /// It is to be a new kernel, with what this caller has.
    pub(super) anew: Option<Anew>,
}

/// A new kernel that a caller wants.
#[derive(Debug)]
pub(super) struct Anew {
    /// `reset`, or `replaced` if it is another interpreter.
    pub(super) reason: LossReason,
    /// What it takes over from: environment, mask, limits, interpreter.
    pub(super) caller: Arc<Caller>,
    /// Where it starts.
    pub(super) place: PathBuf,
    /// The interpreter that was asked for.
    python: Option<PathBuf>,
    /// The kernel that is not ours and was asked for.
    pub(super) kernel: Option<String>,
    /// Its mode.
    pub(super) mode: Mode,
    /// Whether another mode than before was asked for.
    pub(super) other_mode: bool,
    /// What is configured now.
    pub(super) configured: Configured,
    /// Whether nobody has asked, and only the configuration is another one.
    pub(super) by_configuration: bool,
}

impl Step {
    /// Why the kernel has not run the cell, if it could not go where it was to.
    pub(super) fn refusal(&self, how: &How) -> Option<String> {
        let directory = self.directory.as_ref()?;
        let How::Replied(reply) = how else {
            return None;
        };
        let error = reply.warmcell.as_ref()?.error.as_ref()?;
        (error.class == "usage").then(|| {
            format!(
                "the kernel cannot change to the directory {}: {}; the cell did not run and state is \
                 kept; give a directory that exists (`caller.cwd` or `caller.directory`)",
                directory.display(),
                shown(Some(&error.line))
            )
        })
    }
}

impl Following {
    /// Follows the first caller; its kernels have this mode.
    pub(super) fn new(first: &Caller, mode: Mode, configured: Configured) -> Self {
        let first = Arc::new(first.clone());
        Self {
            latest: Arc::clone(&first),
            known: named_python(&first).into_iter().collect(),
            origin: first,
            mode,
            configured,
            told: Vec::new(),
        }
    }

    /// What a cell wants of the kernel, whose place and interpreter these are.
    ///
    /// Looks at the file system (a few blocking calls) where another caller names an interpreter.
    pub(super) fn step(
        &self,
        cell: &Cell,
        place: &Path,
        interpreter: Option<&Interpreter>,
        configured: &Configured,
    ) -> Step {
        let caller = cell
            .caller
            .as_ref()
            .filter(|caller| !Arc::ptr_eq(caller, &self.latest) && ***caller != *self.latest);
        let unchanged = *configured == self.configured;
        if caller.is_none() && cell.directory.is_none() && !cell.reset && unchanged {
            return Step::default();
        }
        let here = cell.caller.as_ref().unwrap_or(&self.latest);
        let mode = self.mode_of(cell, configured);
        let other_python = configured.python != self.configured.python
            && self.origin.python.is_none()
            && self.origin.kernel.is_none()
            && here.python.is_none();
        let other_mode = mode != self.mode;
        let named = cell.directory.as_ref().map(|named| here.cwd.join(named));
        let directory = named
            .clone()
            .or_else(|| caller.map(|caller| caller.cwd.clone()))
            .filter(|directory| cell.directory.is_some() || *directory != self.latest.cwd)
            // There it is where it is.
            .filter(|_| mode == Mode::Project);
        let anew = if cell.reset {
            // A new kernel has all from whoever asks for it, also where it starts.
            let owner = self.owner_of_reset(cell.caller.as_ref());
            let wanted = named
                .or_else(|| cell.caller.as_ref().map(|caller| caller.cwd.clone()))
                .unwrap_or_else(|| place.to_owned());
            let same =
                wanted == place && !other_mode && !other_python && is_alike(&owner, &self.origin);
            (!same).then_some(Anew {
                reason: LossReason::Reset,
                caller: owner,
                place: wanted,
                python: None,
                kernel: None,
                mode,
                other_mode,
                configured: configured.clone(),
                by_configuration: false,
            })
        } else if let Some(kernel) = self.other_kernel(caller) {
            Some(Anew {
                reason: LossReason::Replaced,
                caller: Arc::clone(here),
                place: directory.clone().unwrap_or_else(|| place.to_owned()),
                python: None,
                kernel: Some(kernel),
                mode,
                other_mode,
                configured: configured.clone(),
                by_configuration: false,
            })
        } else if other_mode || other_python {
            let owner = self.owner_of_reset(Some(here));
            Some(Anew {
                reason: LossReason::Replaced,
                python: named_python(&owner),
                caller: owner,
                place: named.unwrap_or_else(|| here.cwd.clone()),
                kernel: None,
                mode,
                other_mode,
                configured: configured.clone(),
                by_configuration: here.mode.is_none() || !other_mode,
            })
        } else {
            let python = caller.and_then(|caller| named_python(caller));
            // One that is ours takes the place of one that is not, whatever Python forks the latter.
            let other = python.filter(|path| {
                self.origin.kernel.is_some()
                    || !self.known.contains(path)
                        && interpreter.is_none_or(|interpreter| interpreter.executable != *path)
            });
            other.map(|python| Anew {
                reason: LossReason::Replaced,
                caller: Arc::clone(here),
                place: directory.clone().unwrap_or_else(|| place.to_owned()),
                python: Some(python),
                kernel: None,
                mode,
                other_mode,
                configured: configured.clone(),
                by_configuration: false,
            })
        };
        Step {
            caller: caller.cloned(),
            directory,
            anew,
        }
    }

    /// Why a cell cannot run where it is to: in strict mode a kernel has a place of its own.
    pub(super) fn misplaced(&self, cell: &Cell, configured: &Configured) -> Option<String> {
        let directory = cell.directory.as_ref()?;
        (self.mode_of(cell, configured) == Mode::Strict).then(|| {
            format!(
                "in strict mode a kernel has an empty folder of its own, and cannot be sent to {} \
                 (`caller.directory`); leave that out, or ask for mode project (`caller.mode`)",
                directory.display()
            )
        })
    }

    /// The mode of the kernel that a cell is to have.
    fn mode_of(&self, cell: &Cell, configured: &Configured) -> Mode {
        let wanted = cell.caller.as_ref().and_then(|caller| caller.mode);
        // Another configuration counts for kernels that have their mode of it.
        let of_it = self.origin.mode.is_none() && configured.mode != self.configured.mode;
        wanted.unwrap_or(if of_it { configured.mode } else { self.mode })
    }

    /// Where the caller of a cell is.
    pub(super) fn place_of(&self, cell: &Cell) -> PathBuf {
        let caller = cell.caller.as_ref().unwrap_or(&self.latest);
        caller.cwd.clone()
    }

    /// A kernel that is not ours, if this caller asks for another than there is.
    fn other_kernel(&self, caller: Option<&Arc<Caller>>) -> Option<String> {
        let wanted = caller?.kernel.as_ref()?;
        (self.origin.kernel.as_ref() != Some(wanted)).then(|| wanted.name.clone())
    }

    /// Whose kernel it is after a reset. It stays of the kind that it is, unless another is named.
    fn owner_of_reset(&self, caller: Option<&Arc<Caller>>) -> Arc<Caller> {
        let owner = caller.unwrap_or(&self.origin);
        if owner.kernel.is_some() || owner.python.is_some() || self.origin.kernel.is_none() {
            return Arc::clone(owner);
        }
        Arc::new(Caller {
            kernel: self.origin.kernel.clone(),
            ..Caller::clone(owner)
        })
    }

    /// What was named turned out to be the interpreter in force.
    pub(super) fn is_the_same(&mut self, anew: Anew) {
        self.configured = anew.configured;
        self.known.truncate(MOST_KNOWN - 1);
        self.known.extend(anew.python);
    }

    /// The kernel is one of this caller's now.
    pub(super) fn taken_over(&mut self, anew: Anew) {
        self.known = named_python(&anew.caller).into_iter().collect();
        self.told.clear();
        self.mode = anew.mode;
        self.configured = anew.configured;
        self.origin = anew.caller;
    }

    /// The cell has run where its caller wanted it; what of the caller's is not in force, if that
    /// was not told before.
    pub(super) fn followed(&mut self, step: Step) -> Option<String> {
        let caller = step.caller?;
        let mut differences = Vec::new();
        // Who says nothing of an environment has none to compare.
        let told = if caller.environment.is_empty() {
            &[][..]
        } else {
            &TOLD[..]
        };
        for &name in told {
            let [theirs, ours] = [&caller, &self.origin].map(|it| value(it, name));
            let known = |(told, value): &(&str, Option<String>)| {
                *told == name && value.as_deref() == theirs
            };
            if theirs == ours || self.told.iter().any(known) {
                continue;
            }
            differences.push(match (name, ours, theirs) {
                ("PATH", Some(ours), Some(theirs)) => format!("PATH ({})", entries(ours, theirs)),
                _ => format!("{name} is {} (this caller: {})", shown(ours), shown(theirs)),
            });
            if self.told.len() == MOST_TOLD {
                self.told.remove(0);
            }
            self.told.push((name, theirs.map(str::to_owned)));
        }
        differences.extend(self.named_in_vain(&caller));
        self.latest = caller;
        (!differences.is_empty()).then(|| {
            format!(
                "this session keeps the environment with which its kernel was started: {}; a reset \
                 (state is lost) takes the caller's, and another session has its own",
                differences.join(", ")
            )
        })
    }
}

impl Following {
    /// Variables that a caller has named on purpose and that are not in force, by their names alone.
    fn named_in_vain(&self, caller: &Caller) -> Option<String> {
        // As they are in the kernel: the last of a name counts.
        let in_force = |name: &str| {
            let mut named = self.origin.named.iter().rev();
            named
                .find(|(known, _)| known == name)
                .map(|(_, value)| value)
        };
        let mut names: Vec<&str> = caller
            .named
            .iter()
            .filter(|(name, value)| in_force(name) != Some(value))
            .map(|(name, _)| name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(MOST_NAMED);
        names.truncate(MOST_NAMED);
        let mut named: Vec<String> = names.iter().map(|it| shown(Some(it))).collect();
        if more > 0 {
            named.push(format!("{more} more"));
        }
        let count = named.len() as u64;
        let (were, are) = (agreeing(count, "was", "were"), agreeing(count, "is", "are"));
        let list = named.join(", ");
        (!list.is_empty()).then(|| format!("{list} {were} named for it and {are} not passed"))
    }
}

/// Whether new kernels would be alike, apart from the place in which they start.
fn is_alike(one: &Arc<Caller>, other: &Arc<Caller>) -> bool {
    Arc::ptr_eq(one, other)
        || (one.environment == other.environment
            && one.umask == other.umask
            && one.limits == other.limits
            && one.python == other.python
            && one.kernel == other.kernel
            && one.named == other.named)
}

/// The interpreter that a caller asks for by name.
fn named_python(caller: &Caller) -> Option<PathBuf> {
    caller.python.as_ref()?;
    candidates(caller).into_iter().next().map(|it| it.path)
}

fn value<'a>(caller: &'a Caller, name: &str) -> Option<&'a str> {
    caller.variable(name).filter(|value| !value.is_empty())
}

/// In what a caller's PATH differs from that of the session.
fn entries(ours: &str, theirs: &str) -> String {
    let beyond = |one: &str, other: &str| {
        let other: HashSet<&str> = other.split(':').collect();
        let mut seen = HashSet::new();
        let beyond: Vec<&str> = one
            .split(':')
            .filter(|it| !other.contains(it) && seen.insert(*it))
            .collect();
        let more = beyond.len().saturating_sub(MOST_ENTRIES);
        let named = beyond.iter().take(MOST_ENTRIES);
        let mut named: Vec<String> = named.map(|it| shown(Some(it))).collect();
        if more > 0 {
            named.push(format!("{more} more"));
        }
        match named.split_last() {
            None => None,
            Some((only, [])) => Some(only.clone()),
            Some((last, others)) => Some(format!("{} and {last}", others.join(", "))),
        }
    };
    match (beyond(theirs, ours), beyond(ours, theirs)) {
        (None, None) => "this caller has it in another order".to_owned(),
        (Some(also), None) => format!("this caller also has {also}"),
        (None, Some(lacks)) => format!("this caller lacks {lacks}"),
        (Some(also), Some(lacks)) => format!("this caller also has {also}, and lacks {lacks}"),
    }
}

fn shown(value: Option<&str>) -> String {
    let Some(value) = value else {
        return "not set".to_owned();
    };
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = value.chars().take(VALUE_CHARS).map(clean).collect();
    if shown.len() < value.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
#[path = "following_tests.rs"]
mod tests;
