//! Policy `interrupt` at any moment, again and again, and a second time.

use std::fs;
use std::time::{Duration, Instant};

use warmcell::execution::Status;

use crate::lifecycle_support::{as_if_restarted, json, result, until};
use crate::policy_kit::{
    assert_kept, gentle, interrupted, interrupted_after_mark, interrupted_at_mark, with_grace,
};
use crate::support::{Manager, SAFETY, run};

#[tokio::test]
async fn a_second_interrupt_kills_at_once() {
    let manager = with_grace(SAFETY).await;
    let session = manager.session("a");
    let code = "import time\nwhile True:\n    try:\n        open('mark', 'w').close()\n        time.sleep(60)\n    except KeyboardInterrupt: open('caught', 'w').close()";
    let caught = manager.place.work().join("caught");
    let twice = |by_session: bool| {
        let (session, caught) = (session.clone(), caught.clone());
        async move {
            until("the interrupt", || caught.exists()).await;
            if by_session {
                assert!(session.interrupt());
            }
            Instant::now()
        }
    };
    // By the session, after one by the cell's own handle.
    let (outcome, at) = tokio::join!(
        interrupted_at_mark(&session, &manager.place, code),
        twice(true)
    );
    assert!(at.elapsed() < SAFETY / 4, "{:?}", at.elapsed());
    assert_eq!(
        as_if_restarted(&outcome.output),
        "[interrupted and then ended by force; the kernel was killed and restarted; nothing but this \
         cell is lost]"
    );
    // An interrupt of one whose time is up.
    fs::remove_file(&caught).unwrap();
    let mut execution = session.execute(gentle(code).timeout(Duration::from_secs(1)));
    let (outcome, _) = tokio::join!(result(&mut execution), twice(true));
    assert_eq!(outcome.status, Status::Timeout);
    assert!(
        outcome
            .output
            .contains("[timed out after 1 s, was interrupted and then ended by force; the"),
        "{}",
        outcome.output
    );
    // A reset and a close do not wait for the grace.
    for close in [false, true] {
        fs::remove_file(&caught).unwrap();
        let ending = async {
            let at = twice(false).await;
            if close {
                session.close().await;
            } else {
                session.reset().await;
            }
            at
        };
        let (outcome, at) =
            tokio::join!(interrupted_at_mark(&session, &manager.place, code), ending);
        assert!(at.elapsed() < SAFETY / 4, "{:?}", at.elapsed());
        assert_eq!(json(&outcome)["kernel"]["state"], "lost");
        assert_eq!(outcome.output.contains("its session was closed"), close);
    }
    manager.end().await;
}

/// Of 150 interrupts of cells that print all the time each one is clean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_and_fifty_interrupts_of_a_print_loop_are_clean() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "count = 0").await;
    let prints = [
        "while True: print('abcdefgh')",
        "while True: print('x', end='', flush=True)",
        "import sys\nwhile True: sys.stderr.write('e\\n')",
        "while True: print('é' * 3000)",
        "import os\nwhile True: os.write(1, b'raw\\n'); print(1)",
    ];
    for round in 0..150_usize {
        let print = prints[round % prints.len()];
        let code = format!("count += 1\nopen('mark', 'w').close()\n{print}");
        let delay = Duration::from_micros((round as u64 * 7_919) % 60_000);
        let outcome = interrupted_after_mark(&session, &manager.place, &code, delay).await;
        let told = assert_kept(&outcome, &format!("{round}"));
        let error = told["error"].as_str().unwrap();
        assert!(
            error.starts_with("KeyboardInterrupt (<cell "),
            "{round}: {told}"
        );
        let traceback = outcome.beside_streams.traceback.as_deref().unwrap();
        assert!(
            traceback.starts_with("Traceback (most recent call last):\n"),
            "{round}: {traceback}"
        );
        assert_eq!(
            traceback.lines().last(),
            Some("KeyboardInterrupt"),
            "{round}"
        );
        assert_eq!(outcome.warning, None, "{round}");
        let next = run(&session, "count").await;
        assert_eq!(next.output, (round + 1).to_string(), "{round}");
        assert_eq!(next.background_output, None, "{round}");
    }
    manager.end().await;
}

