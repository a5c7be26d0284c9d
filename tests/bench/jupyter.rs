//! Our kernel beside ipykernel, each behind the same client of `jupyter_client`.

use std::path::Path;

use serde_json::Value;

use crate::measure::{Pair, Row, Samples};
use crate::support::Place;

/// Where `tests/conformance/prepare` installs Jupyter's packages.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/conformance/bin/python");

pub fn rows() -> Vec<Row> {
    if !Path::new(PYTHON).exists() {
        eprintln!("no rows beside ipykernel: tests/conformance/prepare installs it");
        return Vec::new();
    }
    let place = Place::new();
    let mut command = place.command(PYTHON);
    // ipykernel makes a folder of its own in the home.
    command.env("HOME", place.home());
    command.args([
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/bench/programs/jupyter_clients.py"
        ),
        env!("CARGO_BIN_EXE_warmcell"),
        "9",
        "100",
    ]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let rounds: Value = serde_json::from_slice(&output.stdout).unwrap();
    vec![
        Row::ratio(
            "start of a Jupyter kernel / of ipykernel",
            pair(&rounds["start"]),
            0.15,
        ),
        Row::ratio(
            "cell through jupyter_client / on ipykernel",
            pair(&rounds["cell"]),
            0.35,
        ),
    ]
}

/// The rounds that the program has measured.
fn pair(rounds: &Value) -> Pair {
    let mut rounds = rounds.as_array().unwrap().iter();
    Pair::measure(rounds.len(), || {
        let round = rounds.next().unwrap();
        (samples(&round[0]), samples(&round[1]))
    })
}

fn samples(values: &Value) -> Samples {
    let values = values.as_array().unwrap();
    values.iter().map(|it| it.as_f64().unwrap()).collect()
}
