//! What multiprocessing keeps outside of processes goes with the kernel: shared memory, semaphores.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use warmcell::execution::Status;
use warmcell::session::{Cell, Session};

use crate::lifecycle_support::{signal, written};
use crate::support::{Manager, Place, finish, on_each_python, pythons, run, run_cell, text};

/// Leaves a bit of everything, and prints the files that hold it.
const LEAVE: &str = "import multiprocessing
from multiprocessing import shared_memory
m = shared_memory.SharedMemory(create=True, size=100)
l = shared_memory.ShareableList([1, 'two'])
context = multiprocessing.get_context('spawn')
pool = context.Pool(1); pool.apply(abs, (-1,))
locks = [context.Lock(), context.Event(), context.Queue(), context.Barrier(2)]
sems = [locks[0], locks[1]._cond._lock, locks[2]._rlock, locks[3]._cond._lock, pool._inqueue._rlock]
names = [m._name.lstrip('/'), l.shm._name.lstrip('/')] + ['sem.' + it._semlock.name.lstrip('/') for it in sems]
print(*['/dev/shm/' + name for name in names])";

fn files(shown: &str) -> Vec<PathBuf> {
    let names = shown
        .split_whitespace()
        .filter(|it| it.starts_with("/dev/shm/"));
    let files: Vec<PathBuf> = names.map(PathBuf::from).collect();
    assert_eq!(files.len(), 7, "{shown}");
    files
}

async fn leave(session: &Session) -> Vec<PathBuf> {
    let outcome = run(session, LEAVE).await;
    assert_eq!(outcome.status, Status::Success, "{}", outcome.output);
    let files = files(&outcome.output);
    assert!(files.iter().all(|file| file.exists()), "{files:?}");
    files
}

#[track_caller]
fn assert_gone(files: &[PathBuf], what: &str) {
    let left: Vec<_> = files.iter().filter(|file| file.exists()).collect();
    assert!(left.is_empty(), "{what}: {left:?}");
}

#[tokio::test]
async fn shared_memory_and_semaphores_go_with_the_kernel() {
    on_each_python(async |session, version| {
        let reset = leave(session).await;
        session.reset().await;
        assert_gone(&reset, version);
        let killed = leave(session).await;
        let limited = Cell::new("while True: pass").timeout(Duration::from_millis(100));
        assert_eq!(
            run_cell(session, limited).await.status,
            Status::Timeout,
            "{version}"
        );
        let died = leave(session).await;
        run(session, "import os; os._exit(3)").await;
        let closed = leave(session).await;
        session.close().await;
        assert_gone(&closed, version);
        // Nobody waits for what a killed kernel leaves; it has its time all the same.
        for files in [killed, died] {
            crate::lifecycle_support::until("the end of the files", || {
                files.iter().all(|file| !file.exists())
            })
            .await;
        }
    })
    .await;
}

#[tokio::test]
async fn shared_memory_and_semaphores_go_with_exec() {
    for (version, python) in pythons() {
        for end in ["pass", "import sys; sys.exit(3)", "while True: pass"] {
            let place = Place::new();
            let mut command = place.warmcell(&["exec", "--python"]);
            let code = place.work().join("leave.py");
            std::fs::write(&code, LEAVE).unwrap();
            let last = place.work().join("end.py");
            let begun = place.work().join("begun");
            let text_of_last = format!("print('x', file=open({begun:?}, 'w'), flush=True)\n{end}");
            std::fs::write(&last, text_of_last).unwrap();
            command.arg(python);
            command.arg("-f").arg(&code).arg("-f").arg(&last);
            let output = if end.starts_with("while") {
                // No time limit: on a busy machine that would be over before the first cell is.
                let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
                let exec = streams.spawn().unwrap();
                written(&begun).await;
                signal(exec.id(), Signal::INT);
                exec.wait_with_output().unwrap()
            } else {
                finish(&mut command)
            };
            let what = format!("{version}: {end}: {}", text(&output.stderr));
            assert_gone(&files(&text(&output.stdout)), &what);
        }
    }
}

#[tokio::test]
async fn who_poses_as_a_resource_tracker_escapes_nothing() {
    let manager = Manager::start().await;
    // One that never ends, one that never ends and starts others, and a row of short-lived ones.
    for evil in [
        "while True: time.sleep(1)",
        "os.fork(); os.fork()\nwhile True: time.sleep(1)",
        "while True:\n    time.sleep(0.002)\n    if os.fork(): os._exit(0)",
        "while True:\n    time.sleep(0.002)\n    os.posix_spawn(sys.executable, [sys.executable, '-c', 'from multiprocessing.resource_tracker import main;main(*[])if 0 else 0\\nimport time; time.sleep(9)'], os.environ)",
    ] {
        let session = manager.session("a");
        let code = format!(
            "import subprocess, sys\nevil = 'from multiprocessing.resource_tracker import main;main(*[])if 0 else 0\\nimport os, sys, time\\nos.setsid()\\n' + {evil:?}\nfor _ in range(3): subprocess.Popen([sys.executable, '-c', evil])"
        );
        let started = run(&session, &code).await;
        assert_eq!(started.status, Status::Success, "{}", started.output);
        let limited = Cell::new("import time; time.sleep(60)").timeout(Duration::from_millis(300));
        assert_eq!(run_cell(&session, limited).await.status, Status::Timeout);
        session.close().await;
    }
    manager.end().await;
}
