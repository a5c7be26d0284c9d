//! A kernel that dies: told at once, with signal or code; nobody else is concerned.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use warmcell::execution::Status;
use warmcell::session::Session;

use crate::lifecycle_support::{
    is_alive, json, json_without_time, limited, median_and_worst, number, until,
};
use crate::support::{Manager, Place, finish, run, run_cell, text};

/// Cells that end their kernel, and what is said of it.
const DEADLY: [(&str, &str); 7] = [
    (
        "import os; os.kill(os.getpid(), 9)",
        "was killed by signal 9 (SIGKILL)",
    ),
    (
        "import ctypes; ctypes.string_at(0)",
        "was killed by signal 11 (SIGSEGV)",
    ),
    ("import os; os._exit(3)", "exited with code 3"),
    ("import os; os._exit(0)", "exited with code 0"),
    ("import os; os.abort()", "was killed by signal 6 (SIGABRT)"),
    (
        "import os; os.kill(os.getpid(), 15); import time; time.sleep(9)",
        "was killed by signal 15 (SIGTERM)",
    ),
    (
        "import os; os.closerange(3, 65536)",
        "closed its link to the manager",
    ),
];

#[tokio::test]
async fn a_death_is_told_at_once_and_concerns_nobody_else() {
    let manager = Manager::start().await;
    let other = manager.session("other");
    run(&other, "x = 1").await;
    let mut sessions = tokio::task::JoinSet::new();
    for (number, (code, words)) in DEADLY.into_iter().enumerate() {
        let session = manager.session(&format!("s{number}"));
        sessions.spawn(async move {
            run(&session, "x = 1").await;
            let began = Instant::now();
            let outcome = run(&session, &format!("print('before')\n{code}")).await;
            let took = began.elapsed();
            let error = format!("the kernel {words} while running the cell");
            let told = json(&outcome);
            assert_eq!(told["status"], "error", "{code}: {outcome:?}");
            assert_eq!(told["error"], error, "{code}");
            assert_eq!(told["error_class"], "kernel_died", "{code}");
            assert_eq!(told["exit_code"], -1, "{code}");
            assert_eq!(told["kernel"]["state"], "lost", "{code}");
            assert_eq!(told["kernel"]["reason"], "kernel_died", "{code}");
            assert_eq!(told["kernel"]["lost"]["names"][0]["name"], "x", "{code}");
            assert!(
                outcome.output.starts_with("before\n"),
                "{code}: {}",
                outcome.output
            );
            assert!(took < Duration::from_secs(2), "{code} took {took:?}");
            let next = run(&session, "1").await;
            assert_eq!(
                next.output,
                format!(
                    "[new kernel: the previous one was lost (kernel_died: it {words}); gone: x]\n1"
                ),
                "{code}"
            );
            took
        });
    }
    let (middle, worst) = median_and_worst(sessions.join_all().await);
    eprintln!("death: told after {middle:?} (worst {worst:?})");
    let outcome = run(&other, "x").await;
    assert_eq!(outcome.result.as_deref(), Some("1"));
    assert_eq!(json(&outcome)["kernel"]["state"], "kept");
    manager.end().await;
}

#[tokio::test]
async fn trace_6_exit() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = 1").await;
    let outcome = run(&session, "import os; os._exit(3)").await;
    assert_eq!(
        json_without_time(&outcome),
        json!({
            "status": "error",
            "output": "[the kernel exited with code 3 while running the cell; a fresh one was started: 1 cell and x are lost; rebuild what you need]",
            "exit_code": -1, "tool_calls_made": 0,
            "error": "the kernel exited with code 3 while running the cell",
            "error_class": "kernel_died",
            "kernel": {
                "execution_count": 2, "generation": 1, "reused": true, "state": "lost",
                "reason": "kernel_died",
                "lost": {"cells": 1, "names": [{"name": "x", "type": "int"}], "names_total": 1}
            },
            "stdout_truncated": false, "stdout_bytes_total": 0, "stdout_bytes_captured": 0,
            "stdout_bytes_omitted": 0,
        })
    );
    manager.end().await;
}

