//! What front ends of `warmcell kernel` are told: everything, in order, to whom it concerns, also those
//! who come in the middle, come again, or ask while something runs.

use bytes::Bytes;
use serde_json::{Value, json};
use warmcell::jupyter::{SocketName, zmtp_message};

use crate::kernel_kit::{FrontEnd, Kernel, Message, Wire};
use crate::support::Signal;

/// What is printed may come in pieces.
fn words(messages: &[Message]) -> Vec<&str> {
    let mut words: Vec<&str> = messages.iter().map(Message::word).collect();
    words.dedup();
    words
}

fn text(messages: &[Message]) -> String {
    messages.iter().map(Message::text).collect()
}

#[tokio::test]
async fn two_hundred_who_connect_and_ask_at_once_miss_nothing() {
    let kernel = Kernel::start();
    for number in 0..200 {
        let mut front_end = FrontEnd::new(&kernel.connection, &format!("f{number}"));
        let header = front_end.execute(&format!("print({number})"));
        let all = front_end.all_of(&header);
        assert_eq!(words(&all), ["busy", "execute_input", "stream", "idle"]);
        assert_eq!(text(&all), format!("{number}\n"));
        assert_eq!(front_end.reply().parent, header);
    }
    kernel.close().await;
}

#[tokio::test]
async fn who_comes_while_a_cell_runs_is_answered_at_once_and_sees_its_end() {
    let kernel = Kernel::start();
    let go = Signal::in_place(&kernel.place, "go");
    let mut front_end = kernel.front_end();
    let header = front_end.execute("print('on')\nopen('go').read()\nprint('off')");
    front_end.begun(&header);
    // Welcomed, told who it is, and its heart beats: nothing of it waits for the cell.
    let mut late = FrontEnd::new(&kernel.connection, "late");
    let asked = late.order("kernel_info_request", &json!({}));
    let answer = late.answer();
    assert_eq!(
        (answer.parent, answer.content["status"].as_str()),
        (asked.clone(), Some("ok"))
    );
    assert_eq!(words(&late.all_of(&asked)), ["busy", "idle"]);
    let mut heart = Wire::connect(&kernel.connection, SocketName::Heartbeat, "");
    for beat in 0..10 {
        let beat = vec![Bytes::new(), Bytes::from(format!("{beat}"))];
        heart.send(&beat);
        assert_eq!(heart.frames(), beat);
    }
    // One whose connection is lost comes again, and is welcomed again: from here on it misses nothing.
    front_end.iopub.stream.shutdown(std::net::Shutdown::Both);
    let mut again = FrontEnd::new(&kernel.connection, "again");
    go.give().await;
    for watching in [&mut late, &mut again] {
        let rest = watching.all_of(&header);
        assert_eq!(words(&rest), ["stream", "idle"]);
        assert_eq!(text(&rest), "off\n");
    }
    assert_eq!(front_end.reply().parent, header);
    kernel.close().await;
}

#[tokio::test]
async fn a_reply_finds_whoever_has_come_again_while_the_cell_ran() {
    let kernel = Kernel::start();
    let go = Signal::in_place(&kernel.place, "go");
    let mut front_end = FrontEnd::new(&kernel.connection, "same");
    for is_closed_first in [true, false] {
        let header = front_end.execute("print('on')\nopen('go').read()");
        front_end.begun(&header);
        if is_closed_first {
            front_end.shell.stream.shutdown(std::net::Shutdown::Both);
        }
        // Also where the old connection was never closed: a network that is gone says nothing.
        let again = Wire::connect(&kernel.connection, SocketName::Shell, "same");
        let mut before = std::mem::replace(&mut front_end.shell, again);
        go.give().await;
        let reply = front_end.reply();
        assert_eq!(
            (reply.parent, reply.content["status"].as_str()),
            (header, Some("ok"))
        );
        assert_eq!(before.item(), None, "the old connection is closed");
    }
    kernel.close().await;
}

