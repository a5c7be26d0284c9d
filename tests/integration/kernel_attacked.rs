//! `warmcell kernel` under attack, at its five sockets and by many who come and go: it lives, uses no
//! CPU and no memory for it, and others go on.

use std::fs;
use std::net::Shutdown;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Signal;
use serde_json::json;
use warmcell::jupyter::{SocketName, ZmtpCommand, ZmtpItem, greeting, ready};

use crate::kernel_kit::{FrontEnd, Kernel, Wire, ipc};
use crate::lifecycle_support::until;
use crate::support::text;

/// Ticks of CPU (10 ms each) that a process has used.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = rest.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// It waits for something and does nothing else.
async fn assert_is_at_rest(kernel: &Kernel, what: &str) {
    let pid = kernel.process.pid();
    let mut used = 0;
    // A task that spins uses all of a window, and of the next one; who finishes something does not.
    for _ in 0..5 {
        let before = ticks(pid);
        tokio::time::sleep(Duration::from_millis(200)).await;
        used = ticks(pid) - before;
        if used <= 4 {
            return;
        }
    }
    panic!("{what}: {used} of 20 ticks are used");
}

fn kilobytes(pid: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Bytes that no front end sends, after the handshake.
fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    let message = |frames: &[&[u8]]| -> Vec<u8> {
        let frames: Vec<Bytes> = frames.iter().map(|it| Bytes::copy_from_slice(it)).collect();
        warmcell::jupyter::zmtp_message(&frames).concat()
    };
    let delimiter = &b"<IDS|MSG>"[..];
    vec![
        ("a frame of 2^46 bytes", b"\x02\0\0\x40\0\0\0\0\0".to_vec()),
        (
            "a frame of 2^64 bytes",
            b"\x02\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        ),
        ("10,000 frames", b"\x01\0".repeat(10_000)),
        (
            "10,000 frames and an end",
            [b"\x01\0".repeat(10_000), b"\0\0".to_vec()].concat(),
        ),
        ("half a frame", b"\x03\0\0\0\0\0\x01\0\0half".to_vec()),
        ("an empty message", b"\0\0".to_vec()),
        (
            "no delimiter",
            message(&[b"a", b"b", b"c", b"d", b"e", b"f"]),
        ),
        ("a delimiter alone", message(&[delimiter])),
        ("no parts", message(&[delimiter, b""])),
        ("delimiters", message(&[delimiter; 12])),
        (
            "an empty signature",
            message(&[delimiter, b"", b"{}", b"{}", b"{}", b"{}"]),
        ),
        ("a ping without time", b"\x04\x05\x04PING".to_vec()),
        ("a long command", b"\x06\0\0\0\0\0\x10\0\0".to_vec()),
        ("a command of no name", b"\x04\x00".to_vec()),
        ("a command with more to come", b"\x05\x05\x04PONG".to_vec()),
        ("bits that are reserved", b"\xf8\x01x".to_vec()),
        ("an error", b"\x04\x09\x05ERROR\x02no".to_vec()),
        ("a second greeting", greeting().to_vec()),
        ("a second name", ready("DEALER", b"other").to_vec()),
        ("subscriptions", b"\0\x05\x01aaaa".repeat(2_000)),
        (
            "a long subscription",
            [&b"\x02\0\0\0\0\0\0\x20\0\x01"[..], &[b'a'; 8191]].concat(),
        ),
    ]
}

async fn attacked(kernel: Kernel) {
    let mut front_end = kernel.front_end();
    front_end.run("x = 1");
    // One that works all the time, and has to be let.
    let header = front_end.execute("print('on')\nn = 0\nwhile True: n += 1");
    front_end.begun(&header);
    let python = ticks(kernel.process.pid());
    for name in SocketName::ALL {
        let mut open = Vec::new();
        for (number, (what, bytes)) in attacks().into_iter().enumerate() {
            // One stays, one goes, one goes without having read what it was sent: a reset.
            for way in 0..3 {
                let who = format!("attacker {number} {way}");
                let mut wire = Wire::connect(&kernel.connection, name, &who);
                // The kernel may have had enough before all is sent.
                drop(std::io::Write::write_all(&mut wire.stream, &bytes));
                if way == 0 {
                    open.push((what, wire));
                } else if way == 2 {
                    let mut early = Wire::open(&kernel.connection, name);
                    drop(std::io::Write::write_all(&mut early.stream, &bytes));
                }
            }
        }
        // Some say nothing at all, or stop in the middle of the handshake.
        let mut silent = Vec::new();
        for bytes in [&b""[..], &greeting()[..5], &greeting(), &ready("SUB", b"")] {
            let mut wire = Wire::open(&kernel.connection, name);
            wire.write(bytes);
            silent.push(wire);
        }
        let order = front_end.order("kernel_info_request", &json!({}));
        assert_eq!(front_end.answer().parent, order, "{name:?}");
        assert_is_at_rest(&kernel, &format!("{name:?}")).await;
    }
    assert!(ticks(kernel.process.pid()) >= python);
    front_end.order("interrupt_request", &json!({}));
    assert_eq!(
        front_end.reply_to(&header).content["ename"],
        "KeyboardInterrupt"
    );
    assert_eq!(front_end.run("print(x)").0, "1\n");
    let resident = kilobytes(kernel.process.pid(), "VmHWM:");
    assert!(resident < 100_000, "{resident} kB");
    let mut kernel = kernel;
    kernel.signal(Signal::TERM);
    assert_eq!(kernel.process.ended().await, Some(0));
    kernel.left_nothing().await;
}

#[tokio::test]
async fn attacks_on_each_socket_cost_no_cpu_and_disturb_nobody() {
    attacked(Kernel::start()).await;
}

#[tokio::test]
async fn the_same_on_unix_sockets() {
    attacked(Kernel::start_at(&ipc("s")).await).await;
}

#[tokio::test]
async fn what_is_not_signed_right_is_dropped_on_every_channel_and_logged() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let mut stdin = Wire::connect(&kernel.connection, SocketName::Stdin, "front end");
    let log = kernel.place.home().join("logs/warmcell.log");
    let dropped = || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.matches("a message was dropped").count()
    };
    let code = json!({ "code": "bad = 1", "value": "x" });
    let mut sent = 0;
    for channel in 0..3 {
        let kind = ["execute_request", "shutdown_request", "input_reply"][channel];
        let header = front_end.header(kind);
        let right = front_end.frames(&header, &code);
        let signature = text(&right[1]);
        for forged in [
            String::new(),
            "0".repeat(64),
            signature.chars().take(63).collect(),
            signature.to_uppercase(),
            "zz".repeat(32),
            format!("{signature}{signature}"),
        ] {
            let mut frames = right.clone();
            frames[1] = Bytes::from(forged);
            match channel {
                0 => front_end.shell.send(&frames),
                1 => front_end.control.send(&frames),
                _ => stdin.send(&frames),
            }
            sent += 1;
        }
    }
    until("a line for each", || dropped() >= sent).await;
    assert_eq!(dropped(), sent);
    let secret = kernel.connection.key.clone();
    assert!(!fs::read_to_string(&log).unwrap().contains(&secret));
    assert_eq!(front_end.run("print('bad' in globals())").0, "False\n");
    // One that is the owner of the key may say what makes no sense.
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for content in [
        "",
        "{",
        "null",
        "7",
        "\"text\"",
        "NaN",
        "{\"code\":NaN}",
        "{\"code\":\"\\ud800\"}",
        &deep,
        &format!("{{\"code\":{deep}}}"),
        &format!("{{\"code\":\"7\",\"odd\":{deep}}}"),
    ] {
        let header = front_end.header("execute_request");
        let mut message = warmcell::jupyter::RawMessage::new(
            warmcell::jupyter::Channel::Shell,
            Bytes::from(header.clone()),
            Bytes::copy_from_slice(content.as_bytes()),
        );
        message.metadata = Bytes::from(deep.clone());
        let frames = warmcell::jupyter::Multipart {
            identities: Vec::new(),
            message,
        };
        let frames = frames.encode(&front_end.signer);
        front_end.shell.send(&frames);
        let reply = front_end.reply();
        assert_eq!(reply.parent, header);
        assert!(["ok", "error"].contains(&reply.content["status"].as_str().unwrap()));
    }
    assert_eq!(front_end.run("print(1)").1, "ok");
    kernel.close().await;
}

