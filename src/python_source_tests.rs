use super::*;

#[test]
fn is_unpacked_once_and_mended_when_it_was_changed() {
    let temp = tempfile::tempdir().unwrap();
    let bases = [temp.path().join("cache")];
    let first = stage(&bases, "tools").unwrap();
    let file = first.folder.join("_warmcell/kernel.py");
    assert!(fs::read_to_string(&file).unwrap().contains("class Kernel:"));
    assert_eq!(
        fs::read_to_string(first.folder.join("tools/hermes_tools.py")).unwrap(),
        "tools"
    );
    fs::write(&file, "changed").unwrap();
    let second = stage(&bases, "tools").unwrap();
    assert_eq!(first, second);
    assert!(fs::read_to_string(&file).unwrap().contains("class Kernel:"));
    let other = stage(&bases, "other tools").unwrap();
    assert_ne!(first.folder, other.folder);
}

#[test]
fn what_is_removed_is_made_again_where_it_was_or_where_it_can_be() {
    let temp = tempfile::tempdir().unwrap();
    let bases = vec![temp.path().join("cache"), temp.path().join("other")];
    let sources = Sources::unpack(bases.clone(), "tools").unwrap();
    let folder = sources.folder();
    assert!(folder.starts_with(&bases[0]) && sources.are_there());
    assert_eq!(sources.stand().unwrap(), folder);
    fs::remove_dir_all(&bases[0]).unwrap();
    assert!(!sources.are_there());
    assert_eq!(sources.stand().unwrap(), folder);
    assert!(sources.are_there());
    let elsewhere = temp.path().join("elsewhere");
    private_folder(&elsewhere).unwrap();
    fs::remove_dir_all(&bases[0]).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &bases[0]).unwrap();
    let second = sources.stand().unwrap();
    assert!(second.starts_with(&bases[1]));
    assert_eq!(sources.folder(), second);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    fs::remove_dir_all(&bases[1]).unwrap();
    fs::write(&bases[1], "").unwrap();
    let error = sources.stand().unwrap_err().to_string();
    assert!(error.contains("a link or a file"), "{error}");
}

#[test]
fn what_an_unpacking_that_was_killed_has_left_is_removed() {
    let temp = tempfile::tempdir().unwrap();
    let bases = [temp.path().join("cache"), temp.path().join("other")];
    let parts = |base: &Path, name: &str| {
        private_folder(base).unwrap();
        let folder = base.join(name);
        private_folder(&folder.join("_warmcell")).unwrap();
        fs::write(folder.join("_warmcell/__init__.py"), "").unwrap();
        folder
    };
    let gone = [
        parts(&bases[0], ".new-0123456789ab"),
        parts(&bases[0], ".old-0123456789ab"),
        parts(&bases[1], ".new-0123456789ab"),
    ];
    let kept = [
        parts(&bases[0], ".new-notes"),
        parts(&bases[0], ".new-0123456789AB"),
        parts(&bases[0], "0123456789abcdef"),
    ];
    let name = || bases[0].join(random_name(NEW));
    let (held, _claim) = Claim::make(name).unwrap();
    let staged = stage(&bases, "tools").unwrap();
    assert!(staged.folder.starts_with(&bases[0]));
    for folder in &gone {
        assert!(!folder.exists(), "{}", folder.display());
    }
    for folder in kept.iter().chain([&held]) {
        assert!(folder.exists(), "{}", folder.display());
    }
}

#[test]
fn parallel_unpackings_leave_one_and_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    let bases = [temp.path().join("cache")];
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| stage(&bases, "tools").unwrap());
        }
    });
    stage(&bases, "tools").unwrap();
    assert_eq!(fs::read_dir(&bases[0]).unwrap().count(), 1);
}

#[test]
fn a_base_that_cannot_be_written_is_passed_over_with_its_reason() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    let good = temp.path().join("good");
    let staged = stage(&[file.join("cache"), good.clone()], "tools").unwrap();
    assert!(staged.folder.starts_with(&good));
    assert_eq!(staged.passed_over.len(), 1);
    let error = stage(&[file.join("cache")], "tools").unwrap_err();
    assert!(
        error.to_string().contains("set HERMES_HOME or TMPDIR"),
        "{error}"
    );
}

#[test]
fn every_python_file_is_embedded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut there: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            Path::new(name).extension().is_some_and(|it| it == "py")
                && name != "hermes_tools.py"
                && name != "foreign.py"
        })
        .collect();
    there.sort();
    let embedded: Vec<&str> = PACKAGE.iter().map(|(name, _)| *name).collect();
    assert_eq!(there, embedded);
}
