//! Results after a deadline or an interrupt, whatever the cell does.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use warmcell::execution::Status;
use warmcell::session::{Cell, Session};

use crate::measure::{Row, Samples, Unit};
use crate::python;
use crate::support::{Manager, run, run_cell};

const TIMEOUT: Duration = Duration::from_millis(60);
const ROUNDS: usize = 40;

const CELLS: [(&str, &str); 4] = [
    ("spin", "while True: pass"),
    ("sleep", "import time; time.sleep(60)"),
    (
        "signals ignored",
        "import signal, time\nfor it in (2, 15): signal.signal(it, signal.SIG_IGN)\ntime.sleep(60)",
    ),
    (
        "GIL held in C",
        "import re; re.match('(a+)+$', 'a' * 64 + 'b')",
    ),
];

pub fn rows() -> Vec<Row> {
    let runtime = crate::warm::one_thread();
    let manager = runtime.block_on(Manager::start());
    let session = runtime.block_on(async { manager.session_on("deadline", python()) });
    runtime.block_on(run(&session, "1"));
    let mut rows = Vec::new();
    for (name, code) in CELLS {
        let (late, next) = timeouts(&runtime, &session, code);
        let all = late.clone();
        let what = format!("timeout, {name}: result after the deadline");
        rows.push(Row::median(&what, Unit::Seconds, late, 0.005));
        rows.push(Row::p99("    its p99", all, 0.015));
        rows.push(Row::median(
            "    the next result after that",
            Unit::Seconds,
            next,
            0.005,
        ));
    }
    let interrupts = interrupts(&runtime, &session);
    let what = "interrupt of a loop, kernel killed";
    rows.push(Row::median(what, Unit::Seconds, interrupts, 0.005));
    runtime.block_on(manager.end());
    rows
}

fn timeouts(runtime: &Runtime, session: &Session, code: &str) -> (Samples, Samples) {
    let (mut late, mut next) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let outcome = runtime.block_on(run_cell(session, Cell::new(code).timeout(TIMEOUT)));
        let ended = Instant::now();
        assert_eq!(outcome.status, Status::Timeout, "{}", outcome.output);
        late.push((ended - began).saturating_sub(TIMEOUT).as_secs_f64());
        runtime.block_on(run(session, "1"));
        next.push(ended.elapsed().as_secs_f64());
    }
    (late, next)
}

fn interrupts(runtime: &Runtime, session: &Session) -> Samples {
    let interrupted = |_| {
        runtime.block_on(async {
            let mut execution = session.execute(Cell::new("while True: pass"));
            tokio::time::sleep(Duration::from_millis(30)).await;
            let began = Instant::now();
            execution.interrupt();
            let outcome = execution.outcome().await;
            let took = began.elapsed().as_secs_f64();
            assert_eq!(outcome.status, Status::Interrupted, "{}", outcome.output);
            run(session, "1").await;
            took
        })
    };
    (0..ROUNDS).map(interrupted).collect()
}
