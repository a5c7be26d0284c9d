//! How many calls a cell may make, and of which tools.

use std::collections::BTreeSet;

use serde_json::json;
use warmcell::session::Cell;
use warmcell::tools::Grant;

use crate::support::{Manager, pythons, run_cell};
use crate::tools_kit::{assert_fails, json_of, json_of_cell};

fn only(names: &[&str]) -> Grant {
    Grant::Only(
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>(),
    )
}

#[tokio::test]
async fn trace_7_call_51_is_an_error_and_the_cell_goes_on() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r#"
import json
results = [read_file("/proc/sys/kernel/ostype") for _ in range(52)]
print(json.dumps([[("error" in one) for one in results], results[50], list(results[51]), list(results[0])]))
"#;
        let (value, outcome) = json_of_cell(&session, Cell::new(code)).await;
        let mut failed = vec![false; 50];
        failed.extend([true, true]);
        assert_eq!(value[0], json!(failed), "{version}");
        assert_eq!(
            value[1],
            json!({
                "content": null, "total_lines": null, "file_size": null, "truncated": null,
                "next_offset": null, "is_binary": null,
                "error": "tool call limit reached (50 in this cell)", "error_class": "limit",
            })
        );
        let keys = [
            "content",
            "total_lines",
            "file_size",
            "truncated",
            "next_offset",
            "is_binary",
        ];
        assert_eq!(
            value[2],
            json!([&keys[..], &["error", "error_class"]].concat())
        );
        assert_eq!(value[3], json!(keys), "keys come in the documented order");
        assert_eq!(outcome.tool_calls_made, 50);
        assert_eq!(outcome.tool_calls.len(), 50);
    }
    manager.end().await;
}

#[tokio::test]
async fn refusals_are_free_and_failed_calls_count() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json
free = [terminal("true", background=True), terminal("true", pty=True)]
paid = [read_file("/no/such"), terminal("exit 3"), read_file(5)]
over = read_file("/proc/version")
print(json.dumps([free, paid, over]))
"#;
    let (value, outcome) = json_of_cell(&session, Cell::new(code).max_tool_calls(3)).await;
    assert_fails(
        &value[0][0],
        "refused",
        "'background' is not available from a cell",
    );
    assert_fails(
        &value[0][1],
        "refused",
        "'pty' is not available from a cell",
    );
    assert_fails(&value[1][0], "exception", "/no/such");
    assert_eq!(
        value[1][1],
        json!({"output": "", "exit_code": 3, "truncated": false})
    );
    assert_fails(
        &value[1][2],
        "usage",
        "read_file: 'path' must be a string, got a number",
    );
    assert_fails(
        &value[2],
        "limit",
        "tool call limit reached (3 in this cell)",
    );
    assert_eq!(outcome.tool_calls_made, 3);
    let oks: Vec<bool> = outcome.tool_calls.iter().map(|call| call.ok).collect();
    assert_eq!(oks, [false, true, false]);
    manager.end().await;
}

#[tokio::test]
async fn no_calls_at_all() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "import json; print(json.dumps(terminal('true')))";
    let (value, outcome) = json_of_cell(&session, Cell::new(code).max_tool_calls(0)).await;
    assert_fails(&value, "limit", "tool call limit reached (0 in this cell)");
    assert_eq!(outcome.tool_calls_made, 0);
    assert!(outcome.tool_calls.is_empty());
    manager.end().await;
}

#[tokio::test]
async fn parallel_calls_never_exceed_the_budget() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(16) as pool:
    results = list(pool.map(lambda n: read_file("/proc/version", limit=1), range(64)))
print(json.dumps([sum("error" in one for one in results), sum("content" in one and one["content"] is not None for one in results)]))
"#;
    for _ in 0..3 {
        let (value, outcome) = json_of_cell(&session, Cell::new(code).max_tool_calls(20)).await;
        assert_eq!(value, json!([44, 20]));
        assert_eq!(outcome.tool_calls_made, 20);
    }
    manager.end().await;
}

