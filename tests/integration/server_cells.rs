//! `exec -s`: cells in sessions that outlive the command.

use std::process::Stdio;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::lifecycle_support::{signal, until, written};
use crate::server_kit::{Home, ended};

#[tokio::test]
async fn state_outlives_the_command() {
    let home = Home::new();
    let (code, out, err) = home.run(&["exec", "-s", "a", "import math; x = math.tau"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert_eq!(
        err,
        "warmcell: session a is new; it lives on in the background (`warmcell sessions close a` ends it)\n"
    );
    let (code, out, err) = home.run(&["exec", "-s", "a", "x"]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (0, "6.283185307179586\n", "")
    );
    // The environment may name the session.
    let output = home
        .command(&["exec", "x / 2"])
        .env("WARMCELL_SESSION", "a")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"3.141592653589793\n");
    let result = home.json("a", "print('é\\ud800'.encode('utf-8', 'replace')); 1/0");
    assert_eq!(result["status"], "error");
    assert_eq!(result["exit_code"], 1);
    assert_eq!(result["kernel"]["state"], "kept");
    assert_eq!(result["kernel"]["execution_count"], 4);
    assert_eq!(
        result["error"],
        "ZeroDivisionError: division by zero (<cell 4>, line 1)"
    );
    // Bytes are what they were.
    let output = home
        .command(&["exec", "-s", "a", "import os; os.write(1, b'\\xff\\xc3'); os.write(1, b'\\xa9\\n'); print('e', file=__import__('sys').stderr)"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"\xff\xc3\xa9\n");
    assert_eq!(output.stderr, b"e\n");
    home.end().await;
}

/// The server is not where its client is.
#[tokio::test]
async fn a_relative_home_is_the_callers() {
    let home = Home::new();
    let mut command = home.command(&["exec", "-s", "a", "1"]);
    command
        .env("HERMES_HOME", "home")
        .current_dir(home.place.folder.path());
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"1\n", "{output:?}");
    // By its other name it is the same.
    assert_eq!(home.run(&["sessions"]).1.lines().count(), 2);
    home.end().await;
}

#[tokio::test]
async fn fifty_at_once_start_one_server_and_one_kernel() {
    let home = Home::new();
    let code = "n = globals().get('n', 0) + 1; import os; print(n, os.getpid())";
    let children: Vec<_> = (0..50)
        .map(|_| home.start(&["exec", "-s", "a", code]))
        .collect();
    let mut numbers = Vec::new();
    let mut kernels = std::collections::BTreeSet::new();
    let mut busy = 0;
    let mut announced = 0;
    for child in children {
        let (code, out, err) = ended(child);
        announced += usize::from(err.contains("session a is new"));
        if code == 125 {
            assert!(
                err.contains("32 cells wait for this session already"),
                "{err}"
            );
            busy += 1;
            continue;
        }
        assert_eq!(code, 0, "{err}");
        let (number, kernel) = out.trim().split_once(' ').unwrap();
        numbers.push(number.parse::<usize>().unwrap());
        kernels.insert(kernel.to_owned());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=50 - busy).collect::<Vec<_>>());
    assert_eq!(kernels.len(), 1);
    assert_eq!(announced, 1);
    home.end().await;
}

#[tokio::test]
async fn a_row_of_cells_stops_at_the_first_that_fails_and_the_session_stays() {
    let home = Home::new();
    let work = home.place.work();
    std::fs::write(work.join("a.py"), "a = 1").unwrap();
    std::fs::write(work.join("b.py"), "import sys; sys.exit(7)").unwrap();
    let (code, _, err) = home.run(&["exec", "-s", "r", "-f", "a.py", "-f", "b.py", "-f", "a.py"]);
    assert_eq!(code, 7, "{err}");
    assert!(err.contains("1 further cell was not run"), "{err}");
    let (code, out, _) = home.run(&["exec", "-s", "r", "--reset", "'a' in dir()"]);
    assert_eq!((code, out.as_str()), (0, "False\n"));
    let result = home.json("r", "1");
    assert_eq!(result["kernel"]["generation"], 2);
    home.end().await;
}

#[tokio::test]
async fn a_cell_goes_on_without_its_caller_and_its_result_waits() {
    let home = Home::new();
    let go = home.place.work().join("go");
    let code = format!(
        "import time, os\nprint('begin', flush=True)\nwhile not os.path.exists({go:?}): time.sleep(0.01)\nprint('end'); 5"
    );
    let (status, out, err) = home.run(&["exec", "-s", "d", "--detach", "--json", &code]);
    assert_eq!(status, 0, "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["status"], "running");
    assert_eq!(result.get("exit_code"), None);
    home.state("d", "busy").await;
    // Whoever gives up waiting loses nothing.
    let (status, out, _) = home.run(&["sessions", "wait", "d", "--timeout", "0.2", "--json"]);
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &result["status"]), (0, &Value::from("running")));
    assert!(
        result["output"]
            .as_str()
            .unwrap()
            .starts_with("begin\n[still running after ")
    );
    let mut given_up = home.start(&["sessions", "wait", "d"]);
    given_up.kill().unwrap();
    given_up.wait().unwrap();
    std::fs::write(&go, "").unwrap();
    let (status, out, _) = home.run(&["sessions", "wait", "d"]);
    assert_eq!((status, out.as_str()), (0, "begin\nend\n5\n"));
    let (status, out, _) = home.run(&["sessions", "wait", "d"]);
    assert_eq!((status, out.as_str()), (0, ""));
    let (status, _, err) = home.run(&["exec", "--detach", "1"]);
    assert_eq!(status, 2);
    assert!(err.contains("--detach needs a session"), "{err}");
    home.end().await;
}