/// 0 to 50 ms after the cell was handed over, also while its kernel is started: nothing is lost, and
/// the cell has done nothing after its result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_interrupt_loses_nothing() {
    let manager = Manager::start().await;
    let mut ran = 0;
    for round in 0..120_u64 {
        let session = manager.session(&format!("s{}", round / 3));
        let file = manager.place.work().join(format!("f{round}"));
        let code = format!(
            "import time\nwarm = {round}\ntime.sleep(0.04)\nopen({file:?}, 'w').close()\ntime.sleep(60)"
        );
        let delay = Duration::from_micros((round * 7_919) % 50_000);
        let outcome = interrupted(&session, &code, delay).await;
        let existed = file.exists();
        let told = json(&outcome);
        assert_eq!(told["status"], "interrupted", "{told}");
        let state = told["kernel"]["state"].as_str().unwrap();
        let count = told["kernel"]["execution_count"].as_u64().unwrap();
        assert!(state == "kept" || state == "fresh", "{told}");
        if count > 0 {
            ran += 1;
            assert_eq!(state == "fresh", count == 1, "{told}");
        }
        let next = json(&run(&session, "warm").await);
        assert_eq!(next["kernel"]["generation"], 1, "{next}");
        assert_eq!(file.exists(), existed, "it went on");
    }
    assert!(ran > 40, "{ran}");
    manager.end().await;
}

/// The interrupt of a cell that has ended is nobody's.
#[tokio::test]
async fn an_interrupt_that_crosses_with_the_end_changes_nothing() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "n = 0").await;
    let mut successes = 0;
    for round in 0..300_u64 {
        let delay = Duration::from_micros(round * 10);
        let outcome = interrupted(&session, "n += 1\nfor i in range(9): n\nn", delay).await;
        match outcome.status {
            Status::Success => successes += 1,
            status => assert_eq!(status, Status::Interrupted, "{outcome:?}"),
        }
        let before = outcome.result.clone();
        let next = run(&session, "n").await;
        assert_eq!(next.status, Status::Success, "{next:?}");
        if before.is_some() {
            assert_eq!(next.result, before, "{round}");
        }
        assert!(!session.interrupt(), "it is idle");
    }
    assert!(successes > 50, "{successes}");
    assert_eq!(json(&run(&session, "n").await)["kernel"]["generation"], 1);
    manager.end().await;
}

/// Somebody who reads along and does not read costs an interrupted cell nothing.
#[tokio::test]
async fn a_reader_who_does_not_read_costs_no_state() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = 1").await;
    for code in [
        "while True: print('x' * 1000)",
        // It has ended, and its last bytes wait.
        "print('x' * 300_000)",
    ] {
        let mut execution = session.execute_live(gentle(code));
        let live = execution.take_live();
        let interrupt = execution.interrupt_token();
        tokio::time::sleep(Duration::from_millis(200)).await;
        interrupt.cancel();
        let outcome = result(&mut execution).await;
        assert_eq!(json(&outcome)["kernel"]["state"], "kept", "{outcome:?}");
        drop(live);
        assert_eq!(run(&session, "x").await.output, "1");
    }
    manager.end().await;
}

#[tokio::test]
async fn an_interrupt_is_told_among_the_events() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "1").await;
    let mut events = session.events();
    let code = "open('mark', 'w').close()\nwhile True: pass";
    interrupted_at_mark(&session, &manager.place, code).await;
    let cell = gentle("while True: pass").timeout(Duration::from_millis(50));
    result(&mut session.execute(cell)).await;
    let mut seen = Vec::new();
    while seen.iter().filter(|it| *it == "cell_finished").count() < 2 {
        let event = serde_json::to_value(events.next().await.unwrap()).unwrap();
        seen.push(match event["kind"].as_str().unwrap() {
            "kernel_state" => format!(
                "{} -> {} ({})",
                event["from"].as_str().unwrap(),
                event["to"].as_str().unwrap(),
                event["reason"].as_str().unwrap()
            ),
            kind => kind.to_owned(),
        });
    }
    let one = |why: &str| {
        [
            "cell_queued".to_owned(),
            "cell_started".to_owned(),
            "idle -> busy (a cell was sent)".to_owned(),
            format!("busy -> interrupting ({why})"),
            "interrupting -> idle (the cell has ended)".to_owned(),
            "cell_finished".to_owned(),
        ]
    };
    assert_eq!(seen, [one("interrupt"), one("timeout")].concat());
    manager.end().await;
}
