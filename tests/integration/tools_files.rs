//! Files through calls: what goes in comes out.

use std::fs;

use serde_json::json;
use warmcell::session::Cell;

use crate::support::{Manager, python, pythons, run_cell};
use crate::tools_kit::json_of_cell;

/// The case that tool calls are for: many files, a loop, and only the answer is shown.
#[tokio::test]
async fn a_report_over_forty_files_in_one_cell() {
    let manager = Manager::start().await;
    let mut caller = manager.place.caller(python());
    caller.cwd = env!("CARGO_MANIFEST_DIR").into();
    let session = manager.registry.session("a", &caller).unwrap();
    let report = manager.place.work().join("report.txt");
    let code = format!(
        r#"
import glob, re
files = sorted(glob.glob("src/**/*.rs", recursive=True))[:40]
lines = []
for name in files:
    text = read_file(name)["content"]
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\bpub fn\b", line):
            lines.append(f"{{name}}:{{number}}: {{line.strip()}}")
written = write_file({report:?}, "\n".join(lines) + "\n")
counted = terminal("wc -l < " + shell_quote({report:?}))
print(int(counted["output"]) == len(lines), written["bytes_written"], len(files))
"#
    );
    let outcome = run_cell(&session, Cell::new(code)).await;
    // The same, by other means.
    let mut files = Vec::new();
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut expected = String::new();
    for path in &files[..40] {
        let name = path
            .strip_prefix(env!("CARGO_MANIFEST_DIR"))
            .unwrap()
            .display();
        for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ' ');
            if words
                .clone()
                .any(|part| format!(" {part} ").contains(" pub fn "))
            {
                expected += &format!("{name}:{}: {}\n", number + 1, line.trim());
            }
        }
    }
    assert_eq!(fs::read_to_string(report).unwrap(), expected);
    assert_eq!(outcome.output, format!("True {} 40\n", expected.len()));
    assert_eq!(outcome.tool_calls_made, 42);
    let tools: Vec<&str> = outcome
        .tool_calls
        .iter()
        .map(|call| call.tool.as_str())
        .collect();
    assert_eq!(tools[..40], ["read_file"; 40]);
    assert_eq!(tools[40..], ["write_file", "terminal"]);
    assert!(outcome.tool_calls.iter().all(|call| call.ok));
    manager.end().await;
}

#[tokio::test]
async fn calls_are_listed_in_the_order_in_which_they_end() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, os, threading
slow = threading.Thread(target=terminal, args=("until [ -e ended ]; do sleep 0.01; done",))
slow.start()
while not os.path.exists("begun"):
    write_file("begun", "")
read_file("begun")
write_file("ended", "")
slow.join()
print(json.dumps(None))
"#;
    let (_, outcome) = json_of_cell(&session, Cell::new(code)).await;
    let tools: Vec<&str> = outcome
        .tool_calls
        .iter()
        .map(|call| call.tool.as_str())
        .collect();
    assert_eq!(tools, ["write_file", "read_file", "write_file", "terminal"]);
    manager.end().await;
}

#[tokio::test]
async fn any_text_comes_back_as_it_went() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r#"
import json, random
pieces = [
    "\\", "\\n", "\n", "\t", "'", '"', "$'..'", "${x}", "`", "\\u00e9", "\\ud800", "é", "漢字", "\U0001f600", "1|a\n",
    json.dumps({"a": "\\"}), json.dumps(json.dumps({"b": "'\"\n"})), "%s", "{}", "\x00"[:0], "\x7f", "\x1b[0m", "\x01",
    "\u2028", "\u0085", "\ufffd", "&amp;", "</script>", "«redacted»", " ", "  ", "a" * 999 + "漢",
]
chance = random.Random(7)
wrong = []
for n in range(60):
    text = "".join(chance.choice(pieces) for _ in range(chance.randrange(1, 40)))
    written = write_file("text", text)
    back = read_file("text")
    disk = open("text", "rb").read()
    if disk != text.encode() or back["content"] != text or written["bytes_written"] != len(disk):
        wrong.append([text, back, written])
print(json.dumps(wrong[:1]))
"#;
        let cell = Cell::new(code).max_tool_calls(200);
        let (wrong, outcome) = json_of_cell(&session, cell).await;
        assert_eq!(wrong, json!([]), "{version}");
        assert_eq!(outcome.tool_calls_made, 120);
    }
    manager.end().await;
}

/// Thrice through the tools, and still the same bytes.
#[tokio::test]
async fn a_file_that_is_read_and_written_stays_the_same() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, os
kinds = [b"a\r\nb\r\n", b"a\r\nb\n", b"\xef\xbb\xbfx\n", b"1|a\n2|b\n3|c\n", b"no end", b"\n\n", b"", "é\u2028\n".encode()]
wrong = []
for kind in kinds:
    with open("q", "wb") as file:
        file.write(kind)
    for _ in range(3):
        result = write_file("q", read_file("q")["content"])
    if open("q", "rb").read() != kind:
        wrong.append([repr(kind), result])
print(json.dumps(wrong))
"#;
    let (wrong, _) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(wrong, json!([]));
    manager.end().await;
}

#[tokio::test]
async fn two_writers_of_one_file_leave_one_of_their_texts() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, os, threading
texts = [letter * 300_000 for letter in "ab"]
results, seen = [], set()
def write(text):
    for _ in range(10):
        results.append(write_file("both", text))
threads = [threading.Thread(target=write, args=(text,)) for text in texts]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    if os.path.exists("both"):
        seen.add(open("both").read())
for thread in threads:
    thread.join()
seen.add(open("both").read())
failures = [one for one in results if "error" in one]
print(json.dumps([len(results), failures, seen <= set(texts), sorted(os.listdir())]))
"#;
    let (value, _) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(value[0], 20);
    // Whoever finds the other's text when it checks its own says so; nothing else may fail.
    for failure in value[1].as_array().unwrap() {
        let error = failure["error"].as_str().unwrap();
        assert!(
            error.contains("another program changed it at the same moment"),
            "{failure}"
        );
    }
    assert_eq!(value[2], true, "a reader saw a mixture");
    assert_eq!(value[3], json!(["both"]));
    manager.end().await;
}
