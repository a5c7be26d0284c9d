//! When a cell or a kernel ends, so does what its calls have started.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use warmcell::execution::{Outcome, Status};
use warmcell::session::{Cell, Session};

use crate::support::{Manager, run, run_cell};
use crate::tools_kit::{eventually, json_of};

/// A command with a tree of its own that tells its numbers, and its last words if it lives on.
const TREE: &str = "terminal('(sleep 300 & echo $! > child; setsid sleep 301 & echo $! > daemon; \
                    echo $$ > shell.part; mv shell.part shell; wait); sleep 302')";

/// Waits until the command runs; the processes of its tree.
async fn tree(manager: &Manager) -> Vec<u32> {
    let work = manager.place.work();
    eventually(|| std::fs::metadata(work.join("shell")).ok()).await;
    let pids = ["child", "daemon", "shell"].map(|name| {
        let text = std::fs::read_to_string(work.join(name)).unwrap();
        std::fs::remove_file(work.join(name)).unwrap();
        text.trim().parse().unwrap()
    });
    pids.to_vec()
}

async fn gone(pids: Vec<u32>) {
    for pid in pids {
        eventually(|| (!Path::new(&format!("/proc/{pid}")).exists()).then_some(())).await;
    }
}

fn assert_stopped(outcome: &Outcome) {
    assert_eq!(outcome.tool_calls_made, 1, "{}", outcome.output);
    assert_eq!(outcome.tool_calls.len(), 1);
    assert_eq!(outcome.tool_calls[0].tool, "terminal");
    assert!(!outcome.tool_calls[0].ok);
}

async fn is_usable(session: &Session) {
    let value = json_of(
        session,
        "import json; print(json.dumps(terminal('echo x')['output']))",
    );
    let next = tokio::time::timeout(Duration::from_secs(20), value).await;
    assert_eq!(next.unwrap(), "x\n");
}

#[tokio::test]
async fn a_cell_that_is_out_of_time() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let mut execution = session.execute(Cell::new(TREE).timeout(Duration::from_secs(1)));
    let pids = tree(&manager).await;
    let outcome = execution.outcome().await;
    assert_eq!(outcome.status, Status::Timeout);
    assert_stopped(&outcome);
    gone(pids).await;
    run(&session, "pass").await;
    is_usable(&session).await;
    manager.end().await;
}

#[tokio::test]
async fn a_cell_that_is_interrupted() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let mut execution = session.execute(Cell::new(TREE));
    let pids = tree(&manager).await;
    execution.interrupt();
    let outcome = execution.outcome().await;
    assert_eq!(outcome.status, Status::Interrupted);
    assert_stopped(&outcome);
    gone(pids).await;
    run(&session, "pass").await;
    is_usable(&session).await;
    manager.end().await;
}

#[tokio::test]
async fn a_kernel_that_dies() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for death in ["os._exit(3)", "os.kill(os.getpid(), 9)"] {
        let code = format!(
            "import os, threading\n\
             threading.Thread(target=lambda: {TREE}).start()\n\
             while not os.path.exists('die'): pass\n\
             os.remove('die'); {death}"
        );
        let mut execution = session.execute(Cell::new(code));
        let pids = tree(&manager).await;
        std::fs::write(manager.place.work().join("die"), "").unwrap();
        let outcome = execution.outcome().await;
        assert_eq!(outcome.status, Status::Error);
        assert_stopped(&outcome);
        gone(pids).await;
    }
    manager.end().await;
}

#[tokio::test]
async fn a_session_that_is_reset_or_closed() {
    let manager = Manager::start().await;
    for close in [false, true] {
        let session = manager.session("a");
        let mut execution = session.execute(Cell::new(TREE));
        let pids = tree(&manager).await;
        if close {
            session.close().await;
        } else {
            session.reset().await;
        }
        let outcome = execution.outcome().await;
        assert_eq!(outcome.status, Status::Interrupted);
        assert_stopped(&outcome);
        gone(pids).await;
    }
    manager.end().await;
}

#[tokio::test]
async fn a_call_in_flight_at_the_end_of_its_cell() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = format!(
        "import json, os, threading, time\n\
         seen = []\n\
         thread = threading.Thread(target=lambda: seen.append({TREE}))\n\
         thread.start()\n\
         while not os.path.exists('shell'): time.sleep(0.005)\n\
         seen"
    );
    let outcome = run(&session, &code).await;
    assert_eq!(outcome.status, Status::Success);
    assert_eq!(outcome.result.as_deref(), Some("[]"));
    assert_stopped(&outcome);
    gone(tree(&manager).await).await;
    // The thread is answered, and its kernel lives on.
    let seen = json_of(&session, "thread.join(20); print(json.dumps(seen[0]))").await;
    assert_eq!(seen["error_class"], "interrupted");
    assert_eq!(seen["output"], Value::Null);
    is_usable(&session).await;
    manager.end().await;
}

/// The process that called is gone, though the cell goes on.
#[tokio::test]
async fn a_child_that_is_killed_in_mid_call() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = format!(
        "import json, os, time\n\
         pid = os.fork()\n\
         if pid == 0:\n    {TREE}; os._exit(0)\n\
         while not os.path.exists('shell'): time.sleep(0.005)\n\
         shell = open('shell').read().strip()\n\
         os.kill(pid, 9); os.waitpid(pid, 0)\n\
         while os.path.exists('/proc/' + shell): time.sleep(0.005)\n\
         print(json.dumps(terminal('echo x')['output']))"
    );
    let outcome = run_cell(&session, Cell::new(code)).await;
    assert_eq!(outcome.output, "\"x\\n\"\n");
    assert_eq!(outcome.tool_calls_made, 2);
    let oks: Vec<bool> = outcome.tool_calls.iter().map(|call| call.ok).collect();
    assert_eq!(json!(oks), json!([false, true]));
    gone(tree(&manager).await).await;
    manager.end().await;
}

/// Long-running work that is no command: the file of a stopped write stays as it was.
#[tokio::test]
async fn a_thousand_calls_that_are_cut_off_leave_nothing() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "write_file('whole', 'old' * 1000)").await;
    for _ in 0..5 {
        let code = "import threading\n\
                    def work():\n    \
                        while True: write_file('whole', 'new' * 100_000)\n\
                    for _ in range(4): threading.Thread(target=work, daemon=True).start()\n\
                    while True: pass";
        let cell = Cell::new(code)
            .timeout(Duration::from_millis(150))
            .max_tool_calls(1_000_000);
        assert_eq!(run_cell(&session, cell).await.status, Status::Timeout);
    }
    let work = manager.place.work();
    eventually(|| (std::fs::read_dir(&work).unwrap().count() == 1).then_some(())).await;
    let text = std::fs::read_to_string(work.join("whole")).unwrap();
    assert!(text == "new".repeat(100_000) || text == "old".repeat(1_000));
    manager.end().await;
}
