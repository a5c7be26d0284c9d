//! What a front end asks between cells: completion, help, history, whether code is whole, comms.

use std::time::Duration;

use serde_json::{Value, json};
use warmcell::execution::live_output;
use warmcell::jupyter::PublishedKind;
use warmcell::session::{AskError, Cell, Question, QuestionKind, Session};

use crate::messages_kit::{Seen, ask, comm_package, push, show, try_ask};
use crate::policy_kit::gentle;
use crate::support::{Manager, SAFETY, Signal, assert_shows, on_each_python, run};

/// The matches for code with the cursor at its end, and where they begin.
async fn complete(session: &Session, code: &str) -> (Vec<String>, u64) {
    let end = code.chars().count();
    let content = json!({"code": code, "cursor_pos": end});
    let reply = ask(session, QuestionKind::Complete, &content).await;
    assert_eq!(reply["status"], "ok", "{code}");
    assert_eq!(reply["cursor_end"], end, "{code}");
    assert_eq!(reply["metadata"], json!({}), "{code}");
    let matches = reply["matches"].as_array().unwrap().iter();
    let matches = matches.map(|it| it.as_str().unwrap().to_owned()).collect();
    (matches, reply["cursor_start"].as_u64().unwrap())
}

#[tokio::test]
async fn names_attributes_modules_and_keys_are_completed() {
    on_each_python(async |session, version| {
        // Before the first cell too.
        assert_eq!(
            complete(session, "zi").await,
            (vec!["zip".to_owned()], 0),
            "{version}"
        );
        let cell = "\
import json
class Thing:
    größe = 1
    _hidden = 2
    def method(self): pass
thing = Thing()
class Table:
    def _ipython_key_completions_(self): return ['alpha', 'beta']
table = Table()
import os
os.makedirs('sub', exist_ok=True)
for name in ('file one.txt', 'sub/in', '.hidden'): open(name, 'w').close()
thing.inner = {'kein': 1, 'key two': 2, 3: 4, \"it's\": 5}";
        run(session, cell).await;
        let all: &[(&str, &[&str], u64)] = &[
            ("thin", &["thing"], 0),
            ("x = thing.", &["größe", "inner", "method"], 10),
            ("thing._hid", &["_hidden"], 6),
            ("thing.me", &["method"], 6),
            ("print(thing.gr", &["größe"], 12),
            ("é = thing.größe; thi", &["thing"], 17),
            ("thing.inner['k", &["kein", "key two"], 13),
            ("thing.inner[\"it", &["it's"], 13),
            ("nosuch.x", &[], 7),
            ("thing.nosuch.", &[], 13),
            ("import json.de", &["decoder"], 12),
            ("from json.enc", &["encoder"], 10),
            ("from json imp", &["import"], 10),
            (
                "from json import JSONDec",
                &["JSONDecodeError", "JSONDecoder"],
                17,
            ),
            ("import sys, zipfil", &["zipfile"], 12),
            ("lamb", &["lambda"], 0),
            ("!l", &[], 2),
            ("x = 1\n%ti", &[], 9),
            ("x = 'a # b'; thi", &["thing"], 13),
            ("# don't\nthi", &["thing"], 8),
            ("open('s", &["sub/"], 6),
            ("open('fi", &["file one.txt"], 6),
            ("open(rb\"sub", &["sub/"], 8),
            ("open('sub/", &["in"], 10),
            ("'''\nimport js", &[], 13),
            ("'a' + thing.me", &["method"], 12),
            ("f'{thin", &["thing"], 3),
            ("f'{thing} thin", &[], 2),
            ("table['al", &["alpha"], 7),
            ("", &[], 0),
            ("3.", &[], 2),
            ("'text'.up", &[], 9),
        ];
        for (code, matches, start) in all {
            let found = complete(session, code).await;
            assert_eq!(
                found,
                (matches.iter().map(|&it| it.to_owned()).collect(), *start),
                "{version}: {code}"
            );
        }
        // Not counted as cells, and without a trace.
        let outcome = run(
            session,
            "[name for name in globals() if 'complete' in name]",
        )
        .await;
        assert_eq!(outcome.kernel.execution_count, 2, "{version}");
        assert_shows(&outcome, "[]", version);
    })
    .await;
}

#[tokio::test]
async fn what_is_completed_may_be_anything() {
    on_each_python(async |session, version| {
        let cell = "\
class Hostile:
    def __dir__(self): raise SystemExit
class Odd:
    def __dir__(self): return ['ok', 'no name', 'x' * 1000]
class Many:
    def __dir__(self): return ['m%d' % n for n in range(5000)]
class Loop:
    def __getattr__(self, name):
        while True: pass
hostile, odd, many, loop = Hostile(), Odd(), Many(), Loop()";
        run(session, cell).await;
        for (code, count) in [("hostile.", 0), ("odd.", 1), ("many.m", 1_000)] {
            assert_eq!(
                complete(session, code).await.0.len(),
                count,
                "{version}: {code}"
            );
        }
        let content = json!({"code": "loop.a.", "cursor_pos": 7}).to_string();
        let question = Question {
            deadline: Duration::from_millis(200),
            ..Question::new(QuestionKind::Complete, content)
        };
        let failure = try_ask(session, question).await.unwrap_err();
        assert!(
            matches!(failure, AskError::NoAnswer { .. }),
            "{version}: {failure}"
        );
        assert_shows(&run(session, "len(many.__dir__())").await, "5000", version);
        for content in [
            "[]",
            "7",
            "{\"code\": 7, \"cursor_pos\": -3}",
            "{\"cursor_pos\": 99}",
        ] {
            let asked = try_ask(session, Question::new(QuestionKind::Complete, content));
            assert_eq!(asked.await.unwrap()["status"], "ok", "{version}: {content}");
        }
    })
    .await;
}

#[tokio::test]
async fn help_tells_signature_type_and_doc() {
    on_each_python(async |session, version| {
        let cell = "def f(a, b=1):\n    '''What f does.'''\n    return a\nx = 5\nclass C:\n    def __getattr__(self, n): raise KeyError\nc = C()";
        run(session, cell).await;
        let inspect = async |code: &str, at: usize, detail: u64| {
            let content = json!({"code": code, "cursor_pos": at, "detail_level": detail});
            let reply = ask(session, QuestionKind::Inspect, &content).await;
            assert_eq!(reply["status"], "ok", "{version}: {code}");
            let text = reply["data"]["text/plain"].as_str().map(str::to_owned);
            assert_eq!(reply["found"], text.is_some(), "{version}: {code}");
            text
        };
        let text = inspect("f", 1, 0).await.unwrap();
        for part in ["Signature: f(a, b=1)", "Type:      function", "Docstring: What f does."] {
            assert!(text.contains(part), "{version}: {text}");
        }
        let source = inspect("y = f(1, 2)", 8, 1).await.unwrap();
        assert!(source.contains("Source:\ndef f(a, b=1):\n    '''What f does.'''\n    return a"), "{version}: {source}");
        let text = inspect("x", 1, 0).await.unwrap();
        for part in ["Type:      int", "String form: 5", "Docstring:"] {
            assert!(text.contains(part), "{version}: {text}");
        }
        assert!(inspect("zip", 3, 0).await.is_some(), "{version}");
        assert!(inspect("c", 1, 1).await.is_some(), "{version}");
        for (code, at) in [("nosuch", 3), ("c.x", 3), ("", 0), ("1 + 1", 2)] {
            assert_eq!(inspect(code, at, 0).await, None, "{version}: {code}");
        }
    })
    .await;
}

#[tokio::test]
async fn code_is_whole_or_goes_on_or_is_wrong() {
    on_each_python(async |session, version| {
        let cases = [
            ("x = 1", json!({"status": "complete"})),
            ("", json!({"status": "complete"})),
            ("print('hello')\nx", json!({"status": "complete"})),
            (
                "def f(x):\n  x*2",
                json!({"status": "incomplete", "indent": "  "}),
            ),
            ("def f(x):\n  x*2\n\n\n", json!({"status": "complete"})),
            ("def f(x):\n  x*2\n  ", json!({"status": "complete"})),
            (
                "def f(x):",
                json!({"status": "incomplete", "indent": "    "}),
            ),
            (
                "for x in y:\n    if x:  # why",
                json!({"status": "incomplete", "indent": "        "}),
            ),
            ("if x: y", json!({"status": "complete"})),
            (
                "print('''hello",
                json!({"status": "incomplete", "indent": ""}),
            ),
            (
                "f(\n    1,",
                json!({"status": "incomplete", "indent": "    "}),
            ),
            ("f(\n    1)", json!({"status": "complete"})),
            ("a = \\", json!({"status": "incomplete", "indent": ""})),
            ("import = 7q", json!({"status": "invalid"})),
            ("x ==== 1", json!({"status": "invalid"})),
            ("await f()", json!({"status": "complete"})),
            (
                "async with a:\n    await b",
                json!({"status": "incomplete", "indent": "    "}),
            ),
            ("@decorated", json!({"status": "incomplete", "indent": ""})),
            (
                "try:\n    x",
                json!({"status": "incomplete", "indent": "    "}),
            ),
        ];
        for (code, expected) in cases {
            let reply = ask(session, QuestionKind::IsComplete, &json!({"code": code})).await;
            assert_eq!(reply, expected, "{version}: {code:?}");
        }
        let deep = format!("{}1{}", "(".repeat(50_000), ")".repeat(50_000));
        let reply = ask(session, QuestionKind::IsComplete, &json!({"code": deep})).await;
        assert!(reply["status"].is_string(), "{version}: {reply}");
        assert_shows(&run(session, "1").await, "1", version);
    })
    .await;
}

#[tokio::test]
async fn history_is_that_of_the_kernel() {
    on_each_python(async |session, version| {
        for code in ["1;2", "x = 'ä'", "x", "x = 'ä'", "print(1)"] {
            run(session, code).await;
        }
        let history = async |content: Value| {
            let reply = ask(session, QuestionKind::History, &content).await;
            assert_eq!(reply["status"], "ok", "{version}");
            reply["history"].clone()
        };
        let tail = json!({"hist_access_type": "tail", "n": 2, "output": false, "raw": true});
        assert_eq!(history(tail).await, json!([[1, 4, "x = 'ä'"], [1, 5, "print(1)"]]), "{version}");
        let range = json!({"hist_access_type": "range", "session": 0, "start": 1, "stop": 4, "output": true});
        let expected = json!([[1, 1, ["1;2", "2"]], [1, 2, ["x = 'ä'", null]], [1, 3, ["x", "'ä'"]]]);
        assert_eq!(history(range).await, expected, "{version}");
        let other = json!({"hist_access_type": "range", "session": 2, "start": 1, "stop": 4});
        assert_eq!(history(other).await, json!([]), "{version}");
        let search = json!({"hist_access_type": "search", "pattern": "x*", "n": 5});
        assert_eq!(
            history(search).await,
            json!([[1, 2, "x = 'ä'"], [1, 3, "x"], [1, 4, "x = 'ä'"]]),
            "{version}"
        );
        let unique = json!({"hist_access_type": "search", "pattern": "1?2*", "unique": true, "n": 1});
        assert_eq!(history(unique).await, json!([[1, 1, "1;2"]]), "{version}");
        let unique = json!({"hist_access_type": "search", "pattern": "*", "unique": true, "n": 2});
        assert_eq!(history(unique).await, json!([[1, 4, "x = 'ä'"], [1, 5, "print(1)"]]), "{version}");
        session.reset().await;
        let tail = json!({"hist_access_type": "tail", "n": 2});
        assert_eq!(history(tail).await, json!([]), "{version}");
    })
    .await;
}

/// A question, and what was shown meanwhile.
async fn watched(
    session: &Session,
    mut question: Question,
) -> (Result<Value, AskError>, Vec<Seen>) {
    let (sender, mut live) = live_output();
    question.live = Some(sender);
    let answer = try_ask(session, question).await;
    let mut seen = Vec::new();
    while let Some(event) = live.next().await {
        push(&mut seen, &event);
    }
    (answer, seen)
}

fn comm(kind: QuestionKind, content: &Value) -> Question {
    Question::new(kind, content.to_string())
}

#[tokio::test]
async fn comms_of_the_package_comm_talk_with_the_front_end() {
    on_each_python(async |session, version| {
        let open = json!({"comm_id": "c1", "target_name": "t", "data": {"n": 1}});
        // Nobody has ever opened one, and nobody knows the target.
        let (answer, seen) = watched(session, comm(QuestionKind::CommOpen, &open)).await;
        assert_eq!(answer.unwrap(), json!({}), "{version}");
        let closed = json!({"comm_id": "c1", "data": {}});
        assert_eq!(seen, [Seen::Published(PublishedKind::CommClose, closed)], "{version}");
        let install = comm_package(&format!("p-{version}"));
        assert_shows(&run(session, &install).await, "", version);
        let target = "\
import comm
def opened(it, msg):
    it.on_msg(lambda msg: (print('got', msg['content']['data'], msg['metadata'].get('m'), msg['buffers']),
                           it.send({'back': 1}, buffers=[b'ab', memoryview(b'cd')])))
comm.get_comm_manager().register_target('t', opened)
own = comm.create_comm(target_name='mine', data={'a': 1}, metadata={'v': '2'})
own.comm_id";
        let (outcome, seen) = show(session, target).await;
        let own: String = outcome.result.unwrap().trim_matches('\'').to_owned();
        assert_eq!(
            seen[0].content(),
            &json!({"comm_id": own, "data": {"a": 1}, "target_name": "mine", "target_module": null}),
            "{version}"
        );
        let (_, seen) = watched(session, comm(QuestionKind::CommOpen, &open)).await;
        assert_eq!(seen, [], "{version}");
        let info = ask(session, QuestionKind::CommInfo, &json!({})).await;
        let both = json!({"c1": {"target_name": "t"}, own: {"target_name": "mine"}});
        assert_eq!(info, json!({"status": "ok", "comms": both}), "{version}");
        let info = ask(session, QuestionKind::CommInfo, &json!({"target_name": "t"})).await;
        assert_eq!(info["comms"], json!({"c1": {"target_name": "t"}}), "{version}");
        let mut message = comm(QuestionKind::CommMessage, &json!({"comm_id": "c1", "data": [7]}));
        message.metadata = br#"{"m":5}"#.as_slice().into();
        message.buffers = vec![b"\x00\x01".as_slice().into()];
        let (sender, mut live) = live_output();
        message.live = Some(sender);
        try_ask(session, message).await.unwrap();
        let mut seen = Vec::new();
        let mut buffers = Vec::new();
        while let Some(event) = live.next().await {
            if let warmcell::execution::LiveEvent::Published(shown) = &event {
                buffers.extend(shown.buffers.clone());
            }
            push(&mut seen, &event);
        }
        assert_eq!(seen[0], Seen::Out("got [7] 5 [b'\\x00\\x01']\n".to_owned()), "{version}");
        assert_eq!(seen[1].content(), &json!({"comm_id": "c1", "data": {"back": 1}}), "{version}");
        assert_eq!(buffers, [b"ab".as_slice(), b"cd"], "{version}");
        let close = json!({"comm_id": "c1", "data": {}});
        watched(session, comm(QuestionKind::CommClose, &close)).await.0.unwrap();
        let info = ask(session, QuestionKind::CommInfo, &json!({"target_name": "t"})).await;
        assert_eq!(info["comms"], json!({}), "{version}");
        // Not counted as a cell.
        assert_eq!(run(session, "1").await.kernel.execution_count, 3, "{version}");
    })
    .await;
}

#[tokio::test]
async fn a_question_waits_for_the_cell_or_is_answered_at_once() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let (begun, go_on) = (
        Signal::new(&manager, "begun"),
        Signal::new(&manager, "go-on"),
    );
    let mut execution = session.execute(Cell::new(
        "open('begun', 'w').close()\nopen('go-on').read()\nlate = 1",
    ));
    begun.wait().await;
    let complete = || Question::new(QuestionKind::Complete, r#"{"code":"lat","cursor_pos":3}"#);
    let at_once = Question {
        waits: false,
        ..complete()
    };
    assert!(matches!(session.ask(at_once).await, Err(AskError::Busy)));
    // One whose asker goes away is not asked; one that waits sees what the cell has left.
    drop(tokio::time::timeout(Duration::ZERO, session.ask(complete())).await);
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { try_ask(&session, complete()).await }
    });
    go_on.give().await;
    execution.outcome().await;
    assert_eq!(waiting.await.unwrap().unwrap()["matches"], json!(["late"]));
    manager.end().await;
}

