//! `warmcell serve` at its beginning: what it says, and what it refuses before it has said anything.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use serde_json::Value;

use crate::lifecycle_support::{signal, until};
use crate::server_kit::{Home, ended};

#[tokio::test]
async fn an_address_that_will_not_do_is_told_before_it_says_that_it_serves() {
    let home = Home::new();
    for bad in [
        "nonsense",
        ":8888",
        "localhost:70000",
        "http://localhost:1",
        "",
    ] {
        let (code, out, err) = home.run(&["serve", "--tcp", bad]);
        assert_eq!((code, out.as_str()), (2, ""), "{bad}: {err}");
        let told = format!("warmcell: --tcp: {bad:?} is no address to listen on; give HOST:PORT");
        assert!(err.starts_with(&told) && err.lines().count() == 1, "{err}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, out, err) = home.run(&["serve", "--tcp", &address]);
    assert_eq!((code, out.as_str()), (125, ""), "{err}");
    let told = format!("warmcell: cannot listen on {address}: Address already in use");
    assert!(err.starts_with(&told) && err.lines().count() == 1, "{err}");
    let (code, out, err) = home.run(&["serve", "--json", "--tcp", &address]);
    assert_eq!((code, err.as_str()), (125, ""));
    let refused: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(refused["error_class"], "unavailable");
    assert!(
        refused["error"].as_str().unwrap().contains(&address),
        "{out}"
    );
    for bad in ["-1", "1.5", "x", ""] {
        let (code, _, err) = home.run(&["serve", "--idle-exit", bad]);
        assert_eq!(code, 2, "{err}");
        let told = format!("it takes whole seconds from 0 (never) to 4294967295, got {bad}");
        assert!(err.contains(&told), "{bad}: {err}");
    }
    home.assert_nothing_left().await;
}

#[tokio::test]
async fn a_program_that_starts_a_server_is_told_where_it_is() {
    let home = Home::new();
    let mut server = home.start(&["serve", "--json", "--tcp", "127.0.0.1:0"]);
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let said: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(said["pid"], server.id());
    assert_eq!(said["socket"], home.socket().to_str().unwrap());
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(said["home"], home.place.home().to_str().unwrap());
    let address = said["tcp"].as_str().unwrap();
    assert!(
        address.starts_with("http://127.0.0.1:") && address.contains("/?token="),
        "{said}"
    );
    // It is there.
    let info = home.ask("GET", "/warmcell/v1", &Value::Null).json();
    assert_eq!([&info["id"], &info["pid"]], [&said["id"], &said["pid"]]);
    let (code, out, _) = home.run(&["serve", "--json"]);
    let refused: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &refused["error_class"]),
        (125, &"unavailable".into())
    );
    home.run(&["exec", "-s", "a", "1"]);
    let (code, out, err) = home.run(&["serve", "--stop", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "{\"stopped\":true,\"sessions\":1,\"unreceived\":[]}\n");
    assert!(lines.next().is_none(), "nothing else on stdout");
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let (code, out, _) = home.run(&["serve", "--stop", "--json"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "{\"stopped\":false,\"sessions\":0,\"unreceived\":[]}\n")
    );

    // With a token of one's own the address goes without.
    let file = home.place.work().join("token");
    std::fs::write(&file, "a-token-of-my-own\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, mode).unwrap();
    let file = file.to_str().unwrap();
    let mut server = home.start(&[
        "serve",
        "--json",
        "--tcp",
        "localhost:0",
        "--token-file",
        file,
    ]);
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert!(!said["tcp"].as_str().unwrap().contains("token"), "{said}");
    signal(server.id(), rustix::process::Signal::TERM);
    assert_eq!(ended(server).0, 0);
    home.assert_nothing_left().await;
}

#[tokio::test]
async fn what_is_not_there_is_a_dash_in_a_list() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = print; y = 1"]);
    // A session that has no kernel just now.
    let (_, out, _) = home.run(&["exec", "-s", "b", "import os; os.getpid()"]);
    signal(out.trim().parse().unwrap(), rustix::process::Signal::KILL);
    until("a kernel that is gone", || {
        home.run(&["sessions", "list"]).1.contains("dead")
    })
    .await;
    let (code, out, err) = home.run(&["sessions", "list"]);
    assert_eq!(code, 0, "{err}");
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let head = ["SESSION", "STATE", "CELLS", "KERNEL", "PROCESS", "MANAGER"];
    assert_eq!(rows[0], head);
    assert_eq!(rows.len(), 3, "{out}");
    // No column is empty: each row has as many words, one more for its manager's number, and one more
    // for the version of a Python.
    assert_eq!(rows[1][3], "Python", "{out}");
    assert!(rows[1..].iter().all(|row| row.len() == 8), "{out}");
    assert_eq!(rows[2][..3], ["b", "dead", "0"], "{out}");
    assert_eq!(rows[2][5], "-", "{out}");
    let (_, out, _) = home.run(&["sessions", "show", "a"]);
    for name in ["x", "y"] {
        let line = out
            .lines()
            .find(|line| line.starts_with(&format!("  {name} ")));
        assert_eq!(line.unwrap().split_whitespace().last(), Some("-"), "{out}");
    }
    let (_, out, _) = home.run(&["sessions", "show", "b"]);
    assert!(
        out.lines().all(|line| line.split_whitespace().count() > 1),
        "{out}"
    );
    home.end().await;
}