#[tokio::test]
async fn ten_thousand_who_come_and_go_leave_nothing_behind() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let pid = kernel.process.pid();
    let come = |number: usize| {
        let name = [SocketName::Shell, SocketName::Heartbeat, SocketName::Iopub][number % 3];
        // Some have a name, always the same, and so come again before they are gone.
        let who = if number.is_multiple_of(2) { "same" } else { "" };
        let mut wire = Wire::connect(&kernel.connection, name, who);
        if name == SocketName::Iopub {
            wire.send(&[Bytes::from_static(b"\x01")]);
        }
    };
    // With all that it needs for a Python.
    front_end.run("1");
    (0..1_000).for_each(come);
    until("their end", || descriptors(pid) < 60).await;
    let (memory, open) = (kilobytes(pid, "VmRSS:"), descriptors(pid));
    (0..9_000).for_each(come);
    until("their end", || descriptors(pid) <= open + 2).await;
    let grown = kilobytes(pid, "VmRSS:").saturating_sub(memory);
    assert!(grown < 4_000, "{grown} kB more after 9,000 connections");
    assert_eq!(front_end.run("print(1)").0, "1\n");
    kernel.close().await;
}

#[tokio::test]
async fn a_kernel_that_was_stopped_answers_everybody_when_it_goes_on() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let mut heart = Wire::connect(&kernel.connection, SocketName::Heartbeat, "");
    kernel.signal(Signal::STOP);
    let beats: Vec<_> = (0..100)
        .map(|beat| vec![Bytes::new(), Bytes::from(format!("{beat}"))])
        .collect();
    for beat in &beats {
        heart.send(beat);
        // And one who has waited long enough, and goes.
        let mut impatient = Wire::open(&kernel.connection, SocketName::Heartbeat);
        impatient.write(&[&greeting()[..], &ready("REQ", b""), b"\x01\0\0\x01x"].concat());
    }
    let header = front_end.execute("print(1)");
    kernel.signal(Signal::CONT);
    for beat in &beats {
        assert_eq!(heart.frames(), *beat);
    }
    assert_eq!(front_end.reply().parent, header);
    let mut other = Wire::connect(&kernel.connection, SocketName::Heartbeat, "");
    other.write(b"\x04\x07\x04PING\0\x10");
    assert_eq!(other.item(), Some(ZmtpItem::Command(ZmtpCommand::Pong)));
    kernel.close().await;
}

