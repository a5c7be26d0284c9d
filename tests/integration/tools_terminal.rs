//! `terminal` with a real shell.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warmcell::session::{Cell, Session};

use crate::support::{Manager, run};
use crate::tools_kit::{assert_fails, json_of, json_of_cell};

/// Calls `terminal` with some arguments.
async fn terminal(session: &Session, arguments: &str) -> Value {
    let code = format!("import json; print(json.dumps(terminal({arguments})))");
    json_of(session, &code).await
}

fn ended(output: &str, exit_code: i32) -> Value {
    json!({"output": output, "exit_code": exit_code, "truncated": false})
}

#[tokio::test]
async fn exit_codes_signals_and_output_as_they_are() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for (command, expected) in [
        ("true", ended("", 0)),
        ("exit 7", ended("", 7)),
        ("false; echo $?", ended("1\n", 0)),
        (
            "echo out; echo err >&2; echo out",
            ended("out\nerr\nout\n", 0),
        ),
        ("kill -TERM $$", ended("", 143)),
        ("kill -KILL $$", ended("", 137)),
        ("printf 'no end'", ended("no end", 0)),
        ("printf '  a \\n\\n'", ended("  a \n\n", 0)),
        ("printf 'caf\\303\\251'", ended("café", 0)),
        (
            "printf '\\377\\000a\\033[1m'",
            ended("\u{fffd}\u{0}a\u{1b}[1m", 0),
        ),
        ("echo ${BASH_VERSION:0:0}$((6*7))", ended("42\n", 0)),
        // Whoever reads gets nothing and ends.
        ("cat; read x; echo $?", ended("1\n", 0)),
        (
            "python3 -c 'input()' 2>&1 | tail -n1",
            ended("EOFError: EOF when reading a line\n", 0),
        ),
        // Nobody can answer in an editor or a pager.
        ("$EDITOR /tmp/x; echo $?", ended("1\n", 0)),
        ("echo page | ${PAGER:-more}", ended("page\n", 0)),
        ("ulimit -c; echo $- | grep -c i", ended("0\n0\n", 1)),
        ("trap '' PIPE; trap | grep -c PIPE", ended("1\n", 0)),
        ("yes | head -n 1", ended("y\n", 0)),
    ] {
        let result = terminal(&session, &format!("{command:?}")).await;
        assert_eq!(result, expected, "{command}");
    }
    let missing = terminal(&session, "'no-such-program-here'").await;
    assert_eq!(missing["exit_code"], 127);
    assert!(missing["output"].as_str().unwrap().contains("not found"));
    assert!(missing.get("error").is_none());
    manager.end().await;
}

#[tokio::test]
async fn a_limit_is_final_and_takes_no_longer_than_it_says() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let began = Instant::now();
    let result = terminal(&session, "'echo so far; sleep 60 & sleep 61', timeout=0.5").await;
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(500) && took < Duration::from_secs(3),
        "{took:?}"
    );
    assert_eq!(result["output"], "so far\n");
    assert_eq!(result["exit_code"], 124);
    assert_fails(
        &result,
        "timeout",
        "after 0.5 s, the 'timeout' of this call; this is final",
    );
    // The rest of the cell's time is less than what the call asks for.
    let code = "import json; r = terminal('sleep 60', timeout=400)";
    let cell = Cell::new(code).timeout(Duration::from_millis(700));
    let began = Instant::now();
    let outcome = crate::support::run_cell(&session, cell).await;
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(
        outcome.error_class,
        Some(warmcell::execution::ErrorClass::Timeout)
    );
    assert_eq!(outcome.tool_calls.len(), 1);
    assert!(!outcome.tool_calls[0].ok);
    manager.end().await;
}

#[tokio::test]
async fn a_flood_is_counted_and_cut() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json
notice = "\n\n... [OUTPUT TRUNCATED - 4,950,000 bytes omitted out of 5,000,000 total] ...\n\n"
result = terminal("yes | head -c 5000000")
exact = terminal("yes | head -c 50000")
print(json.dumps([
    result["output"] == "y\n" * 10_000 + notice + "y\n" * 15_000, result["truncated"], result["exit_code"],
    exact["output"] == "y\n" * 25_000, exact["truncated"],
]))
"#;
    let value = json_of(&session, code).await;
    assert_eq!(value, json!([true, true, 0, true, false]));
    manager.end().await;
}

/// Longer than a message to the forkserver, and as long as a command may be.
#[tokio::test]
async fn a_long_command_runs_and_a_longer_one_is_refused() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json
results = [terminal("echo " + "x" * length + " | wc -c") for length in (70_000, 131_058, 131_059)]
print(json.dumps([results[0]["output"], results[1]["output"], results[2]]))
"#;
    let value = json_of(&session, code).await;
    assert_eq!(value[0], "70001\n");
    assert_eq!(value[1], "131059\n");
    assert_fails(&value[2], "limit", "has 131072 bytes, the most is 131071");
    manager.end().await;
}

#[tokio::test]
async fn it_runs_where_the_caller_is() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let work = manager.place.work().display().to_string();
    let code = r#"
