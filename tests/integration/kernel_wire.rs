//! `warmcell kernel` as those see it who connect: what is answered, what is dropped, who is cut off.

use std::net::Shutdown;

use bytes::Bytes;
use serde_json::json;
use warmcell::jupyter::{SocketName, ZmtpCommand, ZmtpItem, greeting, ready};

use crate::kernel_kit::{FrontEnd, Kernel, Message, Wire};

fn in_short(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|it| it.word().to_owned()).collect()
}

#[tokio::test]
async fn a_cell_over_zeromq_is_told_in_order_and_its_header_comes_back_byte_for_byte() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let header = r#"{"msg_type" : "execute_request","msg_id":"\u00e91", "session":"s", "username":"u","date":null, "version":"5.5","subshell_id":null,"odd":{"a":[1.50, "é"]}}"#;
    let code = "import sys; sys.stdout.write('é'); 6 * 7";
    let frames = front_end.frames(header, &json!({ "code": code }));
    front_end.shell.send(&frames);
    let reply = front_end.reply();
    assert_eq!(reply.parent, header);
    assert_eq!(reply.kind(), "execute_reply");
    assert_eq!(reply.content["status"], "ok");
    assert_eq!(reply.content["execution_count"], 1);
    assert_eq!(reply.header["version"], "5.4");
    let messages = front_end.all_of(header);
    assert_eq!(
        in_short(&messages),
        ["busy", "execute_input", "stream", "execute_result", "idle"]
    );
    assert_eq!(messages[2].content["text"], "é");
    assert_eq!(messages[3].content["data"]["text/plain"], "42");
    for message in &messages {
        let topic = String::from_utf8(message.identities[0].to_vec()).unwrap();
        assert!(
            topic.starts_with("kernel.") && topic.ends_with(message.kind()),
            "{topic}"
        );
    }
    let ids: std::collections::BTreeSet<_> = messages
        .iter()
        .map(|it| it.header["msg_id"].to_string())
        .collect();
    assert_eq!(ids.len(), messages.len());
    kernel.close().await;
}

#[tokio::test]
async fn several_front_ends_share_a_kernel_and_each_gets_its_own_replies() {
    let kernel = Kernel::start();
    let mut first = FrontEnd::new(&kernel.connection, "first");
    let mut second = FrontEnd::new(&kernel.connection, "second");
    assert_eq!(first.run("x = 1").1, "ok");
    assert_eq!(second.run("print(x + 1)").0, "2\n");
    // What one does the other sees.
    let seen = loop {
        let message = first.published();
        if message.kind() == "stream" && message.parent.contains("second-") {
            break message;
        }
    };
    assert_eq!(seen.content["name"], "stdout");
    // A relay in between is sent back what it has added.
    let header = first.header("kernel_info_request");
    let mut frames = vec![Bytes::from_static(b"relay"), Bytes::new()];
    frames.extend(first.frames(&header, &json!({})));
    first.shell.send(&frames);
    let reply = first.reply();
    assert_eq!(reply.identities, [&b"relay"[..], b""]);
    assert_eq!(reply.content["implementation"], "warmcell");
    kernel.close().await;
}

