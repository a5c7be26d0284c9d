//! What clients of WebSockets are told of the kernel beside their cells: that it was lost and is
//! there again, that a cell of another runs, and how long a kernel with clients lives.

use std::time::Duration;

use serde_json::{Value, json};
use warmcell::kernel::KernelState;
use warmcell::session::{Cell, EventKind};

use crate::jupyter_kit::{Form, House, in_short};
use crate::support::{SAFETY, Signal, run};

const AGAIN: [&str; 3] = ["restarting", "starting", "idle"];

#[tokio::test]
async fn a_lost_kernel_is_told_up_to_the_next_one_whatever_has_ended_it() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let mut watcher = house.client(&session, Form::Text).await;
    let restart = format!("/api/kernels/{}/restart", session.id());

    // It dies under the cell of a client.
    let header = client.execute("x = 1\nimport os; os._exit(3)").await;
    let words = in_short(&client.all_of(&header).await);
    assert!(words[2].starts_with("DeadKernelError: "), "{words:?}");
    assert_eq!(words[3..], ["execute_reply error", "idle"]);
    assert_eq!(client.states().await, AGAIN);
    let words = in_short(&watcher.all_of(&header).await);
    assert_eq!(words.last().unwrap(), "idle");
    assert_eq!(watcher.states().await, AGAIN);

    // It is restarted while nothing runs.
    client.run("1").await;
    assert_eq!(house.ask("POST", &restart, &json!({})).await.0, 200);
    assert_eq!(client.states().await, AGAIN);
    assert_eq!(watcher.states().await, AGAIN);

    // In the middle of a cell.
    let begun = Signal::in_place(&house.place, "begun");
    let code = "open('begun', 'w').close()\nwhile True: pass";
    let header = client.execute(code).await;
    begun.wait().await;
    assert_eq!(house.ask("POST", &restart, &json!({})).await.0, 200);
    let words = in_short(&client.all_of(&header).await);
    assert!(words[2].starts_with("KeyboardInterrupt: "), "{words:?}");
    assert_eq!(words[3..], ["execute_reply error", "idle"]);
    assert_eq!(client.states().await, AGAIN);
    assert_eq!(watcher.states().await, AGAIN);

    // The same, and out of time, with the cell of another.
    for is_reset in [true, false] {
        let mut cell = Cell::new(code);
        cell.timeout = Some(Duration::from_millis(if is_reset { 60_000 } else { 300 }));
        let mut execution = session.execute(cell);
        begun.wait().await;
        if is_reset {
            session.reset().await;
        }
        let outcome = execution.outcome().await;
        let word = if is_reset { "interrupted" } else { "timeout" };
        assert_eq!(serde_json::to_value(outcome.status).unwrap(), word);
        for client in [&mut client, &mut watcher] {
            let busy = client.next().await.unwrap();
            let words = in_short(&client.all_of_after(&busy).await);
            assert_eq!(words.last().unwrap(), "idle");
            assert_eq!(client.states().await, AGAIN);
        }
    }

    // Between cells.
    let code = "import os, threading; threading.Timer(0.05, os._exit, [4]).start()";
    run(&session, code).await;
    for client in [&mut client, &mut watcher] {
        let busy = client.next().await.unwrap();
        drop(client.all_of_after(&busy).await);
        assert_eq!(client.states().await, AGAIN);
    }
    let words = client.run("2").await;
    assert!(words.contains(&"[1]: 2".to_owned()), "{words:?}");
    house.close().await;
}

/// States of the kernel never come between `busy` and `idle` of a cell that the next kernel runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_the_kernel_and_cells_are_told_one_after_the_other() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let rounds = 10;
    for round in 0..rounds {
        let content = json!({ "code": "import os; os._exit(1)", "stop_on_error": false });
        client.send("shell", "execute_request", &content).await;
        client.execute(&format!("{round}")).await;
        run(&session, "'other'").await;
    }
    let mut open: Option<String> = None;
    let mut kernel = Vec::new();
    let mut replies = 0;
    while replies < 2 * rounds || open.is_some() {
        let message = client.next().await.unwrap();
        replies += usize::from(message.kind() == "execute_reply");
        let state = message.content["execution_state"].as_str();
        match state {
            Some(state) if message.parent == "{}" => {
                assert_eq!(open, None, "{state} in the middle of a cell");
                kernel.push(state.to_owned());
            }
            Some("busy") => assert_eq!(open.replace(message.parent), None),
            Some("idle") => assert_eq!(open.take(), Some(message.parent)),
            _ => assert_eq!(open.as_ref(), Some(&message.parent)),
        }
    }
    for states in kernel.chunks(3) {
        assert_eq!(states, AGAIN);
    }
    assert!(kernel.len() >= 3 * rounds, "{kernel:?}");
    house.close().await;
}

