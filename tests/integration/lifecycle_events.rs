//! What a watcher of a session sees, in order.

use std::time::Duration;

use serde_json::{Value, json};
use warmcell::session::{EventStream, Session};

use crate::lifecycle_support::limited;
use crate::support::{Manager, SAFETY, run, run_cell};

/// The events until a kind comes so many times, as JSON.
/// Text and its line end are two writes, which the pipe may hand on together or apart.
fn join(events: &mut Vec<Value>, event: Value) {
    if event["kind"] == "stdout"
        && let Some(last) = events.last_mut().filter(|last| last["kind"] == "stdout")
    {
        let text = format!(
            "{}{}",
            last["text"].as_str().unwrap(),
            event["text"].as_str().unwrap()
        );
        *last = event;
        last["text"] = text.into();
    } else {
        events.push(event);
    }
}

async fn until_kind(stream: &mut EventStream, kind: &str) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let next = tokio::time::timeout(SAFETY, stream.next()).await;
        let event = serde_json::to_value(next.expect("no event").unwrap()).unwrap();
        let is_last = event["kind"] == kind;
        events.push(event);
        if is_last {
            return events;
        }
    }
}

/// The events in short: what tells one from another.
fn in_short(events: &[Value]) -> Vec<Value> {
    let mut joined = Vec::new();
    for event in events {
        join(&mut joined, event.clone());
    }
    let events = &joined;
    let keep = |event: &Value| {
        let mut short = serde_json::Map::new();
        for key in [
            "kind",
            "cell",
            "generation",
            "from",
            "to",
            "text",
            "data",
            "tool",
            "ok",
            "signal",
            "code",
        ] {
            if let Some(value) = event.get(key) {
                short.insert(key.to_owned(), value.clone());
            }
        }
        Value::Object(short)
    };
    events.iter().map(keep).collect()
}

fn assert_rising(events: &[Value]) {
    for pair in events.windows(2) {
        assert_eq!(
            pair[1]["seq"].as_u64().unwrap(),
            pair[0]["seq"].as_u64().unwrap() + 1,
            "{pair:?}"
        );
        assert!(
            pair[1]["at"].as_str().unwrap() >= pair[0]["at"].as_str().unwrap(),
            "{pair:?}"
        );
    }
    assert!(events.iter().all(|event| event["session"] == "a"));
}

async fn warm(session: &Session) {
    run(session, "x = 1").await;
}

#[tokio::test]
async fn a_success_in_order() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let mut stream = session.events();
    let outcome = run(
        &session,
        "import sys; print('é'); print('e', file=sys.stderr); 6*7",
    )
    .await;
    let mut events = until_kind(&mut stream, "cell_finished").await;
    assert_rising(&events);
    let told = events.last_mut().unwrap()["outcome"].take();
    assert_eq!(told, serde_json::to_value(&outcome).unwrap());
    let mut short = in_short(&events);
    // A print may arrive in pieces.
    short.dedup_by(|later, earlier| {
        let joined = match (earlier["text"].as_str(), later["text"].as_str()) {
            (Some(one), Some(two)) if earlier["kind"] == later["kind"] => format!("{one}{two}"),
            _ => return false,
        };
        earlier["text"] = joined.into();
        true
    });
    // stdout and stderr are two pipes: their order among each other is not kept.
    short[5..7].sort_by_key(|event| event["kind"] == "stderr");
    assert_eq!(
        short,
        [
            json!({"kind": "cell_queued", "generation": 0}),
            json!({"kind": "kernel_state", "generation": 0, "from": "dead", "to": "starting"}),
            json!({"kind": "kernel_state", "generation": 1, "from": "starting", "to": "idle"}),
            json!({"kind": "cell_started", "generation": 1, "cell": 1}),
            json!({"kind": "kernel_state", "generation": 1, "from": "idle", "to": "busy"}),
            json!({"kind": "stdout", "generation": 1, "cell": 1, "text": "é\n"}),
            json!({"kind": "stderr", "generation": 1, "cell": 1, "text": "e\n"}),
            json!({"kind": "result", "generation": 1, "cell": 1, "data": "42"}),
            json!({"kind": "kernel_state", "generation": 1, "from": "busy", "to": "idle"}),
            json!({"kind": "cell_finished", "generation": 1, "cell": 1}),
        ]
    );
    manager.end().await;
}

