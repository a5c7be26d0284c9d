//! Results that nobody has received, and other things that a newcomer runs into.

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
