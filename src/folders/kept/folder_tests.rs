use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn home() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let home = folder.path().join("home");
    (folder, home)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

fn keep(folder: &Arc<KeptFolder>, text: &str) -> PathBuf {
    let mut file = folder.create(KeptKind::Stdout).unwrap();
    file.append(text.as_bytes()).unwrap();
    file.finish(true).unwrap()
}

fn age(path: &Path, age: Duration) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn folders_and_files_are_ours_alone() {
    let (_folder, home) = home();
    let kept = KeptFolder::open(&home).unwrap();
    let path = keep(&kept, "text");
    for folder in [&home, &home.join("cache"), &home.join("cache/exec")] {
        assert_eq!(mode(folder), 0o700, "{folder:?}");
    }
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(KeptName::parse(name).is_some(), "{name}");
    // One that others may enter is ours all the same, and is closed to them.
    fs::set_permissions(home.join("cache/exec"), fs::Permissions::from_mode(0o777)).unwrap();
    KeptFolder::open(&home).unwrap();
    assert_eq!(mode(&home.join("cache/exec")), 0o700);
}

#[test]
fn equal_texts_share_a_file_and_unfinished_ones_go() {
    let (_folder, home) = home();
    let kept = KeptFolder::open(&home).unwrap();
    let first = keep(&kept, "the same");
    age(&first, DAY);
    assert_eq!(keep(&kept, "the same"), first);
    // It counts as new.
    let age = fs::metadata(&first).unwrap().modified().unwrap().elapsed();
    assert!(age.unwrap() < DAY / 2);
    let other = keep(&kept, "another");
    assert_ne!(first, other);
    let mut told = kept.create(KeptKind::Stdout).unwrap();
    let path = told.path();
    told.append(b"the same").unwrap();
    assert_eq!(told.finish(false).unwrap(), path);
    let unfinished = kept.create(KeptKind::Artifact("png")).unwrap();
    assert_eq!(names(&home.join("cache/exec")).len(), 4);
    drop(unfinished);
    assert_eq!(names(&home.join("cache/exec")).len(), 3);
    // What has another in its place is not there.
    let moved = kept.create(KeptKind::Stdout).unwrap();
    let path = moved.path();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "someone else's").unwrap();
    assert!(moved.finish(false).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "someone else's");
}

