//! Ending a kernel ends everything it has started, however it ends; nobody else's children.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use warmcell::execution::Status;
use warmcell::session::{Cell, Session};

use crate::lifecycle_support::{is_alive, json, limited, number, result, signal, until, written};
use crate::support::{Manager, Place, SAFETY, run, run_cell};

/// Starts every kind of descendant. Each writes to a file of its own for ever, so that one that
/// lives on is seen to. The value of the cell is how many there are.
pub fn litter(folder: &str) -> String {
    format!(
        r"
import os, signal, subprocess, sys, time, multiprocessing
folder = {folder:?}
def busy(name):
    while True:
        with open(os.path.join(folder, name), 'a') as file: file.write('x')
        time.sleep(0.005)
script = 'import sys, time\nwhile True:\n    open(sys.argv[1], sys.argv[2]).write(sys.argv[3]); time.sleep(0.005)'
def start(name, **more):
    subprocess.Popen([sys.executable, '-c', script, os.path.join(folder, name), 'a', 'x'], **more)
start('child')
start('setsid', start_new_session=True)
deaf = 'import signal\nfor n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\n'
subprocess.Popen([sys.executable, '-c', deaf + script, os.path.join(folder, 'deaf'), 'a', 'x'])
def daemon(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            busy(name)
        os._exit(0)
    os.wait()
daemon('daemon')
def chaser(name):
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork(): os._exit(0)
            with open(os.path.join(folder, name), 'a') as file: file.write('x')
for n in range(8): chaser(f'chaser{{n}}')
pool = multiprocessing.get_context('fork').Pool(2)
for n in range(2): pool.apply_async(busy, (f'pool{{n}}',))
names = ['child', 'setsid', 'deaf', 'daemon'] + [f'chaser{{n}}' for n in range(8)] + ['pool0', 'pool1']
while not all(os.path.exists(os.path.join(folder, name)) for name in names): time.sleep(0.01)
"
    )
}

/// A session with its litter, and where that is.
async fn littered(manager: &Manager, name: &str) -> (Session, PathBuf) {
    let folder = manager.place.work().join(name);
    fs::create_dir(&folder).unwrap();
    let session = manager.session(name);
    let outcome = run(&session, &litter(folder.to_str().unwrap())).await;
    assert_eq!(outcome.status, Status::Success, "{outcome:?}");
    (session, folder)
}

/// Waits until nothing writes any more; a chaser that lives writes all the time.
async fn assert_gone(folder: &Path, how: &str) -> Duration {
    let sizes = || -> Vec<u64> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries
            .map(|entry| entry.metadata().unwrap().len())
            .collect()
    };
    let began = Instant::now();
    let (mut size, mut since) = (sizes(), began);
    assert_eq!(size.len(), 14);
    while since.elapsed() < Duration::from_millis(60) {
        assert!(
            began.elapsed() < SAFETY,
            "something still writes after {how}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
        let now = sizes();
        if now != size {
            (size, since) = (now, Instant::now());
        }
    }
    let took = since.duration_since(began);
    eprintln!("orphans after {how}: the last wrote after {took:?}");
    took
}

#[tokio::test]
async fn nothing_a_cell_has_started_outlives_its_kernel() {
    let manager = Manager::start().await;
    // Somebody else's children, which must not be touched.
    let other = manager.session("other");
    let code =
        "import subprocess; p = subprocess.Popen(['sleep', '300'], start_new_session=True); p.pid";
    let neighbour = number(&other, code).await;
    for how in ["timeout", "interrupt", "death", "exit", "reset", "close"] {
        let (session, folder) = littered(&manager, how).await;
        match how {
            "timeout" => {
                let outcome = run_cell(&session, limited("while True: pass", 100)).await;
                assert_eq!(outcome.status, Status::Timeout);
            }
            "interrupt" => {
                let mut execution = session.execute(Cell::new("while True: pass"));
                tokio::time::sleep(Duration::from_millis(20)).await;
                execution.interrupt();
                assert_eq!(result(&mut execution).await.status, Status::Interrupted);
            }
            "death" => {
                run(&session, "os.kill(os.getpid(), 9)").await;
            }
            "exit" => {
                run(&session, "os._exit(1)").await;
            }
            "reset" => drop(session.reset().await),
            _ => drop(session.close().await),
        }
        assert_gone(&folder, how).await;
        drop(session.close().await);
        assert!(is_alive(neighbour), "{how} has hit another session");
        assert_eq!(
            run(&other, "p.poll()").await.output,
            "[completed without output]"
        );
    }
    manager.end().await;
    assert!(!is_alive(neighbour));
}

/// A cell that kills the forkserver too: children found by their mark.
#[tokio::test]
async fn the_children_of_a_dead_forkserver_are_ended() {
    let manager = Manager::start().await;
    let (session, folder) = littered(&manager, "a").await;
    let outcome = run(&session, "os.kill(os.getppid(), 9); time.sleep(9)").await;
    assert_eq!(json(&outcome)["error_class"], "kernel_died");
    let took = assert_gone(&folder, "the death of the forkserver").await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    manager.end().await;
}

/// Whoever still holds a session.
#[tokio::test]
async fn a_manager_that_is_dropped_ends_everything() {
    let manager = Manager::start().await;
    let (session, _) = littered(&manager, "a").await;
    let idle = manager.session("idle");
    run(&idle, "1").await;
    let mut running = session.execute(Cell::new("while True: pass"));
    let starting = manager.session("starting").execute(Cell::new("1"));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let Manager { place, registry } = manager;
    drop(registry);
    let outcome = result(&mut running).await;
    assert_eq!(outcome.status, Status::Interrupted, "{outcome:?}");
    assert_eq!(json(&outcome)["kernel"]["reason"], "session_closed");
    place.assert_no_survivors().await;
    let run = place.folder.path().join("run/warmcell");
    until("the removal of the socket folder", || {
        fs::read_dir(&run).unwrap().next().is_none()
    })
    .await;
    assert!(session.is_closed());
    let outcome = crate::support::run(&idle, "1").await;
    assert_eq!(json(&outcome)["error_class"], "unavailable");
    drop(starting);
}

/// Its runtime goes away under it.
#[test]
fn a_runtime_that_ends_ends_everything() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (place, registry) = runtime.block_on(async {
        let manager = Manager::start().await;
        let (session, _) = littered(&manager, "a").await;
        drop(session.execute(Cell::new("while True: pass")));
        let Manager { place, registry } = manager;
        (place, registry)
    });
    drop(runtime);
    drop(registry);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(place.assert_no_survivors());
}

