use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn caller(cwd: &Path, variables: &[(&str, &Path)]) -> Caller {
    Caller {
        environment: variables
            .iter()
            .map(|(name, value)| ((*name).into(), value.display().to_string()))
            .collect(),
        cwd: cwd.to_owned(),
        umask: 0o022,
        limits: None,
        python: None,
        kernel: None,
        mode: None,
        named: Vec::new(),
    }
}

fn program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn found(ladder: &Ladder) -> Vec<(Source, PathBuf)> {
    let pair = |it: Candidate| (it.source, it.path);
    ladder.candidates().into_iter().map(pair).collect()
}

#[test]
fn the_ladder_is_name_settings_environments_folder_path() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    for name in [
        "venv/bin/python3",
        "conda/bin/python",
        "work/.venv/bin/python",
        "bin/python3",
    ] {
        program(&at(name));
    }
    let (venv, conda, bin) = (at("venv"), at("conda"), at("bin"));
    let all = [
        ("VIRTUAL_ENV", venv.as_path()),
        ("CONDA_PREFIX", conda.as_path()),
        ("PATH", bin.as_path()),
    ];
    let work = at("work");
    let asks = caller(&work, &all);
    let rungs = [
        (Source::VirtualEnv, at("venv/bin/python3")),
        (Source::CondaPrefix, at("conda/bin/python")),
        (Source::DotVenv, at("work/.venv/bin/python")),
        (Source::Path, at("bin/python3")),
    ];
    let ladder = Ladder::of(&asks, None, Mode::Project);
    assert_eq!(found(&ladder), rungs);
    // The folder is looked for where the kernel runs.
    let elsewhere = ladder.in_place(temp.path());
    assert_eq!(found(&elsewhere), [&rungs[..2], &rungs[3..]].concat());
    // Strict: no active environment has a say.
    let strict = Ladder::of(&asks, None, Mode::Strict);
    assert_eq!(found(&strict), rungs[3..]);
    // By name there is no other, in either mode; the caller's counts before the settings'.
    let settings = Path::new("/opt/python");
    for mode in [Mode::Project, Mode::Strict] {
        let ladder = Ladder::of(&asks, Some(settings), mode);
        assert_eq!(found(&ladder), [(Source::Settings, settings.to_owned())]);
        let named = Caller {
            python: Some("python3".into()),
            ..asks.clone()
        };
        let ladder = Ladder::of(&named, Some(settings), mode);
        assert_eq!(found(&ladder), [(Source::Named, at("bin/python3"))]);
        assert!(found(&ladder)[0].0.is_explicit());
    }
    // Nothing says which.
    let nobody = caller(temp.path(), &[("PATH", Path::new("/nonexistent"))]);
    let ladder = Ladder::of(&nobody, None, Mode::Project);
    assert!(ladder.candidates().is_empty());
    assert_eq!(ladder.rungs().len(), 4);
}

#[test]
fn what_is_set_and_not_there_is_a_rung_and_what_is_not_set_is_none() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    fs::create_dir_all(at(".venv")).unwrap();
    let gone = at("gone");
    let asks = caller(temp.path(), &[("CONDA_PREFIX", gone.as_path())]);
    let ladder = Ladder::of(&asks, None, Mode::Project);
    let candidates = [
        (Source::CondaPrefix, at("gone/bin/python")),
        (Source::DotVenv, at(".venv/bin/python")),
    ];
    assert_eq!(found(&ladder), candidates);
    // A file of that name is no environment.
    fs::remove_dir(at(".venv")).unwrap();
    fs::write(at(".venv"), "/elsewhere").unwrap();
    assert_eq!(found(&ladder), candidates[..1]);
    // The same folder by two names is tried once.
    fs::remove_file(at(".venv")).unwrap();
    program(&at(".venv/bin/python"));
    for name in [".venv", ".venv/", "./.venv"] {
        let asks = caller(temp.path(), &[("VIRTUAL_ENV", Path::new(name))]);
        let ladder = Ladder::of(&asks, None, Mode::Project);
        let once = [(Source::VirtualEnv, at(".venv/bin/python"))];
        assert_eq!(found(&ladder), once, "{name}");
    }
}

/// An activated environment stands first on the PATH: if it is broken, its Python is no way out.
#[test]
fn python_on_the_path_is_one_outside_of_active_environments() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    for name in ["venv/bin", "conda/bin", "bin"] {
        program(&at(name).join("python3"));
    }
    symlink(at("venv/bin"), at("shortcut")).unwrap();
    let search = ["venv/bin", "shortcut", "conda/bin", "bin"].map(&at);
    let search = std::env::join_paths(search).unwrap();
    let (venv, conda) = (at("venv"), at("conda"));
    let both = [
        ("PATH", Path::new(&search)),
        ("VIRTUAL_ENV", venv.as_path()),
        ("CONDA_PREFIX", conda.as_path()),
    ];
    let last = |variables: &[(&str, &Path)], mode| {
        let ladder = Ladder::of(&caller(Path::new("/"), variables), None, mode);
        found(&ladder).pop().unwrap()
    };
    for mode in [Mode::Project, Mode::Strict] {
        assert_eq!(last(&both, mode), (Source::Path, at("bin/python3")));
        let conda_is_not_active = last(&both[..2], mode);
        assert_eq!(conda_is_not_active.1, at("conda/bin/python3"));
        assert_eq!(last(&both[..1], mode).1, at("venv/bin/python3"));
    }
}

/// Two environments of one Python are two, whatever they are called.
#[test]
fn environments_are_told_apart_by_their_folders() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    program(&at("base"));
    let python = |name: &str| {
        let root = at(name);
        fs::create_dir_all(root.join("bin")).unwrap();
        symlink(at("base"), root.join("bin/python")).unwrap();
        let asks = caller(Path::new("/"), &[("VIRTUAL_ENV", root.as_path())]);
        found(&Ladder::of(&asks, None, Mode::Project)).remove(0).1
    };
    assert_eq!(python("env-py311"), at("env-py311/bin/python"));
    assert_eq!(python("other env"), at("other env/bin/python"));
}
