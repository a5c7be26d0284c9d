//! What front ends and kernels that are not ours say to each other beside cells: questions, comms,
//! input, and who the kernel is.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use warmcell::execution::{ErrorClass, LiveEvent, Outcome, Status, Wishes, live_output};
use warmcell::jupyter::{Published, PublishedKind};
use warmcell::kernel::input_source;
use warmcell::session::{AskError, Cell, Policy, Question, QuestionKind, Session};

use crate::foreign_kit::{hostile, house, ipykernel, session_in, with_hostile, with_ipykernel};
use crate::jupyter_kit::{Form, Received, in_short};
use crate::messages_kit::{ask, try_ask, with_expressions};
use crate::support::{SAFETY, python, run, run_cell};

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_answers_what_is_asked_between_cells() {
    with_hostile(&["honest"], async |_manager, session, _mode| {
        let cases = [
            (
                QuestionKind::Complete,
                json!({ "code": "é", "cursor_pos": 1 }),
                json!({ "matches": ["é!"], "cursor_start": 0, "cursor_end": 1, "metadata": {} }),
            ),
            (
                QuestionKind::Inspect,
                json!({ "code": "x", "cursor_pos": 1, "detail_level": 0 }),
                json!({ "found": true, "data": { "text/plain": "about x" }, "metadata": {} }),
            ),
            (
                QuestionKind::IsComplete,
                json!({ "code": "x" }),
                json!({ "status": "incomplete", "indent": "..." }),
            ),
            (
                QuestionKind::History,
                json!({ "hist_access_type": "tail", "n": 1 }),
                json!({ "history": [[0, 1, "before"]] }),
            ),
            (
                QuestionKind::CommInfo,
                json!({}),
                json!({ "comms": { "c1": { "target_name": "t" } } }),
            ),
        ];
        for (kind, content, expected) in cases {
            let reply = ask(session, kind, &content).await;
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(&reply[key], value, "{kind:?}");
            }
        }
        // None of them was a cell.
        let outcome = run(session, "hello").await;
        assert_eq!(outcome.kernel.execution_count, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ipykernel_completes_and_is_interrupted_in_a_question_that_takes_too_long() {
    with_ipykernel(async |_manager, session, _kernel| {
        let code = "größe = 1\nimport time\nclass Slow:\n    def __dir__(self):\n        \
                    time.sleep(60)\n        return []\nslow = Slow()";
        run(session, code).await;
        // Its completer takes its time when it is used first.
        let content = json!({ "code": "x = grö", "cursor_pos": 7 });
        let question = Question {
            deadline: SAFETY,
            ..Question::new(QuestionKind::Complete, content.to_string())
        };
        let reply = try_ask(session, question).await.unwrap();
        assert_eq!(reply["matches"], json!(["größe"]));
        let content = json!({ "code": "def f():", "cursor_pos": 8 });
        let reply = ask(session, QuestionKind::IsComplete, &content).await;
        assert_eq!(reply["status"], "incomplete");
        // Jedi does not ask; IPython's own completer does.
        run(session, "get_ipython().Completer.use_jedi = False").await;
        let content = json!({ "code": "slow.", "cursor_pos": 5 });
        let question = Question {
            deadline: Duration::from_millis(500),
            ..Question::new(QuestionKind::Complete, content.to_string())
        };
        let error = try_ask(session, question).await.unwrap_err();
        assert!(matches!(error, AskError::NoAnswer { .. }), "{error}");
        // It was interrupted, and nothing is lost.
        let outcome = run(session, "größe").await;
        assert_eq!(outcome.result.as_deref(), Some("1"));
    })
    .await;
}

/// A message of a comm's, with a live reader.
async fn comm(session: &Session, kind: QuestionKind, data: &Value) -> (String, Vec<Published>) {
    let (sender, mut live) = live_output();
    let question = Question {
        metadata: Bytes::from_static(br#"{"mine": [1]}"#),
        buffers: vec![Bytes::from_static(b"\xff\x00"), Bytes::new()],
        live: Some(sender),
        ..Question::new(kind, json!({ "comm_id": "é", "data": data }).to_string())
    };
    let reading = async {
        let (mut printed, mut shown) = (Vec::new(), Vec::new());
        while let Some(event) = live.next().await {
            match event {
                LiveEvent::Stdout(bytes) => printed.extend_from_slice(&bytes),
                LiveEvent::Published(it) => shown.push((*it).clone()),
                other => panic!("{other:?}"),
            }
        }
        (String::from_utf8(printed).unwrap(), shown)
    };
    let both = async { tokio::join!(session.ask(question), reading) };
    let (answer, seen) = tokio::time::timeout(SAFETY, both).await.unwrap();
    answer.unwrap();
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn comms_of_a_foreign_kernel_go_both_ways_with_all_that_comes_with_them() {
    with_hostile(&["comms"], async |_manager, session, _mode| {
        for kind in [QuestionKind::CommOpen, QuestionKind::CommMessage] {
            let (printed, shown) = comm(session, kind, &json!({ "a": "é" })).await;
            assert_eq!(printed, kind.msg_type());
            assert_eq!(shown.len(), 1);
            let shown = &shown[0];
            assert_eq!(shown.kind, PublishedKind::CommMessage);
            let content: Value = serde_json::from_str(&shown.content(None)).unwrap();
            assert_eq!(
                content,
                json!({ "comm_id": "é", "data": { "back": { "a": "é" } } })
            );
            let metadata: Value = serde_json::from_slice(&shown.metadata).unwrap();
            assert_eq!(metadata, json!({ "mine": [1] }));
            assert_eq!(
                shown.buffers,
                [Bytes::from_static(b"\xff\x00"), Bytes::new()]
            );
        }
        let (printed, shown) = comm(session, QuestionKind::CommClose, &json!({})).await;
        assert_eq!((printed.as_str(), shown.len()), ("", 0));

        // Of a cell's own.
        let mut execution = session.execute_live(Cell::new("x"));
        let mut live = execution.take_live().unwrap();
        let mut shown = Vec::new();
        while let Some(event) = tokio::time::timeout(SAFETY, live.next()).await.unwrap() {
            if let LiveEvent::Published(it) = event {
                shown.push(it);
            }
        }
        let kinds: Vec<_> = shown.iter().map(|it| it.kind).collect();
        assert_eq!(
            kinds,
            [
                PublishedKind::CommOpen,
                PublishedKind::CommMessage,
                PublishedKind::CommClose
            ]
        );
        for it in &shown {
            assert_eq!(it.metadata, br#"{"version": "2.1.0"}"#.as_slice());
            assert_eq!(it.buffers, [Bytes::from_static(b"\xff\x00"), Bytes::new()]);
        }
        // One that does not fit is not cut: it is told.
        let outcome = execution.outcome().await;
        let warning = outcome.warning.unwrap_or_default();
        assert!(
            warning.contains("1 messages of comms were left out"),
            "{warning}"
        );
        assert_eq!(outcome.output, "x");
    })
    .await;
}

/// Runs a cell whose questions are answered with these texts; then nobody answers any more.
async fn answered(session: &Session, code: &str, texts: &[&str]) -> (Outcome, Vec<(String, bool)>) {
    let (source, mut questions) = input_source();
    let cell = Cell::new(code).wishes(Wishes {
        input: Some(source),
        ..Wishes::default()
    });
    let mut execution = session.execute(cell);
    let both = async {
        let mut asked = Vec::new();
        for text in texts {
            let question = questions.next().await.unwrap();
            asked.push((question.prompt.clone(), question.password));
            question.answer(*text);
        }
        drop(questions);
        (execution.outcome().await, asked)
    };
    tokio::time::timeout(SAFETY, both).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_of_a_foreign_kernel_asks_whoever_is_at_its_keyboard() {
    with_hostile(&["asks"], async |_manager, session, _mode| {
        let (outcome, asked) = answered(session, "x", &["Zoë \"x\""]).await;
        assert_eq!(outcome.output, "<'Zoë \"x\"'>");
        assert_eq!(asked, [("who? ".to_owned(), true)]);
        // The end of input, as far as Jupyter has one.
        let end = "<'\\x04'>";
        assert_eq!(answered(session, "x", &[]).await.0.output, end);
        // It asks though it was told not to.
        assert_eq!(run(session, "x").await.output, end);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ipykernel_asks_for_input_and_without_a_keyboard_fails_as_ours_does() {
    with_ipykernel(async |manager, session, _kernel| {
        let code = "import getpass\nprint('before', end='')\n\
                    print(repr(input('name? ')), repr(getpass.getpass()))";
        let (outcome, asked) = answered(session, code, &["Zoë", "pw"]).await;
        assert_eq!(outcome.output, "before'Zoë' 'pw'\n");
        let expected = [("name? ", false), ("", true)];
        assert_eq!(asked, expected.map(|(p, it)| (p.to_owned(), it)));
        let (outcome, _) = answered(session, "input()\ninput()", &["one"]).await;
        assert_eq!(outcome.status, Status::Error, "{}", outcome.output);
        assert!(outcome.error.unwrap().starts_with("EOFError"));

        let ours = manager.session_on("ours", python());
        for code in ["input('x')", "import getpass\ngetpass.getpass()"] {
            let (theirs, ours) = (run(session, code).await, run(&ours, code).await);
            let sentence = |outcome: &Outcome| {
                let error = outcome.error.clone().unwrap();
                error.rsplit_once(" (").unwrap().0.to_owned()
            };
            assert_eq!(sentence(&theirs), sentence(&ours));
            assert!(sentence(&theirs).contains("nobody is at the keyboard"));
            assert_eq!(theirs.error_class, Some(ErrorClass::Exception));
        }
        let silent = Cell::new("input()").wishes(Wishes {
            silent: true,
            ..Wishes::default()
        });
        let error = run_cell(session, silent).await.error.unwrap();
        assert!(error.contains("nobody is at the keyboard"), "{error}");
        // Who may ask again can.
        let (outcome, _) = answered(session, "input()", &["two"]).await;
        assert_eq!(outcome.output, "'two'");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_of_a_foreign_kernel_that_waits_for_input_is_interrupted() {
    with_ipykernel(async |_manager, session, _kernel| {
        let (source, mut questions) = input_source();
        let cell = Cell {
            on_interrupt: Some(Policy::Interrupt),
            ..Cell::new("x = 1\ninput('? ')")
        };
        let cell = cell.wishes(Wishes {
            input: Some(source),
            ..Wishes::default()
        });
        let mut execution = session.execute(cell);
        let late = tokio::time::timeout(SAFETY, questions.next())
            .await
            .unwrap();
        execution.interrupt();
        let outcome = tokio::time::timeout(SAFETY, execution.outcome())
            .await
            .unwrap();
        assert_eq!(outcome.status, Status::Interrupted, "{}", outcome.output);
        // An answer that comes too late is not that of the next.
        late.unwrap().answer("late");
        let (outcome, _) = answered(session, "x, input()", &["right"]).await;
        assert_eq!(outcome.output, "(1, 'right')");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_for_an_answer_is_told_in_its_place() {
    with_hostile(&["long-replies"], async |_manager, session, _mode| {
        let asked = json!({ "hist_access_type": "tail", "n": 1 });
        let reply = ask(session, QuestionKind::History, &asked).await;
        assert_eq!(
            (&reply["status"], &reply["ename"]),
            (&json!("error"), &json!("TooLong"))
        );
        let cell = with_expressions("x", &json!({ "a": "1" }));
        let outcome = run_cell(session, cell).await;
        assert_eq!(
            (outcome.output.as_str(), outcome.status),
            ("x", Status::Success)
        );
        let found = outcome.beside_streams.user_expressions.unwrap();
        assert!(found.contains("the limit is 2 MiB"), "{found}");
    })
    .await;
}

/// The content of the message of one kind.
fn content(messages: &[Received], kind: &str) -> Value {
    let found = messages.iter().find(|it| it.kind() == kind);
    found.unwrap().content.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn front_ends_see_the_foreign_kernel_itself() {
    let house = house().await;
    for (form, mode) in [(Form::V1, "comms"), (Form::Text, "asks")] {
        let session = session_in(&house, mode, hostile(mode));
        let mut client = house.client(&session, form).await;
        for channel in ["shell", "control"] {
            let nothing = json!({});
            let asked = client.send(channel, "kernel_info_request", &nothing);
            let asked = asked.await;
            let info = content(&client.all_of(&asked).await, "kernel_info_reply");
            assert_eq!(info["implementation"], "echo");
            assert_eq!(info["banner"], "Echo, echo");
            assert_eq!(info["status"], "ok");
            let language =
                json!({ "name": "echo", "version": "7", "mimetype": "text/x-echo", "odd": [1] });
            assert_eq!(info["language_info"], language);
        }
        let code = json!({ "code": "a", "cursor_pos": 1 });
        let asked = client.send("shell", "complete_request", &code).await;
        let reply = content(&client.all_of(&asked).await, "complete_reply");
        assert_eq!(reply["matches"], json!(["a!"]));

        let data = json!({ "comm_id": "c", "target_name": "t", "data": { "n": 1 } });
        let metadata = json!({ "mine": [1.5] });
        let buffers: [&[u8]; 2] = [b"\xff\x00", b""];
        let asked = client.send_with("shell", "comm_open", &data, &metadata, &buffers);
        let asked = asked.await;
        let messages = client.all_of(&asked).await;
        let back = messages.iter().find(|it| it.kind() == "comm_msg").unwrap();
        assert_eq!(
            back.content,
            json!({ "comm_id": "c", "data": { "back": { "n": 1 } } })
        );
        assert_eq!(back.metadata, metadata);
        assert_eq!(back.buffers, buffers, "{form:?}");

        if mode == "asks" {
            let cell = json!({ "code": "x", "allow_stdin": true });
            let asked = client.send("shell", "execute_request", &cell).await;
            loop {
                let message = client.next().await.unwrap();
                if message.kind() == "input_request" {
                    let expected = json!({ "prompt": "who? ", "password": true });
                    assert_eq!((message.content, &message.parent), (expected, &asked));
                    break;
                }
            }
            let answer = json!({ "value": "me" });
            client.send("stdin", "input_reply", &answer).await;
            let words = in_short(&client.all_of(&asked).await);
            assert_eq!(words, ["stdout: <'me'>", "execute_reply ok", "idle"]);
        }
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn widgets_of_ipykernel_reach_front_ends() {
    let Some(kernel) = ipykernel() else { return };
    let house = house().await;
    let session = session_in(&house, "widgets", kernel);
    let mut client = house.client(&session, Form::V1).await;
    let code = "from comm import create_comm, get_comm_manager\nseen = []\n\
                def opened(comm, message):\n    \
                comm.on_msg(lambda it: seen.append((it['content']['data'], it['metadata']['mine'], \
                [bytes(part) for part in it['buffers']])))\n    \
                comm.send({'hello': 1}, buffers=[b'\\xfe'])\n\
                get_comm_manager().register_target('t', opened)\n\
                c = create_comm(target_name='front', data={'x': 1}, metadata={'version': '2'}, \
                buffers=[b'\\xff'])";
    let asked = client.execute(code).await;
    let messages = client.all_of(&asked).await;
    let opened = messages.iter().find(|it| it.kind() == "comm_open").unwrap();
    assert_eq!(opened.content["data"], json!({ "x": 1 }));
    assert_eq!(opened.metadata, json!({ "version": "2" }));
    assert_eq!(opened.buffers, [b"\xff".to_vec()]);
    let open = json!({ "comm_id": "c", "target_name": "t", "data": {} });
    let asked = client.send("shell", "comm_open", &open).await;
    let messages = client.all_of(&asked).await;
    let hello = messages.iter().find(|it| it.kind() == "comm_msg").unwrap();
    assert_eq!(
        hello.content,
        json!({ "comm_id": "c", "data": { "hello": 1 } })
    );
    assert_eq!(hello.buffers, [b"\xfe".to_vec()]);
    let more = json!({ "comm_id": "c", "data": { "y": 2 } });
    let metadata = json!({ "mine": "é" });
    let asked = client.send_with("shell", "comm_msg", &more, &metadata, &[b"\xff\x00"]);
    let asked = asked.await;
    client.all_of(&asked).await;
    let words = client.run("seen").await;
    let value = r"[({'y': 2}, 'é', [b'\xff\x00'])]";
    assert!(words.iter().any(|it| it.ends_with(value)), "{words:?}");
    house.close().await;
}
