//! The life of the background server: how it starts, and every way in which it ends.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::lifecycle_support::{signal, until, written};
use crate::server_kit::{Home, ended, parts};
use crate::support::finish;

/// A cell that leaves a child, a child in a session of its own and a daemon, says so, and goes on.
fn with_daemons(begun: &std::path::Path) -> String {
    format!(
        "import os, subprocess, time\n\
         subprocess.Popen(['sleep', '600'])\n\
         subprocess.Popen(['sleep', '600'], start_new_session=True)\n\
         if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)\n\
         print('begun', file=open({begun:?}, 'w'), flush=True)\n\
         time.sleep(600)"
    )
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_nothing_and_the_next_says_what_is_lost() {
    let home = Home::new();
    let mut clients = Vec::new();
    for number in 0..5 {
        let name = format!("busy-{number}");
        home.run(&["exec", "-s", &name, "precious = [1]"]);
        let begun = home.place.work().join(&name);
        clients.push(home.start(&["exec", "-s", &name, &with_daemons(&begun)]));
        written(&begun).await;
    }
    home.ended_by(Signal::KILL).await;
    for client in clients {
        let (code, _, err) = ended(client);
        assert_eq!(code, 125, "{err}");
        // In the first 5 ms of a cell its client does not know yet that it has begun.
        let known = [
            "how the cell ended is not known",
            "whether the cell ran is not known",
        ];
        assert!(known.iter().any(|it| err.contains(it)), "{err}");
    }
    home.place.assert_no_survivors().await;
    let notes: Vec<_> = fs::read_dir(home.place.home().join("warmcell/sessions"))
        .unwrap()
        .flatten()
        .map(|entry| (entry.file_name(), fs::read_to_string(entry.path())))
        .collect();
    let result = home.json("busy-3", "1");
    assert_eq!(
        result["kernel"]["reason"], "manager_restarted",
        "{result} {notes:?}"
    );
    assert_eq!(result["kernel"]["lost"]["names"][0]["name"], "precious");
    assert!(
        result["output"]
            .as_str()
            .unwrap()
            .starts_with("[new kernel: the previous one was lost (manager_restarted"),
        "{result}"
    );
    home.end().await;
}

#[tokio::test]
async fn a_server_that_is_told_to_end_gives_its_clients_their_results() {
    for number in [Signal::TERM, Signal::INT, Signal::HUP] {
        let home = Home::new();
        let begun = home.place.work().join("begun");
        let client = home.start(&["exec", "-s", "a", "--json", &with_daemons(&begun)]);
        written(&begun).await;
        home.run(&["exec", "-s", "idle", "1"]);
        let began = Instant::now();
        signal(home.server(), number);
        let (code, out, err) = ended(client);
        assert_eq!(code, 130, "{err}");
        let result: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(result["status"], "interrupted");
        assert_eq!(result["kernel"]["state"], "lost");
        home.assert_nothing_left().await;
        // A promise, not a measure: 2 s.
        assert!(
            began.elapsed() < Duration::from_secs(4),
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn serve_runs_in_the_foreground_and_there_is_one_at_most() {
    let home = Home::new();
    let mut first = home.start(&["serve"]);
    until("a door", || home.has_door()).await;
    assert_eq!(home.server(), first.id());
    let (code, _, err) = home.run(&["serve"]);
    assert_eq!(code, 125);
    assert!(
        err.contains(&format!(
            "a background server runs already (process {})",
            first.id()
        )),
        "{err}"
    );
    // Clients use the one that is there.
    assert_eq!(home.run(&["exec", "-s", "a", "6 * 7"]).1, "42\n");
    assert_eq!(home.server(), first.id());
    let (code, _, err) = home.run(&["serve", "--stop"]);
    assert_eq!(code, 0);
    assert_eq!(
        err,
        "warmcell: the background server and its session have ended\n"
    );
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let (code, _, err) = home.run(&["serve", "--stop"]);
    assert_eq!(
        (code, err.as_str()),
        (0, "warmcell: no background server runs\n")
    );
    home.assert_nothing_left().await;
}

#[tokio::test]
async fn stop_ends_a_server_that_does_not_answer() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    let server = home.server();
    signal(server, Signal::STOP);
    let stopping = home.start(&["serve", "--stop"]);
    let (code, _, err) = ended(stopping);
    assert_eq!(code, 0, "{err}");
    home.place.assert_no_survivors().await;
    // The socket that it has left is in nobody's way.
    assert_eq!(home.run(&["exec", "-s", "a", "2"]).1, "2\n");
    home.end().await;
}

#[tokio::test]
async fn a_server_without_kernels_ends_by_itself() {
    let home = Home::new();
    let mut server = home.start(&["serve", "--idle-exit", "1"]);
    until("a door", || home.has_door()).await;
    home.run(&["exec", "-s", "a", "1"]);
    home.run(&["sessions", "close", "a"]);
    assert_eq!(server.wait().unwrap().code(), Some(0));
    home.assert_nothing_left().await;
    // The next call starts another.
    assert_eq!(home.run(&["exec", "-s", "a", "3"]).1, "3\n");
    home.end().await;
}

/// While servers come and go, every call gets its answer, and no cell runs twice.
#[tokio::test]
async fn calls_while_servers_come_and_go_get_their_answers() {
    let home = Home::new();
    let log = home.place.work().join("log");
    let code = format!("open({log:?}, 'a').write('x\\n')");
    let mut answers = 0;
    for round in 0..6 {
        let children: Vec<_> = (0..6)
            .map(|n| home.start(&["exec", "-s", &format!("s{n}"), &code]))
            .collect();
        if round % 2 == 0 {
            home.run(&["serve", "--stop"]);
        }
        for child in children {
            let (code, _, err) = ended(child);
            match code {
                0 => answers += 1,
                // It had begun, or the server ended as it came in.
                125 | 130 => {}
                other => panic!("{other}: {err}"),
            }
        }
    }
    let ran = fs::read_to_string(&log).unwrap().lines().count();
    assert!(
        answers > 0 && ran >= answers && ran <= 36,
        "{answers} of {ran}"
    );
    home.end().await;
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let home = Home::new();
    // No folder for the door: the runtime folder and the home are files.
    let file = home.place.work().join("file");
    fs::write(&file, "").unwrap();
    let mut command = home.command(&["exec", "-s", "a", "1"]);
    command
        .env("XDG_RUNTIME_DIR", &file)
        .env("HERMES_HOME", file.join("x"));
    let (code, _, _) = parts(&finish(&mut command));
    // The system's temporary folder still serves.
    assert_eq!(code, 0);
    let mut command = home.command(&["serve", "--stop"]);
    command
        .env("XDG_RUNTIME_DIR", &file)
        .env("HERMES_HOME", file.join("x"));
    assert_eq!(parts(&finish(&mut command)).0, 0);
    // A Python that does not start.
    let (code, _, err) = home.run(&["exec", "-s", "a", "--python", "/bin/false", "1"]);
    assert_eq!(code, 125, "{err}");
    assert!(err.contains("/bin/false"), "{err}");
    home.end().await;
}

/// The result that came as the server ended has told the loss: the next server does not tell it again.
#[tokio::test]
async fn a_loss_that_was_received_as_the_server_ended_is_not_told_again() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "z = 1"]);
    let begun = home.place.work().join("begun");
    let code = format!("open({begun:?}, 'w').write('x\\n')\nimport time; time.sleep(600)");
    let client = home.start(&["exec", "-s", "a", "--json", &code]);
    written(&begun).await;
    signal(home.server(), Signal::TERM);
    let (code, out, err) = ended(client);
    assert_eq!(code, 130, "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["kernel"]["reason"], "session_closed");
    assert_eq!(result["kernel"]["lost"]["names"][0]["name"], "z");
    let next = home.json("a", "1");
    assert_eq!(next["kernel"]["reason"], "manager_restarted", "{next}");
    assert_eq!(next["kernel"].get("lost"), None, "{next}");
    home.end().await;
}
