//! What a client says of a kernel when nobody tells it, and of one that it has not touched.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::lifecycle_support::{signal, until, written};
use crate::server_kit::{Home, ended};

/// A command that prints what happens in a session, and what it has printed.
struct Watcher {
    child: std::process::Child,
    printed: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Watcher {
    async fn start(home: &Home, session: &str) -> Self {
        let mut child = home.start(&["sessions", "events", session, "--json"]);
        let mut stdout = child.stdout.take().unwrap();
        let printed = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let all = std::sync::Arc::clone(&printed);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = stdout.read(&mut piece) {
                all.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&piece[..read]));
            }
        });
        let watcher = Self { child, printed };
        // It is there once it has seen a cell.
        until("the events", || {
            home.run(&["exec", "-s", session, "0"]);
            watcher.has("cell_finished")
        })
        .await;
        watcher
    }

    fn has(&self, what: &str) -> bool {
        self.printed.lock().unwrap().contains(what)
    }

    fn end(mut self) {
        self.child.kill().ok();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn what_was_seen_of_a_cell_whose_server_was_killed_is_told() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let watcher = Watcher::start(&home, "a").await;
    let count = home.json("a", "0")["kernel"]["execution_count"]
        .as_u64()
        .unwrap();
    let begun = home.place.work().join("begun");
    let code = format!(
        "import sys, time\nprint('seen é')\nprint('err', file=sys.stderr)\n\
         print('begun', file=open({begun:?}, 'w'), flush=True)\ntime.sleep(600)"
    );
    let client = home.start(&["exec", "-s", "a", "--json", &code]);
    written(&begun).await;
    until("the output", || watcher.has("seen") && watcher.has("err")).await;
    // What the server has said before its answer is on its way.
    home.run(&["sessions"]);
    signal(home.server(), Signal::KILL);
    let (code, out, err) = ended(client);
    assert_eq!(code, 125, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        told["kernel"],
        json!({
            "execution_count": count + 1, "generation": 1, "reused": true, "state": "lost",
            "reason": "manager_restarted"
        }),
        "{told}"
    );
    assert_eq!(told["status"], "error");
    assert_eq!(told["error_class"], "unavailable");
    assert_eq!(told["exit_code"], -1);
    let output = told["output"].as_str().unwrap();
    let error = told["error"].as_str().unwrap();
    assert_eq!(output, format!("seen é\n--- stderr ---\nerr\n[{error}]"));
    assert!(error.contains("the manager has ended"), "{error}");
    assert!(error.contains("its kernels with it"), "{error}");
    assert_eq!(told["stdout_bytes_total"], 8);
    assert_eq!(told["stdout_bytes_captured"], 8);
    assert_eq!(told["stdout_bytes_omitted"], 0);
    assert_eq!(told["stdout_truncated"], false);
    watcher.end();
    home.place.assert_no_survivors().await;
    let next = home.json("a", "1");
    assert_eq!(next["kernel"]["reason"], "manager_restarted");
    assert_eq!(next["kernel"]["generation"], 2);
    home.end().await;
}

