//! Kernels that nobody needs end, and sessions stay.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use warmcell::config::Settings;
use warmcell::session::{Cell, Registry, Session};

use crate::lifecycle_support::{is_alive, json, limited, number, until};
use crate::support::{Place, SAFETY, python, run, run_cell};

async fn manager(place: &Place, milliseconds: u64) -> Registry {
    let settings = Settings {
        kernel_idle_timeout: Some(Duration::from_millis(milliseconds)),
        ..place.settings()
    };
    Registry::start(settings).await.unwrap()
}

fn session(registry: &Registry, place: &Place, name: &str) -> Session {
    registry.session(name, &place.caller(python())).unwrap()
}

#[tokio::test]
async fn an_idle_kernel_ends_in_good_order_and_the_next_cell_is_told() {
    let place = Place::new();
    let registry = manager(&place, 250).await;
    let one = session(&registry, &place, "a");
    let left = place.work().join("left");
    let code = format!(
        "import atexit, os, subprocess\n\
         atexit.register(lambda: open({left:?}, 'w').close())\n\
         child = subprocess.Popen(['sleep', '100'], start_new_session=True)\nchild.pid"
    );
    let child = number(&one, &code).await;
    assert_eq!(registry.kernels(), 1);
    until("the end of the kernel", || registry.kernels() == 0).await;
    assert!(left.exists(), "it ended in good order");
    until("the end of its child", || !is_alive(child)).await;
    assert!(!one.is_closed());
    assert_eq!(registry.names().len(), 1);
    let next = json(&run(&one, "'os' in globals()").await);
    assert_eq!(
        next["output"],
        "[new kernel: the previous one was lost (idle 0.25 s); gone: child, subprocess, os and \
         atexit]\nFalse"
    );
    assert_eq!(next["kernel"]["reason"], "idle");
    assert_eq!(next["kernel"]["state"], "fresh");
    assert_eq!(next["kernel"]["generation"], 2);
    assert_eq!(next["kernel"]["lost"]["cells"], 1);
    assert_eq!(next["kernel"]["lost"]["names_total"], 4);
    let after = json(&run(&one, "1").await);
    assert_eq!(after["kernel"].get("reason"), None, "told once");
    // And again.
    until("the end of the kernel", || registry.kernels() == 0).await;
    let next = json(&run(&one, "1").await);
    assert_eq!(next["kernel"]["generation"], 3);
    assert_eq!(
        next["kernel"]["lost"],
        json!({"cells": 2, "names": [], "names_total": 0})
    );
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn the_time_counts_from_the_end_of_the_last_cell() {
    let place = Place::new();
    let registry = manager(&place, 1_000).await;
    let one = session(&registry, &place, "a");
    // One that takes longer than that is not idle.
    run(&one, "import time; time.sleep(1.3)").await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let outcome = run(&one, "1").await;
        assert_eq!(outcome.kernel.generation, 1, "{outcome:?}");
    }
    let ended = Instant::now();
    until("the end of the kernel", || registry.kernels() == 0).await;
    assert!(
        ended.elapsed() >= Duration::from_millis(900),
        "{:?}",
        ended.elapsed()
    );
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_kernel_that_was_never_used_ends_without_a_word() {
    let place = Place::new();
    let registry = manager(&place, 250).await;
    let one = session(&registry, &place, "a");
    run(&one, "x = 1").await;
    run_cell(&one, limited("while True: pass", 100)).await;
    // The one that was started at once has run nothing.
    until("the end of the kernel", || registry.kernels() == 0).await;
    let next = json(&run(&one, "1").await);
    assert_eq!(
        next["output"],
        "[new kernel: the previous one was lost (timeout 0.1 s); gone: x]\n1"
    );
    assert_eq!(next["kernel"]["reason"], "timeout");
    assert_eq!(next["kernel"].get("lost"), None, "that was told");
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn what_is_wanted_while_an_idle_kernel_ends_waits_a_second_at_most() {
    let place = Place::new();
    let registry = manager(&place, 200).await;
    let one = session(&registry, &place, "a");
    let begun = place.work().join("begun");
    let code = format!(
        "import atexit, time\ndef slow():\n    open({begun:?}, 'w').close()\n    time.sleep(60)\n\
         atexit.register(slow)\nx = 1"
    );
    run(&one, &code).await;
    until("the end to begin", || begun.exists()).await;
    let asked = Instant::now();
    let next = json(&run(&one, "'x' in globals()").await);
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(next["kernel"]["reason"], "idle");
    assert_eq!(next["result"], "False");
    fs::remove_file(&begun).unwrap();
    run(&one, &code).await;
    until("the end to begin", || begun.exists()).await;
    tokio::time::timeout(SAFETY, one.close()).await.unwrap();
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_manager_knows_how_many_kernels_there_are_and_when_there_are_none() {
    let place = Place::new();
    let registry = manager(&place, 700).await;
    assert_eq!(registry.kernels(), 0);
    let moment = Duration::from_millis(50);
    tokio::time::timeout(SAFETY, registry.quiet(moment))
        .await
        .unwrap();
    let (one, two) = (
        session(&registry, &place, "a"),
        session(&registry, &place, "b"),
    );
    assert_eq!(registry.kernels(), 0, "no kernel before the first cell");
    tokio::join!(run(&one, "1"), run(&two, "1"));
    assert_eq!(registry.kernels(), 2);
    run_cell(&one, limited("while True: pass", 50)).await;
    assert_eq!(registry.kernels(), 2, "the next one was started at once");
    run(&one, "import os; os.kill(os.getpid(), 9)").await;
    run_cell(&one, Cell::new("x = 1").reset()).await;
    assert_eq!(registry.kernels(), 2);
    two.close().await;
    assert_eq!(registry.kernels(), 1);
    // It is quiet only when the last one has ended, and has been so for a while.
    let early = tokio::time::timeout(moment * 4, registry.quiet(moment)).await;
    assert!(early.is_err());
    tokio::time::timeout(SAFETY, registry.quiet(moment))
        .await
        .unwrap();
    assert_eq!(registry.kernels(), 0);
    // A kernel that dies with nobody there is not one any more.
    let pid = number(&one, "__import__('os').getpid()").await;
    crate::lifecycle_support::signal(pid, rustix::process::Signal::KILL);
    until("its end", || registry.kernels() == 0).await;
    let failing = registry
        .session("none", &place.caller(std::path::Path::new("/nonexistent")))
        .unwrap();
    run(&failing, "1").await;
    assert_eq!(registry.kernels(), 0);
    registry.shut_down().await;
    place.assert_no_survivors().await;
}
