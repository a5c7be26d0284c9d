//! Clients that mean harm, or nothing: refused, and the server goes on with flat memory.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use crate::lifecycle_support::{signal, written};
use crate::server_kit::{Home, ended};

/// The server's memory in kilobytes.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let post = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (request, status, words) in [
        (
            "GET /../../etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
            "404",
            "there is nothing at",
        ),
        (
            "GET /warmcell/v1/sessions/..%2F.. HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
            "400",
            "use 1 to 64",
        ),
        (
            post("/warmcell/v1/sessions/a%2F..%2Fb/cells", r#"{"code":"1"}"#),
            "400",
            "use 1 to 64",
        ),
        (
            post("/warmcell/v1/sessions/a%00/cells", r#"{"code":"1"}"#),
            "400",
            "NUL",
        ),
        (
            post("/warmcell/v1/sessions/%FF/cells", r#"{"code":"1"}"#),
            "400",
            "no UTF-8",
        ),
        (
            post("/warmcell/v1/sessions/a/cells", "{"),
            "400",
            "makes no sense",
        ),
        (
            post("/warmcell/v1/sessions/a/cells", r#"{"code":5}"#),
            "400",
            "`code` must be a string, got 5",
        ),
        (
            post("/warmcell/v1/sessions/a/cells", r#"{"command":"ls"}"#),
            "400",
            "give Python source as `code`",
        ),
        (
            post("/warmcell/v1/sessions/a/cells", &"[".repeat(100_000)),
            "400",
            "must be a JSON object",
        ),
        (
            post("/warmcell/v1/sessions/none/cells", r#"{"code":"1"}"#),
            "404",
            "say in `caller`",
        ),
        (
            "BREW /coffee HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
            "404",
            "",
        ),
        ("\0\x01\x02garbage\r\n\r\n".to_owned(), "400", ""),
        (
            format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(200_000)),
            "431",
            "",
        ),
        (
            "GET /warmcell/v1/sessions HTTP/1.1\r\nhost: x\r\nwarmcell-version: 0.0.1\r\n\r\n"
                .to_owned(),
            "409",
            "this is warmcell 0.0.1, the server that runs is",
        ),
        (
            "GET /warmcell/v1 HTTP/1.1\r\nhost: x\r\nwarmcell-version: 0.0.1\r\n\r\n".to_owned(),
            "200",
            "\"version\"",
        ),
    ] {
        let answer = home.http(&request);
        let shown: String = request.chars().take(80).collect();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{shown:?}: {answer}"
        );
        assert!(answer.contains(words), "{shown:?}: {answer}");
    }
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    home.end().await;
}

#[tokio::test]
async fn much_at_once_costs_no_memory_and_the_server_goes_on() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let server = home.server();
    let before = memory(server);
    // A body of a gigabyte: it is cut off at the limit.
    let socket = home.socket();
    let sending = tokio::task::spawn_blocking(move || {
        let mut stream = UnixStream::connect(socket).unwrap();
        let head = "POST /warmcell/v1/sessions/a/cells HTTP/1.1\r\nhost: x\r\ncontent-length: 1073741824\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let piece = vec![b' '; 1 << 20];
        let sent = (0..1024)
            .take_while(|_| stream.write_all(&piece).is_ok())
            .count();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok();
        sent
    });
    let sent = sending.await.unwrap();
    assert!(sent < 128, "{sent} MB were taken");
    // Half requests, and connections on which nothing is said.
    let silent: Vec<_> = (0..900)
        .filter_map(|number| {
            let mut stream = UnixStream::connect(home.socket()).ok()?;
            if number % 2 == 0 {
                stream.write_all(b"POST /warmcell/v1/sess").ok();
            }
            Some(stream)
        })
        .collect();
    assert!(silent.len() > 500);
    // Those beyond the limit are told.
    let mut last = silent.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).ok();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let (code, _, err) = home.run(&["exec", "-s", "a", "x"]);
    assert_eq!(code, 125, "{err}");
    drop(silent);
    let after = memory(server);
    // 64 MB at most are taken for a body, and given back.
    assert!(after < before + 40_000, "from {before} to {after} kB");
    crate::lifecycle_support::until("room again", || {
        home.run(&["exec", "-s", "a", "x"]).1 == "1\n"
    })
    .await;
    home.end().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_nobody_up() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let server = home.server();
    let before = memory(server);
    let mut stream = UnixStream::connect(home.socket()).unwrap();
    let body = r#"{"code":"import sys\nfor _ in range(100): sys.stdout.write('x' * 1_000_000)\nprint('done', file=open('done', 'w'))","stream":true}"#;
    let request = format!(
        "POST /warmcell/v1/sessions/a/cells HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    written(&home.place.work().join("done")).await;
    assert_eq!(home.run(&["exec", "-s", "b", "2"]).1, "2\n");
    let after = memory(server);
    assert!(after < before + 24_000, "from {before} to {after} kB");
    // When it reads at last it is told what it has missed, and has the result.
    let mut answer = Vec::new();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("{\"missed_bytes\":"));
    assert!(answer.contains("\"stdout_bytes_total\":100000000"));
    home.end().await;
}

#[tokio::test]
async fn another_user_is_turned_away() {
    if !rustix::process::getuid().is_root() {
        eprintln!("NOT TESTED: only root can become another user");
        return;
    }
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    // As if the folders were open: it would close them, so it is stopped for that moment.
    let server = home.server();
    signal(server, rustix::process::Signal::STOP);
    let socket = home.socket();
    let folders: Vec<_> = socket
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(home.place.folder.path()))
        .collect();
    let open = |folder_mode| {
        for folder in &folders {
            fs::set_permissions(folder, fs::Permissions::from_mode(folder_mode)).unwrap();
        }
    };
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    open(0o711);
    let script = "import os, socket, sys\n\
        os.setgid(65534); os.setuid(65534)\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(sys.argv[1])\n\
        print('connected', flush=True)\n\
        try:\n    s.sendall(b'GET /warmcell/v1 HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n')\n    print('answer', s.recv(100))\n\
        except OSError as error:\n    print('answer', b'')";
    let connected = home.place.work().join("connected");
    let child = home
        .place
        .command(crate::support::python().to_str().unwrap())
        .args(["-c", script, socket.to_str().unwrap()])
        .stdout(fs::File::create(&connected).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    written(&connected).await;
    signal(server, rustix::process::Signal::CONT);
    let (code, _, err) = ended(child);
    let out = fs::read_to_string(&connected).unwrap();
    assert_eq!(
        (code, out.as_str()),
        (0, "connected\nanswer b''\n"),
        "{err}"
    );
    home.end().await;
}