/// A memory limit that a cell sets itself: the cell fails, the kernel stays.
#[tokio::test]
async fn out_of_memory_is_a_limit_and_keeps_the_kernel() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(
        &session,
        "x = 1; import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))",
    )
    .await;
    let big = run(&session, "big = bytearray(1 << 30)").await;
    assert_eq!(json(&big)["error_class"], "limit", "{big:?}");
    assert_eq!(json(&big)["kernel"]["state"], "kept");
    // To the last byte, in big and in small pieces.
    for code in [
        "parts = []\nwhile True: parts.append(bytearray(1 << 16))",
        "parts = []\nwhile True: parts.append(object())",
        "text = 'x'\nwhile True: text += text",
    ] {
        let full = run_cell(&session, limited(code, 8_000)).await;
        assert_eq!(full.status, Status::Error, "{code}");
        assert_eq!(json(&full)["error_class"], "limit", "{code}: {full:?}");
        assert_eq!(json(&full)["kernel"]["state"], "kept", "{code}");
        run(&session, "parts = text = 0").await;
        let next = run(&session, "x").await;
        assert_eq!(next.result.as_deref(), Some("1"), "{code}: {next:?}");
    }
    manager.end().await;
}

/// A memory limit that everything inherits.
#[tokio::test]
async fn a_program_started_under_a_memory_limit_says_so() {
    let place = Place::new();
    let mut command = place.exec(&["--json", "x = bytearray(3_000_000_000)"]);
    let line: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    command = place.command("/bin/sh");
    command
        .current_dir(place.work())
        .args(["-c", &format!("ulimit -v 2000000; {}", line.join(" "))]);
    let output = finish(&mut command);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{} {}", text(&output.stdout), text(&output.stderr)));
    assert_eq!(told["error_class"], "limit", "{told}");
    assert_eq!(told["kernel"]["state"], "fresh", "{told}");
    assert_eq!(output.status.code(), Some(1));
    place.assert_no_survivors().await;
}

/// Its own thread kills the kernel after the cell has ended.
#[tokio::test]
async fn a_death_between_cells_is_told_to_the_next_cell() {
    let manager = Manager::start().await;
    for (name, deed, words) in [
        (
            "kill",
            "os.kill(os.getpid(), 9)",
            "was killed by signal 9 (SIGKILL)",
        ),
        ("exit", "os._exit(7)", "exited with code 7"),
    ] {
        let session = manager.session(name);
        let code = format!(
            "import os, threading, time\ndef end():\n    time.sleep(0.1); os.write(1, b'bye\\n'); {deed}\nthreading.Thread(target=end).start()\nos.getpid()"
        );
        let pid = number(&session, &code).await;
        let mut events = session.events();
        until("its end", || !is_alive(pid)).await;
        // Nobody need ask for the end to be seen.
        let printed = serde_json::to_value(events.next().await.unwrap()).unwrap();
        assert_eq!(
            [&printed["kind"], &printed["text"]],
            ["late_output", "bye\n"]
        );
        let exited = serde_json::to_value(events.next().await.unwrap()).unwrap();
        assert_eq!(exited["kind"], "kernel_exited");
        let dead = serde_json::to_value(events.next().await.unwrap()).unwrap();
        assert_eq!(dead["to"], "dead");
        until("the reaping", || {
            !fs::exists(format!("/proc/{pid}")).unwrap()
        })
        .await;
        let next = run(&session, "1").await;
        let told = json(&next);
        assert_eq!(told["status"], "success", "{name}");
        assert!(
            next.output.starts_with(&format!(
                "[new kernel: the previous one was lost (kernel_died: it {words}); gone: "
            )),
            "{name}: {}",
            next.output
        );
        assert_eq!(told["kernel"]["state"], "fresh", "{name}");
        assert_eq!(told["kernel"]["reason"], "kernel_died", "{name}");
        assert_eq!(told["kernel"]["generation"], 2, "{name}");
        assert_eq!(told["kernel"]["lost"]["cells"], 1, "{name}");
        assert_eq!(told["background_output"]["text"], "bye\n", "{name}");
    }
    manager.end().await;
}

