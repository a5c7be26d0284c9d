//! Looking at sessions from outside: show, events, while cells run and between them.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::lifecycle_support::{as_if_restarted, written};
use crate::server_kit::{Home, ended};
use crate::support::SAFETY;

#[tokio::test]
async fn a_session_is_shown_with_what_it_holds() {
    let home = Home::new();
    let code =
        "import math; data = list(range(1000)); name = 'x' * 1000; terminal('true')['exit_code']";
    home.run(&["exec", "-s", "lead/worker-3", code]);
    home.run(&["exec", "-s", "lead/worker-3", "1/0"]);
    let (code, out, err) = home.run(&["sessions", "show", "lead/worker-3", "--json"]);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["name"], "lead/worker-3");
    assert_eq!(shown["state"], "idle");
    assert_eq!(shown["cells"], 2);
    assert_eq!(shown["tool_calls"], 1);
    assert_eq!(shown["generation"], 1);
    assert_eq!(shown["cwd"], home.place.work().display().to_string());
    assert_eq!(shown["manager"]["pid"], home.server());
    assert!(shown["usage"]["rss_bytes"].as_u64().unwrap() > 1 << 20);
    assert_eq!(shown["usage"]["processes"], 1);
    assert_eq!(shown["variables"]["taken_live"], true);
    assert_eq!(shown["variables"]["total"], 3);
    let variables = shown["variables"]["variables"].as_array().unwrap();
    let of = |name: &str| variables.iter().find(|it| it["name"] == name).unwrap();
    assert_eq!(of("data")["type"], "list");
    assert_eq!(of("data")["shape"], "1000");
    assert!(of("data")["size"].as_u64().unwrap() >= 8_000);
    assert!((1_000..1_100).contains(&of("name")["size"].as_u64().unwrap()));
    assert_eq!(of("math")["type"], "module");
    let (_, out, _) = home.run(&["sessions", "show", "lead/worker-3"]);
    let first = out.lines().next().unwrap();
    assert_eq!(first, "session    lead/worker-3, idle");
    assert!(
        out.contains("cells      2 in this kernel, 2 in all, 0 waiting; 1 tool call\n"),
        "{out}"
    );
    let line = out.lines().find(|line| line.starts_with("  data")).unwrap();
    assert!(
        line.contains("list") && line.contains("kB") && line.ends_with("1000"),
        "{line}"
    );
    home.end().await;
}

#[tokio::test]
async fn a_session_is_shown_while_a_cell_runs() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "precious = 1"]);
    let begun = home.place.work().join("begun");
    let code = format!("print('x', file=open({begun:?}, 'w'), flush=True)\nwhile True: pass");
    let client = home.start(&["exec", "-s", "a", &code]);
    written(&begun).await;
    let (_, out, _) = home.run(&["sessions", "show", "a", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["state"], "busy");
    assert_eq!(shown["running"]["cell"], 2);
    assert_eq!(shown["variables"]["taken_live"], false);
    assert_eq!(shown["variables"]["variables"][0]["name"], "precious");
    let (code, _, err) = home.run(&["sessions", "interrupt", "a"]);
    // On a busy machine the next kernel may not have been seen in time.
    assert_eq!(
        (code, as_if_restarted(&err).as_str()),
        (
            0,
            "warmcell: the cell that ran in a: interrupted; the kernel was killed and restarted: 1 cell \
             and precious are lost; rebuild what you need\n"
        )
    );
    assert_eq!(ended(client).0, 130);
    let (code, _, err) = home.run(&["sessions", "interrupt", "a"]);
    assert_eq!((code, err.as_str()), (0, "warmcell: no cell runs in a\n"));
    let (code, _, err) = home.run(&["sessions", "reset", "a"]);
    assert_eq!((code, err.as_str()), (0, "warmcell: a is reset\n"));
    home.end().await;
}

#[tokio::test]
async fn events_come_in_order_with_their_times_until_the_session_is_closed() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let mut watching = home.start(&["sessions", "events", "a", "--json"]);
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = move || -> Option<Value> {
        let line = lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    };
    // Cells are run until one is seen: then the watching has begun.
    let (sender, events) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        while let Some(event) = next() {
            if sender.send(event).is_err() {
                break;
            }
        }
    });
    let mut seen: Vec<Value> = Vec::new();
    while !seen.iter().any(|it| it["kind"] == "cell_queued") {
        let code = "print('hello'); terminal('true'); 6 * 7";
        home.run(&["exec", "-s", "a", code]);
        while let Ok(event) = events.recv_timeout(std::time::Duration::from_millis(200)) {
            seen.push(event);
        }
    }
    let (code, _, _) = home.run(&["sessions", "close", "a"]);
    assert_eq!(code, 0);
    while let Ok(event) = events.recv_timeout(SAFETY) {
        seen.push(event);
    }
    reading.join().unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(0));
    let seqs: Vec<u64> = seen.iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    assert!(
        seqs.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{seqs:?}"
    );
    let times: Vec<&str> = seen.iter().map(|it| it["at"].as_str().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    let queued = seen
        .iter()
        .position(|it| it["kind"] == "cell_queued")
        .unwrap();
    let printed: String = seen[queued..]
        .iter()
        .filter(|it| it["kind"] == "stdout")
        .filter_map(|it| it["text"].as_str())
        .collect();
    assert_eq!(printed, "hello\n");
    let kinds: Vec<String> = seen[queued..]
        .iter()
        // It may come in pieces.
        .filter(|it| it["kind"] != "stdout")
        .map(|it| match it["kind"].as_str().unwrap() {
            "kernel_state" => format!(
                "{} -> {}",
                it["from"].as_str().unwrap(),
                it["to"].as_str().unwrap()
            ),
            "result" => format!("result {}", it["data"]),
            "cell_finished" => format!("finished {}", it["outcome"]["status"]),
            other => other.to_owned(),
        })
        .collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let expected = [
        "cell_queued",
        "cell_started",
        "idle -> busy",
        "tool_started",
        "tool_finished",
        "result \"42\"",
        "busy -> idle",
        "finished \"success\"",
    ];
    assert_eq!(kinds[..expected.len()], expected, "{kinds:?}");
    assert_eq!(
        kinds[kinds.len() - 2..],
        ["kernel_exited", "idle -> dead"],
        "{kinds:?}"
    );
    home.end().await;
}
