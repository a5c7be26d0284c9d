//! Kernels that are not ours and mean no good: they end their bridge, and nothing else.

use std::time::{Duration, Instant};

use warmcell::config::ForeignKernel;
use warmcell::execution::{ErrorClass, Status};
use warmcell::session::Cell;

use crate::foreign_kit::{hostile, manager, session};
use crate::support::{Manager, SAFETY, run, run_cell};

/// Others go on.
async fn assert_others_live(manager: &Manager) {
    let other = manager.session("other");
    assert_eq!(run(&other, "6*7").await.output, "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_of_another_language_runs_without_tools_and_names() {
    let manager = manager(SAFETY).await;
    for mode in ["honest", "asks"] {
        let session = session(&manager, mode, hostile(mode));
        let outcome = run(&session, "hello").await;
        assert_eq!(
            (outcome.output.as_str(), outcome.status),
            ("hello", Status::Success)
        );
        let moved = run_cell(&session, Cell::new("again").directory("/")).await;
        assert_eq!(moved.status, Status::Success, "{}", moved.output);
        assert!(
            moved
                .warning
                .as_deref()
                .unwrap_or("")
                .contains("cannot be moved"),
            "{:?}",
            moved.warning
        );
    }
    manager.end().await;
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
        ("exits", hostile("exits"), "it said: no such luck"),
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
async fn a_kernel_that_closes_its_sockets_is_ended() {
    let manager = manager(SAFETY).await;
    let session = session(&manager, "closes", hostile("closes"));
    let cell = Cell::new("hello").timeout(Duration::from_secs(20));
    let outcome = run_cell(&session, cell).await;
    assert_ne!(outcome.status, Status::Success, "{}", outcome.output);
    assert_others_live(&manager).await;
    manager.end().await;
}
