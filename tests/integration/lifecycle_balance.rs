//! After many cells, resets and kills nothing has piled up. Counted in a process of its own, since
//! the other tests of this binary open and close descriptors at the same time.

use std::fs;
use std::process::Stdio;

use crate::lifecycle_support::{limited, until};
use crate::support::{Manager, Place, finish, run, run_cell, text};

/// Descriptors, threads, children, entries of the runtime folder.
fn holdings(place: &Place) -> [usize; 4] {
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let mut children = 0;
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children += list.split_whitespace().count();
    }
    let mut entries = 0;
    let mut folders = vec![place.folder.path().join("run")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            entries += 1;
            folders.push(entry.path());
        }
    }
    [
        count("/proc/self/fd"),
        count("/proc/self/task"),
        children,
        entries,
    ]
}

#[test]
#[ignore = "runs in a process of its own, started by the test below"]
fn inner() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let manager = Manager::start().await;
        let session = manager.session("a");
        run(&session, "import hermes_tools").await;
        run_cell(&session, limited("while True: pass", 20)).await;
        run(
            &session,
            "from hermes_tools import terminal; terminal('true')",
        )
        .await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let before = holdings(&manager.place);
        for round in 0..30 {
            for _ in 0..10 {
                run(&session, "x = 1; print(x)").await;
            }
            run(
                &session,
                "from hermes_tools import terminal; terminal('sleep 300 &')",
            )
            .await;
            session.reset().await;
            match round % 3 {
                0 => drop(run_cell(&session, limited("while True: pass", 10)).await),
                1 => drop(run(&session, "import os; os.kill(os.getpid(), 9)").await),
                _ => {
                    let mut execution = session.execute(limited("while True: pass", 5_000));
                    execution.interrupt();
                    drop(execution.outcome().await);
                }
            }
            let other = manager.session("other");
            run(&other, "1").await;
            drop(other.close().await);
            drop(session.execute(limited("1", 1_000)));
        }
        run(
            &session,
            "from hermes_tools import terminal; terminal('true')",
        )
        .await;
        until("the balance", || {
            let after = holdings(&manager.place);
            after
                .iter()
                .zip(before)
                .all(|(after, before)| *after <= before + 1)
        })
        .await;
        println!("before {before:?}, after {:?}", holdings(&manager.place));
        manager.end().await;
    });
}

#[tokio::test]
async fn many_cells_resets_and_kills_leave_nothing_behind() {
    let place = Place::new();
    let program = std::env::current_exe().unwrap();
    let mut command = place.command(program.to_str().unwrap());
    command
        .env("HOME", std::env::var_os("HOME").unwrap_or_default())
        .stdin(Stdio::null())
        .args([
            "--exact",
            "lifecycle_balance::inner",
            "--ignored",
            "--nocapture",
        ]);
    let output = finish(&mut command);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    let line = said.lines().find(|line| line.starts_with("before"));
    eprintln!(
        "descriptors, threads, children, files: {}",
        line.unwrap_or_default()
    );
}
