//! What a cell is: its result, and the state that it leaves.

use serde_json::{Value, json};
use warmcell::execution::Status;

use crate::support::{Manager, pythons, run};

fn as_json(outcome: &warmcell::execution::Outcome) -> Value {
    serde_json::to_value(outcome).unwrap()
}

#[tokio::test]
async fn trace_1_success() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let mut result = as_json(&run(&session, "x = [1]; print(\"a\"); len(x)").await);
        assert!(result["duration_seconds"].take().as_f64().unwrap() < 10.0);
        assert_eq!(
            result,
            json!({
                "status": "success", "output": "a\n1", "exit_code": 0, "tool_calls_made": 0,
                "duration_seconds": null,
                "kernel": {
                    "execution_count": 1, "generation": 1, "reused": false, "state": "fresh"
                },
                "result": "1", "stdout_truncated": false, "stdout_bytes_total": 2,
                "stdout_bytes_captured": 2, "stdout_bytes_omitted": 0,
            }),
            "{version}"
        );
    }
    manager.end().await;
}

#[tokio::test]
async fn state_survives_from_cell_to_cell() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "import math\ndef area(r): return math.pi * r * r").await;
    let failed = run(&session, "kept = 7\n1/0").await;
    assert_eq!(failed.status, Status::Error);
    let outcome = run(&session, "round(area(2), 2), kept").await;
    assert_eq!(outcome.result.as_deref(), Some("(12.57, 7)"));
    assert_eq!(as_json(&outcome)["kernel"]["state"], "kept");
    manager.end().await;
}
