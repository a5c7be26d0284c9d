//! Managers that do not answer: named, and in nobody's way.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::command_kit::{Running, piped};
use crate::lifecycle_support::{signal, written};
use crate::server_kit::{Home, ended};

/// All are asked at the same time: the sessions of the others are shown, and a sentence on stderr, or
/// an object in JSON, names each that does not answer, with what to do.
#[tokio::test]
async fn managers_that_do_not_answer_are_named_and_the_others_are_shown() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    // They take connections and never answer.
    let silent: Vec<_> = (0..5)
        .map(|number| {
            let path = home.doors().join(format!("m-{number}-0123abcd.sock"));
            UnixListener::bind(path).unwrap()
        })
        .collect();
    let own = std::process::id();
    let began = Instant::now();
    let (code, out, err) = home.run(&["sessions"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().any(|line| line.starts_with("a ")), "{out}");
    assert_eq!(err.lines().count(), 5, "{err}");
    for (number, line) in err.lines().enumerate() {
        assert!(
            line.contains(&format!("(process {own})"))
                && line.contains(&format!("m-{number}-0123abcd.sock"))
                && line.contains(&format!("kill -CONT {own}"))
                && line.contains(&format!("kill -9 {own}")),
            "{line}"
        );
    }
    let (_, out, _) = home.run(&["sessions", "list", "--json"]);
    let all: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 6, "{all}");
    assert_eq!(all[0]["name"], "a");
    assert_eq!(
        all[0]["manager"]["socket"],
        home.socket().display().to_string()
    );
    assert_eq!(all[1]["error_class"], "unavailable");
    assert_eq!(all[1]["manager"]["pid"], own);
    // One that is held by one who answers is found; one that is not may be with one who does not.
    assert_eq!(home.run(&["sessions", "show", "a"]).0, 0);
    let (code, _, err) = home.run(&["sessions", "show", "b"]);
    assert!(
        code == 125 && err.contains("does not answer"),
        "{code} {err}"
    );
    // A promise, not a measure: 2 s each.
    assert!(
        began.elapsed() < Duration::from_secs(16),
        "{:?}",
        began.elapsed()
    );
    drop(silent);
    let (_, _, err) = home.run(&["sessions"]);
    assert_eq!(err, "");
    home.end().await;
}

/// The cell stays here: it never runs, also not when the server goes on.
#[tokio::test]
async fn a_cell_for_a_server_that_is_stopped_never_runs() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let server = home.server();
    signal(server, Signal::STOP);
    let mark = home.place.work().join("mark");
    let code = format!("open({mark:?}, 'w')");
    let began = Instant::now();
    let (exit, out, _) = home.run(&["exec", "-s", "a", "--json", &code]);
    // A promise, not a measure: 5 s.
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((exit, &result["error_class"]), (125, &"unavailable".into()));
    let error = result["error"].as_str().unwrap();
    assert!(
        error.contains(&format!("the background server (process {server})"))
            && error.contains("the cell has not begun and will not")
            && error.contains(&format!("`kill -CONT {server}`")),
        "{error}"
    );
    // Ctrl-C ends the wait at once.
    let mut client = Running::start(piped(&mut home.command(&["exec", "-s", "a", &code])));
    client.catches(Signal::INT).await;
    signal(client.pid(), Signal::INT);
    assert_eq!(client.ended().await, Some(130));
    let (_, err) = client.printed();
    assert!(err.contains("interrupted"), "{err}");
    signal(server, Signal::CONT);
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    home.run(&["sessions", "wait", "a"]);
    assert!(!mark.exists());
    home.end().await;
}

/// One that is only slow is waited for.
#[tokio::test]
async fn a_server_that_goes_on_in_time_runs_the_cell() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let server = home.server();
    signal(server, Signal::STOP);
    let client = home.start(&["exec", "-s", "a", "x + 1"]);
    // Beyond the first question, which is answered then.
    tokio::time::sleep(Duration::from_secs(3)).await;
    signal(server, Signal::CONT);
    let (code, out, err) = ended(client);
    assert_eq!((code, out.as_str()), (0, "2\n"), "{err}");
    home.end().await;
}

