//! `sessions interrupt` and its HTTP request: by which policy, and what the caller is told.

use serde_json::{Value, json};

use crate::lifecycle_support::written;
use crate::server_kit::{Home, ended, http};

/// Starts a cell that says when it runs, and goes on until it is interrupted.
async fn cell(home: &Home, name: &str, options: &[&str], rest: &str) -> std::process::Child {
    let mark = home.place.work().join(format!("mark-{name}"));
    drop(std::fs::remove_file(&mark));
    let code = format!("import time\nprint(1, file=open({mark:?}, 'w'))\n{rest}");
    let mut arguments = vec!["exec", "-s", name, "--json"];
    arguments.extend(options);
    arguments.push(&code);
    let child = home.start(&arguments);
    written(&mark).await;
    child
}

const LOOP: &str = "while True: pass";

#[tokio::test]
async fn an_interrupt_says_what_it_has_cost() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1; y = 2"]);
    // As the cell was started: it is killed.
    let running = cell(&home, "a", &[], LOOP).await;
    let (code, out, err) = home.run(&["sessions", "interrupt", "a"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert_eq!(
        err,
        "warmcell: the cell that ran in a: interrupted; the kernel was killed and restarted: 1 cell and y \
         and x are lost; rebuild what you need\n"
    );
    assert_eq!(ended(running).0, 130);
    // In place, whatever it was started with: its state is kept.
    home.run(&["exec", "-s", "a", "x = 1"]);
    let running = cell(&home, "a", &[], LOOP).await;
    let gentle = ["sessions", "interrupt", "a", "--on-interrupt", "interrupt"];
    let (code, _, err) = home.run(&gentle);
    assert_eq!(
        (code, err.as_str()),
        (
            0,
            "warmcell: the cell that ran in a: interrupted; state is kept\n"
        )
    );
    let (code, out, _) = ended(running);
    assert_eq!(code, 130);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["kernel"]["state"], "kept");
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    // Killed, whatever it was started with.
    let running = cell(&home, "a", &["--on-interrupt", "interrupt"], LOOP).await;
    let hard = [
        "sessions",
        "interrupt",
        "a",
        "--on-interrupt",
        "restart",
        "--json",
    ];
    let (code, out, _) = home.run(&hard);
    assert_eq!(code, 0);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["interrupted"], true);
    assert_eq!(told["status"], "interrupted");
    assert_eq!(told["kernel"]["state"], "lost");
    assert_eq!(told["kernel"]["lost"]["cells"], 3);
    assert_eq!(told["kernel"]["lost"]["names"][0]["name"], "x");
    assert_eq!(ended(running).0, 130);
    // Nothing runs, no such policy.
    let (code, out, _) = home.run(&hard);
    assert_eq!((code, out.as_str()), (0, "{\"interrupted\":false}\n"));
    let (code, _, err) = home.run(&["sessions", "interrupt", "a", "--on-interrupt", "perhaps"]);
    assert_eq!(code, 2, "{err}");
    home.end().await;
}

#[tokio::test]
async fn a_cell_that_does_not_heed_an_interrupt_is_told_as_killed() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let deaf =
        "while True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        pass";
    let running = cell(&home, "a", &[], deaf).await;
    let (code, _, err) = home.run(&["sessions", "interrupt", "a", "--on-interrupt", "interrupt"]);
    assert_eq!(code, 0);
    assert_eq!(
        err,
        "warmcell: the cell that ran in a: interrupted and did not end within 3 s; the kernel was killed \
         and restarted: 1 cell and x are lost; rebuild what you need\n"
    );
    assert_eq!(ended(running).0, 130);
    home.end().await;
}

#[tokio::test]
async fn the_http_request_takes_a_policy_and_answers_the_same() {
    let home = Home::new();
    let ask = |path: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "POST /warmcell/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: \
             {length}\r\n\r\n{body}"
        );
        let answer = http(&home.socket(), request.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().to_owned();
        (code, serde_json::from_str::<Value>(body).unwrap())
    };
    home.run(&["exec", "-s", "a", "x = 1"]);
    let running = cell(&home, "a", &[], LOOP).await;
    let (code, told) = ask("sessions/a/interrupt", r#"{"on_interrupt":"interrupt"}"#);
    assert_eq!(code, "200");
    assert_eq!(told["kernel"]["state"], "kept", "{told}");
    assert_eq!(told["sentence"], "interrupted; state is kept");
    assert_eq!(ended(running).0, 130);
    let (code, told) = ask("sessions/a/interrupt", "");
    assert_eq!(
        (code.as_str(), told),
        ("200", json!({"interrupted": false}))
    );
    for path in ["sessions/a/interrupt", "cells/none/interrupt"] {
        let (code, told) = ask(path, r#"{"on_interrupt":"perhaps"}"#);
        assert_eq!(
            (code.as_str(), &told["error_class"]),
            ("400", &json!("usage"))
        );
        let error = told["error"].as_str().unwrap();
        assert!(
            error.contains("must be \"restart\" or \"interrupt\", got \"perhaps\""),
            "{error}"
        );
    }
    home.end().await;
}
