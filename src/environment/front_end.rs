//! The Python in which a front end of Jupyter runs: where nothing else says which, its kernels have
//! that one, as ipykernel's have.

use std::fs;
use std::path::{Path, PathBuf};

use super::interpreter::on_path;
use super::kernelspec_paths::in_environment;
use crate::config::Caller;
use crate::process::RunningProgram;

/// The Python that this program is, named as it was called: by that a virtual environment is known,
/// whose Python is a link. `None` if the program is no Python, if that cannot be told, or if an
/// environment is active, which says itself which Python.
///
/// Looks at the file system (a few blocking calls), runs nothing.
pub fn front_end_python(program: &RunningProgram, caller: &Caller) -> Option<PathBuf> {
    if in_environment(caller) {
        return None;
    }
    let called = Path::new(&program.called);
    let name = called.file_name()?.to_str()?;
    if !name.starts_with("python") {
        return None;
    }
    let python = if called.components().count() == 1 {
        on_path(caller, called)?
    } else {
        program.directory.join(called)
    };
    // A program can say of itself what it likes.
    let file = fs::canonicalize(&python).ok()?;
    (file == program.file).then_some(python)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn caller(variables: &[(&str, &str)]) -> Caller {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Caller {
            environment: variables.iter().map(owned).collect(),
            cwd: "/".into(),
            umask: 0o022,
            limits: None,
            python: None,
            kernel: None,
            mode: None,
            named: Vec::new(),
        }
    }

    #[test]
    fn it_is_the_one_that_runs_by_the_name_by_which_it_was_called() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let [real, venv] = ["usr/bin", "venv/bin"].map(|it| base.join(it));
        for folder in [&real, &venv] {
            fs::create_dir_all(folder).unwrap();
        }
        let file = real.join("python3.11");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(real.join("node"), "").unwrap();
        let linked = venv.join("python");
        symlink(&file, &linked).unwrap();
        let found = |called: &str, variables: &[(&str, &str)]| {
            let program = RunningProgram {
                called: called.into(),
                file: file.clone(),
                directory: base.clone(),
            };
            front_end_python(&program, &caller(variables))
        };
        let path = venv.to_str().unwrap();
        let active = ("VIRTUAL_ENV", "/v");
        let conda = ("CONDA_PREFIX", "/c");
        let is_base = ("CONDA_DEFAULT_ENV", "base");
        assert_eq!(found(linked.to_str().unwrap(), &[]), Some(linked.clone()));
        assert_eq!(found("venv/bin/python", &[]), Some(linked.clone()));
        assert_eq!(found("python", &[("PATH", path)]), Some(linked.clone()));
        assert_eq!(
            found(linked.to_str().unwrap(), &[conda, is_base]),
            Some(linked.clone())
        );
        // An environment that is active, another program, one that says what is not so.
        for variables in [&[active][..], &[conda]] {
            assert_eq!(found(linked.to_str().unwrap(), variables), None);
        }
        for called in [
            "python",
            "",
            "/",
            "/nowhere/python",
            "usr/bin/node",
            "jupyter-lab",
        ] {
            assert_eq!(found(called, &[("PATH", "/nowhere")]), None, "{called}");
        }
    }
}
