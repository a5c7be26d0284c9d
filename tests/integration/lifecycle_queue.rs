//! Cells that wait: their order, their number, and what ends them.

use std::time::{Duration, Instant};

use warmcell::execution::Status;
use warmcell::session::{Cell, Execution, Session};

use crate::lifecycle_support::{json, limited, result, until};
use crate::support::{Manager, run};

/// Runs a cell that goes on until its file is removed.
async fn occupied(manager: &Manager, session: &Session) -> (Execution, std::path::PathBuf) {
    let gate = manager
        .place
        .work()
        .join(format!("gate-{}", session.name()));
    let begun = manager
        .place
        .work()
        .join(format!("begun-{}", session.name()));
    std::fs::write(&gate, "").unwrap();
    std::fs::remove_file(&begun).ok();
    let code = format!(
        "import os, time\nopen({begun:?}, 'w').close()\nwhile os.path.exists({gate:?}): time.sleep(0.002)"
    );
    let execution = session.execute(Cell::new(code));
    until("the first cell", || begun.exists()).await;
    (execution, gate)
}

#[tokio::test]
async fn thirty_two_wait_and_the_next_is_busy() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "order = []").await;
    let (mut first, gate) = occupied(&manager, &session).await;
    let mut waiting: Vec<Execution> = (0..32)
        .map(|n| session.execute(Cell::new(format!("order.append({n})"))))
        .collect();
    let refused = result(&mut session.execute(Cell::new("order.append('no')"))).await;
    assert_eq!(json(&refused)["error_class"], "busy");
    assert_eq!(json(&refused)["exit_code"], -1);
    assert!(
        refused
            .output
            .starts_with("[32 cells wait for this session already; ")
    );
    // A place that is given up is free at once.
    drop(waiting.remove(3));
    let mut withdrawn = waiting.remove(3);
    withdrawn.interrupt();
    let told = json(&result(&mut withdrawn).await);
    assert_eq!(told["status"], "interrupted");
    assert_eq!(told["kernel"]["execution_count"], 0);
    waiting.push(session.execute(Cell::new("order.append(32)")));
    waiting.push(session.execute(Cell::new("order.append(33)")));
    let refused = result(&mut session.execute(Cell::new("1"))).await;
    assert_eq!(json(&refused)["error_class"], "busy");
    std::fs::remove_file(gate).unwrap();
    assert_eq!(result(&mut first).await.status, Status::Success);
    for execution in &mut waiting {
        assert_eq!(result(execution).await.status, Status::Success);
    }
    let expected: Vec<u32> = (0..34).filter(|n| *n != 3 && *n != 4).collect();
    assert_eq!(
        run(&session, "order").await.result,
        Some(format!("{expected:?}"))
    );
    manager.end().await;
}

#[tokio::test]
async fn a_waiting_cell_that_is_interrupted_is_answered_at_once() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let (mut first, gate) = occupied(&manager, &session).await;
    let mut waiting = session.execute(Cell::new("x = 'ran'"));
    let began = Instant::now();
    waiting.interrupt();
    let outcome = result(&mut waiting).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(outcome.status, Status::Interrupted);
    assert_eq!(
        outcome.error.as_deref(),
        Some("interrupted while it waited; it did not run and state is kept")
    );
    std::fs::remove_file(gate).unwrap();
    let first = result(&mut first).await;
    assert_eq!(first.status, Status::Success, "another cell was hit");
    assert_eq!(
        run(&session, "'x' in globals()").await.result.as_deref(),
        Some("False")
    );
    manager.end().await;
}

#[tokio::test]
async fn a_waiting_cell_whose_caller_is_gone_never_runs() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let (mut first, gate) = occupied(&manager, &session).await;
    drop(session.execute(Cell::new("x = 1")));
    let waiting = session.execute(Cell::new("x = 2"));
    let mut waiting = Box::pin(async move {
        let mut waiting = waiting;
        waiting.outcome().await
    });
    // A caller that waits for a while and then goes away.
    let waited = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
    assert!(waited.is_err());
    drop(waiting);
    std::fs::remove_file(gate).unwrap();
    assert_eq!(result(&mut first).await.status, Status::Success);
    let outcome = run(&session, "'x' in globals()").await;
    assert_eq!(outcome.result.as_deref(), Some("False"));
    assert_eq!(json(&outcome)["kernel"]["execution_count"], 2);
    manager.end().await;
}

