//! One session, cells of many callers: where they run, and what a caller changes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use warmcell::config::Caller;
use warmcell::session::{Cell, Session};

use crate::lifecycle_support::{json, limited};
use crate::support::{Manager, on_each_python, python, pythons, run, run_cell};

/// A caller in a directory of its own below the place of the tests, which is made.
fn caller_in(manager: &Manager, python: &Path, name: &str) -> Arc<Caller> {
    let cwd = manager.place.work().join(name);
    fs::create_dir_all(&cwd).unwrap();
    let caller = manager.place.caller(python);
    Arc::new(Caller { cwd, ..caller })
}

fn by(caller: &Arc<Caller>, code: &str) -> Cell {
    Cell::new(code).caller(Arc::clone(caller))
}

async fn shown(session: &Session, cell: Cell) -> String {
    let outcome = run_cell(session, cell).await;
    assert_eq!(outcome.exit_code, 0, "{outcome:?}");
    outcome.output
}

const WHERE: &str =
    "import os; print(os.getcwd(), os.environ['PWD'], os.path.abspath(__import__('sys').path[0]))";

fn thrice(path: &Path) -> String {
    let path = path.display();
    format!("{path} {path} {path}\n")
}

#[tokio::test]
async fn the_kernel_goes_where_its_caller_is() {
    on_each_python(async |session, version| {
        let work = PathBuf::from(
            run(session, "import os; print(os.getcwd(), end='')")
                .await
                .output,
        );
        let python = run(session, "import sys; print(sys.executable, end='')")
            .await
            .output;
        let caller = |name: &str| {
            let cwd = work.join(version).join(name);
            fs::create_dir_all(&cwd).unwrap();
            Arc::new(Caller {
                environment: Vec::new(),
                cwd,
                umask: 0o022,
                limits: None,
                python: Some(python.clone().into()),
                kernel: None,
                mode: None,
                named: Vec::new(),
            })
        };
        let (one, two) = (caller("one"), caller("two"));
        for who in [&one, &two, &two, &one] {
            assert_eq!(shown(session, by(who, WHERE)).await, thrice(&who.cwd));
        }
        // Where a cell has gone it stays, until its caller goes elsewhere.
        shown(session, by(&one, "os.chdir('..')")).await;
        let moved = format!("{}\n", one.cwd.parent().unwrap().display());
        assert_eq!(shown(session, by(&one, "print(os.getcwd())")).await, moved);
        assert_eq!(shown(session, Cell::new("print(os.getcwd())")).await, moved);
        assert_eq!(shown(session, by(&two, WHERE)).await, thrice(&two.cwd));
        // Or is told where.
        let named = by(&two, WHERE).directory("../one");
        let expected = format!("{0}/../one {0}/../one\n", two.cwd.display());
        let there = shown(session, named).await;
        assert_eq!(
            there.split_once(' ').unwrap().0,
            one.cwd.display().to_string()
        );
        assert!(
            expected.starts_with(there.split(' ').nth(1).unwrap()),
            "{there}"
        );
        assert!(
            shown(session, by(&two, "print(os.getcwd())"))
                .await
                .ends_with("/one\n")
        );
        // What has no name in UTF-8 is a directory too.
        let odd = one.cwd.join(OsStr::from_bytes(b"\xff x"));
        fs::create_dir_all(&odd).unwrap();
        let ascii = "print(ascii(os.getcwd()), os.environ['PWD'] == os.getcwd())";
        let there = shown(session, by(&two, ascii).directory(&odd)).await;
        assert!(there.ends_with("/\\udcff x' True\n"), "{there}");
        assert_eq!(
            run(session, "1").await.kernel.generation,
            1,
            "one kernel all the time"
        );
    })
    .await;
}

