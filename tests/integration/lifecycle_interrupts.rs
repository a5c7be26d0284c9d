//! Interrupts: never lost, never for another cell, and nothing happens after their result.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use warmcell::execution::Status;
use warmcell::session::{Cell, Session};

use crate::lifecycle_support::{json, json_without_time, median_and_worst, result, until};
use crate::support::{Manager, run};

/// What a cell had done when its result came.
struct Effect {
    file: PathBuf,
    size: Option<u64>,
}

fn size(file: &PathBuf) -> Option<u64> {
    fs::metadata(file).ok().map(|found| found.len())
}

/// Interrupts cells 0 to 50 ms after they were handed over; each writes to a file for ever.
async fn interrupt_often(session: Session, folder: PathBuf, warm: bool, count: u64) -> Vec<Effect> {
    let mut effects = Vec::new();
    for round in 0..count {
        if warm {
            assert_eq!(run(&session, "1").await.result.as_deref(), Some("1"));
        }
        let file = folder.join(format!("{}-{round}", session.name()));
        let code = if round % 2 == 0 {
            format!("f = open({file:?}, 'a')\nwhile True: f.write('x'); f.flush()")
        } else {
            format!(
                "import time\ntime.sleep(0.06)\nopen({file:?}, 'a').write('done')\ntime.sleep(9)"
            )
        };
        let mut execution = session.execute(Cell::new(code));
        let interrupt = execution.interrupt_token();
        // 0 to 50 ms, in another order each time.
        let delay = Duration::from_micros((round * 7_919 + u64::from(warm) * 331) % 50_000);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            interrupt.cancel();
        });
        let outcome = result(&mut execution).await;
        effects.push(Effect {
            size: size(&file),
            file,
        });
        assert_eq!(outcome.status, Status::Interrupted, "{round}: {outcome:?}");
        let told = json(&outcome);
        if told["error"] != "interrupted" {
            // It came before the session had looked at the cell.
            assert_eq!(told["kernel"]["execution_count"], 0, "{outcome:?}");
            continue;
        }
        assert_eq!(told["kernel"]["state"], "lost", "{round}: {outcome:?}");
        assert_eq!(
            told["kernel"]["reason"], "interrupt",
            "{round}: {outcome:?}"
        );
    }
    assert_eq!(run(&session, "1").await.result.as_deref(), Some("1"));
    effects
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_at_any_moment_ends_its_cell_and_no_other() {
    let manager = Manager::start().await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..8 {
        let session = manager.session(&format!("s{number}"));
        all.spawn(interrupt_often(
            session,
            manager.place.work(),
            number % 2 == 0,
            50,
        ));
    }
    let effects = all.join_all().await;
    for effect in effects.iter().flatten() {
        assert_eq!(
            size(&effect.file),
            effect.size,
            "{} went on",
            effect.file.display()
        );
    }
    manager.end().await;
}

#[tokio::test]
async fn trace_5_an_interrupt_while_the_kernel_is_forked() {
    let manager = Manager::start().await;
    // A kernel is forked, and no interpreter started: for one of those an interrupt waits a second.
    run(&manager.session("other"), "1").await;
    let session = manager.session("a");
    let mark = manager.place.work().join("mark");
    let mut execution = session.execute(Cell::new(format!("open({mark:?}, 'w')")));
    // Not yet polled: the kernel is not even asked for.
    execution.interrupt();
    let waited = result(&mut execution).await;
    assert_eq!(waited.status, Status::Interrupted);
    let mut execution = session.execute(Cell::new(format!("open({mark:?}, 'w')")));
    let mut events = session.events();
    loop {
        let event = serde_json::to_value(events.next().await.unwrap()).unwrap();
        if event["to"] == "starting" {
            break;
        }
    }
    execution.interrupt();
    let outcome = result(&mut execution).await;
    assert_eq!(
        json_without_time(&outcome),
        json!({
            "status": "interrupted",
            "output": "[interrupted; the kernel was killed and restarted; nothing but this cell is lost]",
            "exit_code": -1, "tool_calls_made": 0,
            "error": "interrupted", "error_class": "interrupted",
            "kernel": {
                "execution_count": 1, "generation": 1, "reused": false, "state": "lost",
                "reason": "interrupt", "lost": {"cells": 0, "names": [], "names_total": 0}
            },
            "stdout_truncated": false, "stdout_bytes_total": 0, "stdout_bytes_captured": 0,
            "stdout_bytes_omitted": 0,
        })
    );
    let next = json(&run(&session, "1").await);
    assert_eq!(next["kernel"]["generation"], 2);
    assert_eq!(
        next["output"],
        "[new kernel: the previous one was lost (interrupt)]\n1"
    );
    assert!(!mark.exists(), "it did run");
    manager.end().await;
}

#[tokio::test]
async fn interrupting_an_idle_session_harms_nothing() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    assert!(!session.interrupt(), "nothing has ever run");
    run(&session, "x = 1").await;
    for _ in 0..100 {
        assert!(!session.interrupt());
    }
    let outcome = run(&session, "x").await;
    assert_eq!(outcome.result.as_deref(), Some("1"));
    assert_eq!(json(&outcome)["kernel"]["state"], "kept");
    manager.end().await;
}

/// Somebody else's SIGINT between cells, also when a cell has put a handler of its own.
#[tokio::test]
async fn a_stray_signal_between_cells_harms_nothing() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for code in [
        "0",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); 0",
    ] {
        run(&session, code).await;
        let pid = crate::lifecycle_support::number(&session, "import os; os.getpid()").await;
        run(&session, code).await;
        for _ in 0..50 {
            crate::lifecycle_support::signal(pid, rustix::process::Signal::INT);
        }
        let outcome = run(&session, "os.getpid()").await;
        assert_eq!(outcome.result, Some(pid.to_string()), "{outcome:?}");
    }
    manager.end().await;
}

#[tokio::test]
async fn an_interrupted_loop_ends_within_a_few_milliseconds() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let mut times = Vec::new();
    for _ in 0..10 {
        let mark = manager.place.work().join("mark");
        fs::remove_file(&mark).ok();
        let code = format!("open({mark:?}, 'w').close()\nwhile True: pass");
        let mut execution = session.execute(Cell::new(code));
        let interrupt = execution.interrupt_token();
        let running = tokio::spawn(async move { result(&mut execution).await });
        until("the cell", || mark.exists()).await;
        assert!(session.interrupt() || interrupt.is_cancelled());
        let began = Instant::now();
        assert_eq!(running.await.unwrap().status, Status::Interrupted);
        times.push(began.elapsed());
    }
    let (middle, worst) = median_and_worst(times);
    eprintln!("interrupt: result after {middle:?} (worst {worst:?})");
    assert!(middle < Duration::from_millis(100), "{middle:?}");
    manager.end().await;
}
