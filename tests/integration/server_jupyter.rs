//! Jupyter Server's paths for kernels: what clients of WebSockets see of cells.

use serde_json::json;
use warmcell::session::Cell;

use crate::jupyter_kit::{Form, House, in_short};
use crate::support::{SAFETY, run};

#[tokio::test]
async fn a_cell_over_a_websocket_is_told_in_order_and_byte_for_byte() {
    let house = House::open().await;
    let session = house.session("a");
    for (form, count) in [(Form::V1, 1), (Form::Text, 2)] {
        let mut client = house.client(&session, form).await;
        let code = "import sys; print('é', flush=True); print('b', file=sys.stderr); 6 * 7";
        let header = client.execute(code).await;
        let messages = client.all_of(&header).await;
        let input = format!("[{count}] {code}");
        let result = format!("[{count}]: 42");
        let mut words = in_short(&messages);
        // Two pipes have no order between them.
        words[2..4].sort_unstable();
        let expected = ["busy", &input, "stderr: b\n", "stdout: é\n", &result];
        assert_eq!(words[..5], expected, "{form:?}");
        assert_eq!(words[5..], ["execute_reply ok", "idle"], "{form:?}");
        let reply = messages
            .iter()
            .find(|message| message.channel == "shell")
            .unwrap();
        assert_eq!(reply.content["execution_count"], count);
        assert_eq!(reply.content["user_expressions"], json!({}));
        let ids: std::collections::BTreeSet<_> = messages
            .iter()
            .map(|message| message.header["msg_id"].as_str().unwrap())
            .collect();
        assert_eq!(ids.len(), messages.len());
        for message in &messages {
            assert_eq!(message.header["version"], "5.4");
            assert_eq!(message.header["session"], session.id());
        }
    }
    house.close().await;
}

#[tokio::test]
async fn a_failure_is_told_and_those_that_wait_do_not_run() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let failing = client.execute("def f():\n  1/0\nf()").await;
    let second = client.execute("x = 1").await;
    let info = client
        .send("shell", "kernel_info_request", &json!({}))
        .await;
    let third = client.execute("x = 2").await;
    let messages = client.all_of(&failing).await;
    let failed = messages.iter().find(|it| it.kind() == "error").unwrap();
    assert_eq!(failed.content["ename"], "ZeroDivisionError");
    assert_eq!(failed.content["evalue"], "division by zero");
    let lines: Vec<&str> = failed.content["traceback"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    let traceback = lines.join("\n");
    assert!(
        traceback.contains("<cell 1>\", line 2, in f"),
        "{traceback}"
    );
    let reply = messages.iter().find(|it| it.channel == "shell").unwrap();
    assert_eq!(reply.content["status"], "error");
    assert_eq!(reply.content["traceback"], failed.content["traceback"]);
    let aborted = ["busy", "execute_reply aborted", "idle"];
    assert_eq!(in_short(&client.all_of(&second).await), aborted);
    let answered = ["busy", "kernel_info_reply ok", "idle"];
    assert_eq!(in_short(&client.all_of(&info).await), answered);
    assert_eq!(in_short(&client.all_of(&third).await), aborted);

    let content = json!({ "code": "1/0", "stop_on_error": false });
    client.send("shell", "execute_request", &content).await;
    let after = client.execute("'x' in globals()").await;
    let words = in_short(&client.all_of(&after).await);
    assert!(words.contains(&"[3]: False".to_owned()), "{words:?}");
    let exits = client.run("import sys; sys.exit(3)").await;
    assert!(exits.contains(&"SystemExit: 3".to_owned()), "{exits:?}");
    house.close().await;
}

#[tokio::test]
async fn all_who_watch_see_each_cell_whoever_has_sent_it() {
    let house = House::open().await;
    let session = house.session("a");
    let mut one = house.client(&session, Form::V1).await;
    let mut other = house.client(&session, Form::Text).await;
    let header = one.execute("print('a'); 5").await;
    let seen = in_short(&other.all_of(&header).await);
    assert_eq!(
        seen,
        ["busy", "[1] print('a'); 5", "stdout: a\n", "[1]: 5", "idle"],
        "replies are the asker's alone"
    );
    let seen = in_short(&one.all_of(&header).await);
    assert_eq!(seen.len(), 6, "{seen:?}");

    run(&session, "print('b'); 6").await;
    for client in [&mut one, &mut other] {
        let begin = client.next().await.unwrap();
        let words = in_short(&client.all_of_after(&begin).await);
        let input = "[2] print('b'); 6";
        assert_eq!(words, [input, "stdout: b\n", "[2]: 6", "idle"]);
    }

    // What is lost is told to all.
    let mut cell = session.execute(Cell::new("print('c', flush=True)\nwhile True: pass"));
    loop {
        if one.next().await.unwrap().kind() == "stream" {
            break;
        }
    }
    cell.interrupt();
    tokio::time::timeout(SAFETY, cell.outcome()).await.unwrap();
    let begin = other.next().await.unwrap();
    assert_eq!(begin.content["execution_state"], "busy");
    let words = in_short(&other.all_of_after(&begin).await);
    assert!(words[2].starts_with("KeyboardInterrupt"), "{words:?}");
    assert_eq!(words[0], "[3] print('c', flush=True)\nwhile True: pass");
    assert_eq!(words[3..], ["idle"]);
    assert_eq!(other.states().await, ["restarting", "starting", "idle"]);

    // The order holds for many short ones, mine and others'.
    drop(one);
    let rounds = 20;
    for round in 0..rounds {
        other.execute(&format!("'{round}'")).await;
        run(&session, &format!("'other {round}'")).await;
    }
    let mut open: Option<String> = None;
    let mut results = 0;
    while results < 2 * rounds {
        let message = other.next().await.unwrap();
        match message.content["execution_state"].as_str() {
            Some("busy") => assert_eq!(open.replace(message.parent), None),
            Some("idle") => assert_eq!(open.take(), Some(message.parent)),
            _ => {
                assert_eq!(open.as_ref(), Some(&message.parent));
                results += usize::from(message.kind() == "execute_result");
            }
        }
    }
    house.close().await;
}

