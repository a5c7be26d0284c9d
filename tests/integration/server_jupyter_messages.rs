//! Displays, input, questions and comms over a WebSocket.

use serde_json::{Value, json};

use crate::jupyter_kit::{Client, Form, House, Received, in_short};
use crate::messages_kit::{ECHO, comm_package};
use crate::support::run;

/// The messages of one kind.
fn of(messages: &[Received], kind: &str) -> Vec<Value> {
    let found = messages.iter().filter(|it| it.kind() == kind);
    found.map(|it| it.content.clone()).collect()
}

const RICH: &str =
    "class R:\n    def __repr__(self): return 'R'\n    def _repr_html_(self): return '<r>'";

#[tokio::test]
async fn displays_reach_all_clients_in_all_forms() {
    let house = House::open().await;
    let session = house.session("a");
    for form in [Form::V1, Form::Text] {
        let mut client = house.client(&session, form).await;
        let mut other = house.client(&session, form).await;
        client.run(RICH).await;
        let code = "print('a')\nh = display(R(), display_id='i')\nprint('b')\nh.update(1)\nclear_output(wait=True)\nR()";
        let header = client.execute(code).await;
        let mut messages = client.all_of(&header).await;
        // A print may come in pieces.
        messages.dedup_by_key(|it| {
            (it.kind() == "stream")
                .then(|| it.kind().to_owned())
                .ok_or(it.header.to_string())
        });
        let kinds: Vec<&str> = messages.iter().map(Received::kind).collect();
        let expected = [
            "status",
            "execute_input",
            "stream",
            "display_data",
            "stream",
            "update_display_data",
            "clear_output",
            "execute_result",
            "execute_reply",
            "status",
        ];
        assert_eq!(kinds, expected, "{form:?}");
        let data = json!({ "text/plain": "R", "text/html": "<r>" });
        assert_eq!(messages[3].content["data"], data);
        assert_eq!(
            messages[3].content["transient"],
            json!({ "display_id": "i" })
        );
        assert_eq!(messages[6].content, json!({ "wait": true }));
        assert_eq!(messages[7].content["data"], data);
        let count = &messages[8].content["execution_count"];
        assert_eq!(&messages[7].content["execution_count"], count);
        let seen = other.all_of(&header).await;
        assert_eq!(of(&seen, "display_data"), of(&messages, "display_data"));
    }
    // A cell that came another way.
    let mut client = house.client(&session, Form::V1).await;
    let watching = tokio::spawn(async move {
        let mut messages = Vec::new();
        while messages
            .iter()
            .all(|it: &Received| it.kind() != "execute_result")
        {
            messages.push(client.next().await.unwrap());
        }
        messages
    });
    run(&session, "display(R())\nR()").await;
    let messages = watching.await.unwrap();
    let data = json!({ "text/plain": "R", "text/html": "<r>" });
    assert_eq!(of(&messages, "display_data")[0]["data"], data);
    assert_eq!(of(&messages, "execute_result")[0]["data"], data);
    house.close().await;
}

#[tokio::test]
async fn a_cell_asks_its_client_for_input() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let code = "print('first')\n(input('name? '), __import__('getpass').getpass('pw '))";
    let content = json!({ "code": code, "allow_stdin": true });
    let header = client.send("shell", "execute_request", &content).await;
    let mut printed = false;
    for (prompt, password, answer) in [("name? ", false, "Zoë"), ("pw ", true, "secret")] {
        let asked = loop {
            let message = client.next().await.unwrap();
            printed |= message.kind() == "stream";
            if message.kind() == "input_request" {
                break message;
            }
        };
        assert!(printed);
        assert_eq!((asked.channel.as_str(), &asked.parent), ("stdin", &header));
        assert_eq!(
            asked.content,
            json!({ "prompt": prompt, "password": password })
        );
        client
            .send("stdin", "input_reply", &json!({ "value": answer }))
            .await;
    }
    let words = in_short(&client.all_of(&header).await);
    assert_eq!(
        words,
        ["[1]: ('Zoë', 'secret')", "execute_reply ok", "idle"]
    );
    // Nobody is asked if that is not allowed.
    let words = client.run("input('x')").await;
    assert!(
        words
            .iter()
            .any(|it| it.starts_with("EOFError: input() cannot be answered")),
        "{words:?}"
    );
    // A client that goes away while it is asked.
    let code = "try: input('gone?')\nexcept EOFError: left = True";
    let content = json!({ "code": code, "allow_stdin": true });
    client.send("shell", "execute_request", &content).await;
    while client.next().await.unwrap().kind() != "input_request" {}
    drop(client);
    let mut client = house.client(&session, Form::V1).await;
    let words = client.run("left").await;
    assert!(words.contains(&"[4]: True".to_owned()), "{words:?}");
    house.close().await;
}