#[tokio::test]
async fn a_manager_killed_in_mid_cell_leaves_nothing() {
    for (name, end) in [
        ("loop", "while True: pass"),
        ("c_loop", "sum(range(10**12))"),
        ("sleep", "time.sleep(300)"),
        ("gil", "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')"),
    ] {
        let place = Place::new();
        let folder = place.work().join("litter");
        fs::create_dir(&folder).unwrap();
        let mark = place.work().join("mark");
        let code = format!(
            "{}\nprint(1, file=open({mark:?}, 'w'))\n{end}",
            litter(folder.to_str().unwrap())
        );
        let mut child = place.exec(&[&code]).spawn().unwrap();
        written(&mark).await;
        signal(child.id(), Signal::KILL);
        child.wait().unwrap();
        let began = Instant::now();
        place.assert_no_survivors().await;
        eprintln!(
            "manager killed in {name}: nothing left after {:?}",
            began.elapsed()
        );
        let run = place.folder.path().join("run/warmcell");
        until("the removal of the socket folder", || {
            fs::read_dir(&run).unwrap().next().is_none()
        })
        .await;
    }
}

/// At any moment of its start.
#[tokio::test]
async fn a_manager_killed_as_it_starts_leaves_no_process() {
    for delay in (0..80).step_by(8) {
        let place = Place::new();
        let mut child = place
            .exec(&["import time; time.sleep(300)"])
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(delay)).await;
        signal(child.id(), Signal::KILL);
        child.wait().unwrap();
        place.assert_no_survivors().await;
    }
}

/// The manager is killed in the moment in which kernels die and are forked.
#[tokio::test]
async fn a_manager_killed_while_kernels_die_leaves_nothing() {
    for delay in 0..6 {
        let place = Place::new();
        let codes = vec!["import os; os.kill(os.getpid(), 9)"; 60];
        let mut command = place.exec(&[]);
        for (number, code) in codes.iter().enumerate() {
            let file = place.work().join(format!("{number}.py"));
            fs::write(&file, code).unwrap();
            command.arg("-f").arg(file);
        }
        let mut child = command.spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(60 + 6 * delay)).await;
        signal(child.id(), Signal::KILL);
        child.wait().unwrap();
        place.assert_no_survivors().await;
    }
}
