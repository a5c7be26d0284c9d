//! Shell commands of the tool `terminal` end with the kernel that asked for them.

use std::time::Duration;

use warmcell::execution::Status;
use warmcell::session::Cell;

use crate::lifecycle_support::{is_alive, json, limited, number, result, until, written};
use crate::support::{Manager, run, run_cell};

const IMPORT: &str =
    "import hermes_tools, os, threading, time\nfrom hermes_tools import terminal\n";

/// Commands that leave a process behind; its number is the last line of the output.
const LEFTOVERS: [&str; 4] = [
    "sleep 300 & echo $!",
    "setsid sleep 300 & sleep 0.1; pgrep -n -f '^sleep 300$' -s 0 >/dev/null; echo $!",
    "(sleep 300 & echo $!) ",
    "nohup sleep 300 >/dev/null 2>&1 & disown; echo $!",
];

#[tokio::test]
async fn leftovers_live_until_the_kernel_ends() {
    let manager = Manager::start().await;
    for how in ["timeout", "death", "close"] {
        let session = manager.session(how);
        run(&session, IMPORT).await;
        let mut left = Vec::new();
        for command in LEFTOVERS {
            let code = format!("int(terminal({command:?})['output'].split()[-1])");
            left.push(number(&session, &code).await);
        }
        run(&session, "1").await;
        assert!(left.iter().all(|pid| is_alive(*pid)), "{how}: they live on");
        match how {
            "timeout" => drop(run_cell(&session, limited("while True: pass", 100)).await),
            "death" => drop(run(&session, "os.kill(os.getpid(), 9)").await),
            _ => drop(session.close().await),
        }
        until(how, || left.iter().all(|pid| !is_alive(*pid))).await;
    }
    manager.end().await;
}

#[tokio::test]
async fn a_command_in_flight_ends_with_its_cell_or_kernel() {
    let manager = Manager::start().await;
    for how in ["timeout", "interrupt", "death", "reset", "forkserver"] {
        let session = manager.session(how);
        run(&session, IMPORT).await;
        let file = manager.place.work().join(how);
        let command = format!(
            "echo $$ > {}; trap '' TERM INT; while true; do sleep 0.01; done",
            file.display()
        );
        let call = match how {
            "death" | "forkserver" => {
                let victim = if how == "death" {
                    "os.getpid()"
                } else {
                    "os.getppid()"
                };
                format!(
                    "threading.Thread(target=terminal, args=({command:?},)).start()\nwhile not os.path.exists({file:?}): time.sleep(0.001)\ntime.sleep(0.05); os.kill({victim}, 9); time.sleep(9)"
                )
            }
            _ => format!("print('a', flush=True)\nterminal({command:?})"),
        };
        let limit = if how == "timeout" { 600 } else { 20_000 };
        let mut execution = session.execute(limited(&call, limit));
        let shell: u32 = written(&file).await.parse().unwrap();
        match how {
            "interrupt" => execution.interrupt(),
            "reset" => drop(session.reset().await),
            _ => {}
        }
        let outcome = result(&mut execution).await;
        let told = json(&outcome);
        assert_ne!(outcome.status, Status::Success);
        assert_eq!(told["tool_calls_made"], 1, "{how}: {told}");
        assert_eq!(told["tool_calls"][0]["ok"], false, "{how}: {told}");
        until(how, || !is_alive(shell)).await;
    }
    manager.end().await;
}

/// The tool's order is on its way while the kernel dies.
#[tokio::test]
async fn a_command_that_starts_as_the_kernel_dies_ends_too() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    for delay in 0..15 {
        let code = format!(
            "{IMPORT}for _ in range(4): threading.Thread(target=terminal, args=('setsid sleep 300',)).start()\ntime.sleep({})\nos.kill(os.getpid(), 9)",
            f64::from(delay) / 1_000.0
        );
        let outcome = run(&session, &code).await;
        assert_eq!(json(&outcome)["error_class"], "kernel_died");
    }
    drop(session.close().await);
    let asleep = || {
        let survivors = manager.place.survivors();
        survivors
            .iter()
            .all(|(_, command)| !command.contains("sleep"))
    };
    until("the end of all commands", asleep).await;
    manager.end().await;
}

/// A script of any length; it does not fit into a message to the forkserver.
#[tokio::test]
async fn a_long_command_runs() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = format!("{IMPORT}terminal('echo a; #' + 'x' * 110_000)['output']");
    let outcome = run(&session, &code).await;
    assert_eq!(outcome.result.as_deref(), Some("'a\\n'"), "{outcome:?}");
    let code = "terminal('echo a; #' + 'x' * 1_000_000)";
    let outcome = run_cell(&session, Cell::new(code).timeout(Duration::from_secs(9))).await;
    assert_eq!(outcome.status, Status::Success, "{outcome:?}");
    assert_eq!(run(&session, "6*7").await.result.as_deref(), Some("42"));
    manager.end().await;
}
