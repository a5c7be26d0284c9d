//! Which Python: the ladder of candidates, and whether one will do.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::Caller;

/// The oldest Python that runs kernels.
pub const OLDEST: (u32, u32) = (3, 8);

/// A Python that may do, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The program.
    pub path: PathBuf,
    /// What named it, in words for a message: `--python`, `VIRTUAL_ENV`, `PATH`.
    pub source: &'static str,
    /// Whether it was asked for by name: then no other is tried.
    pub explicit: bool,
}

/// A Python that runs, as it described itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Interpreter {
    /// `sys.executable`.
    pub executable: PathBuf,
    /// The version, as in `3.11.7`.
    pub version: String,
    /// `sys.prefix`: which environment it is, whatever file it is linked to.
    pub prefix: PathBuf,
}

impl Interpreter {
    /// Whether the version is new enough.
    pub fn is_new_enough(&self) -> bool {
        let mut numbers = self.version.split('.').map(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().unwrap_or(0)
        });
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
    }
}

/// The candidates in the order in which they are tried: the one asked for by name, else the active
/// virtual environment, else `python3` on the caller's PATH.
///
/// Looks at the file system (a few blocking calls), runs nothing.
pub fn candidates(caller: &Caller) -> Vec<Candidate> {
    if let Some(python) = &caller.python {
        let path = if python.components().count() == 1 {
            on_path(caller, python).unwrap_or_else(|| python.clone())
        } else {
            caller.cwd.join(python)
        };
        return vec![Candidate {
            path,
            source: "`caller.python`",
            explicit: true,
        }];
    }
    let mut found = Vec::new();
    if let Some(root) = caller
        .variable("VIRTUAL_ENV")
        .filter(|root| !root.is_empty())
    {
        let root = caller.cwd.join(root);
        found.push(Candidate {
            path: python_in(&root).unwrap_or_else(|| root.join("bin/python")),
            source: "VIRTUAL_ENV",
            explicit: false,
        });
    }
    if let Some(path) = on_path(caller, Path::new("python3")) {
        found.push(Candidate {
            path,
            source: "PATH",
            explicit: false,
        });
    }
    found
}

/// The Python of an environment, if one is there.
///
/// Looks at the file system (two blocking calls), runs nothing.
pub fn python_in(prefix: &Path) -> Option<PathBuf> {
    let bin = prefix.join("bin");
    let named = ["python", "python3"].map(|name| bin.join(name));
    named.into_iter().find(|path| path.exists())
}

/// A program on the caller's PATH.
pub(super) fn on_path(caller: &Caller, name: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;

    std::env::split_paths(caller.variable("PATH")?)
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| caller.cwd.join(folder).join(name))
        .find(|path| {
            path.metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn caller(variables: &[(&str, &str)]) -> Caller {
        Caller {
            environment: variables
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            cwd: PathBuf::from("/"),
            umask: 0o022,
            limits: None,
            python: None,
            kernel: None,
        }
    }

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_ladder_is_name_then_environment_then_path() {
        let temp = tempfile::tempdir().unwrap();
        let (venv, bin) = (temp.path().join("venv"), temp.path().join("bin"));
        program(&venv.join("bin/python3"));
        program(&bin.join("python3"));
        let path = format!("/nonexistent:{}", bin.display());
        let both = [
            ("VIRTUAL_ENV", venv.to_str().unwrap()),
            ("PATH", path.as_str()),
        ];
        let found = candidates(&caller(&both));
        assert_eq!(
            found,
            [
                Candidate {
                    path: venv.join("bin/python3"),
                    source: "VIRTUAL_ENV",
                    explicit: false
                },
                Candidate {
                    path: bin.join("python3"),
                    source: "PATH",
                    explicit: false
                },
            ]
        );
        let mut named = caller(&both);
        named.python = Some("python3".into());
        let found = candidates(&named);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, bin.join("python3"));
        assert!(found[0].explicit);
        assert!(candidates(&caller(&[("PATH", "/nonexistent")])).is_empty());
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let at = |version: &str| Interpreter {
            executable: "/p".into(),
            version: version.into(),
            prefix: "/".into(),
        };
        assert!(at("3.8.0").is_new_enough());
        assert!(at("3.14.0rc1").is_new_enough());
        assert!(at("4.0").is_new_enough());
        assert!(!at("3.7.16").is_new_enough());
        assert!(!at("2.7.18").is_new_enough());
        assert!(!at("").is_new_enough());
    }
}