#[tokio::test]
async fn who_comes_in_the_middle_of_a_cell_sees_it_from_then_on() {
    let house = House::open().await;
    let session = house.session("a");
    run(&session, "x = 1").await;
    let begun = Signal::in_place(&house.place, "begun");
    let gate = Signal::in_place(&house.place, "gate");
    let code = "print('before', flush=True)\nopen('begun', 'w').close()\nopen('gate').read()\n\
                print('after')\nx + 6";
    let head = ["busy".to_owned(), format!("[2] {code}")];
    let rest = ["stdout: after\n", "[2]: 7", "idle"];

    // Nobody has watched before, and then somebody does already.
    let mut execution = session.execute(Cell::new(code));
    begun.wait().await;
    let mut first = house.client(&session, Form::V1).await;
    let mut parents = Vec::new();
    let seen = [first.next().await.unwrap(), first.next().await.unwrap()];
    parents.push(seen[0].parent.clone());
    assert_eq!(in_short(&seen), head);
    let mut second = house.client(&session, Form::Text).await;
    let seen = [second.next().await.unwrap(), second.next().await.unwrap()];
    parents.push(seen[0].parent.clone());
    assert_eq!(in_short(&seen), head);
    assert_eq!(parents[0], parents[1]);
    gate.give().await;
    for client in [&mut first, &mut second] {
        assert_eq!(in_short(&client.all_of(&parents[0]).await), rest);
    }
    execution.outcome().await;

    // The cell of another client.
    let header = first.execute(code).await;
    begun.wait().await;
    // What is printed waits a moment for more.
    while first.next().await.unwrap().kind() != "stream" {}
    let mut third = house.client(&session, Form::V1).await;
    let seen = [third.next().await.unwrap(), third.next().await.unwrap()];
    assert_eq!(in_short(&seen), ["busy", &format!("[3] {code}")]);
    assert_eq!(seen.map(|it| it.parent), [header.clone(), header.clone()]);
    gate.give().await;
    let words = in_short(&third.all_of(&header).await);
    assert_eq!(words, ["stdout: after\n", "[3]: 7", "idle"]);

    // Who comes when it is over sees nothing of it; a long cell is shown up to 16 KiB.
    drop((first, second, third));
    let mut last = house.client(&session, Form::V1).await;
    let long = format!("'{}'[:1]", "é".repeat(20_000));
    run(&session, &long).await;
    let busy = last.next().await.unwrap();
    let messages = last.all_of_after(&busy).await;
    let shown = messages[0].content["code"].as_str().unwrap();
    assert!(shown.len() < 17_000, "{}", shown.len());
    assert!(shown.starts_with("'éé") && shown.ends_with("more bytes]"));
    assert_eq!(messages[0].content["execution_count"], 4);
    house.close().await;
}

#[tokio::test]
async fn a_kernel_is_not_idle_while_a_client_is_connected() {
    let limit = Duration::from_millis(400);
    let house = House::open_with(|settings| settings.kernel_idle_timeout = Some(limit)).await;
    let session = house.session("a");
    let mut events = session.events();
    let mut one = house.client(&session, Form::V1).await;
    let other = house.client(&session, Form::V1).await;
    one.run("x = 1").await;
    // Time is what this is about.
    tokio::time::sleep(3 * limit).await;
    drop(other);
    tokio::time::sleep(2 * limit).await;
    let words = one.run("x").await;
    assert!(words.contains(&"[2]: 1".to_owned()), "{words:?}");
    tokio::time::sleep(limit * 3 / 4).await;
    let gone = jiff::Timestamp::now();
    drop(one);
    let reaped = loop {
        let next = tokio::time::timeout(SAFETY, events.next()).await;
        let event = next.expect("it is not reaped").unwrap();
        if let EventKind::KernelState { to, reason, .. } = &event.kind
            && *to == KernelState::Dead
        {
            assert_eq!(reason, "idle");
            break event.at;
        }
    };
    let after = Duration::try_from(reaped.duration_since(gone)).unwrap();
    assert!(after >= limit, "{after:?} after the last client has gone");
    house.close().await;
}

#[tokio::test]
async fn the_description_of_a_kernel_is_true() {
    let house = House::open().await;
    let session = house.session("a");
    let path = format!("/api/kernels/{}", session.id());
    let model = async || house.ask("GET", &path, &json!({})).await.1;
    let active = |model: &Value| -> jiff::Timestamp {
        model["last_activity"].as_str().unwrap().parse().unwrap()
    };
    let first = model().await;
    assert_eq!(first["execution_state"], "idle");

    // A cell that comes another way is activity, when it begins and when it ends.
    let begun = Signal::in_place(&house.place, "begun");
    let gate = Signal::in_place(&house.place, "gate");
    let code = "open('begun', 'w').close()\nopen('gate').read()";
    let before = jiff::Timestamp::now();
    let mut execution = session.execute(Cell::new(code));
    begun.wait().await;
    let running = model().await;
    assert_eq!(running["execution_state"], "busy");
    assert!(active(&running) >= before, "{running}");
    let before_its_end = jiff::Timestamp::now();
    gate.give().await;
    execution.outcome().await;
    let ended = model().await;
    assert_eq!(ended["execution_state"], "idle");
    assert!(active(&ended) >= before_its_end, "{ended}");

    // Clients are counted while they are there; that they ask is activity too.
    let before = jiff::Timestamp::now();
    let mut clients = [
        house.client(&session, Form::V1).await,
        house.client(&session, Form::Text).await,
    ];
    for client in &mut clients {
        client.run("1").await;
    }
    let watched = model().await;
    assert_eq!(watched["connections"], 2);
    assert!(active(&watched) >= before, "{watched}");
    drop(clients);
    let begun = std::time::Instant::now();
    let left = loop {
        let left = model().await;
        if left["connections"] == 0 {
            break left;
        }
        assert!(begun.elapsed() < SAFETY, "{left}");
    };
    assert!(active(&left) >= active(&watched), "{left} after {watched}");
    house.close().await;
}
