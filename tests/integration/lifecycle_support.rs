//! What the tests of the lifecycle share.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use warmcell::execution::Outcome;
use warmcell::session::{Cell, Execution, Session};

use crate::support::{SAFETY, run};

/// A result as its reader sees it.
pub fn json(outcome: &Outcome) -> Value {
    serde_json::to_value(outcome).unwrap()
}

/// The result as JSON, without the duration, and as if the next kernel had been seen.
pub fn json_without_time(outcome: &Outcome) -> Value {
    let mut value = json(outcome);
    value.as_object_mut().unwrap().remove("duration_seconds");
    value["output"] = as_if_restarted(&outcome.output).into();
    value
}

/// What a result says if the next kernel was seen before it went out: on a busy machine it may not
/// have been.
pub fn as_if_restarted(output: &str) -> String {
    output
        .replace(
            "the kernel was killed; a fresh one is being started",
            "the kernel was killed and restarted",
        )
        .replace("a fresh one is being started", "a fresh one was started")
}

/// A cell with a time limit in milliseconds.
pub fn limited(code: &str, milliseconds: u64) -> Cell {
    Cell::new(code).timeout(Duration::from_millis(milliseconds))
}

/// Waits for a result; never for ever.
pub async fn result(execution: &mut Execution) -> Outcome {
    tokio::time::timeout(SAFETY, execution.outcome())
        .await
        .expect("the cell gave no result")
}

/// Waits for something that happens elsewhere.
pub async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + SAFETY;
    while !happened() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until a file is there and not empty; what it says.
pub async fn written(path: &Path) -> String {
    until(&format!("{}", path.display()), || {
        fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'))
    })
    .await;
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Whether a process runs; one that has ended and was not yet reaped does not.
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, Some(Some('Z' | 'X')))
}

/// The process number that is the value of an expression.
pub async fn number(session: &Session, code: &str) -> u32 {
    let outcome = run(session, code).await;
    let value = outcome.result.as_deref().unwrap_or_default();
    value.parse().unwrap_or_else(|_| panic!("{outcome:?}"))
}

/// Sends a signal to a process that a test has started.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).ok();
}

/// The middle and the largest of some durations.
pub fn median_and_worst(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

/// The text of a result without the line of its hint.
pub fn unhinted(output: &str) -> &str {
    output.split("\n[hint: ").next().unwrap_or_default()
}
