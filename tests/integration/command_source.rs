//! `warmcell exec` while it waits for the code of its cells: a signal ends it, and nothing is left.

use std::fs::File;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::command_kit::{Running, assert_nothing_left, fifo, piped};
use crate::lifecycle_support::signal;
use crate::support::Place;

/// What the code is awaited from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum From {
    /// A pipe that nobody writes to, named by these arguments.
    Stdin(&'static [&'static str]),
    /// A FIFO that nobody has opened for writing.
    Unopened,
    /// A FIFO with a writer that writes nothing.
    Silent,
    /// The same behind a file that is whole.
    Second,
}

async fn interrupted(from: From, number: Signal, json: bool) {
    let place = Place::new();
    let fifo = fifo(&place, "code");
    std::fs::write(place.work().join("whole.py"), "print('ran')").unwrap();
    let mut arguments = match from {
        From::Stdin(arguments) => arguments.to_vec(),
        From::Unopened | From::Silent => vec!["-f", fifo.as_str()],
        From::Second => vec!["-f", "whole.py", "-f", fifo.as_str()],
    };
    if json {
        arguments.push("--json");
    }
    // Opened for both, so that it does not wait for the other side itself.
    let writer = (from == From::Silent).then(|| {
        let mut options = File::options();
        options.read(true).write(true).open(&fifo).unwrap()
    });
    let mut command = place.exec(&arguments);
    let mut child = Running::start(piped(&mut command).stdin(Stdio::piped()));
    child.catches(number).await;
    signal(child.pid(), number);
    assert_eq!(child.ended().await, Some(130), "{from:?} {number:?}");
    let (out, err) = child.printed();
    if json {
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(told["status"], "interrupted", "{told}");
        assert_eq!(told["error_class"], "interrupted", "{told}");
        assert_eq!(err, "");
    } else {
        assert_eq!(out, "");
        let sentence = "warmcell: interrupted while the code was read; no cell was run\n";
        assert_eq!(err, sentence);
    }
    assert_nothing_left(&place).await;
    drop(writer);
}

#[tokio::test]
async fn a_signal_ends_the_wait_for_code() {
    let waits = [
        From::Stdin(&[]),
        From::Stdin(&["-"]),
        From::Stdin(&["-f", "-"]),
        From::Unopened,
        From::Silent,
        From::Second,
    ];
    let mut runs = JoinSet::new();
    for from in waits {
        for number in [Signal::INT, Signal::TERM, Signal::HUP] {
            runs.spawn(interrupted(from, number, false));
        }
    }
    runs.spawn(interrupted(From::Stdin(&["-"]), Signal::INT, true));
    runs.spawn(interrupted(From::Unopened, Signal::INT, true));
    runs.join_all().await;
}

/// Code that comes late, and in pieces, is run.
#[tokio::test]
async fn code_that_comes_late_is_run() {
    let place = Place::new();
    let fifo = fifo(&place, "code");
    let mut command = place.exec(&["-f", &fifo, "-f", "-"]);
    let mut child = Running::start(piped(&mut command).stdin(Stdio::piped()));
    child.catches(Signal::INT).await;
    tokio::fs::write(&fifo, "x = 41").await.unwrap();
    let mut stdin = child.0.stdin.take().unwrap();
    for piece in ["print(", "x + 1)"] {
        std::io::Write::write_all(&mut stdin, piece.as_bytes()).unwrap();
    }
    drop(stdin);
    assert_eq!(child.ended().await, Some(0));
    assert_eq!(child.printed(), ("42\n".to_owned(), String::new()));
    assert_nothing_left(&place).await;
}
