//! What a session says of itself at any moment, without its kernel being asked.

use warmcell::execution::Status;
use warmcell::kernel::KernelState;
use warmcell::session::Cell;

use crate::lifecycle_support::{is_alive, limited, number, result, until};
use crate::support::{Manager, Signal, run, run_cell};

#[tokio::test]
async fn a_status_says_what_is_before_while_and_after_a_cell() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let before = session.status();
    assert_eq!(before.name, "a");
    assert_eq!(before.state, KernelState::Dead);
    assert_eq!(
        (before.generation, before.cells, before.cells_total),
        (0, 0, 0)
    );
    assert_eq!(
        (before.execution_count, before.waiting, before.tool_calls),
        (0, 0, 0)
    );
    assert_eq!(before.cwd, manager.place.work());
    let json = serde_json::to_value(&before).unwrap();
    for missing in ["kernel_pid", "python", "running", "last_cell_ended_at"] {
        assert!(json.get(missing).is_none(), "{json}");
    }

    let pid = number(&session, "import os; terminal('true'); os.getpid()").await;
    let idle = session.status();
    assert_eq!(idle.state, KernelState::Idle);
    assert_eq!((idle.generation, idle.cells, idle.cells_total), (1, 1, 1));
    assert_eq!((idle.execution_count, idle.tool_calls), (1, 1));
    assert_eq!(idle.kernel_pid, Some(pid));
    assert_eq!(idle.running, None);
    let ended = idle.last_cell_ended_at.unwrap();
    assert!(idle.opened_at <= ended);
    let version = run(
        &session,
        "import platform; print(platform.python_version())",
    )
    .await;
    let python = idle.python.unwrap();
    assert_eq!(version.output.trim_end(), python.version);
    assert!(python.executable.is_absolute());

    let gate = Signal::new(&manager, "gate");
    let code = "terminal('true'); terminal('false'); open('gate').read()";
    let mut cell = session.execute(Cell::new(code));
    let mut next = session.execute(Cell::new("1"));
    until("both calls", || {
        session
            .status()
            .running
            .is_some_and(|it| it.tool_calls == 2)
    })
    .await;
    let busy = session.status();
    assert_eq!(busy.state, KernelState::Busy);
    assert_eq!(
        (busy.cells, busy.cells_total, busy.execution_count),
        (2, 2, 3)
    );
    assert_eq!((busy.waiting, busy.tool_calls), (1, 3));
    let running = busy.running.unwrap();
    assert_eq!(running.cell, 3);
    assert!(running.since >= busy.last_cell_ended_at.unwrap());
    assert!(busy.last_cell_ended_at.unwrap() > ended);
    gate.give().await;
    result(&mut cell).await;
    result(&mut next).await;
    let after = session.status();
    assert_eq!((after.state, after.waiting), (KernelState::Idle, 0));
    assert_eq!(
        (after.cells, after.cells_total, after.tool_calls),
        (4, 4, 3)
    );
    assert_eq!(after.running, None);
    manager.end().await;
}

#[tokio::test]
async fn a_status_follows_a_loss_to_the_next_kernel() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let pid = number(&session, "import os; os.getpid()").await;
    let outcome = run_cell(&session, limited("terminal('true')\nwhile True: pass", 300)).await;
    assert_eq!(outcome.status, Status::Timeout);
    let lost = session.status();
    assert!(matches!(
        lost.state,
        KernelState::Restarting | KernelState::Idle
    ));
    assert_eq!(
        (lost.generation, lost.cells, lost.execution_count),
        (2, 0, 0)
    );
    assert_eq!((lost.cells_total, lost.tool_calls), (2, 1));
    assert_eq!(lost.running, None);
    until("the next kernel", || session.status().kernel_pid.is_some()).await;
    let next = session.status();
    assert_ne!(next.kernel_pid, Some(pid));
    assert!(next.python.is_some());

    // One that dies while nobody looks.
    let pid = next.kernel_pid.unwrap();
    crate::lifecycle_support::signal(pid, rustix::process::Signal::KILL);
    until("its death", || session.status().state == KernelState::Dead).await;
    assert_eq!(session.status().kernel_pid, None);
    assert!(!is_alive(pid));
    session.close().await;
    assert_eq!(session.status().state, KernelState::Dead);
    manager.end().await;
}

#[tokio::test]
async fn the_usage_of_a_kernel_counts_what_it_has_started() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    assert_eq!(session.usage().await, None);
    let code = "import os, subprocess, sys, time
held = b'x' * 40_000_000
until = time.process_time() + 0.3
while time.process_time() < until: pass";
    run(&session, code).await;
    let alone = session.usage().await.unwrap();
    assert_eq!(alone.processes, 1, "{alone:?}");
    assert!(
        (40_000_000..200_000_000).contains(&alone.rss_bytes),
        "{alone:?}"
    );
    let pss = alone.pss_bytes.unwrap();
    assert!((40_000_000..=alone.rss_bytes).contains(&pss), "{alone:?}");
    assert!((0.25..10.0).contains(&alone.cpu_seconds), "{alone:?}");

    // A child in a session of its own that has a child, whose names are no help.
    let code = "child = subprocess.Popen([sys.executable, '-c', '''
import os, time
held = b'x' * 30_000_000
until = time.process_time() + 0.3
while time.process_time() < until: pass
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    open('/proc/self/comm', 'w').write(') S 1 1 (')
    os.write(write, b'x')
    time.sleep(60)
os.read(read, 1)
print('ready', flush=True)
time.sleep(60)
'''], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline(); 1";
    let outcome = run(&session, code).await;
    assert_eq!(outcome.result.as_deref(), Some("1"), "{outcome:?}");
    let all = session.usage().await.unwrap();
    assert_eq!(all.processes, 3, "{all:?}");
    assert!(all.rss_bytes >= alone.rss_bytes + 55_000_000, "{all:?}");
    let shared = all.pss_bytes.unwrap();
    assert!(
        shared >= pss + 25_000_000 && shared < all.rss_bytes - 25_000_000,
        "{all:?}"
    );
    assert!(all.cpu_seconds >= alone.cpu_seconds + 0.25, "{all:?}");

    // What a child has used that has ended is not forgotten.
    run(&session, "child.kill(); child.wait()").await;
    let after = session.usage().await.unwrap();
    assert!(after.cpu_seconds >= all.cpu_seconds, "{after:?}");
    assert!(after.processes < 3, "{after:?}");

    // While a cell runs, too.
    let gate = Signal::new(&manager, "gate");
    let mut cell = session.execute(Cell::new("open('gate').read()"));
    until("the cell", || session.status().running.is_some()).await;
    assert!(session.usage().await.is_some());
    gate.give().await;
    result(&mut cell).await;
    session.close().await;
    assert_eq!(session.usage().await, None);
    manager.end().await;
}
