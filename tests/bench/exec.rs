//! The command line from its start to its end.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::measure::{Pair, Row, Samples};
use crate::python;
use crate::support::Place;

pub fn rows() -> Vec<Row> {
    let place = Place::new();
    let python = python().to_str().unwrap();
    let ours = || wall(place.warmcell(&["exec", "--python", python, "print(1)"]));
    let plain = || {
        let mut command = place.command(python);
        command.args(["-c", "print(1)"]);
        wall(command)
    };
    // The first one unpacks the Python half, the second finds it compiled.
    ours();
    ours();
    plain();
    let pair = Pair::measure(15, || {
        let both: Vec<(f64, f64)> = (0..3).map(|_| (ours(), plain())).collect();
        let ours: Samples = both.iter().map(|it| it.0).collect();
        (ours, both.iter().map(|it| it.1).collect())
    });
    vec![
        Row::ratio("exec 'print(1)' / python -c", pair, None),
        session(&place, python),
    ]
}

/// A cell in a warm session of the background server, beside the start of the same program.
fn session(place: &Place, python: &str) -> Row {
    let ours = || wall(place.warmcell(&["exec", "-s", "bench", "print(1)"]));
    let start = || {
        let began = Instant::now();
        let mut command = place.warmcell(&["--version"]);
        let output = command.stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success());
        began.elapsed().as_secs_f64()
    };
    wall(place.warmcell(&["exec", "-s", "bench", "--python", python, "print(1)"]));
    let pair = Pair::measure(30, || {
        let both: Vec<(f64, f64)> = (0..5).map(|_| (ours(), start())).collect();
        let ours: Samples = both.iter().map(|it| it.0).collect();
        (ours, both.iter().map(|it| it.1).collect())
    });
    let stopped = place.warmcell(&["serve", "--stop"]).output().unwrap();
    assert!(stopped.status.success());
    Row::ratio("exec -s, warm / --version", pair, Some(1.5))
}

fn wall(mut command: Command) -> f64 {
    let began = Instant::now();
    let output = command.stdout(Stdio::piped()).output().unwrap();
    let took = began.elapsed().as_secs_f64();
    assert_eq!(output.stdout, b"1\n");
    took
}
