//! `warmcell kernel` from its start to its end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use warmcell::bridge::read_connection;

use crate::command_kit::Running;
use crate::kernel_kit::{Kernel, command, first_line};
use crate::support::{Place, finish, text};

#[tokio::test]
async fn a_kernel_without_a_connection_file_makes_one_and_takes_it_away() {
    let kernel = Kernel::start();
    let mode = fs::metadata(&kernel.file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(kernel.connection.key.len(), 64);
    let mut front_end = kernel.front_end();
    assert_eq!(front_end.run("print(1)").0, "1\n");
    kernel.close().await;
}

#[tokio::test]
async fn a_shutdown_request_ends_the_kernel_and_everybody_is_told() {
    for restart in [false, true] {
        let kernel = Kernel::start();
        let mut front_end = kernel.front_end();
        front_end.run("import subprocess; p = subprocess.Popen(['sleep', '100'])");
        let asked = json!({ "restart": restart });
        let header = front_end.order("shutdown_request", &asked);
        let reply = front_end.answer();
        assert_eq!(reply.parent, header);
        assert_eq!(reply.kind(), "shutdown_reply");
        assert_eq!(reply.content, json!({ "status": "ok", "restart": restart }));
        let told = front_end.all_of(&header);
        let kinds: Vec<&str> = told.iter().map(crate::kernel_kit::Message::kind).collect();
        assert_eq!(kinds, ["status", "shutdown_reply", "status"]);
        assert_eq!(told[1].content, reply.content);
        // Clients take what they have seen already for a forgery.
        assert_ne!(told[1].header["msg_id"], reply.header["msg_id"]);
        assert_eq!(front_end.shell.item(), None);
        kernel.ended().await;
    }
}

#[tokio::test]
async fn an_interrupt_keeps_the_state_by_message_and_by_signal() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    front_end.run("x = 1");
    for by_signal in [false, true] {
        let header = front_end.execute("import time\nprint('on')\ntime.sleep(60)");
        while front_end.published().kind() != "stream" {}
        let began = Instant::now();
        if by_signal {
            kernel.signal(Signal::INT);
        } else {
            let order = front_end.order("interrupt_request", &json!({}));
            let answer = front_end.answer();
            assert_eq!(
                (answer.parent, answer.content),
                (order, json!({ "status": "ok" }))
            );
        }
        let reply = front_end.reply();
        assert_eq!(reply.parent, header);
        assert_eq!(reply.content["ename"], "KeyboardInterrupt");
        assert!(began.elapsed() < Duration::from_secs(3));
        // What comes behind the reply is no longer one of those that waited.
        let ran = front_end.run("print(x)");
        assert_eq!(ran, ("1\n".to_owned(), "ok".to_owned()));
    }
    // With nothing to interrupt it changes nothing.
    kernel.signal(Signal::INT);
    front_end.order("interrupt_request", &json!({}));
    front_end.answer();
    assert_eq!(
        front_end.run("print(x)"),
        ("1\n".to_owned(), "ok".to_owned())
    );
    kernel.close().await;
}

#[tokio::test]
async fn a_kernel_ends_with_the_front_end_that_has_started_it() {
    let place = Place::new();
    let mut parent = Running::start(place.command("/bin/sleep").arg("1000"));
    let file = place.work().join("k.json");
    let mut command = command(&place, &file);
    let mut child = command
        .env("JPY_PARENT_PID", parent.pid().to_string())
        .spawn()
        .unwrap();
    first_line(&mut child);
    let mut kernel = Running(child);
    let connection = read_connection(&file).unwrap().unwrap();
    let mut front_end = crate::kernel_kit::FrontEnd::new(&connection, "a");
    front_end.execute("import time; time.sleep(100)");
    crate::lifecycle_support::signal(parent.pid(), Signal::KILL);
    parent.ended().await;
    assert_eq!(kernel.ended().await, Some(0));
    place.assert_no_survivors().await;

    // One that is gone already is nobody to work for.
    let mut late = self::command(&place, &file);
    late.env("JPY_PARENT_PID", parent.pid().to_string());
    let output = finish(&mut late);
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output.stderr);
    assert!(
        said.contains("JPY_PARENT_PID") && said.contains("is gone"),
        "{said}"
    );
}

