//! Whether a Python at a path is the one that was there before.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::interpreter::environment_file;

/// What the system says of a Python's file, and of that of its virtual environment: another one at
/// the same path, or an environment that was deleted and made anew, differs in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    program: Option<Stamp>,
    environment: Option<Stamp>,
}

/// Device, file, length, and when content and file were last changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp([i128; 5]);

impl Identity {
    /// That of the Python that is there now.
    ///
    /// Looks at the file system (two or three blocking calls).
    pub fn of(program: &Path) -> Self {
        let environment = environment_file(program);
        Self {
            program: stamp(program),
            environment: environment.as_deref().and_then(stamp),
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Some(Stamp([
        found.dev().into(),
        found.ino().into(),
        found.size().into(),
        time(found.mtime(), found.mtime_nsec()),
        time(found.ctime(), found.ctime_nsec()),
    ]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_environment_that_is_made_anew_is_another_one() {
        let temp = tempfile::tempdir().unwrap();
        for name in ["one", "other"] {
            fs::write(temp.path().join(name), "").unwrap();
        }
        let venv = temp.path().join("venv");
        let python = venv.join("bin/python");
        let make = |base: &str| {
            fs::create_dir_all(venv.join("bin")).unwrap();
            symlink(temp.path().join(base), &python).unwrap();
            fs::write(venv.join("pyvenv.cfg"), "home = /\n").unwrap();
            Identity::of(&python)
        };
        let first = make("one");
        assert_eq!(Identity::of(&python), first);
        fs::remove_dir_all(&venv).unwrap();
        let gone = Identity::of(&python);
        assert_eq!(gone, Identity::default());
        // From the same base: only its own file says so.
        let second = make("one");
        assert_ne!(second, first);
        // Another Python behind the same link.
        fs::remove_file(&python).unwrap();
        symlink(temp.path().join("other"), &python).unwrap();
        let third = Identity::of(&python);
        assert_ne!(third, second);
        assert_eq!(third.environment, second.environment);
    }
}
