//! Who is asked for input over ZeroMQ, what is shown of secrets there, and whom a signal is for.

use std::process::Stdio;

use bytes::Bytes;
use serde_json::{Value, json};
use warmcell::bridge::read_connection;
use warmcell::jupyter::{SocketName, Transport};

use crate::command_kit::Running;
use crate::kernel_kit::{FrontEnd, Kernel, Wire, first_line, ipc};
use crate::support::Place;

/// A front end whose connections for cells and for input have one name, as Jupyter's have.
fn asked(kernel: &Kernel, name: &str) -> (FrontEnd, Wire) {
    let front_end = FrontEnd::new(&kernel.connection, name);
    let stdin = Wire::connect(&kernel.connection, SocketName::Stdin, name);
    (front_end, stdin)
}

fn asking(front_end: &mut FrontEnd, code: &str) -> String {
    let content = json!({ "code": code, "allow_stdin": true });
    front_end.request("execute_request", &content)
}

/// Sends an answer, whose content is as it is given.
fn answer(front_end: &mut FrontEnd, stdin: &mut Wire, content: &'static str) {
    let header = front_end.header("input_reply");
    let parts = [header.as_str(), "{}", "{}", content];
    let signature = front_end.signer.sign(parts.map(str::as_bytes));
    let mut frames = vec![Bytes::from_static(b"<IDS|MSG>"), Bytes::from(signature)];
    frames.extend(parts.map(|it| Bytes::from(it.to_owned())));
    stdin.send(&frames);
}

