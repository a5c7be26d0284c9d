//! A forkserver that is stopped, slow or not there any more.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use warmcell::session::Cell;

use crate::lifecycle_support::{is_alive, json, limited, number, result, signal, until};
use crate::support::{Manager, finish, pythons, run, run_cell, text};

#[tokio::test]
async fn a_stopped_forkserver_is_replaced_and_killed() {
    let manager = Manager::start().await;
    let (old, new) = (manager.session("old"), manager.session("new"));
    run(&old, "x = 1").await;
    let forkserver = number(&old, "import os; os.getppid()").await;
    let began = Instant::now();
    signal(forkserver, Signal::STOP);
    let other = number(&new, "import os; os.getppid()").await;
    let took = began.elapsed();
    eprintln!("a kernel while the forkserver is stopped: {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_ne!(other, forkserver, "new kernels come from a new one");
    // Kernels of the silent one live until it is killed.
    let outcome = run(&old, "x").await;
    assert_eq!(outcome.result.as_deref(), Some("1"));
    until("its end", || !is_alive(forkserver)).await;
    let silent = began.elapsed();
    assert!(
        silent > Duration::from_secs(2) && silent < Duration::from_secs(5),
        "{silent:?}"
    );
    let next = run(&old, "1").await;
    let why = "its forkserver was silent and was killed";
    let told = json(&next);
    assert_eq!(told["kernel"]["reason"], "kernel_died");
    let line = if told["error_class"] == "kernel_died" {
        // The cell was given to it before its end was seen.
        format!("[the kernel ended because {why} while running the cell; ")
    } else {
        format!(
            "[new kernel: the previous one was lost (kernel_died: it ended because {why}); gone: "
        )
    };
    assert!(next.output.starts_with(&line), "{}", next.output);
    assert_eq!(number(&old, "import os; os.getppid()").await, other);
    manager.end().await;
}

/// The time limit of a cell does not depend on the forkserver.
#[tokio::test]
async fn a_limit_holds_while_the_forkserver_is_stopped() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let forkserver = number(&session, "x = 1; import os; os.getppid()").await;
    signal(forkserver, Signal::STOP);
    let began = Instant::now();
    let outcome = run_cell(&session, limited("while True: pass", 200)).await;
    let took = began.elapsed();
    assert_eq!(json(&outcome)["status"], "timeout");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(run(&session, "6*7").await.result.as_deref(), Some("42"));
    manager.end().await;
}

#[tokio::test]
async fn a_forkserver_that_goes_on_in_time_keeps_its_kernels() {
    let manager = Manager::start().await;
    let (old, new) = (manager.session("old"), manager.session("new"));
    let forkserver = number(&old, "x = 1; import os; os.getppid()").await;
    signal(forkserver, Signal::STOP);
    run(&new, "1").await;
    signal(forkserver, Signal::CONT);
    tokio::time::sleep(Duration::from_millis(2_300)).await;
    assert_eq!(run(&old, "x").await.result.as_deref(), Some("1"));
    // The socket folder is still there for new sessions, whichever forkserver has left since.
    old.close().await;
    assert_eq!(
        run(&manager.session("third"), "1").await.result.as_deref(),
        Some("1")
    );
    let read = "import hermes_tools; hermes_tools.read_file('/etc/hostname')['total_lines'] > 0";
    assert_eq!(run(&new, read).await.result.as_deref(), Some("True"));
    manager.end().await;
}

#[tokio::test]
async fn closing_while_the_forkserver_is_stopped_ends_everything() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "import os, subprocess; subprocess.Popen(['sleep', '300'], start_new_session=True); os.getppid()";
    let forkserver = number(&session, code).await;
    signal(forkserver, Signal::STOP);
    let began = Instant::now();
    manager.end().await;
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_first_calls_start_one_forkserver_and_one_kernel_each() {
    let manager = Manager::start().await;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..6 {
        let session = manager.session(&format!("s{n}"));
        all.spawn(async move {
            let outcome = run(&session, "import os, time; time.sleep(0.1); os.getppid()").await;
            assert_eq!(json(&outcome)["kernel"]["generation"], 1);
            outcome.result.unwrap()
        });
    }
    let mut forkservers = all.join_all().await;
    forkservers.dedup();
    assert_eq!(forkservers.len(), 1, "{forkservers:?}");
    // Six cells of one session: one kernel, one after the other.
    let session = manager.session("one");
    let cells: Vec<_> = (0..6)
        .map(|_| session.execute(Cell::new("import os, time; time.sleep(0.02); os.getpid()")))
        .collect();
    let mut seen = Vec::new();
    for mut cell in cells {
        let outcome = result(&mut cell).await;
        let kernel = &json(&outcome)["kernel"];
        seen.push((kernel["execution_count"].clone(), outcome.result.unwrap()));
    }
    let counts: Vec<_> = seen.iter().map(|(count, _)| count.clone()).collect();
    assert_eq!(counts, [1, 2, 3, 4, 5, 6].map(|n| json!(n)));
    assert!(seen.iter().all(|(_, pid)| *pid == seen[0].1));
    assert_eq!(manager.registry.names().len(), 7);
    manager.end().await;
}

#[tokio::test]
async fn a_forkserver_whose_answer_nobody_takes_ends_with_all_that_it_has_forked() {
    let manager = Manager::start().await;
    run(&manager.session("unpacks"), "1").await;
    let unpacked = manager.place.home().join("cache/warmcell");
    let sources = std::fs::read_dir(unpacked).unwrap().next().unwrap();
    let sources = sources.unwrap().path();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/python/forkserver_alone.py"
    );
    for (version, python) in pythons() {
        let folder = tempfile::tempdir_in(manager.place.work()).unwrap();
        let mut command = manager.place.command(python.to_str().unwrap());
        command.arg(script).arg(&sources).arg(folder.path());
        let output = finish(&mut command);
        let said = text(&output.stderr);
        assert_eq!(text(&output.stdout), "OK\n", "{version}: {said}");
    }
    manager.end().await;
}
