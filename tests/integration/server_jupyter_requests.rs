//! Requests of WebSockets that make no sense, and interrupts.

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use warmcell::execution::{ReportedState, Status};
use warmcell::session::Cell;

use crate::jupyter_kit::{Form, House, Received, frame, in_short};
use crate::support::Signal;

#[tokio::test]
async fn a_request_that_makes_no_sense_is_answered_and_ends_nothing() {
    let house = House::open().await;
    let session = house.session("a");
    for form in [Form::V1, Form::Text] {
        let mut client = house.client(&session, form).await;
        for (content, word) in [
            (json!({}), "`code`"),
            (json!({ "code": null }), "`code`"),
            (json!({ "code": 1 }), "`code`"),
            (json!({ "code": ["1"] }), "`code`"),
            (json!({ "command": "ls" }), "`code`"),
            (json!({ "code": "1", "silent": "no" }), "`silent`"),
            (
                json!({ "code": "1", "store_history": 1 }),
                "`store_history`",
            ),
            (
                json!({ "code": "1", "stop_on_error": [] }),
                "`stop_on_error`",
            ),
            (json!({ "code": "1", "allow_stdin": {} }), "`allow_stdin`"),
            (
                json!({ "code": "1", "user_expressions": [] }),
                "`user_expressions`",
            ),
            (json!([]), "object"),
            (json!("1"), "object"),
            (Value::Null, "object"),
        ] {
            let header = client.send("shell", "execute_request", &content).await;
            let messages = client.all_of(&header).await;
            let kinds: Vec<&str> = messages.iter().map(Received::kind).collect();
            assert_eq!(kinds, ["status", "error", "execute_reply", "status"]);
            let reply = &messages[2].content;
            assert_eq!(reply["status"], "error", "{content}");
            assert_eq!(reply["ename"], "ValueError", "{content}");
            assert_eq!(reply["execution_count"], 0, "{content}");
            let sentence = reply["evalue"].as_str().unwrap();
            assert!(sentence.contains(word), "{content}: {sentence}");
            assert_eq!(reply["traceback"], json!([sentence]));
            assert_eq!(messages[1].content["evalue"], sentence);
        }
        for (kind, content) in [
            ("complete_request", json!({ "code": 1, "cursor_pos": 1 })),
            (
                "complete_request",
                json!({ "code": "a", "cursor_pos": "1" }),
            ),
            ("complete_request", json!({})),
            ("inspect_request", json!({ "code": null })),
            ("is_complete_request", json!([])),
            ("history_request", json!("x")),
            ("comm_info_request", json!({ "target_name": 1 })),
            ("shutdown_request", json!({ "restart": "yes" })),
            ("shutdown_request", json!([])),
        ] {
            let header = client.send("shell", kind, &content).await;
            let messages = client.all_of(&header).await;
            let expected = format!("{} error", kind.replace("request", "reply"));
            assert_eq!(in_short(&messages), ["busy", &expected, "idle"]);
            let sentence = messages[1].content["evalue"].as_str().unwrap();
            assert!(sentence.contains(kind), "{sentence}");
        }
        // What is null counts as not given.
        let content = json!({ "code": "", "silent": null, "user_expressions": null });
        let header = client.send("shell", "execute_request", &content).await;
        let words = in_short(&client.all_of(&header).await);
        assert_eq!(words, ["busy", "execute_reply ok", "idle"]);
    }
    // Content that is no JSON, and a channel that nobody knows: the connection stays.
    let mut client = house.client(&session, Form::V1).await;
    let header = r#"{"msg_id":"a","msg_type":"execute_request"}"#;
    for parts in [
        ["nowhere", header, "{}", "{}", r#"{"code":"1"}"#],
        ["shell", header, "{}", "{}", "code"],
    ] {
        let message = Message::binary(frame(&parts));
        client.socket.send(message).await.unwrap();
    }
    let words = in_short(&client.all_of(header).await);
    assert_eq!(words[2], "execute_reply error");
    // A request that makes no sense is a failure: those that wait do not run.
    let none = client.send("shell", "execute_request", &json!({})).await;
    let next = client.execute("1").await;
    client.all_of(&none).await;
    let words = in_short(&client.all_of(&next).await);
    assert_eq!(words, ["busy", "execute_reply aborted", "idle"]);
    let words = client.run("1").await;
    assert!(words.contains(&"[1]: 1".to_owned()), "{words:?}");
    house.close().await;
}

#[tokio::test]
async fn an_interrupt_keeps_the_state_and_a_second_one_kills() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let interrupt = format!("/api/kernels/{}/interrupt", session.id());
    client.run("x = 1").await;
    let begun = Signal::in_place(&house.place, "begun");

    // By message, on its own channel and on the shell, and by request.
    for (round, way) in ["control", "shell", "rest"].into_iter().enumerate() {
        let header = client
            .execute("import time\nopen('begun', 'w').close()\ntime.sleep(600)")
            .await;
        begun.wait().await;
        let asked = match way {
            "rest" => {
                assert_eq!(house.ask("POST", &interrupt, &json!({})).await.0, 204);
                None
            }
            channel => Some(client.send(channel, "interrupt_request", &json!({})).await),
        };
        let mut messages = Vec::new();
        let mut answered = asked.is_none();
        let mut ended = false;
        while !(answered && ended) {
            let message = client.next().await.unwrap();
            if message.kind() == "interrupt_reply" {
                assert_eq!(message.content, json!({ "status": "ok" }));
                assert_eq!(
                    (Some(&message.parent), &*message.channel),
                    (asked.as_ref(), way)
                );
                answered = true;
            } else if message.parent == header {
                ended = message.content["execution_state"] == "idle";
                messages.push(message);
            }
        }
        let words = in_short(&messages);
        // The error says all there is to say.
        assert!(words[2].starts_with("KeyboardInterrupt: "), "{words:?}");
        assert_eq!(words[3], "execute_reply error", "{way}");
        let words = client.run("x").await;
        assert!(
            words.contains(&format!("[{}]: 1", 2 * round + 3)),
            "{words:?}"
        );
    }

    // A cell that came another way too, whatever its own policy is.
    let code = "import time\nopen('begun', 'w').close()\ntime.sleep(600)";
    let mut execution = session.execute(Cell::new(code));
    begun.wait().await;
    assert_eq!(house.ask("POST", &interrupt, &json!({})).await.0, 204);
    let outcome = execution.outcome().await;
    assert_eq!(outcome.status, Status::Interrupted);
    assert_eq!(outcome.kernel.state, ReportedState::Kept);

    // One that does not listen is killed by the second.
    let code = "import time\nwhile True:\n  try:\n    \
                if 'told' not in globals(): told = open('begun', 'w').close()\n    \
                while True: time.sleep(600)\n  except KeyboardInterrupt: print('no', flush=True)";
    for way in ["control", "rest"] {
        let header = client.execute(code).await;
        begun.wait().await;
        for round in 0..2 {
            if way == "rest" {
                assert_eq!(house.ask("POST", &interrupt, &json!({})).await.0, 204);
            } else {
                client.send(way, "interrupt_request", &json!({})).await;
            }
            if round == 0 {
                client.printed("no\n").await;
            }
        }
        let words = in_short(&client.all_of(&header).await);
        let error = words.iter().find(|it| it.starts_with("KeyboardInterrupt"));
        let error = error.unwrap_or_else(|| panic!("{words:?}"));
        assert!(error.contains("ended by force"), "{words:?}");
        assert_eq!(client.states().await, ["restarting", "starting", "idle"]);
        let words = client.run("'x' in globals()").await;
        assert!(words.contains(&"[1]: False".to_owned()), "{words:?}");
    }
    house.close().await;
}
