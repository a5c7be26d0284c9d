//! The helpers beside the tools, and what may not break them.

use serde_json::json;

use crate::support::Manager;
use crate::tools_kit::{json_of, oldest_and_newest};

#[tokio::test]
async fn helpers() {
    let manager = Manager::start().await;
    for (version, python) in oldest_and_newest() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r##"
import json, pathlib, time
from hermes_tools import json_parse, retry, shell_quote
def error(call, *args, **more):
    try:
        return call(*args, **more)
    except Exception as failure:
        return [type(failure).__name__, str(failure)]
parsed = [
    json_parse('{"a":1}'), json_parse('\ufeff{"a":1}'), json_parse(b'{"a":1}'), json_parse(b'\xef\xbb\xbf [1]\n'),
    json_parse('"a\tb\nc\x00"'), json_parse('{"a":1}'.encode("utf-16")), json_parse(memoryview(b"2")),
    json_parse(' "\\ud83d\\ude00" '), json_parse("1e3"), json_parse("-Infinity") == float("-inf"),
]
failed = [
    error(json_parse, ""), error(json_parse, "{'a': 1}"), error(json_parse, "1 2"), error(json_parse, "[1,"),
    error(json_parse, {"a": 1}), error(json_parse, None), error(json_parse, b"\xff"),
]
words = ["", "a", "a b", "it's", "$HOME `x` \"q\" \\", "a\nb\tc\x01", "é漢", "*?[", "-n", "~", "#x", "a=b", "\x7f"]
quoted = [terminal("printf %s " + shell_quote(word))["output"] for word in words]
import shlex
same = [shell_quote(word) == shlex.quote(word) for word in words]
other = [shell_quote(pathlib.Path("/a b")), shell_quote(b"a'b"), shell_quote(5)]
waits, calls = [], []
time_sleep, time.sleep = time.sleep, waits.append
def flaky():
    calls.append(1)
    if len(calls) < 4:
        raise ValueError(len(calls))
    return "done"
tried = [retry(flaky, max_attempts=5, delay=0.5), waits[:]]
calls.clear(); waits.clear()
tried += [error(retry, flaky), waits[:], error(retry, flaky, max_attempts=0)]
time.sleep = time_sleep
print(json.dumps([parsed, failed, quoted == words, all(same), other, tried]))
"##;
        let value = json_of(&session, code).await;
        let expected = json!([
            {"a": 1}, {"a": 1}, {"a": 1}, [1], "a\tb\nc\u{0}", {"a": 1}, 2, "\u{1f600}", 1000.0, true
        ]);
        assert_eq!(value[0], expected, "{version}");
        let kinds: Vec<&str> = value[1]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it[0].as_str().unwrap())
            .collect();
        let json_error = "JSONDecodeError";
        assert_eq!(
            kinds,
            [
                json_error,
                json_error,
                json_error,
                json_error,
                "TypeError",
                "TypeError",
                "UnicodeDecodeError"
            ],
            "{version}"
        );
        assert_eq!(
            value[1][4][1],
            "json_parse needs a str or bytes, got dict; tools return dicts, not JSON text"
        );
        assert_eq!(value[2], true);
        assert_eq!(value[3], true);
        assert_eq!(value[4], json!(["'/a b'", "'a'\"'\"'b'", "5"]));
        assert_eq!(
            value[5],
            json!([
                "done",
                [0.5, 1.0, 2.0],
                ["ValueError", "3"],
                [2, 4],
                ["ValueError", "retry needs at least 1 attempt, got 0"]
            ])
        );
    }
    manager.end().await;
}

/// Files of the user's that bear the names of standard modules do not break a call.
#[tokio::test]
async fn modules_of_the_user_do_not_stand_in_for_ours() {
    let manager = Manager::start().await;
    for (version, python) in oldest_and_newest() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let work = manager.place.work().join(version);
        std::fs::create_dir(&work).unwrap();
        for name in [
            "json",
            "socket",
            "random",
            "shlex",
            "contextvars",
            "struct",
            "opcode",
            "time",
        ] {
            std::fs::write(work.join(format!("{name}.py")), "user = True\n").unwrap();
        }
        let program = "import hermes_tools as h; print(h.terminal('echo ' + h.shell_quote('a b'))['output'], \
                       h.json_parse('[1]'), hasattr(h, 'x'), end='')";
        std::fs::write(work.join("program.py"), program).unwrap();
        let code = format!(
            r"
import os
os.chdir({work:?})
pass"
        );
        crate::support::run(&session, &code).await;
        let code = r#"
import json, socket, shlex, subprocess, sys
assert json.user and socket.user and shlex.user
made = subprocess.run([sys.executable, "program.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
print(terminal("echo x")["output"], shell_quote("a b"), json_parse("[1]"), hasattr(hermes_tools, "x") if "hermes_tools" in globals() else False)
print(made.stdout.decode(), made.stderr.decode())
"#;
        let outcome = crate::support::run(&session, code).await;
        assert_eq!(
            outcome.output, "x\n 'a b' [1] False\na b\n [1] False \n",
            "{version}: {}",
            outcome.output
        );
    }
    manager.end().await;
}
