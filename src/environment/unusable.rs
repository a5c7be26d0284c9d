//! Why a Python will not do.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::interpreter::environment_file;

/// The longest `pyvenv.cfg` that is read, in bytes.
const MOST_BYTES: u64 = 64 << 10;

/// Why a Python will not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// Nothing is there.
    #[error("is not there (No such file or directory)")]
    Missing,
    /// It is a link to what is not there.
    #[error("is a link to {}, which is not there", target.display())]
    Dangling {
        /// What it says.
        target: PathBuf,
    },
    /// It is there and may not be run.
    #[error("cannot be run: {why}")]
    NotExecutable {
        /// What is wrong.
        why: String,
    },
    /// Its virtual environment has lost the Python that it was made from.
    #[error(
        "belongs to an environment that has lost its Python: pyvenv.cfg says home = {}, which is not \
         there; make the environment anew",
        home.display()
    )]
    Relocated {
        /// Where that was.
        home: PathBuf,
    },
    /// It is too old.
    #[error("{version} is too old, 3.8 is the oldest that will do")]
    TooOld {
        /// As in `Python 3.7.16`.
        version: String,
    },
    /// It does not start, or is no Python.
    #[error("{how}")]
    Broken {
        /// How it has ended, and the last that it has said.
        how: String,
    },
    /// It does not answer.
    #[error("did not answer within {seconds} s")]
    Hangs {
        /// How long was waited.
        seconds: u64,
    },
}

impl Unusable {
    /// One word for it, as programs have it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Dangling { .. } => "dangling",
            Self::NotExecutable { .. } => "not_executable",
            Self::Relocated { .. } => "relocated",
            Self::TooOld { .. } => "too_old",
            Self::Broken { .. } => "broken",
            Self::Hangs { .. } => "hangs",
        }
    }

    /// What can be seen of a program without running it; `None` if nothing is wrong so far.
    ///
    /// Looks at the file system (two blocking calls).
    pub fn by_sight(program: &Path) -> Option<Self> {
        match fs::metadata(program) {
            Ok(found) if !found.is_file() => Some(Self::NotExecutable {
                why: "it is no file".to_owned(),
            }),
            Ok(found) if found.permissions().mode() & 0o111 == 0 => Some(Self::NotExecutable {
                why: "nobody has the right to execute it".to_owned(),
            }),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Some(match fs::read_link(program) {
                    Ok(target) => Self::Dangling { target },
                    Err(_) => Self::Missing,
                })
            }
            Err(error) => Some(Self::NotExecutable {
                why: error.to_string(),
            }),
        }
    }

    /// Whether the virtual environment that this Python belongs to has lost the one that it was made
    /// from. Such a Python may even run, by chance on another standard library.
    ///
    /// Looks at the file system (a few blocking calls).
    pub fn relocated(program: &Path) -> Option<Self> {
        let file = environment_file(program)?;
        let found = fs::metadata(&file).ok()?;
        if !found.is_file() || found.len() > MOST_BYTES {
            return None;
        }
        let text = fs::read_to_string(&file).ok()?;
        let home = text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim().eq_ignore_ascii_case("home")).then(|| PathBuf::from(value.trim()))
        })?;
        let is_gone = home.is_absolute() && !home.exists();
        is_gone.then_some(Self::Relocated { home })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_wrong_is_seen_without_running_it() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let file = |name: &str, mode: u32| {
            fs::write(at(name), "").unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        file("good", 0o755);
        file("plain", 0o644);
        fs::create_dir(at("folder")).unwrap();
        symlink("good", at("link")).unwrap();
        symlink("/nowhere/python", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let word = |name: &str| Unusable::by_sight(&at(name)).map(|it| it.word());
        assert_eq!(word("good"), None);
        assert_eq!(word("link"), None);
        assert_eq!(word("none"), Some("missing"));
        assert_eq!(word("dangling"), Some("dangling"));
        assert_eq!(word("plain"), Some("not_executable"));
        assert_eq!(word("folder"), Some("not_executable"));
        assert_eq!(word("loop"), Some("not_executable"));
        let told = Unusable::by_sight(&at("dangling")).unwrap().to_string();
        assert!(told.contains("/nowhere/python"), "{told}");
    }

    #[test]
    fn an_environment_that_has_lost_its_python_is_known_by_its_file() {
        let temp = tempfile::tempdir().unwrap();
        let venv = temp.path().join("venv");
        fs::create_dir_all(venv.join("bin")).unwrap();
        let python = venv.join("bin/python");
        let here = temp.path().display().to_string();
        assert_eq!(Unusable::relocated(&python), None);
        for (text, gone) in [
            (format!("home = {here}\nversion = 3.11.7\n"), false),
            ("version=3.11\r\nHOME=/nowhere/bin\r\n".to_owned(), true),
            ("home = \n".to_owned(), false),
            ("home = relative/bin\n".to_owned(), false),
            ("no key\n".to_owned(), false),
        ] {
            fs::write(venv.join("pyvenv.cfg"), &text).unwrap();
            let found = Unusable::relocated(&python);
            assert_eq!(found.is_some(), gone, "{text}");
            if let Some(Unusable::Relocated { home }) = found {
                assert_eq!(home, Path::new("/nowhere/bin"));
            }
        }
    }
}
