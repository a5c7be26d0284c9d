use std::fs::FileTimes;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn name(name: &str) -> SessionName {
    SessionName::parse(name).unwrap()
}

fn entry(session: &str, generation: u64) -> Entry {
    Entry {
        generation,
        lost: Lost {
            cells: 3,
            names: vec![LostName {
                name: "x".to_owned(),
                kind: "list".to_owned(),
            }],
            names_total: 1,
            at_least: false,
            unreceived: Vec::new(),
        },
        ..Entry::new(&name(session))
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn sessions(ledger: &Ledger) -> Vec<String> {
    let left = ledger.left.lock().unwrap();
    let mut names: Vec<String> = left.keys().map(ToString::to_string).collect();
    names.sort();
    names
}

fn aged(path: &Path, age: Duration) {
    let then = SystemTime::now() - age;
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(then)).unwrap();
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let place = folder();
    let path = place.path().join("new/sessions");
    let ledger = Ledger::open(path.clone());
    assert_eq!(ledger.fault(), None);
    for session in ["a", "lead/worker-3", "A.b_c"] {
        put(&ledger.path(&name(session)), &entry(session, 7)).unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("lead+worker-3.json")), 0o600);
    let next = Ledger::open(path.clone());
    assert_eq!(sessions(&next), ["A.b_c", "a", "lead/worker-3"]);
    let session = name("lead/worker-3");
    assert_eq!(next.take(&session), Some(entry("lead/worker-3", 7)));
    assert_eq!(next.take(&session), None, "once");
    remove(&next.path(&session)).unwrap();
    remove(&next.path(&session)).unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
}

#[test]
fn what_is_no_record_is_ignored_and_stays() {
    let place = folder();
    let base = place.path();
    put(&base.join("good.json"), &entry("good", 1)).unwrap();
    put(&base.join("other.json"), &entry("good", 1)).unwrap();
    put(&base.join("far.json"), &entry("far", u64::MAX)).unwrap();
    let huge = " ".repeat(100_000) + &serde_json::to_string(&entry("huge", 1)).unwrap();
    let newer = serde_json::to_string(&entry("newer", 1)).unwrap();
    let newer = newer.replace("\"version\":1", "\"version\":2");
    for (file, text) in [
        ("empty.json", ""),
        ("cut.json", "{\"version\":1,\"session\":\"cut\""),
        ("deep.json", &"[".repeat(60_000)),
        ("binary.json", "\0\u{1}\u{2}"),
        ("huge.json", &huge),
        ("newer.json", &newer),
        (".hidden.json", "{}"),
        ("no record", "{}"),
        ("a+b+c.json", "{}"),
    ] {
        fs::write(base.join(file), text).unwrap();
    }
    fs::create_dir(base.join("folder.json")).unwrap();
    symlink(base.join("good.json"), base.join("link.json")).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, base.join("pipe.json"), kind, mode, 0).unwrap();
    let before = fs::read_dir(base).unwrap().count();
    let ledger = Ledger::open(base.to_owned());
    assert_eq!(sessions(&ledger), ["good"]);
    assert_eq!(fs::read_dir(base).unwrap().count(), before);
    assert!(!read(&base.join("link.json")).unwrap_err().is_empty());
    assert_eq!(read(&base.join("pipe.json")).unwrap_err(), "it is no file");
}

