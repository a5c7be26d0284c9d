//! Warmcell beside the least that could do the same: limit programs in `programs/`, measured in
//! interleaved rounds of one run. A ratio means something on any machine, a time only on this one.
//!
//! `cargo bench` runs all parts; `cargo bench -- cold warm` runs some; `WARMCELL_BENCH_PYTHON`
//! names another Python. The exit code is 1 if anything is over twice its target.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a bench that cannot go on fails; it starts programs as a user would"
)]

mod cold;
mod deadline;
mod exec;
mod flood;
mod jupyter;
mod limit;
mod measure;
mod memory;
#[path = "../integration/support.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod support;
mod tool;
mod warm;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

use measure::Row;

type Part = (&'static str, fn() -> Vec<Row>);

const PARTS: [Part; 8] = [
    ("cold", cold::rows),
    ("warm", warm::rows),
    ("tool", tool::rows),
    ("flood", flood::rows),
    ("deadline", deadline::rows),
    ("memory", memory::rows),
    ("exec", exec::rows),
    ("jupyter", jupyter::rows),
];

/// The Python that everything here runs on.
fn python() -> &'static PathBuf {
    static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os("WARMCELL_BENCH_PYTHON")
            .map_or_else(|| support::python().to_owned(), PathBuf::from)
    });
    &PYTHON
}

fn main() -> ExitCode {
    // Cargo adds words of its own that begin with dashes.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    if let Some(unknown) = asked
        .iter()
        .find(|name| PARTS.iter().all(|(it, _)| it != name))
    {
        let known = PARTS.map(|(name, _)| name).join(", ");
        eprintln!("there is no part {unknown:?}; there are {known}");
        return ExitCode::from(2);
    }
    println!("Python: {}", python().display());
    println!("{}", Row::heading());
    let mut missed = 0;
    for (name, rows) in PARTS {
        if !asked.is_empty() && asked.iter().all(|it| it != name) {
            continue;
        }
        for row in rows() {
            println!("{row}");
            missed += usize::from(row.is_over_twice());
        }
    }
    if missed > 0 {
        println!("{missed} over twice the target");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
