//! Which Python: the ladder of candidates for one caller.

use std::fmt;
use std::path::{Path, PathBuf};

use super::interpreter::{programs, python_in};
use crate::config::{Caller, Mode};

/// A rung of the ladder: what names a Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// It was asked for by name ([`Caller::python`]).
    Named,
    /// The settings name it ([`Settings::python`](crate::config::Settings::python)).
    Settings,
    /// The variable `VIRTUAL_ENV`.
    VirtualEnv,
    /// The variable `CONDA_PREFIX`.
    CondaPrefix,
    /// A folder `.venv` in the working directory.
    DotVenv,
    /// `python3` on the PATH, outside the environments that the variables name.
    Path,
    /// The session's kernels have had it before.
    Session,
}

impl Source {
    /// Whether it was asked for by name: then no other is tried.
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Named | Self::Settings | Self::Session)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Named => "`caller.python`",
            Self::Settings => "code_execution.python",
            Self::VirtualEnv => "VIRTUAL_ENV",
            Self::CondaPrefix => "CONDA_PREFIX",
            Self::DotVenv => ".venv",
            Self::Path => "PATH",
            Self::Session => "this session",
        })
    }
}

/// A Python that may do, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The program.
    pub path: PathBuf,
    /// What named it.
    pub source: Source,
}

/// A rung, and what is on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rung {
    /// Which.
    pub source: Source,
    /// The program; `None` if nothing names one: the variable is not set, the folder is not there, or
    /// an earlier rung names the same.
    pub path: Option<PathBuf>,
}

/// What of a caller says which Python, and so which candidates there are at any time.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// With what names it.
    named: Option<(PathBuf, Source)>,
    virtual_env: Option<String>,
    conda_prefix: Option<String>,
    search: Option<String>,
    cwd: PathBuf,
    /// The working directory of the kernel.
    place: PathBuf,
    mode: Mode,
}

impl Ladder {
    /// That of a caller, whose kernel is to run in its directory; with the Python of the settings, if
    /// they name one.
    pub fn of(caller: &Caller, configured: Option<&Path>, mode: Mode) -> Self {
        let named = caller.python.clone().map(|it| (it, Source::Named));
        let configured = configured.map(|it| (it.to_owned(), Source::Settings));
        let set = |name: &str| {
            let value = caller.variable(name).filter(|value| !value.is_empty());
            value.map(str::to_owned)
        };
        Self {
            named: named.or(configured),
            virtual_env: set("VIRTUAL_ENV"),
            conda_prefix: set("CONDA_PREFIX"),
            search: set("PATH"),
            cwd: caller.cwd.clone(),
            place: caller.cwd.clone(),
            mode,
        }
    }

    /// The same for a kernel that runs somewhere else.
    #[must_use]
    pub fn in_place(mut self, place: &Path) -> Self {
        place.clone_into(&mut self.place);
        self
    }

    /// The candidates in the order in which they are tried.
    ///
    /// Looks at the file system (a few blocking calls), runs nothing.
    pub fn candidates(&self) -> Vec<Candidate> {
        let on_it = |Rung { source, path }: Rung| path.map(|path| Candidate { path, source });
        self.rungs().into_iter().filter_map(on_it).collect()
    }

    /// Every rung, in order. A Python that was asked for by name is the only one.
    ///
    /// Looks at the file system (a few blocking calls), runs nothing.
    pub fn rungs(&self) -> Vec<Rung> {
        if let Some((python, source)) = &self.named {
            let path = if python.components().count() == 1 {
                let mut found = self.on_path(python);
                found.next().unwrap_or_else(|| python.clone())
            } else {
                self.cwd.join(python)
            };
            return vec![Rung {
                source: *source,
                path: Some(path),
            }];
        }
        let search = Rung {
            source: Source::Path,
            path: self.python_outside(),
        };
        match self.mode {
            Mode::Strict => vec![search],
            Mode::Project => self.of_project(search),
        }
    }

    fn of_project(&self, search: Rung) -> Vec<Rung> {
        let virtual_env = self.root(self.virtual_env.as_deref());
        let conda = self.root(self.conda_prefix.as_deref());
        // Whatever it holds: one that has no Python is passed over with that reason.
        let beside = Some(self.place.join(".venv")).filter(|it| it.is_dir());
        let mut tried: Vec<PathBuf> = Vec::new();
        let mut rungs = Vec::new();
        for (source, root) in [
            (Source::VirtualEnv, virtual_env),
            (Source::CondaPrefix, conda),
            (Source::DotVenv, beside),
        ] {
            let root = root.filter(|root| !tried.contains(root));
            let python =
                |root: &PathBuf| python_in(root).unwrap_or_else(|| root.join("bin/python"));
            let path = root.as_ref().map(python);
            tried.extend(root);
            rungs.push(Rung { source, path });
        }
        rungs.push(search);
        rungs
    }

    fn root(&self, value: Option<&str>) -> Option<PathBuf> {
        // Without what a separator at its end would make of it.
        value.map(|root| self.cwd.join(root).components().collect())
    }

    /// The first `python3` on the PATH that belongs to no active environment: that one has a rung of
    /// its own, and an activated one that is broken stands first on the PATH too.
    fn python_outside(&self) -> Option<PathBuf> {
        let roots: Vec<PathBuf> = [&self.virtual_env, &self.conda_prefix]
            .into_iter()
            .filter_map(|value| self.root(value.as_deref()))
            .flat_map(|root| [std::fs::canonicalize(&root).ok(), Some(root)])
            .flatten()
            .collect();
        let is_outside = |path: &PathBuf| {
            let folder = path.parent().unwrap_or(path);
            let real = std::fs::canonicalize(folder).ok();
            let real = real.as_deref().unwrap_or(folder);
            let within = |root: &PathBuf| folder.starts_with(root) || real.starts_with(root);
            !roots.iter().any(within)
        };
        self.on_path(Path::new("python3")).find(is_outside)
    }

    fn on_path(&self, name: &Path) -> impl Iterator<Item = PathBuf> {
        programs(self.search.as_deref(), &self.cwd, name)
    }
}

/// The candidates for a caller, as far as it says itself which Python.
///
/// Looks at the file system (a few blocking calls), runs nothing.
pub fn candidates(caller: &Caller) -> Vec<Candidate> {
    Ladder::of(caller, None, caller.mode.unwrap_or_default()).candidates()
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