/// As a disk leaves it that takes nothing more.
#[test]
fn a_record_that_is_out_of_date_is_marked_without_writing() {
    let place = folder();
    let base = place.path();
    put(&base.join("a.json"), &entry("a", 1)).unwrap();
    for session in ["a", "new", "gone"] {
        mark(&base.join(format!("{session}.json"))).unwrap();
    }
    remove(&base.join("gone.json")).unwrap();
    mark(&base.join("nowhere/a.json")).unwrap_err();
    symlink(base.join("new.json"), base.join("link.json")).unwrap();
    mark(&base.join("link.json")).unwrap_err();
    let ledger = Ledger::open(base.to_owned());
    let stale = Entry {
        is_stale: true,
        ..entry("a", 1)
    };
    assert_eq!(ledger.take(&name("a")), Some(stale));
    let unknown = ledger.take(&name("new")).unwrap();
    assert!(unknown.is_loss() && unknown.is_stale && unknown.lost.cells == 0);
    assert_eq!(ledger.take(&name("gone")), None);
    // The next one that can be written is whole.
    put(&base.join("a.json"), &entry("a", 2)).unwrap();
    let ledger = Ledger::open(base.to_owned());
    assert_eq!(ledger.take(&name("a")), Some(entry("a", 2)));
}

#[test]
fn hostile_names_are_cut_and_cleaned() {
    let many: Vec<LostName> = (0..300)
        .map(|n| LostName {
            name: format!("\u{1b}[2J{n}{}", "x".repeat(50)),
            kind: "\n".repeat(120),
        })
        .collect();
    let mut hostile = entry("a", 1);
    hostile.lost.names = many;
    let bytes = serde_json::to_vec(&hostile).unwrap();
    let read = Entry::parse(&bytes, &name("a")).unwrap();
    assert_eq!(read.lost.names.len(), Lost::NAMES);
    assert!(read.lost.names[19].name.contains("299"), "the latest");
    for LostName { name, kind } in &read.lost.names {
        assert!(!format!("{name}{kind}").chars().any(char::is_control));
        assert!(kind.chars().count() <= 100);
    }
}

#[test]
fn what_is_old_goes_and_what_was_not_finished() {
    let place = folder();
    let base = place.path();
    for session in ["old", "young", "future"] {
        put(&base.join(format!("{session}.json")), &entry(session, 1)).unwrap();
    }
    let day = Duration::from_secs(86_400);
    aged(&base.join("old.json"), 7 * day + Duration::from_secs(60));
    aged(&base.join("young.json"), 6 * day);
    let future = File::options()
        .write(true)
        .open(base.join("future.json"))
        .unwrap();
    future
        .set_times(FileTimes::new().set_modified(SystemTime::now() + day))
        .unwrap();
    fs::write(base.join(".unfinished-abc"), "{").unwrap();
    fs::write(base.join("theirs"), "").unwrap();
    aged(&base.join("theirs"), 100 * day);
    let ledger = Ledger::open(base.to_owned());
    assert_eq!(sessions(&ledger), ["future", "young"]);
    let mut left: Vec<_> = fs::read_dir(base)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["future.json", "theirs", "young.json"]);
}

#[test]
fn of_too_many_the_youngest_are_taken() {
    let place = folder();
    let base = place.path();
    let bytes = |session: &str| serde_json::to_vec(&entry(session, 1)).unwrap();
    for n in 0..MOST_TAKEN + 5 {
        let session = format!("s{n}");
        let path = base.join(format!("{session}.json"));
        fs::write(&path, bytes(&session)).unwrap();
        if n < 5 {
            aged(&path, Duration::from_secs(3_600));
        }
    }
    let ledger = Ledger::open(base.to_owned());
    assert_eq!(sessions(&ledger).len(), MOST_TAKEN);
    assert_eq!(ledger.take(&name("s4")), None);
    assert!(ledger.take(&name("s5")).is_some());
}

#[test]
fn a_folder_that_is_not_private_is_not_used() {
    let place = folder();
    let open = place.path().join("open");
    put(&open.join("a.json"), &entry("a", 1)).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(place.path(), place.path().join("link")).unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    for (folder, why) in [
        ("open", "open to other users"),
        ("link", "a link or a file"),
        ("file", "a link or a file"),
        ("file/below", "Not a directory"),
    ] {
        let ledger = Ledger::open(place.path().join(folder));
        assert!(
            ledger.fault().unwrap().contains(why),
            "{:?}",
            ledger.fault()
        );
        assert!(sessions(&ledger).is_empty());
    }
}