/// A cell that was handed over: what became of it is not known, and that is what is said.
#[tokio::test]
async fn what_became_of_a_cell_that_was_handed_over_is_not_made_up() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    let socket = home.socket();
    home.run(&["serve", "--stop"]);
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(socket.parent().unwrap(), private).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let begun = home.place.work().join("begun");
    let serving = {
        let begun = begun.clone();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; 65_536];
            let mut asked = String::new();
            while !asked.contains("6 * 7") {
                let length = stream.read(&mut request).unwrap();
                asked += &String::from_utf8_lossy(&request[..length]);
            }
            fs::write(begun, "begun\n").unwrap();
            // To the end of the client; other questions stay unanswered.
            drop(stream.read(&mut request));
        })
    };
    let (code, _, err) = home.run(&["exec", "-s", "a", "6 * 7"]);
    written(&begun).await;
    assert_eq!(code, 125, "{err}");
    assert!(
        err.contains("does not answer") && err.contains("or it is interrupted"),
        "{err}"
    );
    serving.join().unwrap();
    fs::remove_dir_all(socket.parent().unwrap()).unwrap();
    home.assert_nothing_left().await;
}

/// Ctrl-C in a cell whose server has stopped since: told within seconds, and the cell is interrupted
/// when the server goes on.
#[tokio::test]
async fn ctrl_c_ends_the_wait_for_a_server_that_has_stopped() {
    let home = Home::new();
    let begun = home.place.work().join("begun");
    let code = format!(
        "import time; print('seen', flush=True); print('begun', file=open({begun:?}, 'w'), flush=True); \
         time.sleep(600)"
    );
    let mut client = Running::start(piped(
        &mut home.command(&["exec", "-s", "a", "--json", &code]),
    ));
    written(&begun).await;
    // What it had printed by then is on its way to the client once the server has answered others.
    for _ in 0..3 {
        home.state("a", "busy").await;
    }
    let server = home.server();
    signal(server, Signal::STOP);
    let began = Instant::now();
    signal(client.pid(), Signal::INT);
    // The interrupt has interrupted nothing that is known of.
    let code = client.ended().await;
    assert!(matches!(code, Some(125 | 130)), "{code:?}");
    // A promise, not a measure: 3 s, or 5 if it stopped only after it had taken the interrupt.
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let (out, err) = client.printed();
    let seen: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}"));
    // What was seen of it is not lost.
    let output = seen["output"].as_str().unwrap();
    assert!(output.starts_with("seen\n["), "{out}");
    assert!(output.contains(&format!("(process {server})")), "{out}");
    assert_eq!(seen["stdout_bytes_total"], 5, "{out}");
    assert_eq!(seen["kernel"]["state"], "lost", "{out}");
    assert_eq!(seen["kernel"]["reason"], "connection_lost", "{out}");
    assert_eq!(seen["kernel"]["execution_count"], 1, "{out}");
    signal(server, Signal::CONT);
    home.state("a", "idle").await;
    home.end().await;
}

/// A server that is stopped is told to go on, so that it ends in good order: atexit functions run.
#[tokio::test]
async fn stop_ends_a_server_that_is_stopped_in_good_order_and_says_how() {
    let home = Home::new();
    let mark = home.place.work().join("mark");
    let code = format!("import atexit; atexit.register(lambda: open({mark:?}, 'w'))");
    home.run(&["exec", "-s", "a", &code]);
    let server = home.server();
    signal(server, Signal::STOP);
    let began = Instant::now();
    let (code, _, err) = home.run(&["serve", "--stop"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains(&format!(
            "(process {server}) did not answer; it was ended by a signal"
        )),
        "{err}"
    );
    // A promise, not a measure: 3 s, and a second for the kernels.
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    assert!(mark.exists());
    home.assert_nothing_left().await;
}
