//! What a command leaves behind lives until the kernel ends, and no longer.

use std::path::Path;
use std::time::{Duration, Instant};

use warmcell::session::Session;

use crate::support::{Manager, run};
use crate::tools_kit::{eventually, json_of};

/// Runs a command that writes the number of what it leaves behind into `pid`.
async fn leave(session: &Session, command: &str) -> u32 {
    let code = format!(
        "import json, os, time\n\
         began = time.monotonic()\n\
         result = terminal({command:?})\n\
         assert result['exit_code'] == 0, result\n\
         assert time.monotonic() - began < 5, 'it was waited for'\n\
         while not (os.path.exists('pid') and open('pid').read().endswith('\\n')): time.sleep(0.005)\n\
         pid = int(open('pid').read()); os.remove('pid'); pid"
    );
    let outcome = run(session, &code).await;
    outcome.result.unwrap_or(outcome.output).parse().unwrap()
}

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

async fn gone(pid: u32) -> Duration {
    let began = Instant::now();
    eventually(|| (!lives(pid)).then_some(())).await;
    began.elapsed()
}

const WAYS: [&str; 5] = [
    "sleep 300 & echo $! > pid",
    "setsid sleep 300 & sleep 0.05; pgrep -n -x sleep -P $! > pid || echo $! > pid",
    "nohup sleep 300 >/dev/null 2>&1 & echo $! > pid; disown",
    "(setsid sh -c 'echo $$ > pid; exec sleep 300' &)",
    "sh -c 'sh -c \"echo \\$\\$ > pid; exec sleep 300\" &' ",
];

#[tokio::test]
async fn leftovers_live_until_the_session_ends() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let other = manager.session("b");
    let of_the_other = leave(&other, WAYS[0]).await;
    let mut pids = Vec::new();
    for way in WAYS {
        pids.push(leave(&session, way).await);
    }
    run(&session, "x = 1").await;
    for pid in &pids {
        assert!(lives(*pid));
    }
    session.close().await;
    for pid in pids {
        gone(pid).await;
    }
    assert!(
        lives(of_the_other),
        "another session's leftovers are its own"
    );
    manager.end().await;
    gone(of_the_other).await;
}

#[tokio::test]
async fn leftovers_end_with_a_kernel_that_is_killed_or_reset() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for way in [WAYS[0], WAYS[3]] {
        let pid = leave(&session, way).await;
        run(&session, "import os; os._exit(3)").await;
        gone(pid).await;
        let pid = leave(&session, way).await;
        session.reset().await;
        gone(pid).await;
    }
    manager.end().await;
}

/// A leftover that still writes neither holds the call nor gets into a later one.
#[tokio::test]
async fn a_leftover_that_writes_holds_nobody_up() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, time
began = time.monotonic()
first = terminal("echo first; while echo more; do sleep 0.01; done & sleep 0.05")
second = terminal("echo second")
print(json.dumps([time.monotonic() - began < 5, first["output"][:6], second["output"]]))
"#;
    let value = json_of(&session, code).await;
    assert_eq!(value, serde_json::json!([true, "first\n", "second\n"]));
    manager.end().await;
}