#[tokio::test]
async fn three_states_of_the_grant() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "import json, subprocess, sys, hermes_tools\n\
                from hermes_tools import terminal, read_file, write_file\n\
                state = globals().get('state', 0) + 1\n\
                print(json.dumps([state, read_file('/proc/sys/kernel/ostype'), terminal('echo x')]))";
    let (unset, _) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(unset[1]["content"], "Linux\n");
    assert_eq!(unset[2]["output"], "x\n");
    let (list, outcome) = json_of_cell(&session, Cell::new(code).grant(only(&["read_file"]))).await;
    assert_eq!(list[1]["content"], "Linux\n");
    assert_fails(
        &list[2],
        "refused",
        "tool 'terminal' is not granted to this cell; callable: read_file",
    );
    assert_eq!(outcome.tool_calls_made, 1);
    let (none, outcome) = json_of_cell(&session, Cell::new(code).grant(only(&[]))).await;
    for result in [&none[1], &none[2]] {
        assert_fails(result, "refused", "no tool may be called");
    }
    assert_eq!(outcome.tool_calls_made, 0);
    // A list of what does not exist is a mistake, and no empty list.
    let mistaken = run_cell(&session, Cell::new(code).grant(only(&["vision"])));
    let mistaken = mistaken.await;
    assert!(
        mistaken.output.contains("there is no tool \"vision\""),
        "{mistaken:?}"
    );
    // The grant is the cell's; the kernel and its state are the same throughout.
    let (last, outcome) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(last[0], 4);
    assert_eq!(last[2]["output"], "x\n");
    assert_eq!(outcome.kernel.generation, 1);
    manager.end().await;
}

#[tokio::test]
async fn a_tool_that_does_not_exist_cannot_be_imported() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r#"
import json, subprocess, sys
import hermes_tools
seen = [hasattr(hermes_tools, name) for name in ("x", "web_search", "__path__", "terminal")]
try:
    from hermes_tools import web_search
except ImportError as error:
    seen.append(str(error))
try:
    hermes_tools.web_search
except AttributeError as error:
    seen.append(str(error))
in_child = subprocess.run(
    [sys.executable, "-c", "from hermes_tools import web_search"], stderr=subprocess.PIPE
)
seen += [in_child.returncode, in_child.stderr.decode().splitlines()[-1]]
print(json.dumps(seen))
"#;
        let value = json_of(&session, code).await;
        let sentence = "there is no tool 'web_search'; hermes_tools has json_parse, read_file, \
                        retry, shell_quote, terminal, write_file";
        assert_eq!(
            value,
            json!([
                false,
                false,
                false,
                true,
                sentence,
                sentence,
                1,
                format!("ImportError: {sentence}")
            ]),
            "{version}"
        );
        let outcome = run_cell(&session, Cell::new("from hermes_tools import web_search")).await;
        assert!(
            outcome
                .error
                .unwrap()
                .starts_with(&format!("ImportError: {sentence}"))
        );
    }
    manager.end().await;
}

#[tokio::test]
async fn tools_that_are_never_callable_are_refused_by_name() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, os, socket
def raw(tool):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.environ["HERMES_RPC_SOCKET"])
        def send(value):
            data = json.dumps(value).encode()
            sock.sendall(len(data).to_bytes(4, "little") + data)
        send({"hello": 1, "token": os.environ["HERMES_RPC_TOKEN"]})
        send({"id": 7, "cell": int(os.environ["HERMES_RPC_CELL"]), "tool": tool, "args": {}, "cwd": "/"})
        file = sock.makefile("rb")
        return json.loads(file.read(int.from_bytes(file.read(4), "little")))
print(json.dumps([raw(tool) for tool in ("execute_code", "delegate_task", "mcp__x__y", "", "TERMINAL", "__init__")]))
"#;
    let (value, outcome) = json_of_cell(&session, Cell::new(code)).await;
    for (reply, name) in value.as_array().unwrap().iter().zip([
        "'execute_code'",
        "'delegate_task'",
        "'mcp__x__y'",
        "''",
        "'TERMINAL'",
        "'__init__'",
    ]) {
        assert_eq!(reply["id"], 7);
        let words = format!(
            "{name} cannot be called from a cell; callable: read_file, write_file, terminal"
        );
        assert_fails(&reply["result"], "refused", &words);
    }
    assert_eq!(outcome.tool_calls_made, 0);
    manager.end().await;
}