#[tokio::test]
async fn every_request_has_its_status_around_it_and_every_reply_says_how_it_went() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let asked = [
        (
            "execute_request",
            json!({ "code": "print(1)" }),
            "execute_reply",
        ),
        ("execute_request", json!({ "code": "1/0" }), "execute_reply"),
        (
            "execute_request",
            json!({ "code": "x = 1", "silent": true }),
            "execute_reply",
        ),
        ("execute_request", json!({ "code": "" }), "execute_reply"),
        ("execute_request", json!({ "code": 7 }), "execute_reply"),
        ("execute_request", json!([]), "execute_reply"),
        ("kernel_info_request", json!({}), "kernel_info_reply"),
        (
            "complete_request",
            json!({ "code": "pri", "cursor_pos": 3 }),
            "complete_reply",
        ),
        (
            "inspect_request",
            json!({ "code": "print", "cursor_pos": 3 }),
            "inspect_reply",
        ),
        ("inspect_request", json!({ "code": 1 }), "inspect_reply"),
        (
            "is_complete_request",
            json!({ "code": "if 1:" }),
            "is_complete_reply",
        ),
        (
            "history_request",
            json!({ "hist_access_type": "tail", "n": 3 }),
            "history_reply",
        ),
        ("comm_info_request", json!({}), "comm_info_reply"),
        ("interrupt_request", json!({}), "interrupt_reply"),
        (
            "comm_open",
            json!({ "comm_id": "a", "target_name": "none", "data": {} }),
            "",
        ),
        ("comm_msg", json!({ "comm_id": "a", "data": {} }), ""),
        ("comm_close", json!({ "comm_id": "a", "data": {} }), ""),
        ("a_request_of_the_future", json!({ "x": 1 }), ""),
    ];
    for (kind, content, reply_type) in &asked {
        let header = front_end.request(kind, content);
        if !reply_type.is_empty() {
            let reply = front_end.reply();
            assert_eq!((&*reply.parent, reply.kind()), (&*header, *reply_type));
            let status = reply.content["status"].as_str();
            let known = [
                "ok",
                "error",
                "complete",
                "incomplete",
                "invalid",
                "unknown",
            ];
            assert!(status.is_some_and(|it| known.contains(&it)), "{reply:?}");
            if status == Some("error") {
                assert!(reply.content["ename"].is_string(), "{reply:?}");
                assert!(reply.content["traceback"].is_array(), "{reply:?}");
            }
        }
        framed(&mut front_end, &header, kind);
    }
    for kind in [
        "kernel_info_request",
        "interrupt_request",
        "debug_request",
        "list_subshell_request",
    ] {
        let header = front_end.order(kind, &json!({}));
        if kind.starts_with("kernel") || kind.starts_with("interrupt") {
            let answer = front_end.answer();
            assert_eq!(
                (&*answer.parent, &answer.content["status"]),
                (&*header, &json!("ok"))
            );
        }
        framed(&mut front_end, &header, kind);
    }
    // What silent cells do is seen, and they have left nothing else.
    let (text, _) = front_end.run("print(x)");
    assert_eq!(text, "1\n");
    kernel.close().await;
}

/// Busy, then whatever comes of the request, then idle; nothing of another one in between.
fn framed(front_end: &mut FrontEnd, header: &str, kind: &str) {
    let mut states = Vec::new();
    loop {
        let message = front_end.published();
        assert_eq!(message.parent, header, "{kind}: {message:?}");
        states.push(message.word().to_owned());
        if message.word() == "idle" {
            break;
        }
    }
    assert_eq!(states[0], "busy", "{kind}");
    assert_eq!(
        states
            .iter()
            .filter(|it| *it == "busy" || *it == "idle")
            .count(),
        2,
        "{kind}"
    );
}

#[tokio::test]
async fn what_others_ask_does_not_end_a_cell() {
    let kernel = Kernel::start();
    let go = Signal::in_place(&kernel.place, "go");
    let mut front_end = kernel.front_end();
    let mut other = FrontEnd::new(&kernel.connection, "other");
    // One that is not shown, just before.
    let silent = json!({ "code": "y = 1", "silent": true });
    let silent = front_end.request("execute_request", &silent);
    let header = front_end.execute("print('on')\nopen('go').read()\nprint('off')");
    other.begun(&header);
    let mut asked = Vec::new();
    for _ in 0..50 {
        asked.push(other.order("kernel_info_request", &json!({})));
        asked.push(other.request("kernel_info_request", &json!({})));
        other.answer();
    }
    go.give().await;
    // Each message is that of its own request, whichever it is; of each there is one end.
    let mut of_the_cell = Vec::new();
    let mut ends = 0;
    while ends < asked.len() + 2 {
        let message = front_end.published();
        ends += usize::from(message.word() == "idle");
        if message.parent == header {
            of_the_cell.push(message);
        } else {
            assert!(message.parent == silent || asked.contains(&message.parent));
            assert!(["busy", "idle"].contains(&message.word()), "{message:?}");
        }
    }
    assert_eq!(
        words(&of_the_cell),
        ["busy", "execute_input", "stream", "idle"]
    );
    kernel.close().await;
}

#[tokio::test]
async fn all_that_a_cell_writes_is_told_in_order_before_it_is_idle() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let code = "
import ctypes, os, subprocess, sys
for n in range(20):
    print('a', n)
    os.write(1, b'b\\n')
    subprocess.run(['echo', 'c'])
    sys.stdout.buffer.write(b'd\\n')
    sys.stdout.flush()
    libc = ctypes.CDLL(None)
    libc.printf(b'e\\n')
    libc.fflush(None)
