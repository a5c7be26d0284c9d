//! 100 MB of lines through `warmcell exec`, beside plain Python to a file.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::limit::program;
use crate::measure::{Pair, Row, Samples, Unit};
use crate::python;
use crate::support::Place;

const BYTES: u64 = 100_000_000;

/// A cell that writes down the most memory that its kernel ever had.
const PEAK: &str = "
for line in open('/proc/self/status'):
    if line.startswith('VmHWM'):
        open('kernel-peak', 'w').write(line.split()[1])
";

pub fn rows() -> Vec<Row> {
    let place = Place::new();
    let flood = program("flood.py").display().to_string();
    let peak = place.work().join("peak.py");
    fs::write(&peak, PEAK).unwrap();
    let output = place.work().join("output");
    let python = python().to_str().unwrap();
    let arguments = ["exec", "--python", python, "-f", &flood];
    let pair = Pair::measure(7, || {
        let ours = to_file(place.warmcell(&arguments), &output);
        let mut plain = place.command(python);
        plain.arg(&flood);
        let limit = to_file(plain, &output);
        ([ours].into_iter().collect(), [limit].into_iter().collect())
    });
    let mut command = place.warmcell(&arguments);
    command.args(["-f", peak.to_str().unwrap()]);
    let manager = peak_of(command, &output);
    let kernel = fs::read_to_string(place.work().join("kernel-peak")).unwrap();
    vec![
        Row::ratio("100 MB of lines / python > file", pair, 1.3),
        Row::median(
            "    peak memory of the manager",
            Unit::Megabytes,
            manager,
            32.0,
        ),
        Row::median(
            "    peak memory of the kernel",
            Unit::Megabytes,
            [kilobytes(&kernel)].into_iter().collect(),
            40.0,
        ),
    ]
}

fn to_file(mut command: Command, output: &Path) -> f64 {
    let began = Instant::now();
    let status = command
        .stdout(File::create(output).unwrap())
        .status()
        .unwrap();
    let took = began.elapsed().as_secs_f64();
    assert!(status.success());
    assert_eq!(fs::metadata(output).unwrap().len(), BYTES);
    took
}

/// The most memory that the process ever had, asked for until it is gone.
fn peak_of(mut command: Command, output: &Path) -> Samples {
    let mut child = command
        .stdout(File::create(output).unwrap())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        if let Some(line) = text.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
            peak = kilobytes(line.trim().trim_end_matches("kB"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    [peak].into_iter().collect()
}

fn kilobytes(text: &str) -> f64 {
    text.trim().parse::<f64>().unwrap() / 1024.0
}
