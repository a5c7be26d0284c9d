//! A kernel whose place is gone, and restarts that do not work.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use warmcell::config::Caller;
use warmcell::session::Cell;

use crate::lifecycle_support::{json, limited};
use crate::support::{Manager, Signal, python, run, run_cell};

fn caller_in(manager: &Manager, name: &str) -> Arc<Caller> {
    let cwd = manager.place.work().join(name);
    fs::create_dir_all(&cwd).unwrap();
    let caller = manager.place.caller(python());
    Arc::new(Caller { cwd, ..caller })
}

fn by(caller: &Arc<Caller>, code: &str) -> Cell {
    Cell::new(code).caller(Arc::clone(caller))
}

fn says(warning: Option<&str>, gone: &Path, taken: &Path) {
    let warning = warning.unwrap_or_default();
    let expected = format!(
        "the directory of the session's kernel is not there any more ({}: No such file or \
         directory (os error 2)): its new kernel was started in the caller's, {}",
        gone.display(),
        taken.display()
    );
    assert!(warning.contains(&expected), "{warning}");
}

#[tokio::test]
async fn a_kernel_starts_where_its_caller_is_if_its_own_place_is_gone() {
    let manager = Manager::start().await;
    let here = caller_in(&manager, "here");
    let there = manager.place.work().join("there");
    let session = manager.registry.session("a", &here).unwrap();
    let code = "import os; os.path.basename(os.getcwd()), os.environ['PWD'] == os.getcwd()";
    for (round, lost_by) in ["timeout", "reset", "death"].into_iter().enumerate() {
        fs::create_dir(&there).unwrap();
        let first = run_cell(&session, by(&here, code).directory(&there)).await;
        assert_eq!(first.result.as_deref(), Some("('there', True)"));
        fs::remove_dir(&there).unwrap();
        match lost_by {
            "timeout" => {
                let mut cell = limited("while True: pass", 100);
                cell.caller = Some(Arc::clone(&here));
                run_cell(&session, cell).await;
            }
            "reset" => drop(session.reset().await),
            _ => drop(run_cell(&session, by(&here, "os._exit(3)")).await),
        }
        let next = run_cell(&session, by(&here, code)).await;
        assert_eq!(next.result.as_deref(), Some("('here', True)"), "{next:?}");
        says(next.warning.as_deref(), &there, &here.cwd);
        assert_eq!(next.kernel.generation, round as u64 + 2);
        assert_eq!(json(&next)["kernel"]["state"], "fresh");
        let after = run_cell(&session, by(&here, "1")).await;
        assert_eq!(after.warning, None, "told once");
    }
    manager.end().await;
}

/// What is said of a restart is what was seen of it.
#[tokio::test]
async fn a_restart_that_did_not_work_is_not_told_as_done() {
    let manager = Manager::start().await;
    let gone = caller_in(&manager, "gone");
    let session = manager.registry.session("a", &gone).unwrap();
    let leave = "import os, time; os.rmdir(os.getcwd())";
    for (end, loss) in [
        ("while True: pass", "timed out after 0.3 s"),
        ("os._exit(3)", "the kernel exited with code 3"),
    ] {
        fs::create_dir_all(&gone.cwd).unwrap();
        run(&session, "1").await;
        let lost = run_cell(&session, limited(&format!("{leave}\n{end}"), 300)).await;
        assert!(lost.output.contains(loss), "{}", lost.output);
        assert!(!lost.output.contains("restarted"), "{}", lost.output);
        assert!(!lost.output.contains("was started"), "{}", lost.output);
        let next = run(&session, "1").await;
        let error = next.error.clone().unwrap_or_default();
        assert!(
            error.starts_with("no kernel could be started: "),
            "{next:?}"
        );
        assert_eq!(
            json(&next)["kernel"],
            json!({
                "execution_count": 0, "generation": lost.kernel.generation, "reused": false,
                "state": "fresh"
            })
        );
    }
    fs::create_dir_all(&gone.cwd).unwrap();
    // It did not come at once, and the cell that it comes for says so.
    let next = run(&session, "1").await;
    assert_eq!(next.output.lines().last(), Some("1"), "{next:?}");
    manager.end().await;
}

/// Traces 4 and 6, where the next kernel is seen in time; a busy machine may need several tries.
#[tokio::test]
async fn a_restart_that_was_seen_is_told_as_done() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for (code, seen, unseen) in [
        (
            "while True: pass",
            "[timed out after 0.1 s; the kernel was killed and restarted; nothing but this cell is lost]",
            "[timed out after 0.1 s; the kernel was killed; a fresh one is being started; nothing but \
             this cell is lost]",
        ),
        (
            "import os; os._exit(3)",
            "[the kernel exited with code 3 while running the cell; a fresh one was started; nothing \
             but this cell is lost]",
            "[the kernel exited with code 3 while running the cell; a fresh one is being started; \
             nothing but this cell is lost]",
        ),
    ] {
        let mut tries = 0;
        loop {
            let lost = run_cell(&session, limited(code, 100)).await;
            let told = lost.output.lines().next().unwrap_or_default();
            let told = if told.starts_with("[new kernel") {
                lost.output.lines().nth(1).unwrap_or_default()
            } else {
                told
            };
            if told == seen {
                break;
            }
            assert_eq!(told, unseen);
            tries += 1;
            assert!(tries < 100, "none was seen");
        }
    }
    manager.end().await;
}

