//! Clients of WebSockets that read too little or send what makes no sense: they end alone.

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;

use crate::jupyter_kit::{Client, Form, House, ask, frame, in_short};
use crate::server_kit::Home;
use crate::support::{SAFETY, run};

const HEADER: &str = r#"{"msg_id":"a","msg_type":"execute_request"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_cut_off_and_holds_nobody_up() {
    let house = House::open().await;
    let session = house.session("a");
    let mut slow = house.client(&session, Form::V1).await;
    let mut client = house.client(&session, Form::V1).await;
    let bytes = 64 << 20;
    let code = format!(
        "import os, time\nbegan = time.monotonic()\nfor _ in range({}): os.write(1, b'x' * 65536)",
        bytes / 65_536
    );
    let header = client.execute(&code).await;
    let mut got = 0;
    let messages = tokio::time::timeout(SAFETY, async {
        loop {
            let message = client.next().await.unwrap();
            if message.kind() == "stream" {
                got += message.content["text"].as_str().unwrap().len();
            } else if message.parent == header && message.content["execution_state"] == "idle" {
                return;
            }
        }
    });
    messages.await.expect("the cell is held up");
    // Whoever reads gets all of it.
    assert_eq!(got, bytes);
    let close = loop {
        if let Err(close) = slow.next().await {
            break close.expect("it is told why");
        }
    };
    assert_eq!(u16::from(close.code), 1013);
    assert!(close.reason.contains("too slowly"), "{}", close.reason);
    let words = client.run("1").await;
    assert!(words.contains(&"[2]: 1".to_owned()), "{words:?}");
    house.close().await;
}

