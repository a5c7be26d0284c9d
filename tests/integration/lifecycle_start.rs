//! How a kernel starts where that is hard, and what is said where it cannot.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warmcell::execution::Status;
use warmcell::session::{Cell, Registry, Session};
use warmcell::tools::ToolTable;

use crate::lifecycle_support::{json, limited, result};
use crate::support::{Manager, Place, finish, python, run, run_cell, text};

/// A program that stands in for Python.
fn pretend(place: &Place, name: &str, script: &str) -> PathBuf {
    let path = place.work().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn real() -> String {
    python().display().to_string()
}

#[tokio::test]
async fn an_environment_that_is_too_long_for_a_message_arrives_whole() {
    let manager = Manager::start().await;
    let mut caller = manager.place.caller(python());
    for n in 0..20 {
        caller
            .environment
            .push((format!("XDG_TEST_{n}"), "x".repeat(10_000)));
    }
    let session = manager.registry.session("a", &caller).unwrap();
    let code = "import os; sum(len(v) for k, v in os.environ.items() if k.startswith('XDG_TEST_'))";
    assert_eq!(run(&session, code).await.result.as_deref(), Some("200000"));
    let outcome = run_cell(&session, limited("while True: pass", 100)).await;
    assert_eq!(outcome.status, Status::Timeout);
    let code = format!("{code}, len(open('/proc/self/fd/0').read())");
    assert_eq!(
        run(&session, &code).await.result.as_deref(),
        Some("(200000, 0)")
    );
    manager.end().await;
}

#[tokio::test]
async fn a_working_directory_that_vanished_is_told_and_may_come_back() {
    let manager = Manager::start().await;
    let cwd = manager.place.work().join("cwd");
    fs::create_dir(&cwd).unwrap();
    let caller = warmcell::config::Caller {
        cwd: cwd.clone(),
        ..manager.place.caller(python())
    };
    let session = manager.registry.session("a", &caller).unwrap();
    run(&session, "x = 1").await;
    fs::remove_dir(&cwd).unwrap();
    // A living kernel goes on.
    assert_eq!(run(&session, "x").await.result.as_deref(), Some("1"));
    assert_eq!(
        run(&session, "import json; open('f', 'w')").await.status,
        Status::Error
    );
    run_cell(&session, limited("while True: pass", 100)).await;
    for _ in 0..2 {
        let told = json(&run(&session, "1").await);
        assert_eq!(told["error_class"], "unavailable");
        let error = told["error"].as_str().unwrap();
        assert!(
            error.starts_with(&format!(
                "no kernel could be started: cannot start a kernel in {}: No such file",
                cwd.display()
            )),
            "{error}"
        );
    }
    fs::create_dir(&cwd).unwrap();
    let told = json(&run(&session, "1").await);
    assert_eq!(told["kernel"]["generation"], 2, "{told}");
    assert_eq!(told["kernel"]["reason"], "timeout");
    manager.end().await;
}

fn session_on(manager: &Manager, name: &str, program: &Path) -> Session {
    manager.session_on(name, program)
}

#[tokio::test]
async fn a_python_that_prints_at_its_start_is_listened_to_and_ignored() {
    let manager = Manager::start().await;
    let place = &manager.place;
    let few = pretend(
        place,
        "few",
        &format!("echo hello; echo oops >&2; exec {} \"$@\"", real()),
    );
    let many = pretend(
        place,
        "many",
        &format!(
            "head -c 300000 /dev/zero | tr '\\0' x; exec {} \"$@\"",
            real()
        ),
    );
    // One that stays in between, as some wrappers do.
    let between = pretend(place, "between", &format!("{} \"$@\"", real()));
    for program in [few, many, between] {
        let session = session_on(
            &manager,
            program.file_name().unwrap().to_str().unwrap(),
            &program,
        );
        let outcome = run(&session, "print(1)").await;
        assert_eq!(outcome.output, "1\n", "{}", program.display());
    }
    manager.end().await;
}

#[tokio::test]
async fn a_python_that_does_not_start_is_told_with_its_last_words() {
    let manager = Manager::start().await;
    let place = &manager.place;
    let missing = place.work().join("missing");
    let cases = [
        (
            pretend(place, "exits", "echo 'no luck' >&2; exit 7"),
            "did not start: exit status: 7; it said: no luck",
        ),
        (
            pretend(place, "silent", "exit 0"),
            "did not start: exit status: 0",
        ),
        (
            pretend(place, "killed", "kill -9 $$"),
            "did not start: signal: 9 (SIGKILL)",
        ),
        (missing, "No such file or directory"),
    ];
    for (program, words) in cases {
        let session = session_on(&manager, "s", &program);
        let began = Instant::now();
        let told = json(&run(&session, "1").await);
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{}",
            program.display()
        );
        assert_eq!(told["error_class"], "unavailable");
        let error = told["error"].as_str().unwrap();
        assert!(error.contains(words), "{error}");
        assert!(error.contains(&program.display().to_string()), "{error}");
        drop(session.close().await);
    }
    manager.end().await;
}