#[tokio::test]
async fn a_client_that_goes_leaves_its_cell_alone_and_finds_it_again() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let gate = crate::support::Signal::in_place(&house.place, "gate");
    let header = client
        .execute("print('before', flush=True)\nopen('gate').read()\nprint('after')\nx = 1")
        .await;
    let waiting = client.execute("y = 1").await;
    client.printed("before\n").await;
    drop(client);
    let mut again = house.client(&session, Form::Text).await;
    let begin = [again.next().await.unwrap(), again.next().await.unwrap()];
    assert_eq!(begin[0].content["execution_state"], "busy");
    assert_eq!(begin[1].kind(), "execute_input");
    gate.give().await;
    let words = in_short(&again.all_of(&header).await);
    assert_eq!(words, ["stdout: after\n", "idle"]);
    // What had not begun does not run without its caller.
    let words = again.run("(x, 'y' in globals())").await;
    assert!(words.contains(&"[2]: (1, False)".to_owned()), "{words:?}");
    assert!(!waiting.is_empty());
    house.close().await;
}

#[tokio::test]
async fn what_is_silent_shows_nothing_and_what_is_empty_does_nothing() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let content = json!({ "code": "print(1); x = 2; 3", "silent": true });
    let silent = client.send("shell", "execute_request", &content).await;
    let words = in_short(&client.all_of(&silent).await);
    assert_eq!(words, ["busy", "execute_reply ok", "idle"]);
    let empty = ["busy", "execute_reply ok", "idle"];
    assert_eq!(client.run(" \n").await, empty);
    let words = client.run("x").await;
    assert!(words.contains(&"[1]: 2".to_owned()), "{words:?}");
    house.close().await;
}

#[tokio::test]
async fn what_is_asked_before_the_first_cell_is_answered() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    for channel in ["shell", "control"] {
        let info = client
            .send(channel, "kernel_info_request", &json!({}))
            .await;
        let messages = client.all_of(&info).await;
        let info = &messages[1];
        assert_eq!(
            (info.kind(), info.channel.as_str()),
            ("kernel_info_reply", channel)
        );
        assert_eq!(info.content["implementation"], "warmcell");
        let version = info.content["language_info"]["version"].as_str().unwrap();
        assert_eq!(Some(version), session.python_version().as_deref());
        assert!(version.starts_with("3."), "{version}");
    }
    let asked = [
        ("is_complete_request", json!({ "code": "1" })),
        (
            "complete_request",
            json!({ "code": "pri", "cursor_pos": 3 }),
        ),
        ("inspect_request", json!({ "code": "pri", "cursor_pos": 3 })),
        ("history_request", json!({})),
        ("comm_info_request", json!({})),
    ];
    let mut answers = Vec::new();
    for (msg_type, content) in asked {
        let header = client.send("shell", msg_type, &content).await;
        let mut messages = client.all_of(&header).await;
        answers.push(messages.remove(1).content);
    }
    assert_eq!(
        answers,
        [
            json!({ "status": "complete" }),
            json!({
                "status": "ok", "matches": ["print"], "cursor_start": 0, "cursor_end": 3,
                "metadata": {}
            }),
            json!({ "status": "ok", "found": false, "data": {}, "metadata": {} }),
            json!({ "status": "ok", "history": [] }),
            json!({ "status": "ok", "comms": {} }),
        ]
    );
    // What nobody knows changes nothing.
    for (channel, msg_type) in [
        ("shell", "comm_open"),
        ("stdin", "input_reply"),
        ("iopub", "x"),
    ] {
        client.send(channel, msg_type, &json!({})).await;
    }
    assert_eq!(client.run("1").await.len(), 5);
    house.close().await;
}

#[tokio::test]
async fn people_have_no_budget_of_tool_calls() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let code = "[read_file('/etc/passwd').get('error') for _ in range(60)].count(None)";
    let words = client.run(code).await;
    assert!(words.contains(&"[1]: 60".to_owned()), "{words:?}");
    house.close().await;
}