#[test]
fn what_is_planted_is_neither_followed_nor_written_to() {
    let (folder, home) = home();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir_all(home.join("cache")).unwrap();
    let place = home.join("cache/exec");
    symlink(&elsewhere, &place).unwrap();
    let refused = KeptFolder::open(&home).unwrap_err().to_string();
    assert_eq!(refused, "exec: it is a link or a file, not a folder");
    fs::remove_file(&place).unwrap();
    fs::write(&place, "").unwrap();
    assert!(KeptFolder::open(&home).is_err());
    fs::remove_file(&place).unwrap();
    if rustix::process::getuid().is_root() {
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::chown(&place, Some(65_534), None).unwrap();
        let refused = KeptFolder::open(&home).unwrap_err().to_string();
        assert_eq!(refused, "exec: it belongs to another user");
        fs::remove_dir(&place).unwrap();
    }
    // In place of the file that the text would have.
    let kept = KeptFolder::open(&home).unwrap();
    let path = keep(&kept, "secret");
    let target = elsewhere.join("target");
    for plant in 0..5 {
        fs::remove_file(&path).unwrap();
        match plant {
            0 => symlink(&target, &path).unwrap(),
            1 => {
                let mode = Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
            }
            2 => fs::write(&path, "secre").unwrap(),
            3 => {
                fs::write(&target, "secret").unwrap();
                fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
                fs::hard_link(&target, &path).unwrap();
            }
            _ => fs::write(&path, "secret").unwrap(),
        }
        let other = keep(&kept, "secret");
        assert_ne!(other, path, "{plant}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "secret");
        assert!(plant > 2 || !target.exists());
    }
    assert!(!fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
    // The user's own link of the cache is followed.
    fs::rename(home.join("cache"), elsewhere.join("cache")).unwrap();
    symlink(elsewhere.join("cache"), home.join("cache")).unwrap();
    keep(&KeptFolder::open(&home).unwrap(), "there");
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::lchown(home.join("cache"), Some(65_534), None).unwrap();
        assert!(KeptFolder::open(&home).is_err());
    }
}

#[test]
fn only_our_own_old_files_are_pruned() {
    let (folder, home) = home();
    let kept = KeptFolder::open(&home).unwrap();
    let place = home.join("cache/exec");
    let old = keep(&kept, "old");
    let fresh = keep(&kept, "fresh");
    let held = kept.create(KeptKind::Stdout).unwrap();
    let held_path = held.path();
    // Another program's, of the same form; one of our names with another's mode; links, a FIFO.
    let foreign = place.join("stdout-0123456789ab.txt");
    fs::write(&foreign, "theirs").unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o600)).unwrap();
    let name =
        |text: &str| place.join(KeptName::of_digest(KeptKind::Stdout, text.as_bytes()).as_str());
    let open = name("open");
    fs::write(&open, "x").unwrap();
    let target = folder.path().join("target");
    fs::write(&target, "target").unwrap();
    symlink(&target, name("link")).unwrap();
    fs::hard_link(&target, name("hard")).unwrap();
    rustix::fs::mknodat(
        CWD,
        name("fifo"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    fs::create_dir(name("folder")).unwrap();
    for path in [&old, &held_path, &foreign, &open, &target] {
        age(path, 8 * DAY);
    }
    let before = names(&place).len();
    assert_eq!(kept.prune().unwrap(), 1);
    assert!(!old.exists() && fresh.exists() && held_path.exists() && foreign.exists());
    assert_eq!(names(&place).len(), before - 1);
    assert_eq!(fs::read_to_string(&target).unwrap(), "target");
    drop(held.finish(false).unwrap());
    age(&held_path, 8 * DAY);
    assert_eq!(kept.prune().unwrap(), 1);
}

#[test]
fn of_more_than_a_gibibyte_the_oldest_go() {
    let (_folder, home) = home();
    let kept = KeptFolder::open(&home).unwrap();
    let big = |text: &str, minutes: u64| {
        let path = keep(&kept, text);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(500 << 20).unwrap();
        age(&path, Duration::from_secs(minutes * 60));
        path
    };
    let [old, older, young] = [big("a", 30), big("b", 60), big("c", 5)];
    assert_eq!(kept.prune().unwrap(), 1);
    assert!(old.exists() && !older.exists() && young.exists());
}

#[test]
fn several_may_prune_a_big_folder_while_others_write() {
    let (_folder, home) = home();
    let kept = KeptFolder::open(&home).unwrap();
    let place = home.join("cache/exec");
    for number in 0..2_000 {
        fs::write(place.join(format!("stdout-{number:012}.txt")), "").unwrap();
    }
    let old: Vec<PathBuf> = (0..200)
        .map(|number| {
            let path = keep(&kept, &format!("{number}"));
            age(&path, 8 * DAY);
            path
        })
        .collect();
    let removed: usize = std::thread::scope(|scope| {
        let pruning: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| kept.prune().unwrap()))
            .collect();
        // What is written again at the same time is there for whoever was told so.
        let again = scope.spawn(|| {
            (0..200)
                .map(|number| keep(&kept, &format!("{number}")))
                .collect()
        });
        let again: Vec<PathBuf> = again.join().unwrap();
        let removed = pruning.into_iter().map(|it| it.join().unwrap()).sum();
        for (number, path) in again.iter().enumerate() {
            assert_eq!(fs::read_to_string(path).unwrap(), format!("{number}"));
        }
        removed
    });
    assert!(removed <= old.len());
    assert_eq!(kept.prune().unwrap(), 0);
    assert!(names(&place).len() >= 2_200);
}