#[tokio::test]
async fn what_the_new_directory_shadows_is_seen_there() {
    on_each_python(async |session, version| {
        let work = PathBuf::from(
            run(session, "import os; print(os.getcwd(), end='')")
                .await
                .output,
        );
        let there = work.join(format!("there-{version}"));
        fs::create_dir_all(&there).unwrap();
        fs::write(there.join("json.py"), "WHOSE = 'mine'").unwrap();
        fs::write(there.join("only_there.py"), "WHOSE = 'mine'").unwrap();
        run(
            session,
            "def f():\n    import json, only_there\n    return json.WHOSE + only_there.WHOSE",
        )
        .await;
        // In the same moment, and with no word of an import.
        let outcome = run_cell(session, Cell::new("f()").directory(&there)).await;
        assert_eq!(outcome.output, "'minemine'", "{version}");
    })
    .await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_entered_costs_the_cell_and_nothing_else() {
    let manager = Manager::start().await;
    let here = caller_in(&manager, python(), "here");
    let gone = caller_in(&manager, python(), "gone");
    let session = manager.registry.session("a", &here).unwrap();
    run(&session, "import os; x = 1").await;
    fs::remove_dir(&gone.cwd).unwrap();
    for _ in 0..2 {
        let refused = json(&run_cell(&session, by(&gone, "x = 2")).await);
        assert_eq!(refused["error_class"], "usage");
        assert_eq!(refused["status"], "error");
        assert_eq!(refused["exit_code"], -1);
        assert_eq!(refused["kernel"]["state"], "kept");
        let error = refused["error"].as_str().unwrap();
        let directory = gone.cwd.display();
        assert_eq!(
            error,
            format!(
                "the kernel cannot change to the directory {directory}: No such file or directory; \
                 the cell did not run and state is kept; give a directory that exists \
                 (`caller.cwd` or `caller.directory`)"
            )
        );
        assert_eq!(refused["output"], format!("[{error}]"));
    }
    let kept = run_cell(&session, by(&here, "x, os.getcwd().endswith('here'), 1/0")).await;
    assert!(
        kept.error.as_ref().unwrap().contains("<cell 2>, line 1"),
        "{kept:?}"
    );
    let kept = json(&run_cell(&session, by(&here, "x")).await);
    assert_eq!(kept["output"], "1");
    assert_eq!(kept["kernel"]["execution_count"], 3);
    for odd in ["a\0b", "here/file", "../here/x"] {
        fs::write(manager.place.work().join("here/file"), "").unwrap();
        let refused = run_cell(&session, by(&here, "x = 3").directory(odd)).await;
        assert_eq!(json(&refused)["error_class"], "usage", "{refused:?}");
    }
    // A kernel that is lost now starts where the latest cell has run.
    run_cell(&session, limited("while True: pass", 100)).await;
    let next = json(&run_cell(&session, by(&here, "os = __import__('os'); os.getcwd()")).await);
    assert!(next["result"].as_str().unwrap().contains("/here"), "{next}");
    fs::create_dir(&gone.cwd).unwrap();
    assert!(
        shown(&session, by(&gone, "os.getcwd()"))
            .await
            .contains("/gone")
    );
    manager.end().await;
}

#[tokio::test]
async fn a_session_without_a_kernel_starts_one_where_its_caller_is() {
    let manager = Manager::start().await;
    let here = caller_in(&manager, python(), "here");
    let gone = caller_in(&manager, python(), "gone");
    fs::remove_dir(&gone.cwd).unwrap();
    let session = manager.registry.session("a", &here).unwrap();
    let refused = json(&run_cell(&session, by(&gone, "1")).await);
    assert_eq!(refused["error_class"], "usage");
    let error = refused["error"].as_str().unwrap();
    assert!(
        error.starts_with("no kernel could be started: cannot start a kernel in /"),
        "{error}"
    );
    let cell = by(
        &gone,
        "import os; os.getcwd().endswith('here'), os.environ['PWD'] == os.getcwd()",
    );
    let first = json(&run_cell(&session, cell.directory(&here.cwd)).await);
    assert_eq!(first["result"], "(True, True)");
    assert_eq!(first["kernel"]["generation"], 1);
    // The place of the first kernel is gone when it is lost, and the caller is elsewhere.
    let third = caller_in(&manager, python(), "third");
    fs::remove_dir(&here.cwd).unwrap();
    run_cell(&session, limited("while True: pass", 100)).await;
    let next = json(&run_cell(&session, by(&third, "import os; os.getcwd()")).await);
    assert!(
        next["result"].as_str().unwrap().contains("/third"),
        "{next}"
    );
    assert_eq!(next["kernel"]["generation"], 2);
    manager.end().await;
}

#[tokio::test]
async fn a_new_kernel_starts_where_the_latest_caller_is_with_the_first_ones_environment() {
    let manager = Manager::start().await;
    let first = caller_in(&manager, python(), "first");
    let mut second = (*caller_in(&manager, python(), "second")).clone();
    second.umask = 0o077;
    second
        .environment
        .push(("TERM".to_owned(), "theirs".to_owned()));
    let second = Arc::new(second);
    let session = manager.registry.session("a", &first).unwrap();
    run(&session, "1").await;
    run_cell(&session, by(&second, "1")).await;
    run_cell(&session, limited("while True: pass", 100)).await;
    let facts = "import os; m = os.umask(0); os.path.basename(os.getcwd()), \
                 os.path.basename(os.environ['PWD']), m, os.environ.get('TERM')";
    let next = run(&session, facts).await;
    assert_eq!(
        next.result.as_deref(),
        Some("('second', 'second', 18, None)")
    );
    // A reset by the second caller takes all of it over.
    let next = json(&run_cell(&session, by(&second, facts).reset()).await);
    assert_eq!(next["result"], "('second', 'second', 63, 'theirs')");
    assert_eq!(next["kernel"]["reason"], "reset");
    assert_eq!(next["kernel"]["lost"]["names_total"], 2);
    let commands = run(&session, "terminal('echo $TERM')['output']").await;
    assert_eq!(commands.result.as_deref(), Some("'theirs\\n'"));
    // Also where the kernel has run nothing, and so nothing is lost.
    run_cell(&session, limited("while True: pass", 100)).await;
    let next = json(&run_cell(&session, by(&first, facts).reset()).await);
    assert_eq!(next["result"], "('first', 'first', 18, None)");
    assert_eq!(next["kernel"]["reason"], "timeout");
    // A reset that cannot be had costs nothing.
    let mut broken = (*second).clone();
    broken.python = Some("/nonexistent/python".into());
    let refused = json(&run_cell(&session, by(&Arc::new(broken), "1").reset()).await);
    assert_eq!(refused["error_class"], "unavailable");
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .ends_with("kernel is kept, with its state"),
        "{refused}"
    );
    assert_eq!(run(&session, "m").await.result.as_deref(), Some("18"));
    manager.end().await;
}

