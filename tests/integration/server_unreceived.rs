//! Results that nobody has received, and other things that a newcomer runs into.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::lifecycle_support::until;
use crate::server_kit::Home;

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text:?}"))
}

fn detached(home: &Home, session: &str, cells: &[&str]) {
    for code in cells {
        let (status, _, err) = home.run(&["exec", "-s", session, "--detach", code]);
        assert_eq!(status, 0, "{err}");
    }
}

async fn completed(home: &Home, session: &str, cells: u64) {
    until("the cells", || {
        let (_, out, _) = home.run(&["sessions", "show", session, "--json"]);
        let shown: Value = serde_json::from_str(&out).unwrap_or_default();
        shown["cells_total"] == cells
    })
    .await;
}

#[tokio::test]
async fn a_close_says_which_results_nobody_has_received() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    detached(&home, "a", &["1/0", "2"]);
    completed(&home, "a", 3).await;
    let (code, out, err) = home.run(&["sessions", "close", "a"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert_eq!(
        err,
        "warmcell: session a is closed; 2 results that nobody has received are dropped: cell 2 \
         (error), cell 3 (success)\n"
    );
    detached(&home, "b", &["import time; time.sleep(600)", "2"]);
    home.state("b", "busy").await;
    let (_, out, _) = home.run(&["sessions", "close", "b", "--json"]);
    assert_eq!(
        value(&out)["unreceived"],
        json!([{"cell": 1, "status": "interrupted"}, {"status": "error"}]),
        "{out}"
    );
    // Nothing is said where there is nothing.
    home.run(&["exec", "-s", "c", "1"]);
    let (_, out, _) = home.run(&["sessions", "close", "c", "--json"]);
    assert_eq!(value(&out)["unreceived"], json!([]));
    home.end().await;
}

#[tokio::test]
async fn a_stop_says_which_results_nobody_has_received() {
    let home = Home::new();
    detached(&home, "a", &["1"]);
    completed(&home, "a", 1).await;
    home.run(&["exec", "-s", "b", "1"]);
    let (code, _, err) = home.run(&["serve", "--stop"]);
    assert_eq!(code, 0);
    assert_eq!(
        err,
        "warmcell: the background server and its 2 sessions have ended; 1 result that nobody has \
         received is dropped: cell 1 of a (success)\n"
    );
    home.assert_nothing_left().await;
}

#[tokio::test]
async fn a_stop_says_how_the_cells_have_ended_that_it_ends() {
    let home = Home::new();
    detached(&home, "a", &["import time; time.sleep(600)", "2"]);
    home.state("a", "busy").await;
    let (code, out, err) = home.run(&["serve", "--stop", "--json"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        value(&out)["unreceived"],
        json!([
            {"session": "a", "cell": 1, "status": "interrupted"},
            {"session": "a", "status": "error"}
        ]),
        "{out}"
    );
    home.assert_nothing_left().await;
}

#[tokio::test]
async fn results_that_went_with_a_server_are_told_by_the_next() {
    for kind in [Signal::TERM, Signal::KILL] {
        let home = Home::new();
        home.run(&["exec", "-s", "a", "x = 1"]);
        detached(&home, "a", &["1/0", "2", "3"]);
        completed(&home, "a", 4).await;
        detached(&home, "received", &["1"]);
        let (code, out, _) = home.run(&["sessions", "wait", "received"]);
        assert_eq!((code, out.as_str()), (0, "1\n"));
        let record = |name: &str| {
            let path = home.place.home().join("warmcell/sessions").join(name);
            let record = fs::read(path).unwrap_or_default();
            serde_json::from_slice::<Value>(&record).unwrap_or_default()
        };
        let unreceived = json!([
            {"cell": 2, "status": "error"},
            {"cell": 3, "status": "success"},
            {"cell": 4, "status": "success"}
        ]);
        until("the records", || {
            record("a.json")["lost"]["unreceived"] == unreceived
                && record("received.json")["lost"]["cells"] == 1
                && record("received.json")["lost"].get("unreceived").is_none()
        })
        .await;
        home.ended_by(kind).await;
        let told = home.json("a", "1");
        assert_eq!(told["kernel"]["lost"]["unreceived"], unreceived, "{told}");
        assert_eq!(
            told["output"],
            "[new kernel: the previous one was lost (manager_restarted); gone: x; 3 results that nobody \
             has received are gone: cell 2 (error), cell 3 (success), cell 4 (success)]\n1"
        );
        // Once.
        assert_eq!(home.json("a", "1")["output"], "1");
        let other = home.json("received", "1");
        assert_eq!(other["kernel"]["reason"], "manager_restarted");
        assert_eq!(other["kernel"]["lost"].get("unreceived"), None);
        home.end().await;
    }
}

/// A cell that runs as its server ends.
#[tokio::test]
async fn a_cell_that_went_on_and_was_ended_with_its_server_is_told_by_the_next() {
    for (kind, status, words) in [
        (Signal::TERM, "interrupted", "interrupted"),
        (Signal::KILL, "running", "not finished"),
    ] {
        let home = Home::new();
        detached(&home, "a", &["import time; time.sleep(600)"]);
        home.state("a", "busy").await;
        let record = home.place.home().join("warmcell/sessions/a.json");
        until("the record", || {
            fs::read_to_string(&record).is_ok_and(|it| it.contains("\"running\":true"))
        })
        .await;
        home.ended_by(kind).await;
        let told = home.json("a", "1");
        assert_eq!(
            told["kernel"]["lost"]["unreceived"],
            json!([{"cell": 1, "status": status}]),
            "{told}"
        );
        let output = told["output"].as_str().unwrap();
        let expected = format!("; 1 result that nobody has received is gone: cell 1 ({words})]");
        assert!(output.contains(&expected), "{output}");
        home.end().await;
    }
}

#[tokio::test]
async fn a_reset_of_a_busy_session_says_what_is_gone() {
    let home = Home::new();
    for is_json in [false, true] {
        home.run(&["exec", "-s", "a", "x = 1"]);
        detached(&home, "a", &["import time; time.sleep(600)"]);
        home.state("a", "busy").await;
        let mut arguments = vec!["sessions", "reset", "a"];
        arguments.extend(is_json.then_some("--json"));
        let (code, out, err) = home.run(&arguments);
        assert_eq!(code, 0, "{err}");
        if is_json {
            let answer = value(&out);
            assert_eq!(answer["next_kernel"], "started");
            let kernel = &answer["kernel"];
            assert_eq!(kernel["state"], "fresh", "{out}");
            assert_eq!(kernel["reason"], "reset");
            assert_eq!(kernel["reused"], false);
            assert_eq!(kernel["lost"]["cells"], 1);
            assert_eq!(
                kernel["lost"]["names"],
                json!([{"name": "x", "type": "int"}])
            );
        } else {
            assert_eq!(err, "warmcell: a is reset: 1 cell and x are gone\n");
        }
    }
    // Nothing was there to be discarded.
    let (_, out, _) = home.run(&["sessions", "reset", "a", "--json"]);
    let answer = value(&out);
    assert_eq!(answer["kernel"].get("lost"), None, "{out}");
    assert_eq!(answer["kernel"].get("reason"), None, "{out}");
    home.end().await;
}

#[tokio::test]
async fn a_manager_that_is_not_there_is_a_mistake() {
    let home = Home::new();
    let (code, _, err) = home.run(&["sessions", "--manager", "999"]);
    assert_eq!(code, 2);
    assert!(
        err.starts_with("warmcell: there is no manager 999; no manager runs;"),
        "{err}"
    );
    home.run(&["exec", "-s", "a", "1"]);
    let pid = home.server().to_string();
    for arguments in [
        &["sessions"][..],
        &["sessions", "list"],
        &["sessions", "show", "a"],
        &["sessions", "wait", "a"],
        &["sessions", "close", "a"],
        &["sessions", "close", "--all"],
    ] {
        let with = |manager| [arguments, &["--json", "--manager", manager]].concat();
        let (code, out, _) = home.run(&with("999"));
        assert_eq!(code, 2, "{arguments:?}: {out}");
        let refused = value(&out);
        assert_eq!(refused["error_class"], "usage");
        let error = refused["error"].as_str().unwrap();
        assert!(
            error.contains(&format!("(server, process {pid})")),
            "{error}"
        );
    }
    let (code, out, _) = home.run(&["sessions", "--json", "--manager", &pid]);
    assert_eq!(code, 0);
    assert_eq!(value(&out)[0]["name"], "a", "{out}");
    home.end().await;
}

/// What is said on stderr of a session that was there before is what its result says.
#[tokio::test]
async fn a_session_that_was_there_before_is_announced_as_its_result_says() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let made = home.ask("POST", "/api/kernels", &json!({})).json();
    let never = made["warmcell"]["session"].as_str().unwrap();
    let folder = home.place.home().join("warmcell/sessions");
    until("the records", || {
        ["a", never]
            .iter()
            .all(|name| folder.join(format!("{name}.json")).exists())
    })
    .await;
    home.ended_by(Signal::KILL).await;
    for (name, reason, words) in [
        (
            "a",
            json!("manager_restarted"),
            "session a was there before, and its kernel was lost (manager_restarted); it lives on again",
        ),
        // Its kernel has never held anything.
        (never, Value::Null, "is new; it lives on"),
    ] {
        let (_, out, err) = home.run(&["exec", "-s", name, "--json", "1"]);
        assert_eq!(value(&out)["kernel"]["reason"], reason, "{out}");
        assert!(err.contains(words), "{name} {out} {err:?}");
    }
    home.end().await;
}

#[tokio::test]
async fn sentences_for_those_who_left_something_out() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    let (code, _, err) = home.run(&["sessions", "close"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("sessions close NAME") && err.contains("--all"),
        "{err}"
    );
    for arguments in [
        &["exec", "-s", "a", "--reset"][..],
        &["exec", "-s", "a", "--reset", " "],
    ] {
        let (code, _, err) = home.run(arguments);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("`warmcell sessions reset a`"), "{err}");
    }
    let (_, out, _) = home.run(&["sessions", "show", "a"]);
    assert!(out.contains(" in 1 process, "), "{out}");
    assert!(out.contains("0 tool calls"), "{out}");
    home.run(&["exec", "-s", "a", "terminal('true')"]);
    let (_, out, _) = home.run(&["sessions", "show", "a"]);
    assert!(out.contains("1 tool call\n"), "{out}");
    home.end().await;
}
