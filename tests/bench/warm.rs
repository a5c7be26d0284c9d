//! Cells in a kernel that is warm.

use std::time::Instant;

use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use warmcell::session::Cell;

use crate::limit::Limit;
use crate::measure::{Pair, Row, Samples};
use crate::python;
use crate::support::Manager;

const ROUNDS: usize = 25;
const CELLS: usize = 200;

/// As the command line has it.
pub fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// As a server has it.
pub fn two_threads() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let runtimes = [("", one_thread()), (", two threads", two_threads())];
    for (threads, runtime) in &runtimes {
        for code in ["x=1", "print(1)"] {
            let pair = cells(runtime, code);
            let spread = pair.ours.clone();
            rows.push(Row::ratio(
                &format!("warm {code}{threads} / JSON + exec"),
                pair,
                1.7,
            ));
            rows.push(Row::spread("    its p99 / its median", spread, 3.0));
        }
    }
    rows
}

fn cells(runtime: &Runtime, code: &'static str) -> Pair {
    let manager = runtime.block_on(Manager::start());
    let session = runtime.block_on(async { manager.session_on("warm", python()) });
    let limit = Limit::start(&manager.place, "kernel.py", &[]);
    let mut ends = runtime.block_on(async { Some(limit.ends()) });
    let prints = code.starts_with("print");
    let ours = |cells: usize| {
        let session = session.clone();
        // As in a program: whoever waits for the result is a task among others.
        let asking = async move {
            let mut times = Samples::default();
            for _ in 0..cells {
                let began = Instant::now();
                let outcome = session.execute(Cell::new(code)).outcome().await;
                times.push(began.elapsed().as_secs_f64());
                assert_eq!(outcome.exit_code, 0, "{}", outcome.output);
            }
            times
        };
        runtime.block_on(async { tokio::spawn(asking).await.unwrap() })
    };
    // By a task too: what a runtime takes longer than a thread that blocks is not the library's.
    let mut least = |cells: usize| {
        let mut asked = ends.take().unwrap();
        let asking = async move {
            let mut times = Samples::default();
            for _ in 0..cells {
                let began = Instant::now();
                asked.ask(&json!({"code": code})).await;
                if prints {
                    asked.read_stdout().await;
                }
                times.push(began.elapsed().as_secs_f64());
            }
            (times, asked)
        };
        let (times, asked) = runtime.block_on(async { tokio::spawn(asking).await.unwrap() });
        ends = Some(asked);
        times
    };
    let warm_up: Samples = least(CELLS);
    drop(warm_up);
    ours(CELLS);
    let pair = Pair::measure(ROUNDS, || (ours(CELLS), least(CELLS)));
    drop(limit);
    runtime.block_on(manager.end());
    pair
}