#[tokio::test]
async fn what_is_not_signed_right_is_dropped_and_what_comes_behind_it_is_answered() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let code = json!({ "code": "bad = 1" });
    let header = front_end.header("execute_request");
    let right = front_end.frames(&header, &code);
    let signature = String::from_utf8(right[1].to_vec()).unwrap();
    let mut attacks: Vec<Vec<Bytes>> = Vec::new();
    for forged in [
        String::new(),
        "0".repeat(64),
        signature.chars().take(63).collect(),
        format!("{signature}0"),
        signature.to_uppercase(),
        "g".repeat(64),
        format!("{}é", signature.replace('a', "b")),
    ] {
        let mut frames = right.clone();
        frames[1] = Bytes::from(forged);
        attacks.push(frames);
    }
    for part in 2..6 {
        let mut frames = right.clone();
        frames[part] = Bytes::from(format!("{} ", String::from_utf8_lossy(&right[part])));
        attacks.push(frames);
        attacks.push(right[..part].to_vec());
    }
    attacks.push(right[1..].to_vec());
    attacks.push(vec![Bytes::new()]);
    attacks.push(vec![Bytes::from_static(b"x"); 1_000]);
    for odd in [
        "",
        "[]",
        "nonsense",
        r#"{"msg_id":1,"msg_type":"execute_request"}"#,
    ] {
        attacks.push(front_end.frames(odd, &code));
    }
    for frames in &attacks {
        front_end.shell.send(frames);
    }
    let header = front_end.execute("'bad' in globals()");
    let reply = front_end.reply();
    assert_eq!(
        (reply.parent.as_str(), reply.kind()),
        (&*header, "execute_reply")
    );
    assert_eq!(reply.content["execution_count"], 1);
    let messages = front_end.all_of(&header);
    assert_eq!(messages[2].content["data"]["text/plain"], "False");

    // The same message a second time, also on another connection.
    let header = front_end.header("execute_request");
    let once = front_end.frames(&header, &json!({ "code": "n = globals().get('n', 0) + 1" }));
    let mut other = FrontEnd::new(&kernel.connection, "other");
    front_end.shell.send(&once);
    front_end.all_of(&header);
    front_end.shell.send(&once);
    other.shell.send(&once);
    other.control.send(&once);
    other.run("1");
    front_end.run("1");
    assert_eq!(front_end.run("print(n)").0, "1\n");
    kernel.close().await;
}

#[tokio::test]
async fn bytes_that_are_no_zeromq_end_their_connection_alone() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let shaken = |name| Wire::connect(&kernel.connection, name, "attacker");
    let closed = |mut wire: Wire, bytes: &[u8], what: &str| {
        wire.write(bytes);
        while let Some(item) = wire.item() {
            assert!(matches!(item, ZmtpItem::Greeting), "{what}: {item:?}");
        }
    };
    for name in SocketName::ALL {
        let open = || Wire::open(&kernel.connection, name);
        closed(open(), b"GET / HTTP/1.1\r\n\r\n", "http");
        let mut old = greeting().to_vec();
        old[10] = 2;
        closed(open(), &old, "version");
        let mut plain = greeting().to_vec();
        plain[12..17].copy_from_slice(b"PLAIN");
        closed(open(), &plain, "mechanism");
        for (bytes, what) in [
            (&b"\x02\0\0\x40\0\0\0\0\0"[..], "2^46 bytes"),
            (b"\x02\xff\xff\xff\xff\xff\xff\xff\xff", "2^64 bytes"),
            (b"\x06\0\0\0\0\0\x10\0\0", "a long command"),
            (b"\xff\0", "flags"),
            (b"\x04\0", "an empty command"),
        ] {
            closed(shaken(name), bytes, what);
        }
        closed(shaken(name), &b"\x01\0".repeat(10_000), "10,000 frames");
        // Half a message, and gone.
        let mut half = shaken(name);
        half.write(b"\x03\0\0\0\0\0\x01\0\0half");
        half.stream.shutdown(Shutdown::Both);
    }
    // A kind of socket that does not go with ours.
    let mut odd = Wire::open(&kernel.connection, SocketName::Shell);
    odd.write(&greeting());
    odd.write(&ready("PUB", b""));
    assert_eq!(odd.item(), Some(ZmtpItem::Greeting));
    assert!(!matches!(odd.item(), Some(ZmtpItem::Message(_))));
    assert_eq!(odd.item(), None);
    assert_eq!(
        front_end.run("print(1)"),
        ("1\n".to_owned(), "ok".to_owned())
    );
    kernel.close().await;
}

