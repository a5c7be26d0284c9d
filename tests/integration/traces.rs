//! The traces of the protocol that need no lifecycle, and what a cell may write to the link itself.

use serde_json::{Value, json};

use crate::support::{Manager, pythons, run};

/// Carets under the code came with 3.11, and are not the point here.
fn without_carets(text: &str) -> String {
    let is_caret =
        |line: &&str| line.trim().is_empty() || !line.trim().trim_matches(['~', '^']).is_empty();
    text.lines().filter(is_caret).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn trace_2_exception() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        run(&session, "x = [1]; print(\"a\"); len(x)").await;
        let outcome = serde_json::to_value(run(&session, "1/0").await).unwrap();
        assert_eq!(
            without_carets(outcome["output"].as_str().unwrap()),
            "--- stderr ---\nTraceback (most recent call last):\n  File \"<cell 2>\", line 1, in \
             <module>\n    1/0\nZeroDivisionError: division by zero",
            "{version}"
        );
        assert_eq!(outcome["status"], "error");
        assert_eq!(outcome["exit_code"], 1);
        assert_eq!(
            outcome["error"],
            "ZeroDivisionError: division by zero (<cell 2>, line 1)"
        );
        assert_eq!(outcome["error_class"], "exception");
        assert_eq!(
            outcome["kernel"],
            json!({"execution_count": 2, "generation": 1, "reused": true, "state": "kept"})
        );
    }
    manager.end().await;
}

#[tokio::test]
async fn trace_3_sys_exit() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = [1]").await;
    let outcome: Value =
        serde_json::to_value(run(&session, "import sys\nsys.exit(3)").await).unwrap();
    assert_eq!(outcome["status"], "error");
    assert_eq!(outcome["exit_code"], 3);
    assert_eq!(outcome["error"], "the cell called sys.exit(3)");
    assert_eq!(outcome["error_class"], "exit");
    assert_eq!(outcome["kernel"]["state"], "kept");
    assert_eq!(run(&session, "x").await.result.as_deref(), Some("[1]"));
    manager.end().await;
}
