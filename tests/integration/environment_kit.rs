//! What the tests of environments share: virtual environments, good and broken, and callers in them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warmcell::config::Caller;

use crate::support::{Place, python, pythons};

/// A package that only the environments of these tests have.
pub const PACKAGE: &str = "only_in_this_environment";

/// Two Pythons of different versions, the oldest and the newest; said loudly if there are none.
pub fn two_pythons() -> Option<[&'static (String, PathBuf); 2]> {
    let all = pythons();
    if all.len() < 2 {
        eprintln!("NOT TESTED: there are no two Pythons of different versions");
        return None;
    }
    Some([all.first()?, all.last()?])
}

/// A virtual environment as `python -m venv` makes it, with a package in it that says its name; its
/// Python.
pub fn venv(root: &Path, (version, python): &(String, PathBuf), name: &str) -> PathBuf {
    let base = fs::canonicalize(python).unwrap();
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    symlink(&base, bin.join("python")).unwrap();
    symlink("python", bin.join("python3")).unwrap();
    let home = base.parent().unwrap().display();
    fs::write(root.join("pyvenv.cfg"), format!("home = {home}\n")).unwrap();
    let packages = root.join(format!("lib/python{version}/site-packages"));
    fs::create_dir_all(&packages).unwrap();
    let text = format!("NAME = {name:?}\n");
    fs::write(packages.join(format!("{PACKAGE}.py")), text).unwrap();
    bin.join("python")
}

/// A program in the place of a Python.
pub fn program(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A caller who names no Python, in this directory, with the newest on its PATH and these variables.
pub fn caller(place: &Place, cwd: &Path, variables: &[(&str, &Path)]) -> Arc<Caller> {
    fs::create_dir_all(cwd).unwrap();
    let mut environment = place.environment();
    let path = environment.get_mut("PATH").unwrap();
    *path = format!("{}:{path}", python().parent().unwrap().display());
    for (name, value) in variables {
        environment.insert((*name).to_owned(), value.display().to_string());
    }
    Arc::new(Caller {
        environment: environment.into_iter().collect(),
        cwd: cwd.to_owned(),
        python: None,
        ..place.caller(python())
    })
}

/// A Python 3 that is too old; said loudly if there is none.
pub fn too_old() -> Option<PathBuf> {
    let home = std::env::var_os("HOME")?;
    let versions = fs::read_dir(Path::new(&home).join(".pyenv/versions"));
    let found = versions.into_iter().flatten().flatten().find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        ["3.6.", "3.7."].iter().any(|it| name.starts_with(it))
    });
    if found.is_none() {
        eprintln!("NOT TESTED: no Python 3.6 or 3.7 found");
    }
    found.map(|entry| entry.path().join("bin/python"))
}
