//! Programs for a person at a terminal: in a command of `terminal` they end at once.

use serde_json::Value;
use warmcell::session::Cell;

use crate::support::Manager;
use crate::tools_kit::{assert_fails, json_of_cell};

/// With a limit that only a program that waits reaches.
const CALLS: &str = r#"
import json, shutil
LIMIT = 20
open("f", "w").write("one\ntwo\n")
terminal("git init -q . && git -c user.name=n -c user.email=e@x add f")
results = {}
for command in COMMANDS:
    program = command.split()[0]
    if shutil.which(program) or program in ("read", "exec"):
        results[command] = terminal(command, timeout=LIMIT)
print(json.dumps(results))
"#;

async fn results(session: &warmcell::session::Session, commands: &[&str]) -> Value {
    let code = format!("COMMANDS = {}\n{CALLS}", serde_json::json!(commands));
    json_of_cell(session, Cell::new(code)).await.0
}

#[tokio::test]
async fn programs_for_a_terminal_end_at_once() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let commands = [
        "vim",
        "vi f",
        "view f",
        "nvim f",
        "nano f",
        "emacs -nw f",
        "less f",
        "more f",
        "man ls",
        "top",
        "htop",
        "python3",
        "python3 -i",
        "bash",
        "bash -i",
        "cat",
        "read -p password: -s x",
        "tty",
        "exec < /dev/tty",
        "git commit",
        "git add -p",
        "git -c user.name=n -c user.email=e@x commit",
        "ed f",
        "vim -es -c %s/one/1/ -c wq f",
    ];
    let results = results(&session, &commands).await;
    let tried = results.as_object().unwrap();
    assert!(tried.len() > 5, "{tried:?}");
    for (command, result) in tried {
        assert_ne!(result["exit_code"], 124, "{command}: {result}");
    }
    for editor in ["vim", "vi f", "view f", "nvim f"] {
        if let Some(result) = tried.get(editor) {
            assert_fails(result, "usage", "waits for a person's keys");
            assert_eq!(result["exit_code"], Value::Null);
        }
    }
    if let Some(result) = tried.get("vim -es -c %s/one/1/ -c wq f") {
        assert_eq!(result["exit_code"], 0, "{result}");
        let changed = std::fs::read_to_string(manager.place.work().join("f")).unwrap();
        assert_eq!(changed, "1\ntwo\n");
    }
    assert_eq!(tried["tty"]["output"], "not a tty\n");
    assert_ne!(tried["exec < /dev/tty"]["exit_code"], 0);
    if let Some(result) = tried.get("less f") {
        assert!(
            result["output"].as_str().unwrap().contains("two\n"),
            "{result}"
        );
    }
    manager.end().await;
}
