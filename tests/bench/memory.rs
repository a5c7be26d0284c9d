//! Memory of idle kernels, and what many cells leave behind.

use std::fs;
use std::time::{Duration, Instant};

use warmcell::session::{Cell, Session};

use crate::measure::{Row, Samples, Unit};
use crate::python;
use crate::support::{Manager, run};

const KERNELS: usize = 20;
const CELLS: usize = 1_000;

pub fn rows() -> Vec<Row> {
    let mut rows = idle();
    rows.extend(many_cells());
    rows
}

fn idle() -> Vec<Row> {
    let runtime = crate::warm::one_thread();
    let manager = runtime.block_on(Manager::start());
    let mut kernels = Vec::new();
    let mut forkserver = String::new();
    for number in 0..KERNELS {
        let name = format!("idle-{number}");
        let session = runtime.block_on(async { manager.session_on(&name, python()) });
        let outcome = runtime.block_on(run(
            &session,
            "import os; print(os.getpid(), os.getppid()); x = 1",
        ));
        let (kernel, parent) = outcome.output.trim().split_once(' ').unwrap();
        kernels.push(kernel.to_owned());
        parent.clone_into(&mut forkserver);
    }
    // What the forkserver loads in its free time is loaded then.
    std::thread::sleep(Duration::from_millis(500));
    let pss = |pid: &String| smaps(pid, &["Pss:"]);
    let shares: Samples = kernels.iter().map(pss).collect();
    let private: Samples = kernels
        .iter()
        .map(|pid| smaps(pid, &["Private_Clean:", "Private_Dirty:"]))
        .collect();
    let all = kernels.iter().map(pss).sum::<f64>() + pss(&forkserver);
    runtime.block_on(manager.end());
    let row = |what, samples, target| Row::median(what, Unit::Megabytes, samples, target);
    vec![
        row("20 idle kernels: PSS of each", shares, 2.5),
        row("    private memory of each", private, 2.0),
        row(
            "    PSS of all with their forkserver",
            [all].into_iter().collect(),
            50.0,
        ),
    ]
}

fn many_cells() -> Vec<Row> {
    let runtime = crate::warm::one_thread();
    let manager = runtime.block_on(Manager::start());
    let session = runtime.block_on(async { manager.session_on("many", python()) });
    let one = |session: &Session, number: usize| {
        let code = format!("x = {number}\nprint(x)");
        let began = Instant::now();
        let outcome = runtime.block_on(async { session.execute(Cell::new(code)).outcome().await });
        assert_eq!(outcome.exit_code, 0, "{}", outcome.output);
        began.elapsed().as_secs_f64()
    };
    let pid = runtime.block_on(run(&session, "import os; print(os.getpid())"));
    let pid = pid.output.trim().to_owned();
    let held = || smaps(&pid, &["Private_Clean:", "Private_Dirty:"]);
    // The forkserver loads modules after its first kernel, on one of the cores.
    std::thread::sleep(Duration::from_millis(300));
    for number in 0..50 {
        one(&session, number);
    }
    let before = held();
    let times: Vec<f64> = (0..CELLS).map(|number| one(&session, number)).collect();
    let growth = held() - before;
    runtime.block_on(manager.end());
    let first: Samples = times.iter().take(100).copied().collect();
    let last: Samples = times.iter().rev().take(100).copied().collect();
    vec![
        Row::beside("1,000 cells: last 100 / first 100", last, first, 1.1),
        Row::median(
            "    growth of the kernel",
            Unit::Megabytes,
            [growth].into_iter().collect(),
            0.3,
        ),
    ]
}

/// Fields of a process's memory added up, in MB.
fn smaps(pid: &String, fields: &[&str]) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .expect("only root may look at a forkserver's memory");
    let kilobytes = |field: &&str| -> f64 {
        text.lines()
            .find_map(|line| line.strip_prefix(*field))
            .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
            .unwrap_or(f64::NAN)
    };
    fields.iter().map(kilobytes).sum::<f64>() / 1024.0
}
