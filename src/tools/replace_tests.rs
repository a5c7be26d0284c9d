use std::fs;
use std::io::Write;

use tokio_util::sync::CancellationToken;

use super::{NewFolders, Trouble, check, holds, overwrite, put, replace};

#[test]
fn a_failed_renaming_leaves_no_temporary_file() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("in the way");
    fs::create_dir(&target).unwrap();
    let outcome = put(&target, None, b"x", &CancellationToken::new());
    assert!(matches!(outcome, Err(Trouble::Io(_))), "{outcome:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_stop_in_place_leaves_the_old_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("f");
    fs::write(&target, "the old text").unwrap();
    let old = fs::metadata(&target).unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    for new in ["new", "a new text that is longer than the old"] {
        let outcome = overwrite(&target, &old, new.as_bytes(), &stop);
        assert!(matches!(outcome, Err(Trouble::Stopped)), "{outcome:?}");
        assert_eq!(fs::read(&target).unwrap(), b"the old text");
    }
}

#[test]
fn another_writer_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("f");
    let stop = CancellationToken::new();
    let written = replace(&target, None, b"ours", &stop).unwrap();
    check(&target, &written, b"ours").unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(&target)
        .unwrap()
        .write_all(b"!")
        .unwrap();
    assert!(matches!(
        check(&target, &written, b"ours"),
        Err(Trouble::Differs)
    ));
    fs::remove_file(&target).unwrap();
    fs::write(&target, "ours").unwrap();
    assert!(matches!(
        check(&target, &written, b"ours"),
        Err(Trouble::Differs)
    ));
}

#[test]
fn bytes_are_compared_to_the_last() {
    let mut file = tempfile::tempfile().unwrap();
    let bytes = vec![7_u8; 200_000];
    file.write_all(&bytes).unwrap();
    assert!(holds(&mut file, &bytes).unwrap());
    assert!(!holds(&mut file, &bytes[1..]).unwrap());
    assert!(!holds(&mut file, &[bytes.as_slice(), &[7]].concat()).unwrap());
    let mut other = bytes.clone();
    other[199_999] = 8;
    assert!(!holds(&mut file, &other).unwrap());
}

#[test]
fn new_folders_go_unless_they_are_kept_or_used() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b/c");
    drop(NewFolders::make(&deep).unwrap());
    assert!(!folder.path().join("a").exists());
    let folders = NewFolders::make(&deep).unwrap();
    fs::write(folder.path().join("a/used"), "").unwrap();
    drop(folders);
    assert!(folder.path().join("a/used").exists() && !folder.path().join("a/b").exists());
    assert!(NewFolders::make(&deep).unwrap().keep());
    assert!(!NewFolders::make(&deep).unwrap().keep());
}