#[tokio::test]
async fn time_in_the_queue_is_not_counted() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let (mut first, gate) = occupied(&manager, &session).await;
    let mut waiting = session.execute(limited("import time; time.sleep(0.1)", 200));
    tokio::time::sleep(Duration::from_millis(300)).await;
    std::fs::remove_file(gate).unwrap();
    assert!(result(&mut first).await.duration_seconds >= 0.3);
    let outcome = result(&mut waiting).await;
    assert_eq!(outcome.status, Status::Success, "{outcome:?}");
    assert!(
        (0.1..0.2).contains(&outcome.duration_seconds),
        "{outcome:?}"
    );
    // Nor is the start of a kernel.
    let fresh = manager.session("fresh");
    let outcome = run(&fresh, "1").await;
    assert!(outcome.duration_seconds < 0.05, "{outcome:?}");
    manager.end().await;
}

#[tokio::test]
async fn a_reset_ends_the_running_cell_and_those_that_wait_run_on_the_next_kernel() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = 1").await;
    let (mut first, _gate) = occupied(&manager, &session).await;
    let mut waiting: Vec<Execution> = (0..3)
        .map(|n| session.execute(Cell::new(format!("y{n} = 1; 'x' in globals()"))))
        .collect();
    session.reset().await;
    let ended = json(&result(&mut first).await);
    assert_eq!(ended["status"], "interrupted");
    assert_eq!(ended["kernel"]["state"], "lost");
    assert_eq!(ended["kernel"]["reason"], "reset");
    assert_eq!(ended["kernel"]["lost"]["names"][0]["name"], "x");
    let line = "[interrupted; its session was reset: 1 cell and x are lost; rebuild what you need]";
    let output = ended["output"].as_str().unwrap();
    assert!(output.ends_with(line), "{output}");
    for (number, execution) in waiting.iter_mut().enumerate() {
        let outcome = result(execution).await;
        let told = json(&outcome);
        assert_eq!(told["kernel"]["generation"], 2);
        assert_eq!(told["kernel"]["execution_count"], number + 1);
        assert_eq!(outcome.result.as_deref(), Some("False"));
        if number == 0 {
            let line = "[new kernel: the previous one was lost (reset); gone: x]\n";
            assert!(outcome.output.starts_with(line), "{}", outcome.output);
            assert_eq!(told["kernel"]["reason"], "reset");
        }
    }
    manager.end().await;
}

/// Whatever the moment: the cell that runs is ended, the next is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_hits_only_the_cell_that_runs() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for round in 0..30_u64 {
        let mut short = session.execute(Cell::new("import time; time.sleep(0.003)"));
        let mut next = session.execute(Cell::new("time = 0; 6*7"));
        let mut last = session.execute(Cell::new("6*7"));
        tokio::time::sleep(Duration::from_micros(300 * round)).await;
        let began = Instant::now();
        session.reset().await;
        assert!(began.elapsed() < Duration::from_secs(5));
        for execution in [&mut short, &mut next, &mut last] {
            let outcome = result(execution).await;
            assert!(
                matches!(outcome.status, Status::Success | Status::Interrupted),
                "{outcome:?}"
            );
        }
        assert_eq!(run(&session, "6*7").await.result.as_deref(), Some("42"));
    }
    manager.end().await;
}

#[tokio::test]
async fn a_close_ends_the_running_cell_and_those_that_wait_do_not_run() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let (mut first, _gate) = occupied(&manager, &session).await;
    let mark = manager.place.work().join("mark");
    let mut waiting = session.execute(Cell::new(format!("open({mark:?}, 'w')")));
    let closing = session.clone();
    let began = Instant::now();
    let close = tokio::spawn(async move { closing.close().await });
    let ended = json(&result(&mut first).await);
    assert_eq!(ended["status"], "interrupted");
    assert_eq!(ended["kernel"]["reason"], "session_closed");
    assert!(
        ended["output"]
            .as_str()
            .unwrap()
            .contains("its session was closed"),
        "{ended}"
    );
    let told = json(&result(&mut waiting).await);
    assert_eq!(told["error_class"], "unavailable");
    drop(close.await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(!mark.exists());
    let told = json(&result(&mut session.execute(Cell::new("1"))).await);
    assert_eq!(told["error_class"], "unavailable");
    // The name is free.
    let again = manager.session("a");
    let outcome = run(&again, "1").await;
    assert_eq!(json(&outcome)["kernel"]["generation"], 1);
    manager.end().await;
}
