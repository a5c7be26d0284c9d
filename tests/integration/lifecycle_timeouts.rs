//! A cell that is out of time: its result comes at once, says what is lost, and the next cell runs.

use std::time::{Duration, Instant};

use serde_json::json;
use warmcell::execution::Status;

use crate::lifecycle_support::{json, json_without_time, limited, median_and_worst};
use crate::support::{Manager, run, run_cell};

/// Cells that never end by themselves; each has printed `begun` before.
const ENDLESS: [(&str, &str); 11] = [
    ("loop", "while True: pass"),
    ("c_loop", "sum(range(10**12))"),
    ("sleep", "import time; time.sleep(60)"),
    (
        "deaf",
        "import signal, time\nfor n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(60)",
    ),
    ("read", "import os; r, w = os.pipe(); os.read(r, 1)"),
    (
        "full_pipe",
        "import subprocess\np = subprocess.Popen(['sleep', '60'], stdin=subprocess.PIPE)\np.stdin.write(b'x' * 10**6)",
    ),
    ("await", "import asyncio; await asyncio.sleep(60)"),
    (
        "await_loop",
        "import asyncio\nwhile True: await asyncio.sleep(0)",
    ),
    (
        "child_reads",
        "import subprocess\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\np.stdout.read()",
    ),
    (
        "lock",
        "import threading; l = threading.Lock(); l.acquire(); l.acquire()",
    ),
    (
        "swallows",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ),
];

#[tokio::test]
async fn whatever_a_cell_does_its_limit_holds() {
    let manager = Manager::start().await;
    let mut cells = tokio::task::JoinSet::new();
    for (name, code) in ENDLESS {
        let session = manager.session(name);
        cells.spawn(async move {
            run(&session, "x = [1]").await;
            let began = Instant::now();
            let cell = limited(&format!("print('begun')\n{code}"), 400);
            let outcome = run_cell(&session, cell).await;
            let took = began.elapsed();
            assert_eq!(outcome.status, Status::Timeout, "{name}: {outcome:?}");
            let told = json(&outcome);
            assert_eq!(told["exit_code"], -1, "{name}");
            assert_eq!(told["error_class"], "timeout", "{name}");
            assert_eq!(told["error"], "timed out after 0.4 s", "{name}");
            assert_eq!(told["kernel"]["state"], "lost", "{name}");
            assert_eq!(told["kernel"]["reason"], "timeout", "{name}");
            assert_eq!(
                told["kernel"]["lost"],
                json!({"cells": 1, "names": [{"name": "x", "type": "list"}], "names_total": 1}),
                "{name}"
            );
            assert!(
                outcome
                    .output
                    .starts_with("begun\n[timed out after 0.4 s; the kernel was killed"),
                "{name}: {}",
                outcome.output
            );
            assert!(took < Duration::from_secs(2), "{name} took {took:?}");
            let next = json(&run(&session, "print(2)").await);
            assert_eq!(
                next["output"],
                "[new kernel: the previous one was lost (timeout 0.4 s); gone: x]\n2\n",
                "{name}"
            );
            assert_eq!(next["kernel"]["state"], "fresh", "{name}");
            assert_eq!(next["kernel"]["reason"], "timeout", "{name}");
            assert_eq!(next["kernel"]["generation"], 2, "{name}");
            assert_eq!(next["kernel"].get("lost"), None, "{name}: it was told");
        });
    }
    while let Some(done) = cells.join_next().await {
        done.unwrap();
    }
    manager.end().await;
}

#[tokio::test]
async fn trace_4_a_timeout() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = [1]; print(\"a\"); len(x)").await;
    run(&session, "1/0").await;
    run(&session, "import sys; del sys; exit(3)").await;
    let cell = limited("print(\"b\")\nwhile True: pass", 1_000);
    let outcome = run_cell(&session, cell).await;
    assert!(
        (0.99..1.2).contains(&outcome.duration_seconds),
        "{outcome:?}"
    );
    assert_eq!(
        json_without_time(&outcome),
        json!({
            "status": "timeout", "hint": outcome.hint,
            "output": "b\n[timed out after 1 s; the kernel was killed and restarted: 3 cells and x are lost; rebuild what you need, or give the cell more time]",
            "exit_code": -1, "tool_calls_made": 0,
            "error": "timed out after 1 s", "error_class": "timeout",
            "kernel": {
                "execution_count": 4, "generation": 1, "reused": true, "state": "lost",
                "reason": "timeout",
                "lost": {"cells": 3, "names": [{"name": "x", "type": "list"}], "names_total": 1}
            },
            "stdout_truncated": false, "stdout_bytes_total": 2, "stdout_bytes_captured": 2,
            "stdout_bytes_omitted": 0,
        })
    );
    let next = json_without_time(&run(&session, "x").await);
    assert_eq!(next["status"], "error");
    let output = next["output"].as_str().unwrap();
    assert!(
        output.starts_with(
            "[new kernel: the previous one was lost (timeout 1 s); gone: x]\n--- stderr ---\n"
        ),
        "{output}"
    );
    assert!(
        output.contains("NameError: name 'x' is not defined"),
        "{output}"
    );
    assert_eq!(
        next["kernel"],
        json!({
            "execution_count": 1, "generation": 2, "reused": false, "state": "fresh",
            "reason": "timeout"
        })
    );
    let third = json(&run(&session, "1").await);
    assert_eq!(
        third["kernel"],
        json!({"execution_count": 2, "generation": 2, "reused": true, "state": "kept"})
    );
    manager.end().await;
}

/// The result within 5 ms of the deadline, the next result 5 ms later, in the middle of several.
#[tokio::test]
async fn neither_the_result_nor_the_next_kernel_is_waited_for() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "1").await;
    let (mut late, mut next) = (Vec::new(), Vec::new());
    for code in ["while True: pass", "import time; time.sleep(9)"].repeat(5) {
        let began = Instant::now();
        let outcome = run_cell(&session, limited(code, 50)).await;
        let ended = Instant::now();
        assert_eq!(outcome.status, Status::Timeout);
        late.push(
            ended
                .duration_since(began)
                .saturating_sub(Duration::from_millis(50)),
        );
        assert_eq!(run(&session, "6*7").await.result.as_deref(), Some("42"));
        next.push(ended.elapsed());
    }
    let ((late, late_worst), (next, next_worst)) = (median_and_worst(late), median_and_worst(next));
    eprintln!(
        "timeout: result {late:?} after the deadline (worst {late_worst:?}), next result {next:?} later (worst {next_worst:?})"
    );
    // Generous: the machine is shared by many tests.
    assert!(late < Duration::from_millis(100), "{late:?}");
    assert!(next < Duration::from_millis(300), "{next:?}");
    manager.end().await;
}

/// Memory is freed at 30 ms a GB; the result does not wait for that.
#[tokio::test]
async fn a_big_kernel_is_not_waited_for() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let filled = run(
        &session,
        "big = bytearray(1 << 29)\nfor i in range(0, len(big), 4096): big[i] = 1",
    )
    .await;
    assert_eq!(filled.status, Status::Success);
    let began = Instant::now();
    let outcome = run_cell(&session, limited("while True: pass", 100)).await;
    let late = began.elapsed().saturating_sub(Duration::from_millis(100));
    assert_eq!(outcome.status, Status::Timeout);
    eprintln!("timeout of a kernel of 512 MB: result {late:?} after the deadline");
    assert!(late < Duration::from_millis(300), "{late:?}");
    manager.end().await;
}
