//! What a manager has noted of its sessions when it is killed, and what the next one tells.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warmcell::config::Settings;
use warmcell::session::{Cell, Registry, Session};

use crate::lifecycle_support::{json, limited, result, until};
use crate::support::{Place, python, run, run_cell};

fn settings(place: &Place, ledger: &Path) -> Settings {
    Settings {
        ledger: Some(ledger.to_owned()),
        ..place.settings()
    }
}

async fn manager(place: &Place, ledger: &Path) -> Registry {
    Registry::start(settings(place, ledger)).await.unwrap()
}

fn session(registry: &Registry, place: &Place, name: &str) -> Session {
    registry.session(name, &place.caller(python())).unwrap()
}

fn record(ledger: &Path, file: &str) -> Value {
    let bytes = fs::read(ledger.join(file)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// The ledger as it is in this moment: as it would be if its manager was killed now.
fn as_if_killed(place: &Place, ledger: &Path, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;

    let copy = place.folder.path().join(name);
    fs::create_dir(&copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(ledger).unwrap().flatten() {
        // An unfinished one may just have got its name.
        fs::copy(entry.path(), copy.join(entry.file_name())).ok();
    }
    copy
}

#[tokio::test]
async fn the_next_manager_tells_what_was_lost_with_one_that_was_killed() {
    let place = Place::new();
    let ledger = place.folder.path().join("first");
    let first = manager(&place, &ledger).await;
    let lead = session(&first, &place, "lead/worker");
    let other = session(&first, &place, "other");
    run(&lead, "df = [1]; model = {}").await;
    run(&lead, "1/0").await;
    run_cell(&lead, limited("while True: pass", 100)).await;
    run(&lead, "x = 1").await;
    run(&lead, "import json").await;
    run(&other, "1").await;
    let is_noted = || {
        let latest = &record(&ledger, "lead+worker.json")["lost"]["names"][1]["name"];
        latest == "json" && record(&ledger, "other.json")["generation"] == 1
    };
    until("the record", is_noted).await;
    let left = as_if_killed(&place, &ledger, "second");
    let second = manager(&place, &left).await;
    let lead_again = session(&second, &place, "lead/worker");
    let told = json(&run(&lead_again, "'x' in globals()").await);
    assert_eq!(
        told["output"],
        "[new kernel: the previous one was lost (manager_restarted); gone: json and x]\nFalse"
    );
    assert_eq!(
        told["kernel"],
        json!({
            "execution_count": 1, "generation": 3, "reused": false, "state": "fresh",
            "reason": "manager_restarted",
            "lost": {
                "cells": 2,
                "names": [{"name": "x", "type": "int"}, {"name": "json", "type": "module"}],
                "names_total": 2
            }
        })
    );
    let after = json(&run(&lead_again, "y = 1").await);
    assert_eq!(after["kernel"].get("reason"), None, "told once");
    let told = json(&run(&session(&second, &place, "other"), "1").await);
    assert_eq!(told["kernel"]["lost"]["names"], json!([]));
    assert_eq!(told["kernel"]["reason"], "manager_restarted");
    let fresh = json(&run(&session(&second, &place, "new"), "1").await);
    assert_eq!(fresh["kernel"].get("reason"), None);
    // Killed once more: what was told is not told again.
    until("the record", || {
        record(&left, "lead+worker.json")["lost"]["names"] == json!([{"name": "y", "type": "int"}])
    })
    .await;
    let left = as_if_killed(&place, &left, "third");
    let third = manager(&place, &left).await;
    let told = json(&run(&session(&third, &place, "lead/worker"), "1").await);
    assert_eq!(
        told["output"],
        "[new kernel: the previous one was lost (manager_restarted); gone: y]\n1"
    );
    assert_eq!(told["kernel"]["generation"], 4);
    for registry in [first, second, third] {
        registry.shut_down().await;
    }
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_cell_that_ran_when_its_manager_was_killed_is_told() {
    let place = Place::new();
    let ledger = place.folder.path().join("first");
    let first = manager(&place, &ledger).await;
    let one = session(&first, &place, "a");
    let mut running = one.execute(Cell::new("while True: pass"));
    until("the record", || {
        record(&ledger, "a.json")["running"] == true
    })
    .await;
    let left = as_if_killed(&place, &ledger, "second");
    running.interrupt();
    result(&mut running).await;
    let second = manager(&place, &left).await;
    let told = json(&run(&session(&second, &place, "a"), "1").await);
    assert_eq!(
        told["output"],
        "[new kernel: the previous one was lost (manager_restarted while a cell ran)]\n1"
    );
    assert_eq!(told["kernel"]["generation"], 2);
    assert_eq!(told["kernel"]["lost"]["cells"], 0);
    first.shut_down().await;
    second.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_record_goes_with_its_session_and_stays_when_the_manager_ends() {
    let place = Place::new();
    let ledger = place.folder.path().join("ledger");
    for round in 0..2 {
        let registry = manager(&place, &ledger).await;
        let (closed, left) = (
            session(&registry, &place, "closed"),
            session(&registry, &place, "left"),
        );
        let told = json(&run(&left, "a = 1; b = 2").await);
        assert_eq!(told["kernel"]["generation"], round + 1);
        if round == 1 {
            assert_eq!(told["kernel"]["reason"], "manager_restarted");
            assert_eq!(told["kernel"]["lost"]["names_total"], 2);
        }
        let told = json(&run(&closed, "1").await);
        assert_eq!(told["kernel"].get("reason"), None);
        until("the record", || ledger.join("closed.json").exists()).await;
        closed.close().await;
        assert!(!ledger.join("closed.json").exists());
        // One that never had a kernel leaves nothing.
        session(&registry, &place, "unused");
        registry.shut_down().await;
        assert_eq!(record(&ledger, "left.json")["lost"]["names_total"], 2);
        assert_eq!(fs::read_dir(&ledger).unwrap().count(), 1);
    }
    // Also one that is simply dropped.
    let registry = manager(&place, &ledger).await;
    let one = session(&registry, &place, "dropped");
    run(&one, "c = 1").await;
    drop(registry);
    until("the end", || one.is_closed()).await;
    place.assert_no_survivors().await;
    assert_eq!(record(&ledger, "dropped.json")["lost"]["names_total"], 1);
}

#[tokio::test]
async fn a_loss_that_nobody_received_is_told_by_the_next_manager() {
    let place = Place::new();
    let ledger = place.folder.path().join("first");
    let first = manager(&place, &ledger).await;
    let one = session(&first, &place, "a");
    run(&one, "x = 1").await;
    let mut events = one.events();
    let mut dropped = Some(one.execute(limited("while True: pass", 100)));
    loop {
        let event = serde_json::to_value(events.next().await.unwrap()).unwrap();
        match event["kind"].as_str().unwrap() {
            "cell_started" => drop(dropped.take()),
            "cell_finished" => break,
            _ => {}
        }
    }
    let untold = json!([{"name": "x", "type": "int"}]);
    until("the record", || {
        let record = record(&ledger, "a.json");
        record["generation"] == 2 && record["lost"]["names"] == untold
    })
    .await;
    // In the first cell of the next kernel it is still untold.
    let mut running = one.execute(Cell::new("while True: pass"));
    until("the record", || {
        record(&ledger, "a.json")["running"] == true
    })
    .await;
    let left = as_if_killed(&place, &ledger, "second");
    running.interrupt();
    let told = json(&result(&mut running).await);
    assert_eq!(told["kernel"]["lost"]["names"], untold);
    until("the record", || record(&ledger, "a.json")["told"] == true).await;
    let known = as_if_killed(&place, &ledger, "third");
    let second = manager(&place, &left).await;
    let told = json(&run(&session(&second, &place, "a"), "1").await);
    assert_eq!(told["kernel"]["lost"]["names"], untold);
    // One whose names are known is announced without them.
    let third = manager(&place, &known).await;
    let told = json(&run(&session(&third, &place, "a"), "1").await);
    assert_eq!(told["kernel"]["reason"], "manager_restarted");
    assert_eq!(told["kernel"].get("lost"), None);
    for registry in [first, second, third] {
        registry.shut_down().await;
    }
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_ledger_that_cannot_be_written_costs_no_cell() {
    let place = Place::new();
    let file = place.folder.path().join("file");
    fs::write(&file, "").unwrap();
    let registry = manager(&place, &file.join("ledger")).await;
    for name in ["a", "b"] {
        let one = session(&registry, &place, name);
        let outcome = run(&one, "1").await;
        assert_eq!(outcome.output, "1");
        let warning = outcome.warning.unwrap();
        assert!(
            warning.starts_with("what this session holds cannot be noted in ")
                && warning.contains("Not a directory"),
            "{warning}"
        );
        assert_eq!(run(&one, "1").await.warning, None, "told once");
    }
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn many_short_cells_leave_the_latest_state() {
    let place = Place::new();
    let ledger = place.folder.path().join("ledger");
    let registry = manager(&place, &ledger).await;
    let one = session(&registry, &place, "a");
    for n in 0..300 {
        run(&one, &format!("v{n} = {n}")).await;
    }
    until("the record", || {
        record(&ledger, "a.json")["lost"]["cells"] == 300
    })
    .await;
    let lost = &record(&ledger, "a.json")["lost"];
    assert_eq!(lost["names_total"], 300);
    assert_eq!(lost["names"].as_array().unwrap().len(), 20);
    assert_eq!(lost["names"][19], json!({"name": "v299", "type": "int"}));
    registry.shut_down().await;
    place.assert_no_survivors().await;
}