#[tokio::test]
async fn a_question_can_be_interrupted_and_costs_no_state() {
    on_each_python(async |session, version| {
        let cell = "\
import time
class Slow:
    def __getattr__(self, name): time.sleep(60)
slow, x = Slow(), 1";
        run(session, cell).await;
        let content = r#"{"code":"slow.a.","cursor_pos":7}"#;
        for _ in 0..3 {
            let asking = tokio::spawn({
                let session = session.clone();
                let question = Question {
                    deadline: SAFETY,
                    ..Question::new(QuestionKind::Complete, content)
                };
                async move { try_ask(&session, question).await }
            });
            // Whenever it comes: before, while, or after the kernel begins with it.
            while !asking.is_finished() {
                session.interrupt();
                tokio::task::yield_now().await;
            }
            let failure = asking.await.unwrap().unwrap_err();
            assert!(
                matches!(failure, AskError::Interrupted),
                "{version}: {failure}"
            );
            assert_shows(&run(session, "x").await, "1", version);
        }
        // Nor does the next cell feel it.
        let outcome = crate::support::run_cell(session, gentle("x + 1")).await;
        assert_shows(&outcome, "2", version);
    })
    .await;
}

#[tokio::test]
async fn a_kernel_that_dies_while_it_is_asked_is_told_by_the_next_cell() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(
        &session,
        "import os\nclass D:\n    def __getattr__(self, n): os._exit(3)\nd = D()",
    )
    .await;
    let content = r#"{"code":"d.a.","cursor_pos":4}"#;
    let failure = try_ask(&session, Question::new(QuestionKind::Complete, content))
        .await
        .unwrap_err();
    assert!(matches!(failure, AskError::KernelDied { .. }), "{failure}");
    let outcome = run(&session, "1").await;
    assert!(
        outcome
            .output
            .starts_with("[new kernel: the previous one was lost (kernel_died"),
        "{}",
        outcome.output
    );
    session.close().await;
    let closed = try_ask(&session, Question::new(QuestionKind::Complete, content)).await;
    assert!(matches!(closed, Err(AskError::Closed)), "{closed:?}");
    manager.end().await;
}

#[tokio::test]
async fn a_kernel_that_does_not_come_to_an_end_answers_no_question_and_its_cells_are_limited() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "\
class Deaf:
    def __getattr__(self, name):
        while True:
            try:
                while True: pass
            except BaseException: pass
deaf = Deaf()";
    run(&session, code).await;
    let deaf = || Question {
        deadline: Duration::from_millis(100),
        ..Question::new(
            QuestionKind::Complete,
            r#"{"code":"deaf.a.","cursor_pos":7}"#,
        )
    };
    for _ in 0..3 {
        let failure = try_ask(&session, deaf()).await.unwrap_err();
        assert!(matches!(failure, AskError::NoAnswer { .. }), "{failure}");
    }
    let cell = Cell::new("1").timeout(Duration::from_millis(300));
    let outcome = crate::support::run_cell(&session, cell).await;
    assert_eq!(outcome.status, warmcell::execution::Status::Timeout);
    assert_eq!(complete(&session, "zi").await.0, ["zip"]);
    manager.end().await;
}