/// A start that failed and works when the next cell comes is told by that.
#[tokio::test]
async fn a_kernel_that_came_late_is_told() {
    let manager = Manager::start().await;
    let gone = caller_in(&manager, "gone");
    let session = manager.registry.session("a", &gone).unwrap();
    let mut events = session.events();
    run_cell(
        &session,
        limited("import os; os.rmdir(os.getcwd())\nwhile True: pass", 300),
    )
    .await;
    loop {
        let event = serde_json::to_value(events.next().await.unwrap()).unwrap();
        if event["kind"] == "kernel_state" && event["from"] == "restarting" {
            assert_eq!(event["to"], "dead", "{event}");
            break;
        }
    }
    fs::create_dir(&gone.cwd).unwrap();
    let next = run(&session, "1").await;
    let warning = next.warning.unwrap_or_default();
    assert!(
        warning.starts_with(
            "the session's kernel could not be restarted at once (cannot start a kernel in "
        ),
        "{warning}"
    );
    assert!(
        warning.ends_with("; it was started for this cell"),
        "{warning}"
    );
    assert_eq!(run(&session, "1").await.warning, None, "told once");
    manager.end().await;
}

/// `kernel` of a cell that did not run is that of the session as it is.
#[tokio::test]
async fn a_cell_that_did_not_run_says_what_is_there() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let none = json!({"execution_count": 0, "generation": 0, "reused": false, "state": "fresh"});
    assert_eq!(json(&run(&session, " ").await)["kernel"], none);
    run(&session, "x = 1").await;
    let kept = json!({"execution_count": 0, "generation": 1, "reused": true, "state": "kept"});
    assert_eq!(json(&run(&session, " ").await)["kernel"], kept);
    run_cell(&session, limited("while True: pass", 100)).await;
    let fresh = json!({"execution_count": 0, "generation": 2, "reused": false, "state": "fresh"});
    assert_eq!(json(&run(&session, " ").await)["kernel"], fresh);
    // No Python.
    let other = manager.session_on("b", Path::new("/bin/false"));
    let refused = json(&run(&other, "1").await);
    assert_eq!(refused["error_class"], "unavailable");
    assert_eq!(refused["kernel"], none);
    // One that waits when its session is closed has lost the kernel; one that is withdrawn has not.
    run(&session, "1").await;
    let gate = Signal::new(&manager, "gate");
    let mut running = session.execute(Cell::new("open('gate').read(); x = 1"));
    let mut withdrawn = session.execute(Cell::new("1"));
    let mut waiting = session.execute(Cell::new("1"));
    crate::lifecycle_support::until("the cell", || session.is_busy()).await;
    withdrawn.interrupt();
    let withdrawn = json(&withdrawn.outcome().await);
    assert_eq!(withdrawn["kernel"]["state"], "kept");
    assert_eq!(
        withdrawn["error"],
        "interrupted while it waited; it did not run and state is kept"
    );
    drop(gate);
    session.close().await;
    running.outcome().await;
    let closed = json!({
        "execution_count": 0, "generation": 2, "reused": true, "state": "lost",
        "reason": "session_closed"
    });
    assert_eq!(json(&waiting.outcome().await)["kernel"], closed);
    assert_eq!(json(&run(&session, "1").await)["kernel"], closed);
    manager.end().await;
}

/// One that waits for the first kernel has no state to keep.
#[tokio::test]
async fn a_first_cell_that_is_withdrawn_keeps_nothing() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let mut first = session.execute(Cell::new("1"));
    first.interrupt();
    let told = json(&first.outcome().await);
    assert_eq!(told["status"], "interrupted");
    if told["kernel"]["execution_count"] == 0 {
        assert!(!told["error"].as_str().unwrap().contains("kept"), "{told}");
        assert_eq!(told["kernel"]["state"], "fresh", "{told}");
    }
    manager.end().await;
}

/// Where the kernel is, not where its session was opened.
#[tokio::test]
async fn a_status_shows_the_directory_of_the_kernel() {
    let manager = Manager::start().await;
    let here = caller_in(&manager, "here");
    let session = manager.registry.session("a", &here).unwrap();
    assert_eq!(session.status().cwd, here.cwd, "where it will start");
    run(&session, "import os; os.mkdir('below'); os.chdir('below')").await;
    assert_eq!(session.status().cwd, here.cwd.join("below"));
    let other = caller_in(&manager, "other");
    run_cell(&session, by(&other, "1")).await;
    assert_eq!(session.status().cwd, other.cwd);
    session.close().await;
    assert_eq!(session.status().cwd, other.cwd);
    manager.end().await;
}

/// Which results have told a loss is known; those that have not been received say nothing of it that
/// is not true of their own kernel.
#[tokio::test]
async fn a_loss_is_told_again_in_words_and_not_as_the_state_of_a_kernel_that_lives() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = 1").await;
    session.keep(session.execute(limited("while True: pass", 100)));
    session.settled().await;
    session.keep(session.execute(Cell::new("2")));
    session.settled().await;
    let third = json(&run(&session, "3").await);
    assert_eq!(
        third["output"],
        "[an earlier loss, which no result that was received has told: the kernel before this one \
         was lost (timeout 0.1 s); gone: x]\n3"
    );
    assert_eq!(
        third["kernel"],
        json!({"execution_count": 2, "generation": 2, "reused": true, "state": "kept"})
    );
    let fourth = json(&run(&session, "4").await);
    assert_eq!(fourth["output"], "4", "told once");
    // The first cell has it all.
    let mut kept = session.kept().unwrap();
    drop(kept.outcome().await);
    kept.done();
    let mut kept = session.kept().unwrap();
    let (first, _receipt) = kept.outcome().await.unwrap();
    assert_eq!(json(&first)["kernel"]["state"], "fresh");
    assert_eq!(json(&first)["kernel"]["lost"]["names"][0]["name"], "x");
    kept.done();
    manager.end().await;
}
