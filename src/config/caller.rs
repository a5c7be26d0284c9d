//! The circumstances of whoever asks for a kernel.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{ForeignKernel, Mode, ProcessLimits};

/// The highest file mode creation mask.
const MAX_UMASK: u32 = 0o777;

/// Who asks for a kernel: what a new kernel takes over from the caller, never from the manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The whole environment; it is scrubbed before a kernel sees it.
    pub environment: Vec<(String, String)>,
    /// The working directory, as an absolute path.
    pub cwd: PathBuf,
    /// The file mode creation mask, 0 to 0o777.
    pub umask: u32,
    /// What the kernel and its commands may take of the system, and how nice they are; `None` for
    /// [`Settings::kernel_limits`](super::Settings::kernel_limits). What the manager cannot give is told in
    /// the first result.
    pub limits: Option<ProcessLimits>,
    /// An interpreter that was asked for by name: no other is tried. An absolute path, or the name of a
    /// program on the PATH of this environment.
    pub python: Option<PathBuf>,
    /// A kernel that is not ours, where one was asked for by name; its command is not empty.
    pub kernel: Option<ForeignKernel>,
    /// In which folder and with which Python its kernels run; `None` for
    /// [`Settings::mode`](super::Settings::mode).
    pub mode: Option<Mode>,
    /// Variables that were named on purpose, with their values: they pass whatever they are called, and
    /// count before those of the environment. The agent's own credentials are refused.
    pub named: Vec<(String, String)>,
}

/// Circumstances in which no kernel can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallerError {
    /// The directory would be another one in each process.
    #[error(
        "the caller's `cwd` must be an absolute path without NUL, got {:.200}",
        format!("{path:?}")
    )]
    Directory {
        /// What was given.
        path: PathBuf,
    },
    /// The mask is none.
    #[error("the caller's `umask` must be an integer from 0 to 511 (0o777), got {umask}")]
    Umask {
        /// What was given.
        umask: u32,
    },
    /// The interpreter would be another one in each directory.
    #[error(
        "the caller's `python` must be an absolute path, or the name of a program on the caller's \
         PATH, got {:.200}",
        format!("{path:?}")
    )]
    Python {
        /// What was given.
        path: PathBuf,
    },
    /// A variable has a name that no process can have in its environment.
    #[error(
        "the caller's `{key}` has a variable {:.200}: a name is not empty and holds neither `=` nor NUL",
        format!("{name:?}")
    )]
    Name {
        /// Where it stands: `environment` or `env`.
        key: &'static str,
        /// Its name.
        name: String,
    },
    /// A variable has a value that no process can have in its environment.
    #[error(
        "the caller's `{key}` gives {name:.200} a value with a NUL character (at byte {at}); leave that \
         variable out, or the character"
    )]
    Value {
        /// Where it stands: `environment` or `env`.
        key: &'static str,
        /// Its name. The value may be a secret, so it is not here.
        name: String,
        /// Where the character stands.
        at: usize,
    },
}

impl Caller {
    /// A variable of the caller's, as one that was named or as its environment has it.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.named
            .iter()
            .chain(&self.environment)
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether a kernel can be had in these circumstances, as far as that can be said without looking at
    /// the file system.
    ///
    /// # Errors
    ///
    /// The first that will not do.
    pub fn check(&self) -> Result<(), CallerError> {
        if !self.cwd.is_absolute() || holds_nul(&self.cwd) {
            let path = self.cwd.clone();
            return Err(CallerError::Directory { path });
        }
        if self.umask > MAX_UMASK {
            return Err(CallerError::Umask { umask: self.umask });
        }
        if let Some(python) = &self.python
            && (holds_nul(python) || !(python.is_absolute() || is_a_name(python)))
        {
            let path = python.clone();
            return Err(CallerError::Python { path });
        }
        let named = self.named.iter().map(|it| ("env", it));
        let all = self.environment.iter().map(|it| ("environment", it));
        for (key, (name, value)) in named.chain(all) {
            if name.is_empty() || name.contains(['=', '\0']) {
                let name = name.clone();
                return Err(CallerError::Name { key, name });
            }
            if let Some(at) = value.find('\0') {
                let name = name.clone();
                return Err(CallerError::Value { key, name, at });
            }
        }
        Ok(())
    }
}

fn holds_nul(path: &Path) -> bool {
    path.as_os_str().as_bytes().contains(&0)
}

/// Whether it is looked up on the PATH, as a shell would.
fn is_a_name(python: &Path) -> bool {
    let name = python.as_os_str().as_bytes();
    !name.is_empty() && !name.contains(&b'/') && python.file_name().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Caller {
        Caller {
            environment: vec![("A".into(), "b=c".into()), ("B".into(), String::new())],
            cwd: "/".into(),
            umask: 0o777,
            limits: None,
            python: Some("python3".into()),
            kernel: None,
            mode: None,
            named: Vec::new(),
        }
    }

    #[test]
    fn a_variable_that_is_named_counts_before_the_environment() {
        let caller = Caller {
            named: vec![("A".into(), "named".into())],
            ..caller()
        };
        assert_eq!(caller.variable("A"), Some("named"));
        assert_eq!(caller.variable("B"), Some(""));
        assert_eq!(caller.variable("C"), None);
    }

    #[test]
    fn a_caller_is_somewhere_and_has_what_a_process_can_have() {
        assert_eq!(caller().check(), Ok(()));
        for cwd in ["", "here", "./here", "/a\0b"] {
            let fault = Caller {
                cwd: cwd.into(),
                ..caller()
            }
            .check()
            .unwrap_err()
            .to_string();
            assert!(fault.ends_with(&format!("got {cwd:?}")), "{fault}");
        }
        for python in ["", "bin/python", "./python", "..", ".", "a\0", "python/"] {
            let python = Some(python.into());
            let fault = Caller { python, ..caller() }.check().unwrap_err();
            assert!(matches!(fault, CallerError::Python { .. }), "{fault}");
        }
        let fault = Caller {
            umask: 0o1000,
            ..caller()
        };
        assert_eq!(
            fault.check().unwrap_err().to_string(),
            "the caller's `umask` must be an integer from 0 to 511 (0o777), got 512"
        );
        let with = |name: &str, value: &str| {
            let environment = vec![(name.to_owned(), value.to_owned())];
            let caller = Caller {
                environment,
                ..caller()
            };
            caller.check().unwrap_err().to_string()
        };
        for name in ["", "=", "A=B", "A\0"] {
            assert!(with(name, "secret").contains(&format!("{name:?}")));
            let caller = Caller {
                named: vec![(name.to_owned(), "secret".to_owned())],
                ..caller()
            };
            let fault = caller.check().unwrap_err().to_string();
            assert!(fault.contains("`env`") && fault.contains(&format!("{name:?}")));
        }
        let fault = with("KEY", "secret\0");
        assert!(fault.contains("gives KEY a value with a NUL character (at byte 6)"));
        assert!(!fault.contains("secret"), "{fault}");
        assert!(with(&"x".repeat(1_000_000), "\0").len() < 400);
    }
}
