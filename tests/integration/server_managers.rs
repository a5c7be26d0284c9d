//! Several managers of one home: found, listed, acted upon.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use serde_json::Value;
use warmcell::folders::door_folders;
use warmcell::server::{Door, Manager};
use warmcell::session::{Cell, Registry};

use crate::server_kit::Home;
use crate::support::{python, run_cell};

async fn manager(home: &Home) -> (Arc<Registry>, Arc<Manager>, Door) {
    let settings = home.place.settings();
    let folders = door_folders(settings.runtime_dir.as_deref(), &settings.home);
    let registry = Arc::new(Registry::start(settings).await.unwrap());
    let manager = Manager::new(
        Arc::clone(&registry),
        "program",
        "tester",
        home.place.home(),
    );
    let door = Door::open(&manager, &folders).unwrap();
    (registry, manager, door)
}

/// What runs beside this test's own manager.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_all_managers_are_listed_and_acted_upon() {
    let home = Arc::new(Home::new());
    let (registry, manager, door) = manager(&home).await;
    let session = registry
        .session("mine", &home.place.caller(python()))
        .unwrap();
    assert_eq!(run_cell(&session, Cell::new("x = 1")).await.exit_code, 0);
    let at = Arc::clone(&home);
    let run = move |arguments: &[&str]| {
        let home = Arc::clone(&at);
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        beside(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            home.run(&arguments)
        })
    };
    // The cell of a session that another manager holds runs there.
    let (_, out, err) = run(&["exec", "-s", "mine", "x"]).await;
    assert_eq!(out, "1\n", "{err}");
    run(&["exec", "-s", "both", "y = 2"]).await;
    let both = registry
        .session("both", &home.place.caller(python()))
        .unwrap();
    assert_eq!(run_cell(&both, Cell::new("x = 1")).await.exit_code, 0);
    let (_, out, _) = run(&["sessions", "--json"]).await;
    let all: Value = serde_json::from_str(&out).unwrap();
    let rows: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (
                it["manager"]["kind"].as_str().unwrap(),
                it["name"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [("server", "both"), ("program", "both"), ("program", "mine")]
    );
    assert_eq!(all[2]["manager"]["owner"], "tester");
    assert_eq!(all[2]["manager"]["pid"], std::process::id());
    let (_, out, _) = run(&["sessions", "list"]).await;
    assert!(out.lines().next().unwrap().starts_with("SESSION"), "{out}");
    assert_eq!(out.lines().count(), 4, "{out}");
    // One that is not named well enough.
    let (code, _, err) = run(&["sessions", "close", "both"]).await;
    assert_eq!(code, 2);
    assert!(
        err.contains("several managers have a session both") && err.contains("--manager"),
        "{err}"
    );
    let (code, _, err) = run(&["sessions", "close", "both", "--manager", manager.id()]).await;
    assert_eq!(code, 0, "{err}");
    assert!(both.is_closed());
    let (code, _, err) = run(&["sessions", "close", "mine"]).await;
    assert_eq!(
        (code, err.as_str()),
        (0, "warmcell: session mine is closed\n")
    );
    assert!(session.is_closed());
    let (code, _, err) = run(&["sessions", "close", "--all"]).await;
    assert_eq!(
        (code, err.as_str()),
        (0, "warmcell: session both is closed\n")
    );
    registry.shut_down().await;
    drop((door, run));
    Arc::into_inner(home).map(Home::end).unwrap().await;
}

#[tokio::test]
async fn sockets_of_managers_that_are_gone_are_swept() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    let doors = home.doors();
    let gone = doors.join("m-1-0123abcd.sock");
    drop(UnixListener::bind(&gone).unwrap());
    assert!(home.run(&["sessions"]).1.contains("a "));
    assert!(!gone.exists());
    home.ended_by(rustix::process::Signal::KILL).await;
    home.place.assert_no_survivors().await;
    let (code, out, err) = home.run(&["sessions"]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (0, "", "warmcell: no sessions\n")
    );
    assert!(!doors.exists());
    home.assert_nothing_left().await;
}

/// A server of another version: told in a sentence that names both, and `--stop` works.
#[tokio::test]
async fn a_server_of_another_version_is_told() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    let doors = home.doors();
    home.run(&["serve", "--stop"]);
    fs::create_dir_all(&doors).unwrap();
    fs::set_permissions(&doors, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(doors.join("server.sock")).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 65_536];
        let length = stream.read(&mut request).unwrap();
        let body = r#"{"error":"this is warmcell 0.1.0, the server that runs is 9.9.9 and holds 3 live sessions; `warmcell serve --stop` ends it","error_class":"unavailable","other_version":"9.9.9"}"#;
        write!(
            stream,
            "HTTP/1.1 409 Conflict\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let (code, _, err) = home.run(&["exec", "-s", "a", "1"]);
    assert_eq!(code, 125);
    assert!(
        err.contains("9.9.9") && err.contains("3 live sessions"),
        "{err}"
    );
    let request = answering.join().unwrap();
    assert!(request.contains(&format!("warmcell-version: {}", env!("CARGO_PKG_VERSION"))));
    fs::remove_dir_all(doors).unwrap();
    home.assert_nothing_left().await;
}