#[tokio::test]
async fn another_environment_of_a_caller_is_told_once() {
    let manager = Manager::start().await;
    let first = caller_in(&manager, python(), "here");
    let session = manager.registry.session("a", &first).unwrap();
    let with = |name: &str, value: &str| {
        let mut other = (*first).clone();
        other.environment.retain(|(known, _)| known != name);
        other.environment.push((name.to_owned(), value.to_owned()));
        Arc::new(other)
    };
    let code = "import os; os.environ.get('VIRTUAL_ENV')";
    assert_eq!(run_cell(&session, by(&first, code)).await.warning, None);
    let venv = with("VIRTUAL_ENV", "/their/venv");
    let outcome = run_cell(&session, by(&venv, code)).await;
    let warning = outcome.warning.unwrap();
    assert!(
        warning.contains("VIRTUAL_ENV is not set (this caller: /their/venv); a reset"),
        "{warning}"
    );
    assert_eq!(
        outcome.output, "[completed without output]",
        "it is not in force"
    );
    for who in [&first, &venv, &with("TERM", "x"), &venv] {
        assert_eq!(run_cell(&session, by(who, code)).await.warning, None);
    }
    let path = with("PATH", &format!("/their/bin:{}", manager.place.mark));
    let warning = run_cell(&session, by(&path, "1")).await.warning.unwrap();
    assert!(
        warning.contains("PATH (this caller also has /their/bin, and lacks "),
        "{warning}"
    );
    let reset = run_cell(&session, by(&venv, code).reset()).await;
    assert_eq!(reset.warning, None);
    assert_eq!(reset.result.as_deref(), Some("'/their/venv'"));
    manager.end().await;
}

