//! What a manager that was killed has left on the disk goes when the next one starts; what belongs to
//! one that lives stays.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use warmcell::session::Registry;

use crate::lifecycle_support::{is_alive, signal, until, written};
use crate::support::{Manager, Place, assert_shows, finish, python, run};

/// The folders of managers.
fn folders(place: &Place) -> Vec<PathBuf> {
    let base = place.folder.path().join("run/warmcell");
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// What an unpacking has left.
fn stagings(place: &Place) -> usize {
    let cache = place.home().join("cache/warmcell");
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with('.'))
        .count()
}

#[tokio::test]
async fn a_manager_and_forkserver_killed_together_leave_no_folder_to_the_next() {
    let place = Place::new();
    let mark = place.work().join("mark");
    let code = format!(
        "import os, time\nprint(os.getppid(), file=open({mark:?}, 'w'), flush=True)\ntime.sleep(60)"
    );
    let mut manager = place.exec(&[&code]).stdout(Stdio::null()).spawn().unwrap();
    let forkserver: u32 = written(&mark).await.parse().unwrap();
    // Stopped, it does not see the end of the forkserver. (A stopped forkserver would be woken by
    // the system at the end of its manager.)
    signal(manager.id(), Signal::STOP);
    signal(forkserver, Signal::KILL);
    until("the end of the forkserver", || !is_alive(forkserver)).await;
    signal(manager.id(), Signal::KILL);
    manager.wait().unwrap();
    place.assert_no_survivors().await;
    assert_eq!(folders(&place).len(), 1);
    let output = finish(&mut place.exec(&["terminal('echo a')['output']"]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(folders(&place), Vec::<PathBuf>::new());
}

/// From the first moment on.
#[tokio::test]
async fn a_manager_killed_at_any_moment_of_its_start_leaves_no_file_to_the_next() {
    for delay in 0..30 {
        let place = Place::new();
        let mut manager = place.exec(&["1"]).stdout(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(delay * 2)).await;
        signal(manager.id(), Signal::KILL);
        manager.wait().unwrap();
        place.assert_no_survivors().await;
        let output = finish(&mut place.exec(&["1"]));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(folders(&place), Vec::<PathBuf>::new(), "after {delay}");
        assert_eq!(stagings(&place), 0, "after {delay}");
    }
}

#[tokio::test]
async fn managers_that_start_leave_the_sockets_of_others_alone() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    assert_shows(&run(&session, "x = 1").await, "", "before");
    let mut others = Vec::new();
    for _ in 0..8 {
        let mut other = manager.place.exec(&["terminal('echo a')['output']"]);
        others.push(other.stdout(Stdio::piped()).spawn().unwrap());
    }
    for other in others {
        let output = other.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "'a\\n'\n");
    }
    // A connection that is made only now.
    let threads = "import threading\nfound = []\nthread = threading.Thread(target=lambda: found.append(terminal('echo b')))\nthread.start(); thread.join(); found[0]['output'], x";
    assert_shows(&run(&session, threads).await, "('b\\n', 1)", "after");
    manager.end().await;
}

/// Without a forkserver nobody else removes the folder; who holds the manager need not drop it for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_manager_that_never_had_a_kernel_leaves_no_folder_once_it_is_shut_down() {
    let place = Place::new();
    for _ in 0..30 {
        let registry = Registry::start(place.settings()).await.unwrap();
        for name in ["a", "b", "c", "d"] {
            registry.session(name, &place.caller(python())).unwrap();
        }
        assert_eq!(folders(&place).len(), 1);
        registry.shut_down().await;
        assert_eq!(folders(&place), [] as [PathBuf; 0]);
    }
    place.assert_no_survivors().await;
}