#[tokio::test]
async fn ctrl_c_interrupts_the_cell_and_a_client_that_is_killed_does_too() {
    let home = Home::new();
    home.run(&["exec", "-s", "i", "precious = 1"]);
    let loops = |name: &str| {
        let path = home.place.work().join(name);
        let code =
            format!("print('begun', file=open({path:?}, 'w'), flush=True)\nwhile True: pass");
        (path, code)
    };
    let (begun, code) = loops("first");
    let child = home.start(&["exec", "-s", "i", &code]);
    written(&begun).await;
    signal(child.id(), Signal::INT);
    let (status, _, err) = ended(child);
    assert_eq!(status, 130, "{err}");
    assert!(err.contains("1 cell and precious are lost"), "{err}");
    // Nobody receives the next loss, so the next caller is told.
    home.run(&["exec", "-s", "i", "treasure = 1"]);
    let (begun, code) = loops("second");
    let mut child = home.start(&["exec", "-s", "i", &code]);
    written(&begun).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let result = home.json("i", "2");
    assert_eq!(result["kernel"]["reason"], "interrupt");
    assert_eq!(result["kernel"]["lost"]["names"][0]["name"], "treasure");
    assert_eq!(result["kernel"]["generation"], 3);
    home.end().await;
}

/// A waiting cell whose caller went away never runs.
#[tokio::test]
async fn a_waiting_cell_whose_caller_has_gone_does_not_run() {
    let home = Home::new();
    let [begun, go, ran] = ["begun", "go", "ran"].map(|name| home.place.work().join(name));
    let first = format!(
        "import time, os\nprint('x', file=open({begun:?}, 'w'), flush=True)\nwhile not os.path.exists({go:?}): time.sleep(0.01)"
    );
    let first = home.start(&["exec", "-s", "w", &first]);
    written(&begun).await;
    let mut second = home.start(&["exec", "-s", "w", &format!("open({ran:?}, 'w')")]);
    until("a cell that waits", || {
        let (_, out, _) = home.run(&["sessions", "--json"]);
        let all: Value = serde_json::from_str(&out).unwrap();
        all[0]["waiting"] == 1
    })
    .await;
    second.kill().unwrap();
    second.wait().unwrap();
    until("nobody that waits", || {
        let (_, out, _) = home.run(&["sessions", "--json"]);
        let all: Value = serde_json::from_str(&out).unwrap();
        all[0]["waiting"] == 0
    })
    .await;
    std::fs::write(&go, "").unwrap();
    assert_eq!(ended(first).0, 0);
    assert_eq!(home.json("w", "1")["kernel"]["execution_count"], 2);
    assert!(!ran.exists());
    home.end().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_usage() {
    let home = Home::new();
    let long = "x".repeat(300);
    for name in ["a/..", "../a", "a/b/c", "", ".hidden", "a b", "é", &long] {
        for arguments in [
            vec!["exec", "-s", name, "1"],
            vec!["sessions", "show", name],
            vec!["sessions", "close", name],
        ] {
            let (code, out, err) = home.run(&arguments);
            assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
            assert!(err.contains("use 1 to 64 of"), "{err}");
        }
    }
    // Nothing was started for it.
    let (code, out, err) = home.run(&["sessions"]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (0, "", "warmcell: no sessions\n")
    );
    let (code, _, err) = home.run(&["sessions", "show", "none"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no session none"), "{err}");
    let (code, out, _) = home.run(&["sessions", "interrupt", "none", "--json"]);
    assert_eq!(code, 2);
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap()["error_class"],
        "usage"
    );
    let (code, out, _) = home.run(&["exec", "-s", "e", "--json", "  "]);
    assert_eq!(code, 2);
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap()["error_class"],
        "usage"
    );
    home.end().await;
}

#[tokio::test]
async fn a_reader_that_is_slow_gets_everything_that_is_printed() {
    let home = Home::new();
    let code = "for n in range(200_000): print(n, 'x' * 40)";
    let mut child = home
        .command(&["exec", "-s", "f", code])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let mut slow = std::io::BufReader::with_capacity(4096, child.stdout.take().unwrap());
    // The command has its output, more than any queue holds, before anybody reads.
    until("the end of the cell", || {
        let (_, out, _) = home.run(&["sessions", "--json"]);
        let all: Value = serde_json::from_str(&out).unwrap_or_default();
        all[0]["cells"] == 1
    })
    .await;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut slow, &mut bytes).unwrap();
    assert!(child.wait().unwrap().success());
    let expected: usize = (0..200_000_u32).map(|n| n.to_string().len() + 42).sum();
    assert_eq!(bytes.len(), expected, "after {:?}", began.elapsed());
    home.end().await;
}