#[tokio::test]
async fn a_flood_beside_one_who_sleeps_costs_the_kernel_no_memory() {
    const BYTES: usize = 48 << 20;
    let kernel = Kernel::start();
    let mut reader = kernel.front_end();
    let mut sleeper = FrontEnd::new(&kernel.connection, "sleeper");
    let code = format!("import os\nfor _ in range({BYTES} >> 16): os.write(1, b'x' * 65536)");
    let header = reader.execute(&code);
    let mut bytes = 0;
    loop {
        // Topic, delimiter, signature, header, parent, metadata, content.
        let frames = reader.iopub.frames();
        if frames[4] == header.as_bytes() {
            let content: serde_json::Value = serde_json::from_slice(&frames[6]).unwrap();
            bytes += content["text"].as_str().map_or(0, str::len);
            if content["execution_state"] == "idle" {
                break;
            }
        }
    }
    assert_eq!(bytes, BYTES, "the one who reads gets everything");
    assert_eq!(reader.reply().content["status"], "ok");
    let most = kilobytes(kernel.process.pid(), "VmHWM:");
    assert!(most < 64_000, "{most} kB");
    while sleeper.iopub.item().is_some() {}
    sleeper.shell.stream.shutdown(Shutdown::Both);
    assert_is_at_rest(&kernel, "after the flood").await;
    kernel.close().await;
}