/// Nobody reads along: what is kept for the worst case holds no cell up, and is told to be not all.
#[tokio::test]
async fn a_flood_whose_server_was_killed_is_told_by_its_beginning() {
    let home = Home::new();
    let begun = home.place.work().join("begun");
    let code = format!(
        "import time\nfor n in range(20_000): print(n, 'x' * 90)\n\
         print('begun', file=open({begun:?}, 'w'), flush=True)\ntime.sleep(600)"
    );
    let client = home.start(&["exec", "-s", "a", "--json", &code]);
    written(&begun).await;
    home.run(&["sessions"]);
    signal(home.server(), Signal::KILL);
    let (code, out, err) = ended(client);
    assert_eq!(code, 125, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    let bytes = |key: &str| told[key].as_u64().unwrap();
    let total = bytes("stdout_bytes_total");
    assert!((1..=256 << 10).contains(&total), "{total}");
    assert_eq!(
        bytes("stdout_bytes_captured") + bytes("stdout_bytes_omitted"),
        total
    );
    assert!(told["output"].as_str().unwrap().starts_with("0 xxx"));
    assert_eq!(told["kernel"]["generation"], 1);
    assert_eq!(told["kernel"]["state"], "lost");
    home.place.assert_no_survivors().await;
    // One that ends has all of it.
    let whole = home.json("a", "for n in range(20_000): print('x' * 99)");
    assert_eq!(whole["stdout_bytes_total"], 2_000_000);
    assert_eq!(whole["status"], "success");
    home.end().await;
}

/// Stands between a client and its server, and goes away in the middle once it has seen a word.
fn cut_at(home: &Home, word: &'static str) -> std::thread::JoinHandle<()> {
    let socket = home.socket();
    let real = socket.with_file_name("real.sock");
    std::fs::rename(&socket, &real).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = UnixStream::connect(&real).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let asking = std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let (mut server, mut client) = (server, client);
        let mut seen = String::new();
        let mut piece = [0; 4096];
        while !seen.contains(word) {
            let read = server.read(&mut piece).unwrap();
            assert!(read > 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&piece[..read]));
            client.write_all(&piece[..read]).unwrap();
        }
        std::fs::rename(&real, &socket).unwrap();
        client.shutdown(Shutdown::Both).ok();
        server.shutdown(Shutdown::Both).ok();
        asking.join().unwrap().ok();
    })
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_the_state_unknown_and_says_so() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let proxy = cut_at(&home, "half");
    let (code, out, err) = home.run(&[
        "exec",
        "-s",
        "a",
        "--json",
        "--on-interrupt",
        "interrupt",
        "print('half'); import time; time.sleep(600)",
    ]);
    proxy.join().unwrap();
    assert_eq!(code, 125, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        told["kernel"],
        json!({
            "execution_count": 2, "generation": 1, "reused": true, "state": "lost",
            "reason": "connection_lost"
        })
    );
    let error = told["error"].as_str().unwrap();
    assert!(
        error.contains("the connection to the manager ended"),
        "{error}"
    );
    assert!(
        error.contains("whether its kernel lives is not known"),
        "{error}"
    );
    assert!(told["output"].as_str().unwrap().starts_with("half\n["));
    // The manager has seen it too, and interrupted the cell: what is true the next cell tells.
    let next = home.json("a", "x");
    assert_eq!(next["kernel"]["state"], "kept", "{next}");
    assert_eq!(next["result"], "1");
    home.end().await;
}