/// A cell that is handed over in the moment in which the kernel dies runs on the next one.
#[tokio::test]
async fn a_cell_sent_to_a_dying_kernel_runs_on_the_next() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for delay in 0..20_u64 {
        let pid = number(&session, "import os; os.getpid()").await;
        crate::lifecycle_support::signal(pid, rustix::process::Signal::KILL);
        tokio::time::sleep(Duration::from_micros(100 * delay)).await;
        let outcome = run(&session, "6*7").await;
        let told = json(&outcome);
        if told["error_class"] == "kernel_died" {
            // It had been written to the old kernel before that was seen to be dead.
            assert_eq!(told["kernel"]["state"], "lost");
        } else {
            assert_eq!(outcome.result.as_deref(), Some("42"), "{outcome:?}");
            assert_eq!(told["kernel"]["reason"], "kernel_died", "{outcome:?}");
        }
    }
    manager.end().await;
}

async fn answers(session: &Session) {
    let outcome = run(session, "6*7").await;
    assert_eq!(outcome.result.as_deref(), Some("42"), "{outcome:?}");
}

#[tokio::test]
async fn a_cell_that_kills_the_forkserver_ends_its_kernels_and_no_session() {
    let manager = Manager::start().await;
    let others: Vec<Session> = (0..3).map(|n| manager.session(&format!("o{n}"))).collect();
    for session in &others {
        run(session, "x = 1").await;
    }
    let session = manager.session("a");
    let code =
        "import os, subprocess, time\nsubprocess.Popen(['sleep', '300'], start_new_session=True)\n";
    run(&session, code).await;
    let began = Instant::now();
    let outcome = run(&session, "os.kill(os.getppid(), 9)\ntime.sleep(9)").await;
    eprintln!("death of the forkserver: told after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(2));
    let told = json(&outcome);
    assert_eq!(
        told["error"],
        "the kernel ended because its forkserver was killed by signal 9 while running the cell"
    );
    assert_eq!(told["error_class"], "kernel_died");
    answers(&session).await;
    for session in &others {
        let next = run(session, "6*7").await;
        assert_eq!(next.result.as_deref(), Some("42"));
        assert_eq!(json(&next)["kernel"]["reason"], "kernel_died");
        assert_eq!(json(&next)["kernel"]["lost"]["names"][0]["name"], "x");
        assert!(
            next.output
                .contains("ended because its forkserver was killed by signal 9"),
            "{}",
            next.output
        );
    }
    manager.end().await;
}

/// The kernel and its forkserver, together, at the same time as a cell begins elsewhere.
#[tokio::test]
async fn killing_the_forkserver_again_and_again_loses_no_session() {
    let manager = Manager::start().await;
    let (one, two) = (manager.session("one"), manager.session("two"));
    for _ in 0..5 {
        run(&two, "1").await;
        let (died, other) = tokio::join!(
            run(
                &one,
                "import os; os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)"
            ),
            run(&two, "6*7")
        );
        assert_eq!(json(&died)["error_class"], "kernel_died", "{died:?}");
        let told = json(&other);
        assert!(
            told["result"] == "42" || told["error_class"] == "kernel_died",
            "{other:?}"
        );
        answers(&one).await;
        // Its kernel dies with the forkserver, perhaps only after it was given this cell.
        let told = json(&run(&two, "6*7").await);
        if told["error_class"] == "kernel_died" {
            answers(&two).await;
        } else {
            assert_eq!(told["result"], "42", "{told}");
        }
    }
    manager.end().await;
}
