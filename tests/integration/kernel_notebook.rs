//! What front ends of notebooks see of cells beside their values.

use serde_json::{Value, json};
use warmcell::jupyter::SocketName;

use crate::kernel_kit::{FrontEnd, Kernel, Message, Wire};

/// The texts of its stream messages.
fn texts(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .filter(|it| it.kind() == "stream")
        .map(|it| it.content["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Runs a cell: the content of its reply, and all that is published.
fn run(front_end: &mut FrontEnd, code: &str) -> (Value, Vec<Message>) {
    let header = front_end.execute(code);
    let reply = front_end.reply();
    assert_eq!(reply.parent, header);
    (reply.content, front_end.all_of(&header))
}

#[tokio::test]
async fn text_stands_before_the_display_and_the_question_that_come_after_it() {
    let kernel = Kernel::start();
    let mut front_end = FrontEnd::new(&kernel.connection, "a");
    let mut stdin = Wire::connect(&kernel.connection, SocketName::Stdin, "a");
    let code = "print('a', end='')\ndisplay(1)\nprint('b')\nx = input('? ')\nprint(x)";
    let content = json!({ "code": code, "allow_stdin": true });
    let header = front_end.request("execute_request", &content);
    let frames = stdin.frames();
    assert_eq!(front_end.read(frames).kind(), "input_request");
    let mut before = Vec::new();
    while before.len() < 5 {
        before.push(front_end.published());
    }
    let kinds: Vec<&str> = before.iter().map(Message::kind).collect();
    assert_eq!(
        kinds,
        [
            "status",
            "execute_input",
            "stream",
            "display_data",
            "stream"
        ]
    );
    assert_eq!(texts(&before), ["a", "b\n"]);
    let reply = front_end.header("input_reply");
    let frames = front_end.frames(&reply, &json!({ "value": "c" }));
    stdin.send(&frames);
    assert_eq!(texts(&front_end.all_of(&header)), ["c\n"]);
    kernel.close().await;
}

#[tokio::test]
async fn exit_and_quit_ask_the_front_end_to_end() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let mut leaves = None;
    for (code, asks) in [
        ("x = 1", false),
        ("exit", true),
        ("quit", true),
        ("exit()", true),
        ("def f(): quit()\nf()", true),
        ("[exit]", false),
        ("print(x)", false),
    ] {
        let (reply, _) = run(&mut front_end, code);
        assert_eq!(reply["status"], "ok", "{code}");
        let payload = reply["payload"].as_array().unwrap();
        assert_eq!(payload.len(), usize::from(asks), "{code}");
        if let Some(payload) = payload.first() {
            assert_eq!(payload["source"], "ask_exit", "{code}");
            assert_eq!(leaves.get_or_insert(payload.clone()), payload, "{code}");
        }
    }
    kernel.close().await;
}

#[tokio::test]
async fn a_hint_stands_behind_the_failure_of_what_only_ipython_takes() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    for (code, hint) in [
        ("%matplotlib inline", "plt.show() shows the figures"),
        ("%timeit sum([1])", "timeit.timeit"),
        ("x = 1\n!ls -l", "terminal("),
        ("if True:\n    files = !ls", "terminal("),
        ("%%bash\nit's", "terminal("),
        ("pip install numpy", "terminal("),
        ("%whatever", "no magics here"),
        ("len?", "help(...)"),
        ("?len", "help(...)"),
    ] {
        let (reply, messages) = run(&mut front_end, code);
        assert_eq!(reply["ename"], "SyntaxError", "{code}");
        let lines = reply["traceback"].as_array().unwrap();
        let last = lines.last().unwrap().as_str().unwrap();
        assert!(last.starts_with("[this is IPython"), "{code}: {last}");
        assert!(last.contains(hint), "{code}: {last}");
        let error = messages.iter().find(|it| it.kind() == "error").unwrap();
        assert_eq!(error.content["traceback"], reply["traceback"], "{code}");
    }
    for code in ["x = = 1", "5 % % 2", "print(", "def f(:\n  pass", "x ! y"] {
        let (reply, _) = run(&mut front_end, code);
        let lines = reply["traceback"].as_array().unwrap();
        let last = lines.last().unwrap().as_str().unwrap();
        assert!(last.starts_with("SyntaxError: "), "{code}: {last}");
    }
    kernel.close().await;
}