#[tokio::test]
async fn a_lone_surrogate_does_not_cost_the_rest_of_an_answer() {
    let kernel = Kernel::start();
    let (mut front_end, mut stdin) = asked(&kernel, "a");
    let cell = asking(&mut front_end, "print(ascii(input('p')))");
    stdin.frames();
    answer(&mut front_end, &mut stdin, r#"{"value":"abc\ud800def"}"#);
    front_end.reply_to(&cell);
    let texts: String = front_end
        .all_of(&cell)
        .iter()
        .map(crate::kernel_kit::Message::text)
        .collect();
    assert_eq!(texts, "'abc\\ufffddef'\n");
    kernel.close().await;
}

#[tokio::test]
async fn an_asker_that_goes_away_does_not_hold_the_others_up() {
    let kernel = Kernel::start();
    let mut other = FrontEnd::new(&kernel.connection, "other");
    let (mut gone, mut stdin) = asked(&kernel, "gone");
    let cell = asking(&mut gone, "input('p')");
    stdin.frames();
    drop((gone, stdin));
    // Its cell ends, as one that nobody answers.
    let ended = other.all_of(&cell);
    let error = ended.iter().find(|it| it.kind() == "error").unwrap();
    assert_eq!(error.content["ename"], "EOFError");
    assert_eq!(other.run("print(1)"), ("1\n".to_owned(), "ok".to_owned()));
    kernel.close().await;
}

#[tokio::test]
async fn prompts_help_completions_and_metadata_show_no_secret() {
    let kernel = Kernel::start();
    let (mut front_end, mut stdin) = asked(&kernel, "a");
    let masked = |content: &Value| {
        let text = content.to_string();
        assert!(
            !text.contains("0123456789abcdef") && text.contains("[redacted:"),
            "{text}"
        );
    };
    front_end.run("T = 'ghp_' + '0123456789abcdef' * 2\nd = {T: 1}");
    let cell = asking(&mut front_end, "input(T + ': ')");
    let frames = stdin.frames();
    masked(&front_end.read(frames).content);
    answer(&mut front_end, &mut stdin, r#"{"value":"1"}"#);
    front_end.reply_to(&cell);
    for (kind, content) in [
        (
            "inspect_request",
            json!({ "code": "T", "cursor_pos": 1, "detail_level": 0 }),
        ),
        (
            "complete_request",
            json!({ "code": "d['", "cursor_pos": 3 }),
        ),
    ] {
        let header = front_end.request(kind, &content);
        masked(&front_end.reply_to(&header).content);
    }
    let cell = front_end.execute("display({'text/plain': 'a'}, metadata={'x': T}, raw=True)");
    let shown = front_end.all_of(&cell);
    let shown = shown.iter().find(|it| it.kind() == "display_data").unwrap();
    masked(&shown.content);
    kernel.close().await;
}

/// The signal is sent before the reply is read, and so before the next cell is. It may be that the system
/// is slow to deliver it: then it cannot be told from one that came later, so of a hundred one may err.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_at_the_end_of_a_cell_is_not_for_the_next() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    front_end.run("import time");
    let mut hit = Vec::new();
    for round in 0..100_u64 {
        let cell = front_end.execute("time.sleep(0.003)");
        front_end.all_started(&cell);
        tokio::time::sleep(std::time::Duration::from_micros(40 * round)).await;
        kernel.signal(rustix::process::Signal::INT);
        front_end.reply_to(&cell);
        let (text, status) = front_end.run("print('kept')");
        if (text.as_str(), status.as_str()) != ("kept\n", "ok") {
            hit.push(round);
        }
    }
    assert!(hit.len() <= 1, "{hit:?}");
    kernel.close().await;
}

/// The request is there first; what it prints is seen all the same.
#[tokio::test]
async fn a_cell_that_is_sent_before_the_welcome_is_seen_whole() {
    let kernel = Kernel::start();
    for round in 0..20 {
        let name = format!("n{round}");
        // Connected to iopub, and no word said there yet.
        let mut silent = Wire::open(&kernel.connection, SocketName::Iopub);
        let mut shell = Wire::connect(&kernel.connection, SocketName::Shell, &name);
        let signer = kernel.connection.signer().unwrap();
        let header = format!(r#"{{"msg_id":"{name}","msg_type":"execute_request","session":"s"}}"#);
        let parts = [header.as_str(), "{}", "{}", r#"{"code":"print('seen')"}"#];
        let signature = signer.sign(parts.map(str::as_bytes));
        let mut frames = vec![Bytes::from_static(b"<IDS|MSG>"), Bytes::from(signature)];
        frames.extend(parts.map(|it| Bytes::from(it.to_owned())));
        shell.send(&frames);
        silent.shake_hands(SocketName::Iopub, "");
        silent.send(&[Bytes::from_static(b"\x01")]);
        let mut texts = String::new();
        while !texts.contains("idle") {
            let frames = silent.frames();
            texts.push_str(&String::from_utf8_lossy(frames.last().unwrap()));
        }
        assert!(texts.contains("seen"), "{texts}");
    }
    kernel.close().await;
}

/// A front end shows what cells say; who looks at its log sees it too.
#[tokio::test]
async fn a_python_that_does_not_start_is_told_on_stderr_and_by_cells_that_have_a_number() {
    let place = Place::new();
    let file = place.work().join("k.json");
    std::fs::write(&file, ipc("s").to_string()).unwrap();
    let mut command = place.warmcell(&["kernel", "--python", "/no/python", "-f"]);
    command.arg(&file).current_dir(place.work());
    let mut running = Running::start(command.stderr(Stdio::piped()));
    let line = first_line(&mut running.0);
    assert!(
        line.starts_with("warmcell: ") && line.contains("/no/python"),
        "{line}"
    );
    let mut connection = read_connection(&file).unwrap().unwrap();
    if let Transport::Ipc(prefix) = &mut connection.transport {
        *prefix = place.work().join(&prefix).display().to_string();
    }
    let mut front_end = FrontEnd::new(&connection, "a");
    let cell = front_end.execute("1");
    assert_eq!(front_end.reply_to(&cell).content["status"], "error");
    let told = front_end.all_of(&cell);
    let input = told.iter().find(|it| it.kind() == "execute_input").unwrap();
    assert_eq!(input.content["execution_count"], 0);
    crate::lifecycle_support::signal(running.pid(), rustix::process::Signal::TERM);
    running.ended().await;
    place.assert_no_survivors().await;
}
