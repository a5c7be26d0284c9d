//! Cells that go on without the client that has ordered them: read along, left, found again, interrupted.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle_support::{signal, until, written};
use crate::server_kit::{Home, ended};

/// A client that reads a stream as it comes.
struct Reader(BufReader<UnixStream>);

impl Reader {
    fn order(home: &Home, session: &str, order: &Value) -> Self {
        let mut stream = UnixStream::connect(home.socket()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let body = order.to_string();
        let request = format!(
            "POST /warmcell/v1/sessions/{session}/cells HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    /// The next line of the stream; none at its end.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // What is no object belongs to the head, or to the chunks.
            if line.starts_with('{') {
                return Some(serde_json::from_str(&line).unwrap());
            }
        }
    }
}

/// Code that says that it has begun, and goes on until a file is there.
fn waits_for(home: &Home, name: &str) -> String {
    let [begun, go] = ["begun", "go"].map(|it| home.place.work().join(format!("{name}.{it}")));
    format!(
        "import os, time\nprint('begin', flush=True)\nopen({begun:?}, 'w').write('x\\n')\n\
         while not os.path.exists({go:?}): time.sleep(0.01)\nprint('end'); 5"
    )
}

async fn begun(home: &Home, name: &str) {
    written(&home.place.work().join(format!("{name}.begun"))).await;
}

fn go(home: &Home, name: &str) {
    std::fs::write(home.place.work().join(format!("{name}.go")), "").unwrap();
}

#[tokio::test]
async fn who_reads_a_detached_cell_along_may_leave_and_find_it_again() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let order = json!({ "code": waits_for(&home, "left"), "stream": true, "detach": true });
    let mut reader = Reader::order(&home, "a", &order);
    let first = reader.next().unwrap();
    let id = first["accepted"]["id"].as_str().unwrap().to_owned();
    assert_eq!(reader.next().unwrap()["started"]["kernel"]["generation"], 1);
    // It may come in pieces.
    let printed = reader.next().unwrap()["stdout"].clone();
    assert!(printed.as_str().unwrap().starts_with("begin"), "{printed}");
    begun(&home, "left").await;
    drop(reader);
    // The server has seen that its client is gone, and has kept the cell.
    let mut so_far = Value::Null;
    until("a cell that is kept", || {
        let answer = home.ask(
            "POST",
            "/warmcell/v1/sessions/a/wait",
            &json!({ "timeout": 0 }),
        );
        let lines = answer.lines();
        so_far = lines
            .first()
            .map_or(Value::Null, |line| line["finished"]["outcome"].clone());
        !so_far.is_null()
    })
    .await;
    assert_eq!([&so_far["status"], &so_far["cell_id"]], ["running", &id]);
    go(&home, "left");
    let lines = home
        .ask("POST", "/warmcell/v1/sessions/a/wait", &json!({}))
        .lines();
    let outcome = &lines[0]["finished"]["outcome"];
    assert_eq!(
        [&outcome["status"], &outcome["output"]],
        ["success", "begin\nend\n5"]
    );
    assert_eq!(outcome["cell_id"], id.as_str());
    assert_eq!(outcome["kernel"]["state"], "kept");

    // Who stays has it all, and nothing is kept.
    let order = json!({ "code": waits_for(&home, "stayed"), "stream": true, "detach": true });
    let mut reader = Reader::order(&home, "a", &order);
    begun(&home, "stayed").await;
    go(&home, "stayed");
    let mut lines = Vec::new();
    while let Some(line) = reader.next() {
        lines.push(line);
    }
    let printed: String = lines
        .iter()
        .filter_map(|line| line["stdout"].as_str())
        .collect();
    assert_eq!(printed, "begin\nend\n");
    assert_eq!(
        lines.last().unwrap()["finished"]["outcome"]["status"],
        "success"
    );
    let kept = home
        .ask("POST", "/warmcell/v1/sessions/a/wait", &json!({}))
        .lines();
    assert!(kept.is_empty(), "{kept:?}");

    // With a time to wait the stream ends then, and the cell goes on.
    let order = json!({
        "code": waits_for(&home, "timed"), "stream": true, "detach": true, "wait": 0.2,
    });
    let mut reader = Reader::order(&home, "a", &order);
    let mut last = Value::Null;
    while let Some(line) = reader.next() {
        last = line;
    }
    assert_eq!(last["finished"]["outcome"]["status"], "running");
    go(&home, "timed");
    let lines = home
        .ask("POST", "/warmcell/v1/sessions/a/wait", &json!({}))
        .lines();
    assert_eq!(lines[0]["finished"]["outcome"]["result"], "5");
    home.end().await;
}

