//! `exec -s` where another manager than the background server holds the session.

use rustix::process::Signal;
use serde_json::Value;

use crate::command_kit::Running;
use crate::kernel_kit::{Kernel, first_line};
use crate::lifecycle_support::{signal, until};
use crate::server_kit::parts;
use crate::support::{finish, python, text};

fn exec(kernel: &Kernel, words: &[&str]) -> (i32, String, String) {
    let mut command = kernel.place.warmcell(&["exec", "-s"]);
    command.args(words);
    let path = format!(
        "{}:{}",
        python().parent().unwrap().display(),
        kernel.place.environment()["PATH"]
    );
    parts(&finish(command.env("PATH", path)))
}

fn sessions(kernel: &Kernel) -> Vec<(String, String)> {
    let output = finish(&mut kernel.place.warmcell(&["sessions", "--json"]));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let one = |it: &Value| {
        let text = |key: &str| it.pointer(key).unwrap().as_str().unwrap().to_owned();
        (text("/name"), text("/manager/kind"))
    };
    all.as_array().unwrap().iter().map(one).collect()
}

fn stop(kernel: &Kernel) {
    let stopped = finish(&mut kernel.place.warmcell(&["serve", "--stop"]));
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
}

#[tokio::test]
async fn a_cell_runs_in_the_manager_that_holds_its_session() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    front_end.run("x = 7");
    let (code, out, err) = exec(&kernel, &["k", "y = x + 1; y"]);
    assert_eq!((code, out.as_str()), (0, "8\n"), "{err}");
    assert!(!err.contains("is new"), "{err}");
    assert_eq!(sessions(&kernel), [("k".to_owned(), "kernel".to_owned())]);
    assert_eq!(front_end.run("print(y)").0, "8\n");
    // Detached, and waited for.
    let (code, out, _) = exec(&kernel, &["k", "--detach", "--json", "z = 9; z"]);
    assert_eq!(code, 0);
    let running: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(running["status"], "running");
    let waited = finish(&mut kernel.place.warmcell(&["sessions", "wait", "k"]));
    assert_eq!(text(&waited.stdout), "9\n");
    // What is refused says what is there.
    let (code, out, _) = exec(&kernel, &["k", "--json", "--tools", "nope", "1"]);
    let refused: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &refused["kernel"]["state"]), (2, &"kept".into()));
    // Another name is one of the background server's.
    let (code, out, err) = exec(&kernel, &["other", "'x' in dir()"]);
    assert_eq!((code, out.as_str()), (0, "False\n"), "{err}");
    assert!(err.contains("session other is new"), "{err}");
    stop(&kernel);
    kernel.close().await;
}

/// A front end's kernel that comes later, and one that is started by hand, do not take a name twice
/// without a word.
#[tokio::test]
async fn a_name_that_several_managers_hold_is_refused_with_who_they_are() {
    let kernel = Kernel::start();
    let (code, _, err) = exec(&kernel, &["s", "1"]);
    assert_eq!(code, 0, "{err}");
    let file = kernel.place.work().join("s.json");
    // By hand: it has a name of its own.
    let mut second = crate::kernel_kit::command(&kernel.place, &file);
    let mut child = second.spawn().unwrap();
    let line = first_line(&mut child);
    let mut child = Running(child);
    let own = format!("kernel-{}", child.pid());
    assert!(line.contains(&own) && line.contains("called s"), "{line}");
    until("its session", || {
        sessions(&kernel).iter().any(|(name, _)| *name == own)
    })
    .await;
    signal(child.pid(), Signal::TERM);
    assert_eq!(child.ended().await, Some(0));

    // From a front end: it has the name of its file.
    std::fs::write(&file, kernel_file(&kernel)).unwrap();
    let mut child = Running(second.spawn().unwrap());
    until("its session", || sessions(&kernel).len() == 3).await;
    for words in [&["s", "2"][..], &["s", "--json", "2"]] {
        let (code, out, err) = exec(&kernel, words);
        let said = format!("{out}{err}");
        assert_eq!(code, 2, "{said}");
        assert!(
            said.contains("several managers have a session s: ")
                && said.contains(&format!("process {}", child.pid()))
                && said.contains("(server, process "),
            "{said}"
        );
    }
    signal(child.pid(), Signal::TERM);
    assert_eq!(child.ended().await, Some(0));
    let (code, out, err) = exec(&kernel, &["s", "3"]);
    assert_eq!((code, out.as_str()), (0, "3\n"), "{err}");
    stop(&kernel);
    kernel.close().await;
}

/// A connection file as a front end makes one, over Unix sockets.
fn kernel_file(kernel: &Kernel) -> String {
    serde_json::json!({
        "transport": "ipc", "ip": kernel.place.work().join("sock"), "key": "",
        "signature_scheme": "hmac-sha256", "shell_port": 1, "iopub_port": 2, "stdin_port": 3,
        "control_port": 4, "hb_port": 5,
    })
    .to_string()
}

#[tokio::test]
async fn a_manager_that_does_not_answer_keeps_new_names_closed_and_no_other() {
    let kernel = Kernel::start();
    let (code, _, err) = exec(&kernel, &["s", "x = 1"]);
    assert_eq!(code, 0, "{err}");
    kernel.signal(Signal::STOP);
    // The background server has this one.
    let (code, out, err) = exec(&kernel, &["s", "x"]);
    assert_eq!((code, out.as_str()), (0, "1\n"), "{err}");
    let (code, _, err) = exec(&kernel, &["new", "1"]);
    assert_eq!(code, 125, "{err}");
    assert!(
        err.contains(&format!("process {}", kernel.process.pid()))
            && err.contains("no other one is opened")
            && err.contains("kill -CONT"),
        "{err}"
    );
    kernel.signal(Signal::CONT);
    let (code, out, err) = exec(&kernel, &["new", "2"]);
    assert_eq!((code, out.as_str()), (0, "2\n"), "{err}");
    stop(&kernel);
    kernel.close().await;
}
