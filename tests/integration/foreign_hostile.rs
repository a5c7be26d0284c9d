//! Kernels that are not ours and mean no good: they end their bridge, and nothing else.

use std::time::{Duration, Instant};

use warmcell::config::ForeignKernel;
use warmcell::execution::{ErrorClass, LiveEvent, ReportedState, Status};
use warmcell::session::{Cell, Policy};

use crate::foreign_kit::{hostile, manager, session, with_hostile};
use crate::lifecycle_support::{until, written};
use crate::server_jupyter_hostile::peak_memory;
use crate::support::{Manager, SAFETY, run, run_cell};

/// Others go on.
async fn assert_others_live(manager: &Manager) {
    let other = manager.session("other");
    assert_eq!(run(&other, "6*7").await.output, "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_of_another_language_runs_without_tools_and_names() {
    with_hostile(&["honest"], async |_manager, session, _mode| {
        let outcome = run(session, "hello").await;
        assert_eq!(
            (outcome.output.as_str(), outcome.status),
            ("hello", Status::Success)
        );
        let moved = run_cell(session, Cell::new("again").directory("/")).await;
        assert_eq!(moved.status, Status::Success, "{}", moved.output);
        let warning = moved.warning.unwrap_or_default();
        assert!(warning.contains("cannot be moved"), "{warning}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_does_not_start_is_told_with_its_last_words() {
    let manager = manager(Duration::from_millis(1500)).await;
    let missing = ForeignKernel {
        argv: vec!["/no/such/kernel".to_owned()],
        ..hostile("")
    };
    for (name, kernel, sentence) in [
        ("missing", missing, "cannot be started"),
        (
            "exits",
            hostile("exits"),
            "it said: the beginning of its end | no such luck",
        ),
        (
            "prints",
            hostile("prints"),
            "did not answer within 1.5 s; it said: ",
        ),
        ("mute", hostile("mute"), "did not answer within 1.5 s"),
    ] {
        let began = Instant::now();
        let session = session(&manager, name, kernel);
        let outcome = run(&session, "1").await;
        assert_eq!(
            outcome.error_class,
            Some(ErrorClass::Unavailable),
            "{}",
            outcome.output
        );
        assert!(
            outcome.output.contains("the kernel hostile "),
            "{}",
            outcome.output
        );
        assert!(outcome.output.contains(sentence), "{}", outcome.output);
        assert!(outcome.output.len() < 2_000, "{}", outcome.output.len());
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    assert_others_live(&manager).await;
    manager.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bridge_a_foreign_kernel_is_refused_with_what_to_set() {
    let manager = Manager::start().await;
    let session = session(&manager, "none", hostile("honest"));
    let outcome = run(&session, "1").await;
    assert_eq!(outcome.error_class, Some(ErrorClass::Unavailable));
    assert!(
        outcome.output.contains("set Settings::bridge"),
        "{}",
        outcome.output
    );
    assert_others_live(&manager).await;
    manager.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_breaks_the_protocol_ends_alone() {
    let manager = manager(SAFETY).await;
    for (mode, sentence) in [
        (
            "frame",
            "broke the protocol: on its iopub socket a frame of 70368744177664 bytes",
        ),
        ("garbage", "broke the protocol: on its shell socket"),
        ("half", "exited with code 7"),
    ] {
        let session = session(&manager, mode, hostile(mode));
        let outcome = run(&session, "hello").await;
        assert_eq!(
            outcome.error_class,
            Some(ErrorClass::KernelDied),
            "{}",
            outcome.output
        );
        let error = outcome.error.as_deref().unwrap();
        assert!(error.contains(sentence), "{error}");
        assert_others_live(&manager).await;
    }
    manager.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forged_replayed_or_odd_is_dropped_and_told() {
    let manager = manager(SAFETY).await;
    let forged = session(&manager, "forged", hostile("forged"));
    let outcome = run(&forged, "hello").await;
    assert_eq!(outcome.status, Status::Success, "{}", outcome.output);
    assert_eq!(
        outcome.output.lines().next(),
        Some("once hello"),
        "{}",
        outcome.output
    );
    let warning = outcome.warning.as_deref().unwrap_or_default();
    assert!(
        warning.contains("messages of the kernel were dropped"),
        "{warning}"
    );
    let odd = session(&manager, "odd", hostile("odd"));
    let outcome = run(&odd, "hello").await;
    assert_eq!(outcome.status, Status::Success, "{}", outcome.output);
    assert!(outcome.output.contains("hello"), "{}", outcome.output);
    let silent = session(&manager, "silent", hostile("never-idle"));
    let outcome = run(&silent, "hello").await;
    assert_eq!(outcome.status, Status::Success, "{}", outcome.output);
    let warning = outcome.warning.as_deref().unwrap_or_default();
    assert!(warning.contains("did not say that it is idle"), "{warning}");
    manager.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_bears_the_parent_of_another_is_not_taken_for_the_end_of_a_cell() {
    with_hostile(&["wrong-parent"], async |_manager, session, _mode| {
        let outcome = run(session, "hello").await;
        assert_eq!(
            (outcome.output.as_str(), outcome.status),
            ("hello", Status::Success)
        );
        assert_eq!(run(session, "again").await.output, "again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_closes_one_of_its_sockets_is_ended() {
    let modes = [
        "closes-iopub",
        "closes-shell",
        "closes-stdin",
        "closes-control",
    ];
    with_hostile(&modes, async |manager, session, mode| {
        let outcome = run(session, "hello").await;
        if mode == "closes-control" {
            // It goes on with its cell, and has the time for it.
            assert_eq!(outcome.output, "hello");
            let lost = async { while run(session, "again").await.kernel.generation == 1 {} };
            tokio::time::timeout(SAFETY, lost).await.unwrap();
        } else {
            assert_eq!(outcome.error_class, Some(ErrorClass::KernelDied), "{mode}");
            let error = outcome.error.as_deref().unwrap();
            assert!(
                error.contains("it closed its sockets (all but 3)"),
                "{mode}: {error}"
            );
        }
        assert_others_live(manager).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_whose_child_holds_its_sockets_has_ended_all_the_same() {
    with_hostile(&["forks"], async |manager, session, _mode| {
        let outcome = run(session, "hello").await;
        let error = outcome.error.as_deref().unwrap();
        assert_eq!(
            error,
            "the kernel exited with code 5 while running the cell"
        );
        // The child has gone with it, and the next kernel is there.
        until("one kernel", || {
            let all = manager.place.survivors();
            let kernels = all.iter().filter(|it| it.1.contains("hostile_kernel.py"));
            kernels.count() == 1
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_long_is_left_out_and_told() {
    with_hostile(&["long"], async |_manager, session, _mode| {
        let outcome = run(session, "193").await;
        assert_eq!(
            (outcome.output.as_str(), outcome.status),
            ("193", Status::Success)
        );
        let warning = outcome.warning.unwrap_or_default();
        assert!(warning.contains("one may have 192 MiB"), "{warning}");
        assert!(
            warning.contains("1 messages of the kernel were left out"),
            "{warning}"
        );
        // One that is long, but not that long, is whole.
        let outcome = run(session, "70").await;
        assert_eq!(outcome.stdout_bytes_total, (70 << 20) + 2);
        assert_eq!((outcome.warning, outcome.kernel.generation), (None, 1));
    })
    .await;
}

/// A kernel does not wait for readers: beyond 64 MiB it is counted what is left out, and memory does
/// not follow what it prints.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_that_nobody_reads_costs_no_memory_and_is_told_to_the_byte() {
    with_hostile(&["flood"], async |manager, session, _mode| {
        let out = manager.place.work().join("out");
        let code = format!("160 {}", out.display());
        let mut execution = session.execute_live(Cell::new(&code));
        let mut live = execution.take_live().unwrap();
        written(&out).await;
        let pid = session.status().kernel_pid.unwrap();
        while tokio::time::timeout(SAFETY, live.next())
            .await
            .unwrap()
            .is_some()
        {}
        let outcome = execution.outcome().await;
        assert_eq!(outcome.status, Status::Success);
        let warning = outcome.warning.unwrap_or_default();
        let (number, rest) = warning.split_once(' ').unwrap();
        assert!(
            rest.starts_with("bytes of output were left out"),
            "{warning}"
        );
        let all = (160 << 20) + code.len() as u64;
        assert_eq!(
            outcome.stdout_bytes_total + number.parse::<u64>().unwrap(),
            all
        );
        let peak = peak_memory(pid);
        assert!(peak < 128 << 20, "{peak} bytes");
        assert!(
            outcome.stdout_bytes_total >= 64 << 20,
            "{}",
            outcome.stdout_bytes_total
        );
    })
    .await;
}

/// What a kernel has said before it ended waits for its reader as other output does.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_kernel_has_said_waits_for_its_reader() {
    with_hostile(&["flood-ends"], async |manager, session, _mode| {
        let out = manager.place.work().join("out");
        let code = format!("8 {}", out.display());
        let mut execution = session.execute_live(Cell::new(&code));
        let mut live = execution.take_live().unwrap();
        written(&out).await;
        until("the kernel's end", || {
            let all = manager.place.survivors();
            all.iter().all(|it| !it.1.contains("hostile_kernel.py"))
        })
        .await;
        while tokio::time::timeout(SAFETY, live.next())
            .await
            .unwrap()
            .is_some()
        {}
        let outcome = execution.outcome().await;
        let error = outcome.error.as_deref().unwrap();
        assert_eq!(
            error,
            "the kernel exited with code 72 while running the cell"
        );
        assert_eq!(outcome.stdout_bytes_total, 8 << 20);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_in_the_middle_of_a_message_cuts_nothing() {
    with_hostile(&["interrupted"], async |_manager, session, _mode| {
        let cell = Cell {
            on_interrupt: Some(Policy::Interrupt),
            ..Cell::new("end")
        };
        let mut execution = session.execute_live(cell);
        let mut live = execution.take_live().unwrap();
        let first = tokio::time::timeout(SAFETY, live.next()).await.unwrap();
        assert_eq!(first, Some(LiveEvent::Stdout("begun\n".into())));
        execution.interrupt();
        while tokio::time::timeout(SAFETY, live.next())
            .await
            .unwrap()
            .is_some()
        {}
        let outcome = execution.outcome().await;
        assert_eq!(outcome.kernel.state, ReportedState::Fresh);
        assert_eq!(outcome.status, Status::Interrupted);
        assert_eq!(outcome.stdout_bytes_total, (2 << 20) + 9);
        // Its kernel is there still.
        assert_eq!(session.status().generation, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_closes_its_sockets_is_ended() {
    let manager = manager(SAFETY).await;
    let session = session(&manager, "closes", hostile("closes"));
    let cell = Cell::new("hello").timeout(Duration::from_secs(20));
    let outcome = run_cell(&session, cell).await;
    assert_ne!(outcome.status, Status::Success, "{}", outcome.output);
    assert_others_live(&manager).await;
    manager.end().await;
}