import json, os, subprocess, sys
os.makedirs("a b/c"); os.makedirs(b"odd-\xff")
def at(**more):
    return terminal("pwd; echo $PWD", **more)["output"].splitlines()
seen = [at(), at(workdir="a b"), at(workdir=os.path.abspath("a b/c")), at(workdir="~")]
os.chdir("a b")
seen += [at(), at(workdir="c")]
write_file("here", "x")
seen.append(os.path.exists("here") and read_file("here")["content"])
program = "import hermes_tools; print(hermes_tools.terminal('pwd')['output'], end='')"
seen.append(subprocess.run([sys.executable, "-c", program], cwd="c", stdout=subprocess.PIPE).stdout.decode())
terminal("cd c")
seen.append(os.getcwd())
print(json.dumps(seen))
"#;
    let seen = json_of(&session, code).await;
    let twice = |path: &str| json!([format!("{work}{path}"), format!("{work}{path}")]);
    assert_eq!(seen[0], twice(""));
    assert_eq!(seen[1], twice("/a b"));
    assert_eq!(seen[2], twice("/a b/c"));
    assert_eq!(seen[3], twice(""));
    assert_eq!(seen[4], twice("/a b"));
    assert_eq!(seen[5], twice("/a b/c"));
    assert_eq!(seen[6], "x");
    assert_eq!(seen[7], format!("{work}/a b/c\n"));
    assert_eq!(seen[8], format!("{work}/a b"));
    // A directory whose name is no text, and one that is gone.
    let code = r#"
os.chdir(os.fsencode(os.path.dirname(os.getcwd())) + b"/odd-\xff")
write_file("x", "in odd")
odd = [terminal("cat x")["output"], read_file("x")["content"], os.listdir()]
os.mkdir("gone"); os.chdir("gone"); os.rmdir(os.path.join(os.fsdecode(os.getcwdb())))
gone = [terminal("pwd"), read_file("x"), write_file("x", "y"), terminal("pwd", workdir="/")["output"]]
os.chdir("/")
print(json.dumps([odd, gone, os.path.exists("/x")]))
"#;
    let seen = json_of(&session, code).await;
    assert_eq!(seen[0], json!(["in odd", "in odd", ["x"]]));
    for result in &seen[1].as_array().unwrap()[..3] {
        assert_fails(result, "exception", "is gone");
    }
    assert_eq!(seen[1][3], "/\n");
    assert_eq!(seen[2], false);
    let wrong = terminal(&session, "'pwd', workdir='/no/such'").await;
    assert_fails(
        &wrong,
        "usage",
        "terminal: 'workdir' must be an existing directory, got '/no/such'",
    );
    manager.end().await;
}

#[tokio::test]
async fn background_work_is_refused_by_name() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for name in ["background", "pty", "notify_on_complete", "watch_patterns"] {
        let code = format!("import json; print(json.dumps(terminal('touch made', {name}=True)))");
        let (result, outcome) = json_of_cell(&session, Cell::new(code)).await;
        assert_fails(
            &result,
            "refused",
            &format!("terminal: '{name}' is not available"),
        );
        assert_eq!(result["output"], Value::Null);
        assert_eq!(outcome.tool_calls_made, 0);
    }
    assert!(!manager.place.work().join("made").exists());
    // Off is not asked for.
    let off = terminal(&session, "'echo x', background=False, pty=None").await;
    assert_eq!(off, ended("x\n", 0));
    manager.end().await;
}

#[tokio::test]
async fn quick_calls_are_quick() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, time
terminal("true")
began = time.perf_counter()
codes = {terminal("true")["exit_code"] for _ in range(50)}
print(json.dumps([list(codes), (time.perf_counter() - began) / 50]))
"#;
    let (value, outcome) = json_of_cell(&session, Cell::new(code).max_tool_calls(60)).await;
    assert_eq!(value[0], json!([0]));
    assert_eq!(outcome.tool_calls_made, 51);
    let each = value[1].as_f64().unwrap() * 1e3;
    eprintln!("terminal('true'): {each:.1} ms");
    assert!(each < 100.0, "{each} ms each");
    manager.end().await;
}

#[tokio::test]
async fn a_command_sees_the_callers_environment_and_not_the_tool_socket() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let result = terminal(
        &session,
        "'env | grep -c ^HERMES_RPC; env | grep ^PYTHONPATH; echo $HOME'",
    )
    .await;
    let home = manager.place.work().display().to_string();
    assert_eq!(result, ended(&format!("0\n{home}\n"), 0));
    run(&session, "pass").await;
    manager.end().await;
}

/// They are the host's, not the cell's children: what calls tools stays with the cell.
#[tokio::test]
async fn a_command_has_no_way_back_to_the_tools() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, subprocess, sys
script = "import os\ntry:\n    import hermes_tools; print(True)\nexcept ImportError: print(False)\nprint([n for n in os.environ if n.startswith('HERMES_RPC')])"
child = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True).stdout
command = terminal(f"{shell_quote(sys.executable)} -c {shell_quote(script)}")["output"]
print(json.dumps([child.splitlines()[0], command.splitlines()]))
"#;
    assert_eq!(
        json_of(&session, code).await,
        json!(["True", ["False", "[]"]])
    );
    manager.end().await;
}