#[tokio::test]
async fn another_interpreter_by_name_replaces_the_kernel() {
    let [(_, old), .., (newest, new)] = pythons() else {
        eprintln!("NOT TESTED: there is only one Python");
        return;
    };
    let manager = Manager::start().await;
    let one = caller_in(&manager, old, "one");
    let two = caller_in(&manager, new, "two");
    let session = manager.registry.session("a", &one).unwrap();
    let left = manager.place.work().join("left");
    let code =
        format!("import atexit; atexit.register(lambda: open({left:?}, 'w').close()); x = 1");
    run_cell(&session, by(&one, &code)).await;
    // The same one by another name replaces nothing, the second time without a look.
    let link = manager.place.work().join("python");
    std::os::unix::fs::symlink(old, &link).unwrap();
    let mut linked = (*one).clone();
    linked.python = Some(link);
    let linked = Arc::new(linked);
    for who in [&linked, &one, &linked] {
        assert_eq!(shown(&session, by(who, "x")).await, "1");
    }
    let version =
        "import sys, os; '.'.join(map(str, sys.version_info[:2])), os.path.basename(os.getcwd())";
    let replaced = run_cell(&session, by(&two, version)).await;
    let told: Value = json(&replaced);
    assert_eq!(
        replaced.result.as_deref(),
        Some(&*format!("('{newest}', 'two')"))
    );
    let line = replaced.output.lines().next().unwrap();
    assert!(
        line.starts_with("[new kernel: the previous one was lost (replaced: Python 3.")
            && line.ends_with(&format!(
                "was asked for, {}); gone: x and atexit]",
                new.display()
            )),
        "{line}"
    );
    assert_eq!(told["kernel"]["reason"], "replaced");
    assert_eq!(told["kernel"]["state"], "fresh");
    assert_eq!(told["kernel"]["generation"], 2);
    assert_eq!(told["kernel"]["lost"]["names_total"], 2);
    assert_eq!(told["kernel"]["lost"]["cells"], 4);
    assert!(left.exists(), "the old one ended in good order");
    let kept = json(&run_cell(&session, by(&two, "1")).await);
    assert_eq!(kept["kernel"]["state"], "kept");
    assert_eq!(kept["kernel"].get("reason"), None);
    // A caller that names none takes what is there; one that cannot be had costs nothing.
    let mut any = (*two).clone();
    any.python = None;
    let kept = run_cell(&session, by(&Arc::new(any.clone()), "sys.version_info[:2]")).await;
    assert_eq!(kept.kernel.generation, 2);
    any.python = Some("/nonexistent/python".into());
    let refused = json(&run_cell(&session, by(&Arc::new(any), "1")).await);
    assert_eq!(refused["error_class"], "unavailable");
    assert_eq!(refused["kernel"]["state"], "kept");
    assert_eq!(shown(&session, Cell::new("sys.version_info[0]")).await, "3");
    // After a loss it is still the one that was asked for.
    run_cell(&session, limited("while True: pass", 100)).await;
    let next = run_cell(&session, by(&two, version)).await;
    assert_eq!(
        next.result.as_deref(),
        Some(&*format!("('{newest}', 'two')"))
    );
    manager.end().await;
}