#[tokio::test]
async fn pings_and_heartbeats_come_back_whole() {
    let kernel = Kernel::start();
    for name in SocketName::ALL {
        let mut wire = Wire::connect(&kernel.connection, name, "pinging");
        wire.write(b"\x04\x0a\x04PING\0\x10abc");
        let mut bytes = [0; 10];
        std::io::Read::read_exact(&mut wire.stream, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\x04\x08\x04PONGabc");
    }
    let mut heart = Wire::connect(&kernel.connection, SocketName::Heartbeat, "");
    for beat in [
        vec![Bytes::new(), Bytes::from_static(b"ping")],
        vec![Bytes::new()],
        vec![Bytes::new(), Bytes::new(), Bytes::from(vec![7; 1000])],
    ] {
        heart.send(&beat);
        assert_eq!(heart.frames(), beat);
    }
    kernel.close().await;
}

#[tokio::test]
async fn a_front_end_that_comes_again_takes_its_name_over() {
    let kernel = Kernel::start();
    let mut first = FrontEnd::new(&kernel.connection, "same");
    assert_eq!(first.run("1").1, "ok");
    let mut again = FrontEnd::new(&kernel.connection, "same");
    // Its old connection is closed, and what it asks on the new one is answered there.
    assert_eq!(first.shell.item(), None);
    let header = again.header("kernel_info_request").replace("same", "anew");
    let frames = again.frames(&header, &json!({}));
    again.shell.send(&frames);
    assert_eq!(again.reply().parent, header);
    drop(first);
    let header = again.header("kernel_info_request").replace("same", "then");
    let frames = again.frames(&header, &json!({}));
    again.shell.send(&frames);
    assert_eq!(again.reply().parent, header);
    kernel.close().await;
}

#[tokio::test]
async fn who_has_sent_a_cell_is_asked_and_nobody_else_may_answer() {
    let kernel = Kernel::start();
    let mut asked = FrontEnd::new(&kernel.connection, "asked");
    let mut other = FrontEnd::new(&kernel.connection, "other");
    let ask = json!({ "code": "print(input('name? '))", "allow_stdin": true });
    // Without a connection to the socket for that nobody is there to be asked.
    asked.request("execute_request", &ask);
    assert_eq!(asked.reply().content["status"], "error");

    let mut stdin = Wire::connect(&kernel.connection, SocketName::Stdin, "asked");
    let mut strange = Wire::connect(&kernel.connection, SocketName::Stdin, "other");
    let header = asked.request("execute_request", &ask);
    let frames = stdin.frames();
    let question = asked.read(frames);
    assert_eq!(
        (question.kind(), &*question.parent),
        ("input_request", &*header)
    );
    assert_eq!(
        question.content,
        json!({ "prompt": "name? ", "password": false })
    );
    for (wire, front_end, value) in [
        (&mut strange, &mut other, "a stranger"),
        (&mut stdin, &mut asked, "a friend"),
    ] {
        let reply = front_end.header("input_reply");
        let frames = front_end.frames(&reply, &json!({ "value": value }));
        wire.send(&frames);
        // Behind it: the first one has come when the second is sent.
        if value == "a stranger" {
            wire.write(b"\x04\x07\x04PING\0\x10");
            assert!(matches!(
                wire.item(),
                Some(ZmtpItem::Command(ZmtpCommand::Pong))
            ));
        }
    }
    assert_eq!(asked.reply().content["status"], "ok");
    let printed: String = asked
        .all_of(&header)
        .iter()
        .filter(|it| it.kind() == "stream")
        .map(|it| it.content["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(printed, "a friend\n");
    kernel.close().await;
}

#[tokio::test]
async fn subscriptions_are_by_topic_and_each_is_welcomed() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let mut nothing = Wire::connect(&kernel.connection, SocketName::Iopub, "");
    let mut by_command = Wire::connect(&kernel.connection, SocketName::Iopub, "");
    // As ZMTP 3.1 has it: a command.
    by_command.write(b"\x04\x10\x09SUBSCRIBEkernel");
    let welcome = by_command.frames();
    assert_eq!(welcome[0], "kernel");
    assert_eq!(welcome[1], "<IDS|MSG>");
    nothing.send(&[Bytes::from_static(b"\x01nothing")]);
    assert_eq!(nothing.frames()[0], "nothing");
    let header = front_end.execute("1");
    front_end.all_of(&header);
    let first = by_command.frames();
    assert!(first[0].starts_with(b"kernel."));
    // Nothing of it came to the other one.
    nothing.send(&[Bytes::from_static(b"\x01next")]);
    assert_eq!(nothing.frames()[0], "next");
    kernel.close().await;
}

#[tokio::test]
async fn who_does_not_read_is_cut_off_and_holds_up_nobody() {
    let kernel = Kernel::start();
    let mut reader = FrontEnd::new(&kernel.connection, "reader");
    let mut sleeper = FrontEnd::new(&kernel.connection, "sleeper");
    // Beyond what waits for one, and what the system keeps for it.
    let header = reader.execute("import os\nfor _ in range(28 * 16): os.write(1, b'x' * 65536)");
    let mut bytes = 0;
    let messages = reader.all_of(&header);
    for message in messages.iter().filter(|it| it.kind() == "stream") {
        bytes += message.content["text"].as_str().unwrap().len();
    }
    assert_eq!(bytes, 28 << 20, "the one who reads gets everything");
    assert_eq!(reader.run("print(2)").0, "2\n");
    // The other is cut off, and may come again.
    while sleeper.iopub.item().is_some() {}
    let mut again = FrontEnd::new(&kernel.connection, "sleeper");
    let header = sleeper
        .header("kernel_info_request")
        .replace("sleeper", "awake");
    let frames = again.frames(&header, &json!({}));
    again.shell.send(&frames);
    assert_eq!(again.reply().parent, header);
    kernel.close().await;
}

#[tokio::test]
async fn who_asks_and_does_not_read_the_answers_holds_up_nobody() {
    let kernel = Kernel::start();
    let mut flooding = FrontEnd::new(&kernel.connection, "flooding");
    let mut other = FrontEnd::new(&kernel.connection, "other");
    let running = flooding.execute("import time; time.sleep(0.3)");
    for _ in 0..6_000 {
        flooding.request("kernel_info_request", &json!({}));
    }
    flooding.all_of(&running);
    assert_eq!(other.run("print(3)").0, "3\n");
    let order = other.order("kernel_info_request", &json!({}));
    assert_eq!(other.answer().parent, order);
    // All of them are answered in the end.
    for _ in 0..6_001 {
        flooding.reply();
    }
    kernel.close().await;
}

#[tokio::test]
async fn a_failed_cell_aborts_those_that_wait() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let failing = front_end.execute("import time; time.sleep(0.2); 1/0");
    let waiting = front_end.execute("x = 1");
    let info = front_end.request("kernel_info_request", &json!({}));
    let mut replies = Vec::new();
    for _ in 0..3 {
        let reply = front_end.reply();
        let status = reply.content["status"].as_str().unwrap().to_owned();
        replies.push((reply.parent, status));
    }
    assert_eq!(
        replies,
        [
            (failing, "error".to_owned()),
            (waiting, "aborted".to_owned()),
            (info, "ok".to_owned())
        ]
    );
    assert_eq!(front_end.run("print('x' in globals())").0, "False\n");
    kernel.close().await;
}

#[tokio::test]
async fn the_answer_to_ready_comes_before_anything_else() {
    let kernel = Kernel::start();
    // All in one burst, as a hasty peer does.
    let mut wire = Wire::open(&kernel.connection, SocketName::Heartbeat);
    let burst = [&greeting()[..], &ready("REQ", b""), b"\x01\0\0\x01x"].concat();
    wire.write(&burst);
    assert_eq!(wire.item(), Some(ZmtpItem::Greeting));
    assert!(matches!(
        wire.item(),
        Some(ZmtpItem::Command(ZmtpCommand::Ready { .. }))
    ));
    assert_eq!(wire.frames(), [&b""[..], b"x"]);
    kernel.close().await;
}
