//! The result object: its keys, its windows, its sentences.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use warmcell::execution::Outcome;
use warmcell::session::Cell;

use crate::support::{Manager, on_each_python, run, run_cell};

fn as_json(outcome: &Outcome) -> Value {
    serde_json::to_value(outcome).unwrap()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

const ALWAYS: [&str; 10] = [
    "status",
    "output",
    "exit_code",
    "tool_calls_made",
    "duration_seconds",
    "kernel",
    "stdout_truncated",
    "stdout_bytes_total",
    "stdout_bytes_captured",
    "stdout_bytes_omitted",
];

#[tokio::test]
async fn the_same_keys_on_every_path() {
    on_each_python(async |session, version| {
        for (code, more, status) in [
            ("x = 1", &[][..], "success"),
            ("x", &["result"][..], "success"),
            ("1/0", &["error", "error_class"], "error"),
            ("1 +", &["error", "error_class"], "error"),
            (
                "import sys\nsys.exit(2)",
                &["error", "error_class"],
                "error",
            ),
            ("import sys\nsys.stdout.close()", &["warning"], "success"),
            ("read_file('/not/there')\nNone", &["tool_calls"], "success"),
            ("import os\nos.abort()", &["error", "error_class"], "error"),
        ] {
            let result = as_json(&run(session, code).await);
            let wanted: BTreeSet<&str> = ALWAYS.iter().chain(more).copied().collect();
            assert_eq!(keys(&result), wanted, "{version}: {code}");
            assert_eq!(result["status"], status, "{version}: {code}");
            assert!(
                result["duration_seconds"].as_f64().unwrap() < 30.0,
                "{version}: {code}"
            );
        }
        let limit = std::time::Duration::from_millis(100);
        let late = as_json(
            &run_cell(
                session,
                Cell::new("import time; time.sleep(60)").timeout(limit),
            )
            .await,
        );
        let wanted: BTreeSet<&str> = ALWAYS
            .iter()
            .chain(&["error", "error_class", "hint"])
            .copied()
            .collect();
        assert_eq!(keys(&late), wanted, "{version}");
        assert_eq!(
            (&late["status"], &late["exit_code"]),
            (&json!("timeout"), &json!(-1)),
            "{version}"
        );
        assert_eq!(late["kernel"]["reason"], "timeout", "{version}");
    })
    .await;
}

#[tokio::test]
async fn an_empty_success_says_so_in_one_fixed_line() {
    on_each_python(async |session, version| {
        for code in [
            "x = 1",
            "# nothing",
            "None",
            "print(end='')",
            "import sys\nsys.exit()",
        ] {
            let outcome = run(session, code).await;
            assert_eq!(
                outcome.output, "[completed without output]",
                "{version}: {code}"
            );
            assert_eq!(
                (outcome.stdout_bytes_total, outcome.result),
                (0, None),
                "{version}: {code}"
            );
        }
        // What was printed is not empty, even if it is only a line end.
        assert_eq!(run(session, "print()").await.output, "\n", "{version}");
        assert_eq!(run(session, "''").await.output, "''", "{version}");
    })
    .await;
}

#[tokio::test]
async fn the_parts_of_output_stand_in_their_order() {
    on_each_python(async |session, version| {
        let code = "import sys\nprint('out', end='')\nprint('err', end='', file=sys.stderr)\n'value'";
        assert_eq!(run(session, code).await.output, "out\n'value'\n--- stderr ---\nerr", "{version}");
        let code = "print('out')\nprint('err', file=sys.stderr)\n1/0";
        let outcome = run(session, code).await;
        let head = "out\n--- stderr ---\nerr\nTraceback (most recent call last):\n  File \"<cell 2>\", line 3, in <module>\n    1/0\n";
        assert!(outcome.output.starts_with(head), "{version}: {}", outcome.output);
        assert!(outcome.output.ends_with("\nZeroDivisionError: division by zero"), "{version}");
        assert_eq!(outcome.error.as_deref(), Some("ZeroDivisionError: division by zero (<cell 2>, line 3)"), "{version}");
    })
    .await;
}

#[tokio::test]
async fn windows_are_exact_and_cut_at_characters() {
    on_each_python(async |session, version| {
        for (bytes, omitted) in [(49_999, 0), (50_000, 0), (50_001, 1), (60_000, 10_000)] {
            let outcome = run(session, &format!("print('x' * {bytes}, end='')")).await;
            let counts = (
                outcome.stdout_bytes_total,
                outcome.stdout_bytes_captured,
                outcome.stdout_bytes_omitted,
            );
            assert_eq!(counts, (bytes, bytes - omitted, omitted), "{version}");
            assert_eq!(outcome.stdout_truncated, omitted > 0, "{version}");
            assert_eq!(
                outcome.output.contains("OUTPUT TRUNCATED"),
                omitted > 0,
                "{version}"
            );
        }
        // Three bytes a character: one is left out at each border.
        let outcome = run(session, "print('€' * 20_000, end='')").await;
        assert_eq!(
            outcome.stdout_bytes_total,
            outcome.stdout_bytes_captured + outcome.stdout_bytes_omitted
        );
        assert_eq!(
            outcome.output.matches('€').count() as u64 * 3,
            outcome.stdout_bytes_captured,
            "{version}"
        );
        assert!(!outcome.output.contains('\u{fffd}'), "{version}");
        assert!(outcome.stdout_bytes_captured >= 49_996, "{version}");
        // `result` is cut by characters, `output` shows more of it.
        let outcome = run(session, "'é' * 3_000").await;
        assert_eq!(
            outcome.result.unwrap(),
            format!("'{}", "é".repeat(1_999)),
            "{version}"
        );
        assert_eq!(
            outcome.output,
            format!("'{}'", "é".repeat(3_000)),
            "{version}"
        );
        let outcome = run(session, "raise ValueError('v' * 200_000)").await;
        assert!(
            outcome.output.len() < 51_000 && outcome.error.unwrap().len() < 2_200,
            "{version}"
        );
        let outcome = run(
            session,
            "import sys\nprint('e' * 10_001, file=sys.stderr, end='')",
        )
        .await;
        assert!(
            outcome
                .output
                .contains("1 bytes omitted out of 10,001 total"),
            "{version}"
        );
    })
    .await;
}

#[tokio::test]
async fn the_story_of_a_loss() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "data = [1]\nmodel = {}").await;
    let died = as_json(&run(&session, "print('x'); import os; os.abort()").await);
    assert_eq!(
        died["error"],
        "the kernel was killed by signal 6 (SIGABRT) while running the cell"
    );
    assert_eq!(died["error_class"], "kernel_died");
    assert_eq!(
        died["kernel"],
        json!({
            "execution_count": 2, "generation": 1, "reused": true, "state": "lost", "reason": "kernel_died",
            "lost": {"cells": 1, "names": [{"name": "data", "type": "list"}, {"name": "model", "type": "dict"}], "names_total": 2},
        })
    );
    let next = as_json(&run(&session, "1").await);
    assert_eq!(
        next["kernel"],
        json!({
            "execution_count": 1, "generation": 2, "reused": false, "state": "fresh", "reason": "kernel_died",
        })
    );
    assert_eq!(
        next["output"],
        "[new kernel: the previous one was lost (kernel_died: it was killed by signal 6 (SIGABRT)); gone: model and data]\n1"
    );
    let reset = as_json(&run_cell(&session, Cell::new("2").reset()).await);
    assert_eq!(reset["kernel"]["reason"], "reset");
    assert_eq!(reset["kernel"]["state"], "fresh");
    manager.end().await;
}