'value'";
    let header = front_end.execute(code);
    assert_eq!(front_end.reply().parent, header);
    let all = front_end.all_of(&header);
    let text = text(&all);
    let expected: Vec<String> = (0..20).map(|n| format!("a {n}\nb\nc\nd\ne\n")).collect();
    assert_eq!(text, expected.concat());
    assert_eq!(
        words(&all),
        ["busy", "execute_input", "stream", "execute_result", "idle"]
    );
    // Nothing of it comes behind that.
    let next = front_end.execute("pass");
    for message in front_end.all_of(&next) {
        assert_eq!(message.parent, next);
    }
    kernel.close().await;
}

#[tokio::test]
async fn ten_thousand_requests_in_a_row_are_all_answered_while_replies_go_out() {
    const COUNT: usize = 10_000;
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let mut headers = Vec::new();
    let mut bytes = Vec::new();
    for number in 0..COUNT {
        let kind = ["kernel_info_request", "comm_info_request"][number % 2];
        let header = front_end.header(kind);
        bytes.extend(zmtp_message(&front_end.frames(&header, &json!({}))).concat());
        headers.push(header);
    }
    let mut stream = front_end.shell.stream.another();
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut stream, &bytes));
    for header in &headers {
        // Behind the delimiter, the signature and the header of the reply.
        assert_eq!(front_end.shell.frames()[3], header.as_bytes());
    }
    sending.join().unwrap().unwrap();
    assert_eq!(front_end.run("print(1)").1, "ok");
    kernel.close().await;
}

#[tokio::test]
async fn behind_a_cell_that_fails_only_cells_are_dropped() {
    let kernel = Kernel::start();
    let go = Signal::in_place(&kernel.place, "go");
    let mut front_end = kernel.front_end();
    let questions: [(&str, Value); 6] = [
        ("kernel_info_request", json!({})),
        (
            "inspect_request",
            json!({ "code": "print", "cursor_pos": 1 }),
        ),
        (
            "complete_request",
            json!({ "code": "pri", "cursor_pos": 3 }),
        ),
        ("is_complete_request", json!({ "code": "1" })),
        (
            "history_request",
            json!({ "hist_access_type": "tail", "n": 3 }),
        ),
        ("comm_info_request", json!({})),
    ];
    for stops in [true, false] {
        let code = "print('on')\nopen('go').read()\n1/0";
        let failing = json!({ "code": code, "stop_on_error": stops });
        let failing = front_end.request("execute_request", &failing);
        front_end.begun(&failing);
        let mut expected = vec![(failing, "error")];
        for (kind, content) in &questions {
            let status = if *kind == "is_complete_request" {
                "complete"
            } else {
                "ok"
            };
            expected.push((front_end.request(kind, content), status));
            let status = if stops { "aborted" } else { "ok" };
            expected.push((front_end.execute("x = 1"), status));
        }
        go.give().await;
        for (header, status) in expected {
            let reply = front_end.reply();
            assert_eq!(
                (&*reply.parent, &reply.content["status"]),
                (&*header, &json!(status))
            );
        }
        // What is asked once the failure is known runs.
        let seen = front_end.run("print('x' in globals())");
        assert_eq!(
            seen,
            (
                if stops { "False\n" } else { "True\n" }.to_owned(),
                "ok".to_owned()
            )
        );
        front_end.run("globals().pop('x', None)");
    }
    kernel.close().await;
}

#[tokio::test]
async fn loops_of_cells_keep_no_other_cell_from_running() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    for code in [
        "import asyncio\nasyncio.run(asyncio.sleep(0.05))",
        "await asyncio.sleep(0.05)",
        "loop = asyncio.new_event_loop()\nloop.run_until_complete(asyncio.sleep(0.05))",
        // As packages do that let loops run within loops.
        "async def inner():\n    loop = asyncio.new_event_loop()\n    running = asyncio.events._get_running_loop()\n    asyncio.events._set_running_loop(None)\n    try: loop.run_until_complete(asyncio.sleep(0.05))\n    finally: asyncio.events._set_running_loop(running)\nawait inner()",
    ] {
        let first = front_end.execute(code);
        let second = front_end.execute("print('second')");
        for header in [&first, &second] {
            let reply = front_end.reply();
            assert_eq!(
                (&reply.parent, &reply.content["status"]),
                (header, &json!("ok")),
                "{code}"
            );
        }
        let all = front_end.all_of(&second);
        assert_eq!(words(&all), ["busy", "execute_input", "stream", "idle"]);
    }
    kernel.close().await;
}