#[tokio::test]
async fn what_makes_no_sense_ends_its_own_connection_alone() {
    let house = House::open().await;
    let session = house.session("a");
    let mut bystander = house.client(&session, Form::V1).await;
    let good = frame(&["shell", HEADER, "{}", "{}", r#"{"code":"1"}"#]);
    let mut cut = good.clone();
    cut.truncate(good.len() - 3);
    let mut wide = good.clone();
    wide[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    let senseless = [
        (Form::V1, Message::binary(cut), 1007),
        (Form::V1, Message::binary(wide), 1007),
        (Form::V1, Message::binary(vec![]), 1007),
        (Form::V1, Message::text("{}"), 1007),
        (
            Form::V1,
            Message::binary(frame(&["shell", "[]", "{}", "{}", "{}"])),
            1007,
        ),
        (Form::Text, Message::text("nonsense"), 1007),
        (
            Form::Text,
            Message::text(r#"{"header":{"msg_id":1}}"#),
            1007,
        ),
    ];
    for (form, message, code) in senseless {
        let what = format!("{form:?} {message:.60?}");
        let mut client = house.client(&session, form).await;
        client.socket.send(message).await.unwrap();
        let close = client.next().await.unwrap_err().expect("it is told why");
        assert_eq!(u16::from(close.code), code, "{what}: {}", close.reason);
        assert!(!close.reason.is_empty(), "{what}");
    }
    // More than any message may have is refused when it is announced.
    let mut client = house.client(&session, Form::V1).await;
    let mut head = vec![0x82, 0xff];
    head.extend((65_u64 << 20).to_be_bytes());
    head.extend([0; 4]);
    client.socket.get_mut().write_all(&head).await.unwrap();
    let close = client.next().await.unwrap_err().expect("it is told why");
    assert_eq!(u16::from(close.code), 1002, "{}", close.reason);

    let mut client = house.client(&session, Form::V1).await;
    let flood = async {
        let stream = client.socket.get_mut();
        let ping = [0x89, 0x80, 0, 0, 0, 0].repeat(1_000);
        while stream.write_all(&ping).await.is_ok() {}
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
    };
    tokio::time::timeout(SAFETY, flood)
        .await
        .expect("a flood of pings is put up with");
    let words = bystander.run("1").await;
    assert!(words.contains(&"[1]: 1".to_owned()), "{words:?}");
    house.close().await;
}

#[tokio::test]
async fn long_messages_and_many_sockets_have_their_bounds() {
    let house = House::open().await;
    let session = house.session("a");
    // As much as a cell may have, in its longest form.
    let mut client = house.client(&session, Form::V1).await;
    let code = format!("x = '{}'; len(x)", "é".repeat(4_000_000));
    let words = client.run(&code).await;
    assert!(words.contains(&"[1]: 4000000".to_owned()));
    let words = client.run(&"#".repeat(9 << 20)).await;
    assert!(words.iter().any(|word| word.contains("the limit is 8 MiB")));

    let mut many = Vec::new();
    let path = format!("/api/kernels/{}/channels", session.id());
    let refused = loop {
        let stream = house.stream().await;
        match Client::open(stream, &path, Form::V1).await {
            Ok(client) => many.push(client),
            Err(error) => break error.to_string(),
        }
        assert!(many.len() < 200);
    };
    assert_eq!(many.len(), 127);
    assert!(refused.contains("503"), "{refused}");
    assert_eq!(house.ask("GET", "/api", &json!({})).await.0, 200);
    drop(many);
    let begun = std::time::Instant::now();
    loop {
        let stream = house.stream().await;
        if Client::open(stream, &path, Form::V1).await.is_ok() {
            break;
        }
        assert!(begun.elapsed() < SAFETY, "no place comes free");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    house.close().await;
}

#[tokio::test]
async fn a_kernel_that_dies_is_told_and_the_next_cell_has_another() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let header = client
        .execute("import os; print('a', flush=True); os._exit(3)")
        .await;
    let words = in_short(&client.all_of(&header).await);
    assert_eq!(words[2], "stdout: a\n");
    assert!(
        words[3].starts_with("DeadKernelError: the kernel exited with code 3"),
        "{words:?}"
    );
    assert_eq!(
        client.next().await.unwrap().content["execution_state"],
        "restarting"
    );
    let words = client.run("2").await;
    assert!(words.contains(&"[1]: 2".to_owned()), "{words:?}");
    assert!(
        words
            .iter()
            .any(|it| it.starts_with("stderr: [new kernel: ")),
        "{words:?}"
    );
    // Between cells it is told too.
    run(
        &session,
        "import os, signal, threading; threading.Timer(0.05, os._exit, [4]).start()",
    )
    .await;
    while client.next().await.unwrap().content["execution_state"] != "restarting" {}
    house.close().await;
}

/// Twelve clients that read nothing, each of a session of its own, and none of them too far behind
/// by itself: 14 MiB for each would be 168.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_all_clients_together_is_bounded() {
    let home = Home::new();
    home.json("a", "1");
    let (socket, pid) = (home.socket(), home.server());
    let connect = async || UnixStream::connect(&socket).await.unwrap();
    let mut paths = Vec::new();
    for _ in 0..12 {
        let made = ask(connect().await, "POST", "/api/kernels", "", &json!({})).await;
        assert_eq!(made.0, 201, "{}", made.1);
        let id = made.1["id"].as_str().unwrap();
        paths.push(format!("/api/kernels/{id}/channels"));
    }
    let open = async |path: &str| Client::open(connect().await, path, Form::V1).await.unwrap();
    let before = peak_memory(pid);
    let mut slow = Vec::new();
    let mut cells = tokio::task::JoinSet::new();
    for path in &paths {
        slow.push(open(path).await);
        let mut reader = open(path).await;
        cells.spawn(async move {
            let code = "import os\nfor _ in range(14 * 16): os.write(1, b'x' * 65536)";
            let header = reader.execute(code).await;
            reader.ends(&header).await;
        });
    }
    tokio::time::timeout(2 * SAFETY, cells.join_all())
        .await
        .expect("cells are held up");
    let rise = peak_memory(pid) - before;
    assert!(rise < 160 << 20, "{} MiB more", rise >> 20);
    // Some were cut off, not all: those that are left get what waits for them.
    let mut cut_off = 0;
    for mut client in slow {
        let close = loop {
            match client.next().await {
                Ok(message) if message.content["execution_state"] == "idle" => break None,
                Ok(_) => {}
                Err(close) => break Some(close),
            }
        };
        cut_off += usize::from(close.is_some());
        // Who still does not read ten seconds later is told nothing more.
        if let Some(Some(close)) = close {
            assert_eq!(u16::from(close.code), 1013);
            let reason = close.reason.as_str();
            assert!(reason.contains("for all clients together"), "{reason}");
        }
    }
    assert!((7..12).contains(&cut_off), "{cut_off} were cut off");
    home.end().await;
}

/// The most memory that a process has had, in bytes.
pub fn peak_memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|it| it.starts_with("VmHWM")).unwrap();
    let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}