#[tokio::test]
async fn a_killed_kernel_leaves_no_process() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    front_end
        .run("import subprocess; p = subprocess.Popen(['sleep', '100'], start_new_session=True)");
    kernel.signal(Signal::KILL);
    kernel.place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_kernel_whose_python_dies_says_so_and_has_another() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let header = front_end.execute("import os; os._exit(3)");
    let reply = front_end.reply();
    assert_eq!(reply.parent, header);
    assert_eq!(reply.content["status"], "error");
    assert_eq!(reply.content["ename"], "DeadKernelError");
    front_end.all_of(&header);
    let (text, status) = front_end.run("print(4)");
    assert!(
        text.starts_with("4\n[new kernel: the previous one was lost"),
        "{text}"
    );
    assert_eq!(status, "ok");
    kernel.close().await;
}

#[tokio::test]
async fn unix_sockets_carry_a_kernel_too() {
    let place = Place::new();
    let prefix = place.work().join("sock");
    let file = place.work().join("k.json");
    let connection = json!({
        "transport": "ipc", "ip": prefix, "key": "", "signature_scheme": "hmac-sha256",
        "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5,
    });
    fs::write(&file, connection.to_string()).unwrap();
    let mut kernel = Running::start(command(&place, &file).stderr(Stdio::inherit()));
    let socket = place.work().join("sock-5");
    crate::lifecycle_support::until("a socket", || socket.exists()).await;
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    crate::lifecycle_support::signal(kernel.pid(), Signal::TERM);
    assert_eq!(kernel.ended().await, Some(0));
    assert!(!socket.exists());
    assert!(file.exists(), "the file was the front end's");
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn what_cannot_be_done_is_said_in_a_sentence_with_its_code() {
    let kernel = Kernel::start();
    let place = Place::new();
    let file = place.work().join("k.json");
    let refused = |content: &str| {
        fs::write(&file, content).unwrap();
        let output = finish(&mut command(&place, &file));
        (output.status.code().unwrap(), text(&output.stderr))
    };
    for (content, sentence) in [
        ("", "is no JSON object"),
        ("{}", "key is missing"),
        (
            r#"{"key":"a","signature_scheme":"hmac-md5"}"#,
            "signature_scheme \"hmac-md5\"",
        ),
        (r#"{"key":"a","shell_port":0}"#, "shell_port is 0"),
    ] {
        let (code, said) = refused(content);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(sentence) && said.contains("k.json"), "{said}");
    }
    let (code, said) = refused(&kernel.connection.to_json());
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("shell_port"), "{said}");
    place.assert_no_survivors().await;
    kernel.close().await;
}

#[tokio::test]
async fn the_session_of_a_kernel_is_found_like_any_other() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    front_end.run("x = 1");
    let output = finish(&mut kernel.place.warmcell(&["sessions", "--json"]));
    let sessions: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sessions[0]["name"], "k");
    assert_eq!(sessions[0]["manager"]["kind"], "kernel");
    // Closing it ends the kernel.
    let output = finish(&mut kernel.place.warmcell(&["sessions", "close", "k"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    kernel.ended().await;
}

#[tokio::test]
async fn secrets_of_the_front_end_do_not_reach_cells() {
    let kernel = Kernel::start_as(|command| {
        command.env("MY_API_TOKEN", "5ecret");
    });
    let mut front_end = kernel.front_end();
    let code = "import os\nprint('MY_API_TOKEN' in os.environ, 'HOME' in os.environ)";
    assert_eq!(front_end.run(code).0, "False True\n");
    let environ = format!("/proc/{}/environ", kernel.process.pid());
    let environment = fs::read(environ).unwrap();
    assert!(!text(&environment).contains("5ecret"));
    kernel.close().await;
}
