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
