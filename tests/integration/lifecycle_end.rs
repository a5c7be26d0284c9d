//! The orderly end of a kernel, and the ends that are none.

use std::fs;
use std::time::{Duration, Instant};

use warmcell::execution::{LiveEvent, Status};
use warmcell::session::{Cell, Session};

use crate::lifecycle_support::{is_alive, limited, number, result};
use crate::support::{Manager, on_each_python, run, run_cell};

fn printed(pieces: &[LiveEvent]) -> String {
    let bytes: Vec<u8> = pieces
        .iter()
        .filter_map(|piece| match piece {
            LiveEvent::Stdout(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
        .flatten()
        .collect();
    String::from_utf8(bytes).unwrap()
}

/// Leaves a temporary folder and an atexit function that writes to a file.
async fn prepare(session: &Session, file: &std::path::Path) -> String {
    let code = format!(
        "import atexit, tempfile\natexit.register(lambda: open({file:?}, 'w').write('ran'))\nt = tempfile.TemporaryDirectory()\nprint(t.name, end='')"
    );
    run(session, &code).await.output
}

/// Longer than it takes a killed process to go.
#[tokio::test]
async fn what_goes_at_the_end_has_its_time() {
    let slow = "import time\nclass Slow:\n    def __del__(self, sleep=time.sleep):\n        print('goes', flush=True)\n        sleep(0.3)\n        print('is gone')\nslow = Slow()";
    on_each_python(async |session, version| {
        run(session, slow).await;
        let ended = session.close().await;
        assert_eq!(printed(&ended.output), "goes\nis gone\n", "{version}");
        assert!(!ended.was_cut_off, "{version}");
    })
    .await;
}

#[tokio::test]
async fn close_and_reset_run_atexit_and_timeout_and_interrupt_do_not() {
    let manager = Manager::start().await;
    for how in ["close", "reset", "timeout", "interrupt"] {
        let session = manager.session(how);
        let file = manager.place.work().join(how);
        let folder = prepare(&session, &file).await;
        assert!(fs::exists(&folder).unwrap());
        match how {
            "close" => drop(session.close().await),
            "reset" => drop(session.reset().await),
            "timeout" => {
                let outcome = run_cell(&session, limited("while True: pass", 100)).await;
                assert_eq!(outcome.status, Status::Timeout);
            }
            _ => {
                let mut execution = session.execute(Cell::new("while True: pass"));
                tokio::time::sleep(Duration::from_millis(30)).await;
                execution.interrupt();
                assert_eq!(result(&mut execution).await.status, Status::Interrupted);
            }
        }
        drop(session.close().await);
        let orderly = matches!(how, "close" | "reset");
        assert_eq!(file.exists(), orderly, "{how}");
        assert_eq!(fs::exists(&folder).unwrap(), !orderly, "{how}");
        fs::remove_dir_all(&folder).ok();
    }
    manager.end().await;
}

#[tokio::test]
async fn the_end_waits_for_threads_and_then_runs_atexit() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "import atexit, threading, time, concurrent.futures\natexit.register(print, 'atexit')\ndef late():\n    time.sleep(0.15); print('thread')\nthreading.Thread(target=late).start()\npool = concurrent.futures.ThreadPoolExecutor()\nf = pool.submit(lambda: (time.sleep(0.3), print('pool')))";
    run(&session, code).await;
    let ended = session.close().await;
    assert_eq!(printed(&ended.output), "thread\npool\natexit\n");
    manager.end().await;
}

#[tokio::test]
async fn an_end_that_hangs_is_cut_off_after_a_second() {
    let manager = Manager::start().await;
    let mut closing = tokio::task::JoinSet::new();
    for (name, code) in [
        (
            "atexit",
            "import atexit, time; atexit.register(time.sleep, 60)",
        ),
        (
            "thread",
            "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()",
        ),
        (
            "loop",
            "import atexit\n@atexit.register\ndef f():\n    while True: pass",
        ),
        (
            "flood",
            "import atexit\n@atexit.register\ndef f():\n    while True: print('x' * 10000)",
        ),
        (
            "pool",
            "import multiprocessing, time\np = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,)); p.start()",
        ),
    ] {
        let session = manager.session(name);
        let pid = number(&session, &format!("{code}\n\nimport os; os.getpid()")).await;
        closing.spawn(async move {
            let began = Instant::now();
            let ended = session.close().await;
            let took = began.elapsed();
            assert!(!is_alive(pid), "{name}");
            assert!(
                took > Duration::from_millis(900) && took < Duration::from_secs(4),
                "{name} took {took:?}"
            );
            let bytes = printed(&ended.output).len();
            assert!(bytes < 3 << 20, "{name} kept {bytes} bytes of a flood");
        });
    }
    while let Some(done) = closing.join_next().await {
        done.unwrap();
    }
    manager.end().await;
}

#[tokio::test]
async fn what_fails_at_the_end_does_not_hold_it_up() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "import atexit, sys\natexit.register(print, 'last')\natexit.register(sys.exit, 3)\natexit.register(lambda: 1/0)";
    run(&session, code).await;
    let began = Instant::now();
    let ended = session.close().await;
    assert_eq!(printed(&ended.output), "last\n");
    assert!(began.elapsed() < Duration::from_millis(900));
    manager.end().await;
}

/// One that has died does not keep the others from being closed.
#[tokio::test]
async fn a_dead_session_does_not_keep_the_others_from_ending() {
    let manager = Manager::start().await;
    let mut files = Vec::new();
    for n in 0..4 {
        let session = manager.session(&format!("s{n}"));
        let file = manager.place.work().join(format!("{n}"));
        prepare(&session, &file).await;
        if n == 1 {
            run(
                &session,
                "import os, threading; threading.Timer(0.05, os._exit, (1,)).start()",
            )
            .await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        } else {
            files.push(file);
        }
    }
    manager.registry.shut_down().await;
    assert!(files.iter().all(|file| file.exists()));
    manager.end().await;
}

#[tokio::test]
async fn an_end_within_the_end_is_told() {
    let manager = Manager::start().await;
    for (how, told) in [
        ("os._exit(3)", Some("exited with code 3")),
        (
            "os.kill(os.getpid(), 9)",
            Some("was killed by signal 9 (SIGKILL)"),
        ),
        ("os._exit(0)", None),
        ("1/0", None),
    ] {
        let session = manager.session("a");
        let code = format!("import atexit, os\ndef end(): {how}\n_ = atexit.register(end)");
        run(&session, &code).await;
        let ended = session.close().await;
        assert_eq!(ended.failed.as_deref(), told, "{how}");
        assert!(!ended.was_cut_off, "{how}");
    }
    manager.end().await;
}
