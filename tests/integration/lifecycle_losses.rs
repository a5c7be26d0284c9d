//! What is lost with a kernel is told, once, to somebody who listens.

use serde_json::json;
use warmcell::execution::Status;
use warmcell::session::Cell;

use crate::lifecycle_support::{json, limited, result, until};
use crate::support::{Manager, run, run_cell};

#[tokio::test]
async fn the_twenty_latest_names_are_told_with_type_order_and_total() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(
        &session,
        "for i in range(30): globals()[f'v{i}'] = i\ndel i",
    )
    .await;
    run(
        &session,
        "import math\ndef f(): pass\nclass C: pass\nv3 = 'again'",
    )
    .await;
    run(&session, "_hidden = 1; del v29").await;
    let outcome = run_cell(&session, limited("while True: pass", 200)).await;
    let lost = &json(&outcome)["kernel"]["lost"];
    let mut expected: Vec<_> = (13..29)
        .map(|i| json!({"name": format!("v{i}"), "type": "int"}))
        .collect();
    for (name, kind) in [
        ("math", "module"),
        ("f", "function"),
        ("C", "type"),
        ("v3", "str"),
    ] {
        expected.push(json!({"name": name, "type": kind}));
    }
    assert_eq!(lost["names"], json!(expected));
    assert_eq!(lost["names_total"], 32);
    assert_eq!(lost["cells"], 3);
    assert!(
        outcome
            .output
            .contains("3 cells and v3, C, f, math, v28 and 27 more are lost"),
        "{}",
        outcome.output
    );
    manager.end().await;
}

#[tokio::test]
async fn trace_8_a_loss_nobody_received_is_told_to_the_next_caller() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = 1").await;
    let mark = manager.place.work().join("begun");
    let code = format!("open({mark:?}, 'w').close()\nwhile True: pass");
    let dropped = session.execute(limited(&code, 300));
    until("the cell", || mark.exists()).await;
    drop(dropped);
    let next = json(&run(&session, "1").await);
    assert_eq!(next["kernel"]["state"], "fresh");
    assert_eq!(next["kernel"]["reason"], "timeout");
    assert_eq!(
        next["kernel"]["lost"],
        json!({"cells": 1, "names": [{"name": "x", "type": "int"}], "names_total": 1})
    );
    assert_eq!(
        next["output"],
        "[new kernel: the previous one was lost (timeout 0.3 s); gone: x]\n1"
    );
    let after = json(&run(&session, "1").await);
    assert_eq!(after["kernel"].get("reason"), None, "told once");
    assert_eq!(after["output"], "1");
    manager.end().await;
}

#[tokio::test]
async fn losses_that_nobody_received_add_up() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for name in ["a", "b", "c"] {
        run_untold(&session, &format!("{name} = 1"), false).await;
        run_untold(&session, "while True: pass", true).await;
    }
    let next = json(&run(&session, "1").await);
    assert_eq!(next["kernel"]["generation"], 4);
    assert_eq!(next["kernel"]["reason"], "timeout");
    let lost = &next["kernel"]["lost"];
    assert_eq!(lost["cells"], 3);
    assert_eq!(lost["names_total"], 3);
    assert_eq!(
        lost["names"],
        json!([
            {"name": "a", "type": "int"}, {"name": "b", "type": "int"}, {"name": "c", "type": "int"}
        ])
    );
    manager.end().await;
}

/// Runs a cell whose caller goes away as soon as it runs, and waits for its end.
async fn run_untold(session: &warmcell::session::Session, code: &str, endless: bool) {
    let mut events = session.events();
    let execution = session.execute(limited(code, if endless { 100 } else { 9_000 }));
    let mut execution = Some(execution);
    loop {
        let event = serde_json::to_value(events.next().await.unwrap()).unwrap();
        match event["kind"].as_str().unwrap() {
            "cell_started" => drop(execution.take()),
            "cell_finished" => return,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_reset_tells_what_it_has_cost() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = 1").await;
    let outcome = run_cell(&session, Cell::new("'x' in globals()").reset()).await;
    assert_eq!(
        outcome.output,
        "[new kernel: the previous one was lost (reset); gone: x]\nFalse"
    );
    assert_eq!(
        json(&outcome)["kernel"],
        json!({
            "execution_count": 1, "generation": 2, "reused": false, "state": "fresh",
            "reason": "reset",
            "lost": {"cells": 1, "names": [{"name": "x", "type": "int"}], "names_total": 1}
        })
    );
    run(&session, "y = 1").await;
    session.reset().await;
    session.reset().await;
    let outcome = json(&run(&session, "1").await);
    assert_eq!(
        outcome["kernel"]["generation"], 3,
        "an empty kernel is not discarded"
    );
    assert_eq!(outcome["kernel"]["reason"], "reset");
    assert_eq!(outcome["kernel"]["lost"]["names"][0]["name"], "y");
    manager.end().await;
}

#[tokio::test]
async fn the_first_cell_ever_is_fresh_without_a_reason() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    session.reset().await;
    let first = json(&run_cell(&session, Cell::new("1").reset()).await);
    let expected =
        json!({"execution_count": 1, "generation": 1, "reused": false, "state": "fresh"});
    assert_eq!(first["kernel"], expected);
    manager.end().await;
}

#[tokio::test]
async fn execution_counts_and_generations_follow_the_kernel() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let seen = |outcome: &warmcell::execution::Outcome| {
        let kernel = json(outcome)["kernel"].clone();
        (
            kernel["execution_count"].as_u64().unwrap(),
            kernel["generation"].as_u64().unwrap(),
            kernel["reused"].as_bool().unwrap(),
            kernel["state"].as_str().unwrap().to_owned(),
        )
    };
    let failed = run(&session, "1/0").await;
    assert_eq!(seen(&failed), (1, 1, false, "fresh".into()));
    assert!(failed.output.contains("<cell 1>"));
    assert_eq!(seen(&run(&session, "(").await), (2, 1, true, "kept".into()));
    let killed = run_cell(&session, limited("while True: pass", 150)).await;
    assert_eq!(
        seen(&killed),
        (3, 1, true, "lost".into()),
        "a killed cell has its number"
    );
    let failed = run(&session, "1/0").await;
    assert_eq!(seen(&failed), (1, 2, false, "fresh".into()));
    assert!(failed.output.contains("<cell 1>"));
    let died = run(&session, "import os; os._exit(1)").await;
    assert_eq!(seen(&died), (2, 2, true, "lost".into()));
    let killed = run_cell(&session, limited("while True: pass", 150)).await;
    assert_eq!(
        seen(&killed),
        (1, 3, false, "lost".into()),
        "its first cell"
    );
    assert_eq!(
        seen(&run(&session, "1").await),
        (1, 4, false, "fresh".into())
    );
    let usage = run(&session, " ").await;
    assert_eq!(usage.status, Status::Error);
    assert_eq!(seen(&run(&session, "1").await), (2, 4, true, "kept".into()));
    manager.end().await;
}

#[tokio::test]
async fn a_cell_that_ends_in_time_while_another_is_dropped_tells_nothing() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let mut running = session.execute(Cell::new("import time; time.sleep(0.2); x = 1"));
    drop(session.execute(Cell::new("x = 2")));
    assert_eq!(result(&mut running).await.status, Status::Success);
    let outcome = run(&session, "x").await;
    assert_eq!(outcome.output, "1");
    manager.end().await;
}
