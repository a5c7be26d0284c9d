//! The configuration of a background server: an edit counts from the next cell on, and costs nothing that
//! sessions have.

use std::fs;

use serde_json::{Value, json};

use crate::lifecycle_support::until;
use crate::server_kit::Home;

fn write(home: &Home, config: &str) {
    fs::write(home.place.home().join("config.yaml"), config).unwrap();
}

/// A cell as a program hands it over that has read no configuration.
fn asked(home: &Home, order: &Value) -> (u16, Value) {
    let answer = home.order("a", order);
    (answer.status, answer.json())
}

#[tokio::test]
async fn an_edit_counts_from_the_next_cell_on() {
    let home = Home::new();
    write(&home, "code_execution: {max_tool_calls: 3}");
    let calls = "for _ in range(6): read_file('nothing')";
    assert_eq!(home.json("a", calls)["tool_calls_made"], 3);
    write(&home, "code_execution: {max_tool_calls: 2}");
    let result = home.json("a", calls);
    assert_eq!(result["tool_calls_made"], 2);
    assert_eq!(result["kernel"]["reused"], true);
    // The server's own, for those who do not say: its answer is that of the file as it is now.
    let (_, result) = asked(&home, &json!({ "code": calls }));
    assert_eq!(result["tool_calls_made"], 2);
    write(
        &home,
        "code_execution: {max_tool_calls: 1, max_stdout_bytes: 100, timeout: 0.5, on_timeout: interrupt}",
    );
    let (_, result) = asked(
        &home,
        &json!({ "code": format!("{calls}\nprint('x' * 1000)") }),
    );
    assert_eq!(result["tool_calls_made"], 1);
    assert!(
        result["stdout_bytes_captured"].as_u64().unwrap() <= 100,
        "{result}"
    );
    let (_, result) = asked(&home, &json!({ "code": "while True: pass" }));
    assert_eq!(result["status"], "timeout");
    assert_eq!(result["kernel"]["state"], "kept");
    // What is said wins.
    let (_, result) = asked(&home, &json!({ "code": calls, "max_tool_calls": 4 }));
    assert_eq!(result["tool_calls_made"], 4);
    home.end().await;
}

#[tokio::test]
async fn a_file_that_becomes_bad_costs_the_cell_and_nothing_else() {
    let home = Home::new();
    home.json("a", "x = 41");
    write(&home, "code_execution: {mode: strcit}");
    let (code, out, err) = home.run(&["exec", "-s", "a", "x += 1"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("strcit"), "{err}");
    let (status, result) = asked(&home, &json!({ "code": "x += 1" }));
    assert_eq!((status, &result["error_class"]), (400, &"usage".into()));
    assert!(
        result["error"].as_str().unwrap().contains("strcit"),
        "{result}"
    );
    // Looking and ending go on.
    assert_eq!(home.run(&["sessions", "show", "a"]).0, 0);
    // An ordinary one is told to who does not read it by itself, once.
    write(&home, "code_execution: {timeout: abc}");
    let (_, result) = asked(&home, &json!({ "code": "x" }));
    assert_eq!(result["result"], "41");
    let warning = result["warning"].as_str().unwrap();
    assert!(
        warning.contains("code_execution.timeout must be"),
        "{warning}"
    );
    let (_, result) = asked(&home, &json!({ "code": "x" }));
    assert_eq!(result.get("warning"), None);
    let result = home.json("a", "x");
    let warning = result["warning"].as_str().unwrap();
    // It has read it by itself, and is told once.
    assert_eq!(
        warning.matches("code_execution.timeout").count(),
        1,
        "{warning}"
    );
    write(&home, "");
    let result = home.json("a", "x + 1");
    assert_eq!(
        (&result["result"], result.get("warning")),
        (&"42".into(), None)
    );
    write(&home, "approvals: 3");
    home.end().await;
}

#[tokio::test]
async fn another_idle_timeout_counts_for_kernels_that_are_there() {
    let home = Home::new();
    home.json("a", "x = 1");
    home.json("b", "x = 1");
    write(&home, "code_execution: {kernel_idle_timeout: 0.2}");
    // A cell of one session has the server look; the other is meant too.
    home.json("b", "x = 2");
    let state = |name: &str| {
        let (_, out, _) = home.run(&["sessions", "show", name, "--json"]);
        let shown: Value = serde_json::from_str(&out).unwrap();
        shown["state"].clone()
    };
    for name in ["a", "b"] {
        until("the end of an idle kernel", || state(name) == "dead").await;
    }
    let result = home.json("a", "1");
    assert_eq!(result["kernel"]["reason"], "idle");
    home.end().await;
}

#[tokio::test]
async fn the_level_of_the_log_is_that_of_the_file() {
    let home = Home::new();
    write(&home, "logging: {level: debug}");
    home.json("a", "1");
    home.run(&["serve", "--stop"]);
    let log = fs::read_to_string(home.place.home().join("logs/warmcell.log")).unwrap();
    assert!(log.contains("INFO"), "{log}");
    let quiet = Home::new();
    write(&quiet, "logging: {level: error}");
    quiet.json("a", "1");
    quiet.run(&["serve", "--stop"]);
    let log = fs::read_to_string(quiet.place.home().join("logs/warmcell.log")).unwrap();
    assert!(!log.contains("INFO"), "{log}");
    home.assert_nothing_left().await;
    quiet.assert_nothing_left().await;
}

/// Whoever edits what kernels are to be gets such a kernel, and is told what it has cost.
#[tokio::test]
async fn another_mode_or_python_in_the_file_replaces_the_kernel_and_says_so() {
    let home = Home::new();
    home.json("a", "x = 1");
    write(&home, "code_execution: {mode: strict}");
    let result = home.json("a", "import os\nos.listdir()");
    assert_eq!(result["result"], "[]", "{result}");
    let output = result["output"].as_str().unwrap();
    assert!(
        output.starts_with("[new kernel: the previous one was lost (replaced: mode strict is configured now); gone: x]"),
        "{output}"
    );
    assert_eq!(result["kernel"]["reason"], "replaced");
    assert_eq!(home.json("a", "1")["kernel"]["state"], "kept", "once");
    // What was asked for by name is not the file's.
    home.run(&["exec", "-s", "b", "--mode", "project", "y = 1"]);
    write(&home, "code_execution: {mode: project}");
    assert_eq!(home.json("b", "y")["result"], "1");
    let pythons = crate::support::pythons();
    let (version, python) = &pythons[0];
    write(
        &home,
        &format!("code_execution: {{python: {}}}", python.display()),
    );
    let result = home.json("a", "import sys\n'%d.%d' % sys.version_info[:2]");
    assert_eq!(result["result"], format!("'{version}'"), "{result}");
    home.end().await;
}
