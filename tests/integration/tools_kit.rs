//! What the tests of tool calls share.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use warmcell::execution::{Outcome, Status};
use warmcell::session::{Cell, Session};

use crate::support::{SAFETY, pythons, run_cell};

/// Runs a cell that must succeed, and reads what it printed as one JSON value.
pub async fn json_of(session: &Session, code: &str) -> Value {
    json_of_cell(session, Cell::new(code)).await.0
}

/// As [`json_of`], with terms of its own, and the whole result.
pub async fn json_of_cell(session: &Session, cell: Cell) -> (Value, Outcome) {
    let outcome = run_cell(session, cell).await;
    assert_eq!(outcome.status, Status::Success, "{}", outcome.output);
    let value = serde_json::from_str(&outcome.output)
        .unwrap_or_else(|error| panic!("{error}: {}", outcome.output));
    (value, outcome)
}

/// Checks the class of a failure and that its sentence holds some words.
#[track_caller]
pub fn assert_fails(result: &Value, class: &str, words: &str) {
    assert_eq!(result["error_class"], class, "{result}");
    let error = result["error"].as_str().unwrap();
    assert!(error.contains(words), "no {words:?} in {error:?}");
}

/// Asks until there is an answer; fails when the safety deadline is over.
pub async fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SAFETY;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it did not come to pass");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Two Pythons for what hardly depends on the version.
pub fn oldest_and_newest() -> impl Iterator<Item = &'static (String, PathBuf)> {
    let all = pythons();
    all.first()
        .into_iter()
        .chain(all.last().filter(|_| all.len() > 1))
}