#[tokio::test]
async fn a_timeout_in_order() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    warm(&session).await;
    let mut stream = session.events();
    run_cell(&session, limited("print('b')\nwhile True: pass", 150)).await;
    let mut events = until_kind(&mut stream, "cell_finished").await;
    events.extend(until_kind(&mut stream, "kernel_state").await);
    assert_rising(&events);
    let finished = events
        .iter()
        .find(|event| event["kind"] == "cell_finished")
        .unwrap();
    assert_eq!(finished["outcome"]["status"], "timeout");
    assert_eq!(
        in_short(&events),
        [
            json!({"kind": "cell_queued", "generation": 1}),
            json!({"kind": "cell_started", "generation": 1, "cell": 2}),
            json!({"kind": "kernel_state", "generation": 1, "from": "idle", "to": "busy"}),
            json!({"kind": "stdout", "generation": 1, "cell": 2, "text": "b\n"}),
            json!({"kind": "kernel_exited", "generation": 1, "signal": 9}),
            json!({"kind": "kernel_state", "generation": 1, "from": "busy", "to": "restarting"}),
            json!({"kind": "cell_finished", "generation": 2, "cell": 2}),
            // Without anybody asking for it.
            json!({"kind": "kernel_state", "generation": 2, "from": "restarting", "to": "idle"}),
        ]
    );
    manager.end().await;
}

#[tokio::test]
async fn a_tool_call_in_order() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    warm(&session).await;
    let mut stream = session.events();
    run(&session, "import hermes_tools\nfor f in ('/etc/hostname', '/nonexistent'): hermes_tools.read_file(f)").await;
    let events = until_kind(&mut stream, "cell_finished").await;
    assert_rising(&events);
    let tools: Vec<&Value> = events
        .iter()
        .filter(|event| event["kind"].as_str().unwrap().starts_with("tool"))
        .collect();
    let ids: Vec<_> = tools
        .iter()
        .map(|event| event["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, [1, 1, 2, 2]);
    assert!(tools.iter().all(|event| event["cell"] == 2));
    assert_eq!(tools[0]["kind"], "tool_started");
    assert_eq!(tools[0]["tool"], "read_file");
    assert_eq!(tools[1]["kind"], "tool_finished");
    assert_eq!(tools[1]["ok"], true);
    assert!(tools[1]["ms"].is_u64());
    assert_eq!(tools[3]["ok"], false);
    manager.end().await;
}

#[tokio::test]
async fn a_death_a_reset_and_a_close_in_order() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    warm(&session).await;
    let mut stream = session.events();
    run(&session, "import os; os._exit(3)").await;
    run(&session, "1").await;
    session.reset().await;
    drop(session.close().await);
    let mut events = Vec::new();
    while let Ok(Some(event)) =
        tokio::time::timeout(Duration::from_millis(300), stream.next()).await
    {
        events.push(serde_json::to_value(event).unwrap());
    }
    assert_rising(&events);
    let of_kernel: Vec<Value> = in_short(&events)
        .into_iter()
        .filter(|event| event["kind"].as_str().unwrap().starts_with("kernel"))
        .collect();
    let state = |generation: u64, from: &str, to: &str| json!({"kind": "kernel_state", "generation": generation, "from": from, "to": to});
    let exited = |generation: u64, code: i32| json!({"kind": "kernel_exited", "generation": generation, "code": code});
    assert_eq!(
        of_kernel,
        [
            state(1, "idle", "busy"),
            exited(1, 3),
            state(1, "busy", "restarting"),
            state(2, "restarting", "idle"),
            state(2, "idle", "busy"),
            state(2, "busy", "idle"),
            exited(2, 0),
            state(2, "idle", "restarting"),
            // A reset has seen the next one.
            state(3, "restarting", "idle"),
            exited(3, 0),
            state(3, "idle", "dead"),
        ]
    );
    manager.end().await;
}

#[tokio::test]
async fn a_watcher_that_lags_is_told_how_much_it_missed() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    warm(&session).await;
    let mut stream = session.events();
    for _ in 0..120 {
        run(&session, "print(1)").await;
    }
    let first = serde_json::to_value(stream.next().await.unwrap()).unwrap();
    assert_eq!(first["kind"], "lagged");
    let missed = first["missed"].as_u64().unwrap();
    assert!(missed > 100, "{first}");
    let next = serde_json::to_value(stream.next().await.unwrap()).unwrap();
    assert_eq!(
        next["seq"].as_u64().unwrap(),
        first["seq"].as_u64().unwrap() + 1
    );
    manager.end().await;
}
