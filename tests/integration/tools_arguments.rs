//! Arguments of every kind, and the helpers beside the tools.

use serde_json::json;
use warmcell::session::Cell;

use crate::support::Manager;
use crate::tools_kit::{assert_fails, json_of, json_of_cell, oldest_and_newest};

/// Call, class and words of its failure.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "write_file('f', b'bytes')",
        "usage",
        "write_file: 'content' cannot be sent: bytes are not text",
    ),
    (
        "write_file('f', bytearray(b'x'))",
        "usage",
        "write_file: 'content' cannot be sent: bytes",
    ),
    (
        "write_file(b'f', 'x')",
        "usage",
        "write_file: 'path' cannot be sent: bytes",
    ),
    (
        "write_file('f', object())",
        "usage",
        "'content' cannot be sent: a value of type object is not JSON",
    ),
    (
        "write_file('f', {1, 2})",
        "usage",
        "'content' cannot be sent: a value of type set is not JSON",
    ),
    (
        "read_file('f', offset=1j)",
        "usage",
        "'offset' cannot be sent: a value of type complex",
    ),
    (
        "read_file('f', offset=float('nan'))",
        "usage",
        "read_file: 'offset' cannot be sent: Out of range",
    ),
    (
        "read_file('f', limit=float('inf'))",
        "usage",
        "read_file: 'limit' cannot be sent: Out of range",
    ),
    (
        "read_file('f', offset=10**30)",
        "usage",
        "read_file: 'offset' must be a whole number that fits into 64 bits, got 1e",
    ),
    (
        "read_file('f', offset=10**400)",
        "usage",
        "read_file: 'offset' cannot be read: number out of range",
    ),
    (
        "read_file('f', offset=1.5)",
        "usage",
        "read_file: 'offset' must be a whole number",
    ),
    (
        "read_file('f', offset='1')",
        "usage",
        "read_file: 'offset' must be a whole number, got a string",
    ),
    (
        "read_file('f', offset=True)",
        "usage",
        "read_file: 'offset' must be a whole number, got a bool",
    ),
    (
        "write_file('f', 'a\\udce9b')",
        "usage",
        "write_file: 'content' holds a lone surrogate (U+DCE9 at index 1)",
    ),
    // Together they would be UTF-8, and the text would be another.
    (
        "write_file('f', '\\udcc3\\udca9')",
        "usage",
        "'content' holds a lone surrogate (U+DCC3 at index 0)",
    ),
    (
        "read_file('caf\\udce9')",
        "usage",
        "read_file: 'path' holds a lone surrogate",
    ),
    (
        "terminal('\\ud800')",
        "usage",
        "terminal: 'command' holds a lone surrogate (U+D800",
    ),
    (
        "write_file('f', 'x' * (65 << 20))",
        "usage",
        "write_file: 'content' has 68,157,442 bytes, a call has at most 64 MiB",
    ),
    (
        "write_file('f', deep)",
        "usage",
        "write_file: 'content' cannot be sent: it is nested too deeply",
    ),
    (
        "write_file('f', circle)",
        "usage",
        "write_file: 'content' cannot be sent: it is nested too deeply",
    ),
    (
        "write_file('f', nested)",
        "usage",
        "write_file: 'content' cannot be read: recursion limit",
    ),
    (
        "write_file('f', [0] * 600_000)",
        "usage",
        "write_file: 'content' is a list or dict of 1200001 bytes",
    ),
    (
        "write_file('f', [1])",
        "usage",
        "write_file: 'content' must be a string, got a list",
    ),
    (
        "write_file('f', {'a': 1})",
        "usage",
        "write_file: 'content' must be a string, got a dict",
    ),
    (
        "write_file('f', {(1, 2): 1})",
        "usage",
        "write_file: 'content' cannot be sent: keys must be",
    ),
    (
        "write_file('f', None)",
        "usage",
        "write_file: missing required argument 'content' (a string)",
    ),
    (
        "write_file('f')",
        "usage",
        "write_file: missing required argument 'content' (a string)",
    ),
    (
        "write_file()",
        "usage",
        "write_file: missing required argument 'path' (a string)",
    ),
    (
        "write_file(7, 'x')",
        "usage",
        "write_file: 'path' must be a string, got a number",
    ),
    ("write_file('', 'x')", "usage", "'path' is empty"),
    (
        "write_file('a\\0b', 'x')",
        "usage",
        "'path' holds a NUL character",
    ),
    (
        "terminal()",
        "usage",
        "terminal: missing required argument 'command' (a string)",
    ),
    (
        "terminal(cmd='ls')",
        "usage",
        "terminal: unknown argument 'cmd'; it takes command, timeout, workdir",
    ),
    (
        "terminal('true', timeout='5')",
        "usage",
        "terminal: 'timeout' must be a number, got a string",
    ),
    (
        "terminal('true', timeout=0)",
        "usage",
        "terminal: 'timeout' must be above 0 seconds, got 0",
    ),
    (
        "terminal(['ls', '-l'])",
        "usage",
        "terminal: 'command' must be a string, got a list",
    ),
    (
        "terminal('a\\0b')",
        "usage",
        "terminal: 'command' contains a NUL character",
    ),
    (
        "terminal('true', background=1)",
        "refused",
        "terminal: 'background' is not available",
    ),
    ("read_file('/no/such/file')", "exception", "/no/such/file"),
    (
        "read_file('f', encoding='latin-1')",
        "usage",
        "read_file: unknown argument 'encoding'; it takes path, offset, limit",
    ),
];

