//! What became of each rung of the ladder: for `doctor`, logs and errors.

use std::path::PathBuf;

use super::interpreter::Interpreter;
use super::ladder::Source;
use super::unusable::Unusable;

/// A rung of the ladder that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedRung {
    /// Which.
    pub source: Source,
    /// The program; `None` if nothing names one.
    pub path: Option<PathBuf>,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a rung.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Nothing names a Python there: the variable is not set, the folder is not there, an earlier rung
    /// names the same.
    Empty,
    /// It runs, and is new enough.
    Usable(Interpreter),
    /// It will not do.
    Unusable(Unusable),
}

/// The rung whose Python kernels have: the first that is usable.
pub fn taken(rungs: &[TriedRung]) -> Option<(&TriedRung, &Interpreter)> {
    rungs.iter().find_map(|rung| match &rung.verdict {
        Verdict::Usable(interpreter) => Some((rung, interpreter)),
        Verdict::Empty | Verdict::Unusable(_) => None,
    })
}