/// `kernel` of a cell that did not run is that of the session as it is.
#[tokio::test]
async fn a_client_that_refuses_says_what_is_there() {
    let home = Home::new();
    let refused = |arguments: &[&str]| {
        let arguments = [&["exec", "-s", "a", "--json"], arguments].concat();
        let (code, out, err) = home.run(&arguments);
        assert_eq!(code, 2, "{err}");
        let told: Value = serde_json::from_str(&out).unwrap();
        told["kernel"].clone()
    };
    let none = json!({"execution_count": 0, "generation": 0, "reused": false, "state": "fresh"});
    assert_eq!(refused(&["-f", "missing.py"]), none);
    // Nobody was started for it.
    assert_eq!(
        home.run(&["serve", "--stop"]).2,
        "warmcell: no background server runs\n"
    );
    home.run(&["exec", "-s", "a", "x = 1"]);
    let kept = json!({"execution_count": 0, "generation": 1, "reused": true, "state": "kept"});
    for arguments in [
        &["-f", "missing.py"][..],
        &[" "],
        &["--cwd", "missing", "1"],
    ] {
        assert_eq!(refused(arguments), kept, "{arguments:?}");
    }
    home.run(&["exec", "-s", "a", "-t", "0.2", "while True: pass"]);
    until("the next kernel", || {
        home.run(&["sessions", "show", "a", "--json"])
            .1
            .contains("\"generation\":2")
    })
    .await;
    let fresh = json!({"execution_count": 0, "generation": 2, "reused": false, "state": "fresh"});
    for arguments in [&["-f", "missing.py"][..], &[" "]] {
        assert_eq!(refused(arguments), fresh, "{arguments:?}");
    }
    // Of a session that is not there, at the door.
    let body = r#"{"code":"1"}"#;
    let answer = home.http(&format!(
        "POST /warmcell/v1/sessions/none/cells HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let told: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(told["kernel"], none, "{answer}");
    home.end().await;
}

/// A server that does not answer hides what is there.
#[tokio::test]
async fn a_session_that_could_not_be_opened_is_neither_announced_nor_listed() {
    let home = Home::new();
    home.run(&["exec", "-s", "other", "1"]);
    let bad = ["exec", "-s", "a", "--python", "/bin/false"];
    for (last, expected) in [
        (&["1"][..], 125),
        (&["--json", "1"], 125),
        (&["--cwd", "missing", "1"], 2),
        (&["--cwd", "missing", "--json", "1"], 2),
    ] {
        let (code, _, err) = home.run(&[&bad[..], last].concat());
        assert_eq!(code, expected, "{err}");
        assert!(!err.contains("is new"), "{err}");
        until("no session", || !home.run(&["sessions"]).1.contains("\na ")).await;
    }
    let (code, out, _) = home.run(&[&bad[..], &["--detach", "--json", "1"]].concat());
    assert_eq!(code, 0, "{out}");
    // Its result waits for somebody, and so does the session.
    let (code, out, _) = home.run(&["sessions", "wait", "a"]);
    assert_eq!(code, 125);
    assert!(out.contains("/bin/false"), "{out}");
    until("no session", || !home.run(&["sessions"]).1.contains("\na ")).await;
    // A good one is new after that.
    let (_, _, err) = home.run(&["exec", "-s", "a", "1"]);
    assert!(err.contains("session a is new"), "{err}");
    home.end().await;
}

#[tokio::test]
async fn exec_and_exec_in_a_session_end_with_the_same_codes() {
    let home = Home::new();
    let file = home.place.work().join("file");
    std::fs::write(&file, "").unwrap();
    std::fs::create_dir(home.place.work().join("sub")).unwrap();
    for (arguments, expected, class) in [
        (["--cwd", "missing"], 2, "usage"),
        (["--cwd", "file"], 2, "usage"),
        (["--cwd", "/"], 0, ""),
        (["--cwd", "sub"], 0, ""),
        (["--python", "/bin/false"], 125, "unavailable"),
        (["--python", "missing"], 125, "unavailable"),
    ] {
        for session in [&[][..], &["-s", "a"]] {
            let all = [&["exec", "--json"], session, &arguments, &["1"]].concat();
            let (code, out, err) = home.run(&all);
            assert_eq!(code, expected, "{all:?}: {out} {err}");
            let told: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(told["error_class"].as_str().unwrap_or_default(), class);
        }
        home.run(&["sessions", "close", "a"]);
    }
    // A named directory is where the first cell begins, not where each one runs.
    std::fs::write(
        home.place.work().join("go.py"),
        "import os; os.chdir('/tmp')",
    )
    .unwrap();
    std::fs::write(home.place.work().join("where.py"), "os.getcwd()").unwrap();
    let (_, out, err) = home.run(&["exec", "--cwd", ".", "-f", "go.py", "-f", "where.py"]);
    assert_eq!(out, "'/tmp'\n", "{err}");
    home.end().await;
}

#[tokio::test]
async fn a_session_that_was_lost_with_its_server_is_not_called_new() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let record = home.place.home().join("warmcell/sessions/a.json");
    until("the record", || {
        std::fs::read_to_string(&record).is_ok_and(|text| text.contains("\"x\""))
    })
    .await;
    home.ended_by(Signal::KILL).await;
    home.place.assert_no_survivors().await;
    let (_, _, err) = home.run(&["exec", "-s", "a", "1"]);
    assert!(!err.contains("is new"), "{err}");
    assert!(err.contains("session a was there before"), "{err}");
    assert!(
        err.contains("[new kernel: the previous one was lost"),
        "{err}"
    );
    home.end().await;
}

#[tokio::test]
async fn a_reset_says_whether_there_is_a_kernel_again() {
    let home = Home::new();
    let there = home.place.work().join("there");
    std::fs::create_dir(&there).unwrap();
    let open = |code: &str| {
        let mut command = home.command(&["exec", "-s", "a", code]);
        let output = command
            .current_dir(&there)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    open("x = 1");
    let (code, out, _) = home.run(&["sessions", "reset", "a", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &told["reset"], &told["next_kernel"]),
        (0, &json!(true), &json!("started"))
    );
    assert_eq!(told["kernel"]["state"], "fresh");
    assert_eq!(told["kernel"]["reason"], "reset");
    assert_eq!(told["kernel"]["lost"]["cells"], 1);
    open("y = 1");
    std::fs::remove_dir(&there).unwrap();
    let (code, _, err) = home.run(&["sessions", "reset", "a"]);
    assert_eq!(code, 0);
    let start = "warmcell: a is reset: 1 cell and y are gone; no fresh kernel could be started (";
    assert!(err.starts_with(start), "{err}");
    assert!(err.contains("No such file or directory"), "{err}");
    assert!(err.ends_with("; the next cell tries again\n"), "{err}");
    let (code, out, _) = home.run(&["sessions", "reset", "a", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &told["reset"], &told["next_kernel"]),
        (0, &json!(true), &json!("none"))
    );
    let kernel = &told["kernel"];
    assert_eq!(kernel.get("lost"), None, "there was nothing to lose");
    home.end().await;
}
