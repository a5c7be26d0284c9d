//! What comes over the control channel of `warmcell kernel`, and what front ends add to its arguments.

use serde_json::json;
use warmcell::jupyter::SocketName;

use crate::kernel_kit::{Kernel, Message};

#[tokio::test]
async fn cells_on_the_control_channel_take_their_turn_and_say_when_they_began() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let first = front_end.execute("row = ['shell']\nimport time; time.sleep(0.2)");
    front_end.all_started(&first);
    let second = front_end.order(
        "execute_request",
        &json!({ "code": "row.append('control')" }),
    );
    let asked = json!({ "code": "ro", "cursor_pos": 2 });
    let third = front_end.order("complete_request", &asked);
    // What the channel is for is answered at once.
    let fourth = front_end.order("kernel_info_request", &json!({}));
    let answers: Vec<_> = (0..3).map(|_| front_end.answer()).collect();
    let parents: Vec<_> = answers.iter().map(|it| it.parent.clone()).collect();
    assert_eq!(parents, [fourth, second.clone(), third]);
    let kinds: Vec<_> = answers.iter().map(Message::kind).collect();
    assert_eq!(
        kinds,
        ["kernel_info_reply", "execute_reply", "complete_reply"]
    );
    assert_eq!(answers[2].content["matches"], json!(["round", "row"]));
    // Replies of cells say when they began: one after the other.
    let reply = front_end.reply();
    assert_eq!(reply.parent, first);
    let times = [&reply, &answers[1]].map(|it| {
        let began = it.metadata["started"].as_str().unwrap().to_owned();
        (began, it.header["date"].as_str().unwrap().to_owned())
    });
    assert!(
        times[0].0 < times[0].1 && times[0].1 <= times[1].0,
        "{times:?}"
    );
    assert!(times[1].0 <= times[1].1, "{times:?}");
    assert_eq!(front_end.run("print(row)").0, "['shell', 'control']\n");

    // Where the kernel is, whichever way it is asked.
    let mut ports: serde_json::Map<String, serde_json::Value> = SocketName::ALL
        .iter()
        .zip(kernel.connection.ports)
        .map(|(name, port)| (name.port_key().to_owned(), port.into()))
        .collect();
    ports.insert("status".to_owned(), "ok".into());
    front_end.request("connect_request", &json!({}));
    front_end.order("connect_request", &json!({}));
    for reply in [front_end.reply(), front_end.answer()] {
        assert_eq!(reply.kind(), "connect_reply");
        assert_eq!(reply.content, json!(ports));
    }
    kernel.close().await;
}

#[tokio::test]
async fn settings_of_ipythons_are_passed_over() {
    let kernel = Kernel::start_as(|command| {
        command.arg("--HistoryManager.hist_file=:memory:");
    });
    assert_eq!(kernel.front_end().run("print(1)").0, "1\n");
    kernel.close().await;
}

#[tokio::test]
async fn a_console_is_told_to_end_by_exit_and_by_nothing_else() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let asked = json!([{ "source": "ask_exit", "keepkernel": true }]);
    for (code, status, payload) in [
        ("exit()", "ok", &asked),
        ("x = 1\nquit()", "ok", &asked),
        ("exit(3)", "error", &json!([])),
        ("import sys; sys.exit()", "error", &json!([])),
        ("raise SystemExit", "error", &json!([])),
        ("x", "ok", &json!([])),
    ] {
        front_end.execute(code);
        let reply = front_end.reply();
        assert_eq!(reply.content["status"], status, "{code}");
        assert_eq!(reply.content["payload"], *payload, "{code}");
    }
    kernel.close().await;
}