/// Without `detach` the client's leaving interrupts the cell.
#[tokio::test]
async fn who_leaves_a_cell_that_is_not_detached_interrupts_it() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let mut reader = Reader::order(
        &home,
        "a",
        &json!({ "code": waits_for(&home, "a"), "stream": true }),
    );
    reader.next().unwrap();
    begun(&home, "a").await;
    drop(reader);
    let result = home.json("a", "1");
    assert_eq!(result["kernel"]["reason"], "interrupt", "{result}");
    home.end().await;
}

#[tokio::test]
async fn a_cell_that_goes_on_can_be_interrupted_and_its_result_found_by_its_id() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let interrupt = |id: &str| {
        let path = format!("/warmcell/v1/cells/{id}/interrupt");
        home.ask("POST", &path, &json!({})).json()["interrupted"] == true
    };
    let order = |more: Value| {
        let mut order = json!({ "on_interrupt": "interrupt" });
        order
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = home.order("a", &order);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let running = order(json!({ "code": waits_for(&home, "first"), "detach": true }));
    assert_eq!(running["status"], "running");
    let first = running["cell_id"].as_str().unwrap().to_owned();
    begun(&home, "first").await;
    // One that waits for its turn, and one whose client has waited for a while.
    let second = order(json!({ "code": "open('ran', 'w')", "wait": 0.05 }));
    let second = second["cell_id"].as_str().unwrap().to_owned();
    let third = order(json!({ "code": "'third'", "detach": true }));
    let third = third["cell_id"].as_str().unwrap().to_owned();
    assert!(interrupt(&second));
    assert!(interrupt(&first));
    let lines = home
        .ask("POST", "/warmcell/v1/sessions/a/wait", &json!({}))
        .lines();
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            let outcome = &line["finished"]["outcome"];
            [&outcome["cell_id"], &outcome["status"]].map(|it| it.as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [
        [&first, "interrupted"],
        [&second, "interrupted"],
        [&third, "success"],
    ];
    assert_eq!(
        told,
        expected.map(|row| row.map(str::to_owned)),
        "{lines:?}"
    );
    assert!(!home.place.work().join("ran").exists());
    // What has ended is not there to be interrupted.
    until("three cells that are forgotten", || {
        ![&first, &second, &third]
            .into_iter()
            .any(|id| interrupt(id))
    })
    .await;
    // A result that its client has waited for needs no id.
    let plain = order(json!({ "code": "x" }));
    assert_eq!(
        [&plain["result"], &plain["cell_id"]],
        [&json!("1"), &Value::Null]
    );
    let (_, out, _) = home.run(&["exec", "-s", "a", "--detach", "--json", "2"]);
    let detached: Value = serde_json::from_str(&out).unwrap();
    let (_, out, _) = home.run(&["sessions", "wait", "a", "--json"]);
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["result"], "2");
    assert!(
        detached["status"] != "running" || detached["cell_id"] == result["cell_id"],
        "{detached} {result}"
    );
    home.end().await;
}

/// Who waits for a turn that does not come is told so, and is not left waiting.
#[tokio::test]
async fn a_cell_that_waits_is_answered_when_its_session_ends_or_it_is_interrupted() {
    let home = Home::new();
    let busy = |name: &str| {
        let code = waits_for(&home, name);
        assert_eq!(home.run(&["exec", "-s", name, "--detach", &code]).0, 0);
    };
    let waiting = |name: &str| {
        let (_, out, _) = home.run(&["sessions", "show", name, "--json"]);
        let shown: Value = serde_json::from_str(&out).unwrap_or_default();
        shown["waiting"] == 1
    };
    for (name, order) in [("a", "close"), ("b", "interrupt"), ("c", "stop")] {
        busy(name);
        begun(&home, name).await;
        let client = home.start(&["exec", "-s", name, "--json", "5"]);
        until("a cell that waits", || waiting(name)).await;
        match order {
            "close" => drop(home.run(&["sessions", "close", name])),
            "interrupt" => signal(client.id(), rustix::process::Signal::INT),
            _ => drop(home.run(&["serve", "--stop"])),
        }
        let (code, out, err) = ended(client);
        let result: Value = serde_json::from_str(&out).unwrap_or_default();
        let expected = match order {
            "interrupt" => (130, "interrupted"),
            _ => (125, "unavailable"),
        };
        let class = result["error_class"].as_str().unwrap_or_default();
        assert_eq!((code, class), (expected.0, expected.1), "{out}{err}");
        go(&home, name);
    }
    home.assert_nothing_left().await;
}