#[tokio::test]
async fn an_old_python_is_refused_by_its_version() {
    let manager = Manager::start().await;
    let Some(home) = std::env::var_os("HOME") else {
        return;
    };
    let versions = Path::new(&home).join(".pyenv/versions");
    let mut tried = 0;
    for version in ["2.7", "3.6", "3.7"] {
        let found = fs::read_dir(&versions)
            .into_iter()
            .flatten()
            .flatten()
            .find(|entry| {
                entry
                    .file_name()
                    .to_string_lossy()
                    .starts_with(&format!("{version}."))
            });
        let Some(found) = found else {
            eprintln!("NOT TESTED: no Python {version} found");
            continue;
        };
        tried += 1;
        let name = found.file_name().to_string_lossy().into_owned();
        let session = session_on(
            &manager,
            &format!("v{name}"),
            &found.path().join("bin/python"),
        );
        let told = json(&run(&session, "1").await);
        assert_eq!(told["error_class"], "unavailable");
        let error = told["error"].as_str().unwrap();
        let words = format!("Python {name} is too old, 3.8 is the oldest that will do");
        assert!(error.contains(&words), "{error}");
    }
    eprintln!("{tried} old Pythons refused");
    manager.end().await;
}

/// Everyone who waits for one that hangs waits once; an interrupt and a close do not wait.
#[tokio::test]
async fn a_python_that_hangs_is_given_up_and_ended() {
    let manager = Manager::start().await;
    let hangs = pretend(&manager.place, "hangs", "sleep 300");
    let sessions: Vec<Session> = (0..3)
        .map(|n| session_on(&manager, &format!("s{n}"), &hangs))
        .collect();
    let began = Instant::now();
    let mut cells: Vec<_> = sessions
        .iter()
        .map(|session| session.execute(Cell::new("1")))
        .collect();
    let impatient = session_on(&manager, "impatient", &hangs);
    let mut interrupted = impatient.execute(Cell::new("1"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    interrupted.interrupt();
    let outcome = result(&mut interrupted).await;
    assert_eq!(outcome.status, Status::Interrupted);
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    for cell in &mut cells {
        let told = json(&result(cell).await);
        assert_eq!(told["error_class"], "unavailable");
        assert!(
            told["error"]
                .as_str()
                .unwrap()
                .contains("did not answer within 10 s"),
            "{told}"
        );
    }
    assert!(
        began.elapsed() < Duration::from_secs(14),
        "{:?}",
        began.elapsed()
    );
    let mut closed = sessions[0].execute(Cell::new("1"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    drop(sessions[0].close().await);
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert_ne!(result(&mut closed).await.status, Status::Success);
    let began = Instant::now();
    manager.end().await;
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn an_explicit_python_that_fails_is_125_and_no_other_is_tried() {
    let place = Place::new();
    let bad = pretend(&place, "bad", "echo broken >&2; exit 3");
    let output = finish(&mut place.warmcell(&["exec", "--python", bad.to_str().unwrap(), "1"]));
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(text(&output.stdout), "");
    assert!(
        text(&output.stderr).contains("it said: broken"),
        "{}",
        text(&output.stderr)
    );
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_long_home_and_one_that_cannot_be_written_do_not_cost_the_cell() {
    let place = Place::new();
    let long = place.folder.path().join("h".repeat(120));
    fs::create_dir(&long).unwrap();
    fs::set_permissions(&long, fs::Permissions::from_mode(0o700)).unwrap();
    let file = place.folder.path().join("file");
    fs::write(&file, "").unwrap();
    for (home, is_usable) in [
        (long, true),
        (file.join("home"), false),
        (PathBuf::from("/proc/home"), false),
    ] {
        let mut command = place.exec(&["import hermes_tools; print(hermes_tools.read_file('/etc/hostname')['total_lines'] > 0)"]);
        let output = finish(command.env("HERMES_HOME", &home));
        let error = text(&output.stderr);
        assert_eq!(
            text(&output.stdout),
            "True\n",
            "{}: {error}",
            home.display()
        );
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(error.is_empty(), is_usable, "{}: {error}", home.display());
        assert!(error.lines().count() <= 1, "{error}");
        place.assert_no_survivors().await;
    }
    let settings = warmcell::config::Settings {
        home: file.join("home"),
        ..place.settings()
    };
    let registry = Registry::with_tools(settings, ToolTable::standard())
        .await
        .unwrap();
    assert_eq!(registry.passed_over().len(), 1);
    registry.shut_down().await;
}
