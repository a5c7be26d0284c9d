//! A kernel that is asked for by the name of its kernelspec: ours, or another.

use std::path::PathBuf;

use super::kernelspec_install::PYTHON_OPTION;
use super::kernelspecs::{InstalledKernelspec, UnknownKernel, foreign_kernel, kernelspecs};
use super::ladder::candidates;
use crate::config::{Caller, ForeignKernel};
use crate::jupyter::{kernelspec_name, substitute};

/// What a kernelspec's name means.
#[derive(Debug, Clone, PartialEq)]
pub enum NamedKernel {
    /// One of ours.
    Ours {
        /// The Python that the kernelspec names, if it names one.
        python: Option<PathBuf>,
        /// The variables that it sets, with `${NAME}` in their values.
        env: Vec<(String, String)>,
    },
    /// One that is not ours.
    Foreign(ForeignKernel),
}

/// The kernel that a caller means by this name.
///
/// Reads files (blocking).
///
/// # Errors
///
/// If there is no such kernelspec, or it cannot be used.
pub fn named_kernel(name: &str, caller: &Caller) -> Result<NamedKernel, UnknownKernel> {
    if let Ok(wanted) = kernelspec_name(name)
        && let Some(found) = kernelspecs(caller).found.remove(&wanted)
        && found.is_ours()
    {
        return Ok(NamedKernel::Ours {
            python: found.own_python(),
            env: found.spec.env.into_iter().collect(),
        });
    }
    foreign_kernel(name, caller).map(NamedKernel::Foreign)
}

impl NamedKernel {
    /// The caller, as one who asks for this kernel. One of ours is asked for by its Python, so that it
    /// takes the place of one that is not.
    ///
    /// Looks at the file system (a few blocking calls).
    #[must_use]
    pub fn asked_for_by(self, mut caller: Caller) -> Caller {
        match self {
            Self::Foreign(kernel) => caller.kernel = Some(kernel),
            Self::Ours { python, env } => {
                for (name, template) in env {
                    let known = |asked: &str| caller.variable(asked);
                    let Some(value) = substitute(&template, known) else {
                        continue;
                    };
                    caller.environment.retain(|(known, _)| *known != name);
                    caller.environment.push((name, value));
                }
                let first = || Some(candidates(&caller).into_iter().next()?.path);
                caller.python = python.or_else(first);
            }
        }
        caller
    }
}

impl InstalledKernelspec {
    /// The Python of its kernels, if they are ours and it names one.
    pub fn own_python(&self) -> Option<PathBuf> {
        let words = self.spec.argv.iter().filter(|_| self.is_ours());
        let mut after = words.skip_while(|word| *word != PYTHON_OPTION);
        after.nth(1).map(PathBuf::from)
    }
}
