//! What a front end may want of a cell beyond its code.

use serde_json::{Value, json};
use warmcell::execution::{Outcome, Status, Wishes};
use warmcell::session::{Cell, QuestionKind};

use crate::messages_kit::{ask, show_cell, with_expressions};
use crate::support::{Manager, assert_shows, on_each_python, run, run_cell};

fn silent(code: &str) -> Cell {
    Cell::new(code).wishes(Wishes {
        silent: true,
        ..Wishes::default()
    })
}

fn outside_history(code: &str) -> Cell {
    Cell::new(code).wishes(Wishes {
        outside_history: true,
        ..Wishes::default()
    })
}

fn expressions(outcome: &Outcome) -> Value {
    let found = outcome.beside_streams.user_expressions.as_deref();
    serde_json::from_str(found.unwrap()).unwrap()
}

#[tokio::test]
async fn a_silent_cell_shows_nothing_and_leaves_no_number() {
    on_each_python(async |session, version| {
        run(session, "x = 1").await;
        let (outcome, seen) = show_cell(session, silent("x += 1; display(x); x")).await;
        assert_shows(&outcome, "", version);
        assert_eq!(seen, [], "{version}");
        assert_eq!(outcome.kernel.execution_count, 1, "{version}");
        let failed = run_cell(session, silent("def f(): 1/0\nf()")).await;
        assert_eq!(failed.status, Status::Error, "{version}");
        assert_eq!(
            failed.error.as_deref(),
            Some("ZeroDivisionError: division by zero (<cell 1.2>, line 1)"),
            "{version}"
        );
        let outcome = run(session, "x, '_' in vars(__builtins__)").await;
        assert_shows(&outcome, "(2, False)", version);
        assert_eq!(outcome.kernel.execution_count, 2, "{version}");
        assert!(outcome.kernel.reused, "{version}");
    })
    .await;
}

#[tokio::test]
async fn a_cell_outside_history_is_shown_and_leaves_no_number() {
    on_each_python(async |session, version| {
        let first = run_cell(session, outside_history("'a'")).await;
        assert_shows(&first, "'a'", version);
        assert_eq!(first.kernel.execution_count, 0, "{version}");
        assert!(!first.kernel.reused, "{version}");
        let outcome = run(session, "'b'").await;
        assert_eq!(outcome.kernel.execution_count, 1, "{version}");
        assert!(outcome.kernel.reused, "{version}");
        run_cell(session, outside_history("def f():\n    raise ValueError")).await;
        let outcome = run(session, "def g(): pass\nf()").await;
        assert!(
            outcome
                .output
                .contains("File \"<cell 1.1>\", line 2, in f\n    raise ValueError"),
            "{version}: {}",
            outcome.output
        );
        let tail = json!({"hist_access_type": "tail", "n": 10, "output": true});
        let history = ask(session, QuestionKind::History, &tail).await;
        assert_eq!(
            history["history"],
            json!([[1, 1, ["'b'", "'b'"]], [1, 2, ["def g(): pass\nf()", null]]]),
            "{version}"
        );
    })
    .await;
}

#[tokio::test]
async fn expressions_are_evaluated_after_a_success() {
    on_each_python(async |session, version| {
        let wanted = json!({"a": "x + 1", "b": "nosuchname", "c": "1 +", "d": "H()", "e": 7});
        let code = "class H:\n    def _repr_html_(self): return '<h>'\n    def __repr__(self): return 'H'\nx = 1";
        let outcome = run_cell(session, with_expressions(code, &wanted)).await;
        assert_shows(&outcome, "", version);
        let found = expressions(&outcome);
        let two = json!({"status": "ok", "data": {"text/plain": "2"}, "metadata": {}});
        assert_eq!(found["a"], two, "{version}");
        assert_eq!(found["b"]["status"], "error", "{version}");
        assert_eq!(found["b"]["ename"], "NameError", "{version}");
        assert_eq!(found["b"]["evalue"], "name 'nosuchname' is not defined", "{version}");
        assert_eq!(found["c"]["ename"], "SyntaxError", "{version}");
        let rich = json!({"text/plain": "H", "text/html": "<h>"});
        assert_eq!(found["d"]["data"], rich, "{version}");
        assert_eq!(found["e"]["status"], "error", "{version}");

        let failed = run_cell(session, with_expressions("1/0", &wanted)).await;
        assert_eq!(failed.beside_streams.user_expressions, None, "{version}");
        // Without code there is something to do all the same.
        let outcome = run_cell(session, with_expressions("", &json!({"a": "x + 1"}))).await;
        assert_eq!(expressions(&outcome), json!({"a": two}), "{version}");
        let long = json!({"a": "'a' * (1 << 20)", "b": "x", "c": "h"});
        let outcome = run_cell(
            session,
            with_expressions("class L:\n    def _repr_html_(self): return 'h' * (3 << 20)\nh = L()", &long),
        )
        .await;
        assert_eq!(outcome.status, Status::Success, "{version}");
        assert_eq!(expressions(&outcome)["b"]["status"], "ok", "{version}");
    })
    .await;
}

#[tokio::test]
async fn an_expression_that_does_not_end_ends_with_the_cells_time() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "def loop():\n    while True: pass").await;
    let cell = with_expressions("print('x')", &json!({"a": "loop()"}));
    let cell = cell.timeout(std::time::Duration::from_millis(300));
    let outcome = run_cell(&session, cell).await;
    assert_eq!(outcome.status, Status::Timeout);
    assert!(outcome.output.starts_with("x\n"), "{}", outcome.output);
    manager.end().await;
}