#[tokio::test]
async fn what_is_wrong_with_a_call_is_said_with_the_arguments_name() {
    let manager = Manager::start().await;
    for (version, python) in oldest_and_newest() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let calls: Vec<&str> = WRONG.iter().map(|(call, _, _)| *call).collect();
        let code = format!(
            "import json\n\
             deep = circle = []\n\
             for _ in range(100_000): deep = [deep]\n\
             circle = []; circle.append(circle)\n\
             nested = []\n\
             for _ in range(400): nested = [nested]\n\
             print(json.dumps([{}]))\n\
             del deep, nested",
            calls.join(",\n")
        );
        let (results, _) = json_of_cell(&session, Cell::new(code).max_tool_calls(200)).await;
        for (result, (call, class, words)) in results.as_array().unwrap().iter().zip(WRONG) {
            assert_eq!(result["error_class"], *class, "{version} {call}: {result}");
            assert_fails(result, class, words);
            let keys: &[&str] = match call.split('(').next() {
                Some("read_file") => &[
                    "content",
                    "total_lines",
                    "file_size",
                    "truncated",
                    "next_offset",
                    "is_binary",
                ],
                Some("write_file") => &["bytes_written", "dirs_created", "resolved_path"],
                _ => &["output", "exit_code", "truncated"],
            };
            for key in keys {
                assert!(result.get(key).is_some(), "{call}: no {key} in {result}");
            }
            assert_eq!(
                result.as_object().unwrap().len(),
                keys.len() + 2,
                "{call}: {result}"
            );
        }
        assert!(!manager.place.work().join("f").exists());
    }
    manager.end().await;
}

#[tokio::test]
async fn what_can_be_meant_is_taken() {
    let manager = Manager::start().await;
    for (version, python) in oldest_and_newest() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r#"
import enum, json, pathlib
class Text(str): pass
class Number(enum.IntEnum):
    TWO = 2
seen = [
    write_file(pathlib.Path("p"), Text("a\nb\n"))["bytes_written"],
    read_file(path=pathlib.Path("p").absolute())["content"],
    read_file("p", 2)["content"], read_file("p", Number.TWO, 1.0)["content"],
    terminal("pwd", workdir=pathlib.Path("/"))["output"],
    terminal(timeout=5.5, command="echo x")["output"],
    write_file(path="p", content="")["bytes_written"],
]
import inspect
print(json.dumps([seen, str(inspect.signature(terminal))]))
"#;
        let value = json_of(&session, code).await;
        assert_eq!(
            value[0],
            json!([4, "a\nb\n", "b\n", "b\n", "/\n", "x\n", 0]),
            "{version}"
        );
        assert_eq!(
            value[1],
            "(command=<required>, timeout=None, workdir=None, **unknown)"
        );
    }
    manager.end().await;
}

#[tokio::test]
async fn the_largest_text_goes_through() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, os
text = "0123456789abcdef" * ((63 << 20) // 16)
result = write_file("large", text)
print(json.dumps([result, os.path.getsize("large") == len(text)]))
"#;
    let (value, _) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(value[0]["bytes_written"], 63 << 20);
    assert_eq!(value[1], true);
    manager.end().await;
}