async fn reply<S>(client: &mut Client<S>, msg_type: &str, content: &Value) -> Vec<Received>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let header = client.send("shell", msg_type, content).await;
    client.all_of(&header).await
}

#[tokio::test]
async fn the_kernel_answers_what_front_ends_ask() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    client.run("größe = 1\ndef f(a): 'What f does.'").await;
    let content = json!({ "code": "x = grö", "cursor_pos": 7 });
    let messages = reply(&mut client, "complete_request", &content).await;
    let expected = json!({
        "status": "ok", "matches": ["größe"], "cursor_start": 4, "cursor_end": 7, "metadata": {}
    });
    assert_eq!(messages[1].content, expected);
    assert_eq!(in_short(&messages), ["busy", "complete_reply ok", "idle"]);
    let content = json!({ "code": "f", "cursor_pos": 1, "detail_level": 0 });
    let messages = reply(&mut client, "inspect_request", &content).await;
    let text = messages[1].content["data"]["text/plain"].as_str().unwrap();
    assert!(text.contains("Docstring: What f does."), "{text}");
    let content = json!({ "code": "for x in y:" });
    let messages = reply(&mut client, "is_complete_request", &content).await;
    let expected = json!({ "status": "incomplete", "indent": "    " });
    assert_eq!(messages[1].content, expected);
    let content = json!({ "hist_access_type": "tail", "n": 1, "raw": true, "output": false });
    let messages = reply(&mut client, "history_request", &content).await;
    let last = json!([[1, 1, "größe = 1\ndef f(a): 'What f does.'"]]);
    assert_eq!(messages[1].content["history"], last);
    let content = json!({ "comm_id": "c", "target_name": "nobody", "data": {} });
    let messages = reply(&mut client, "comm_open", &content).await;
    assert_eq!(in_short(&messages), ["busy", "comm_close ", "idle"]);
    assert_eq!(messages[1].content, json!({ "comm_id": "c", "data": {} }));
    let content =
        json!({ "code": "x = 1", "user_expressions": { "a": "x + 1" }, "store_history": false });
    let messages = reply(&mut client, "execute_request", &content).await;
    let replies = of(&messages, "execute_reply");
    let two = json!({ "a": { "status": "ok", "data": { "text/plain": "2" }, "metadata": {} } });
    assert_eq!(replies[0]["user_expressions"], two);
    assert_eq!(replies[0]["execution_count"], 1);
    house.close().await;
}

#[tokio::test]
async fn what_comes_with_a_comm_reaches_the_kernel_and_comes_back() {
    let house = House::open().await;
    let session = house.session("a");
    for (form, place) in [(Form::V1, "one"), (Form::Text, "two")] {
        let mut client = house.client(&session, form).await;
        if form == Form::V1 {
            let words = client.run(&(comm_package(place) + ECHO)).await;
            assert!(words.contains(&"execute_reply ok".to_owned()), "{words:?}");
        }
        let open = json!({ "comm_id": place, "target_name": "t", "data": {} });
        assert_eq!(
            in_short(&reply(&mut client, "comm_open", &open).await),
            ["busy", "idle"]
        );
        let content = json!({ "comm_id": place, "data": { "n": "é" } });
        let metadata = json!({ "mine": { "x": [1.5] } });
        let buffers: [&[u8]; 2] = [b"\xff\x00", b""];
        let sent = client.send_with("shell", "comm_msg", &content, &metadata, &buffers);
        let sent = sent.await;
        let messages = client.all_of(&sent).await;
        let back = messages.iter().find(|it| it.kind() == "comm_msg").unwrap();
        assert_eq!((&back.content, &back.metadata), (&content, &metadata));
        assert_eq!(back.buffers, buffers, "{form:?}");
    }
    house.close().await;
}
