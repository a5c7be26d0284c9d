//! What a Python is that runs kernels, and where Pythons are.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::Caller;

/// The oldest Python that runs kernels.
pub const OLDEST: (u32, u32) = (3, 8);

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

/// The Python of an environment, if one is there.
///
/// Looks at the file system (two blocking calls), runs nothing.
pub fn python_in(prefix: &Path) -> Option<PathBuf> {
    let bin = prefix.join("bin");
    let named = ["python", "python3"].map(|name| bin.join(name));
    named.into_iter().find(|path| path.exists())
}

/// The file that makes a folder a virtual environment, if this program is in one: beside the program,
/// or in the folder above, where Python itself looks.
///
/// Looks at the file system (one or two blocking calls).
pub(super) fn environment_file(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    [Some(folder), folder.parent()]
        .into_iter()
        .flatten()
        .map(|folder| folder.join("pyvenv.cfg"))
        .find(|file| file.exists())
}

/// A program on the caller's PATH.
pub(super) fn on_path(caller: &Caller, name: &Path) -> Option<PathBuf> {
    programs(caller.variable("PATH"), &caller.cwd, name).next()
}

/// All programs of that name on a PATH whose relative entries start here, in its order.
pub(super) fn programs(
    search: Option<&str>,
    cwd: &Path,
    name: &Path,
) -> impl Iterator<Item = PathBuf> {
    use std::os::unix::fs::PermissionsExt;

    search
        .into_iter()
        .flat_map(std::env::split_paths)
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(move |folder| cwd.join(folder).join(name))
        .filter(|path| {
            path.metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

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
