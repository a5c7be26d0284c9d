//! 100 MB of lines that `warmcell exec` keeps on disk, beside plain Python to a file; and what a flood
//! without end costs in memory.

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

/// Cells that print without end, each in its own way.
const ENDLESS: [(&str, &str); 3] = [
    ("print", "while True: print('x' * 1_000_000)"),
    (
        "os.write",
        "import os\nx = b'x' * 1_000_000\nwhile True: os.write(1, x)",
    ),
    (
        "a child",
        "import os, sys\nos.spawnvp(os.P_WAIT, sys.executable, [sys.executable, '-c', \
         \"while True: print('x' * 1_000_000)\"])",
    ),
];

pub fn rows() -> Vec<Row> {
    let place = Place::new();
    let flood = program("flood.py").display().to_string();
    let peak = place.work().join("peak.py");
    fs::write(&peak, PEAK).unwrap();
    let output = place.work().join("output");
    let python = python().to_str().unwrap();
    let arguments = ["exec", "--json", "--python", python, "-f", &flood];
    let pair = Pair::measure(7, || {
        let ours = kept(place.warmcell(&arguments));
        let mut plain = place.command(python);
        plain.arg(&flood);
        let limit = to_file(plain, &output);
        ([ours].into_iter().collect(), [limit].into_iter().collect())
    });
    let piped = Pair::measure(7, || {
        let ours = to_file(
            place.warmcell(&["exec", "--python", python, "-f", &flood]),
            &output,
        );
        let mut plain = place.command(python);
        plain.arg(&flood);
        let limit = to_file(plain, &output);
        ([ours].into_iter().collect(), [limit].into_iter().collect())
    });
    let mut command = place.warmcell(&arguments);
    command.args(["-f", peak.to_str().unwrap()]);
    let manager = peak_of(command, &output);
    let kernel = fs::read_to_string(place.work().join("kernel-peak")).unwrap();
    let mut rows = vec![
        Row::ratio("100 MB of lines, kept / python > file", pair, 1.3),
        Row::ratio("    the same, exec > file / python > file", piped, 1.3),
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
    ];
    let idle = peak_of(
        place.warmcell(&["exec", "--json", "--python", python, "pass"]),
        &output,
    )
    .median();
    for (how, code) in ENDLESS {
        let command = place.warmcell(&["exec", "--json", "--python", python, "-t", "5", code]);
        let began = Instant::now();
        let more = peak_of(command, &output).median() - idle;
        let late = began.elapsed().saturating_sub(Duration::from_secs(5));
        let told: serde_json::Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
        assert_eq!(told["status"], "timeout");
        let gigabytes = told["stdout_bytes_total"].as_f64().unwrap() / 1e9;
        rows.push(Row::median(
            &format!("    more for {gigabytes:.1} GB in 5 s by {how}"),
            Unit::Megabytes,
            [more].into_iter().collect(),
            8.0,
        ));
        rows.push(Row::median(
            "        from the limit to the end of exec",
            Unit::Seconds,
            [late.as_secs_f64()].into_iter().collect(),
            0.25,
        ));
    }
    rows
}

/// How long it takes; its result has to name a file with all of it.
fn kept(mut command: Command) -> f64 {
    let began = Instant::now();
    let done = command.output().unwrap();
    let took = began.elapsed().as_secs_f64();
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let path = told["stdout_spill_path"].as_str().unwrap();
    assert_eq!(fs::metadata(path).unwrap().len(), BYTES);
    // The next one finds the same disk.
    fs::remove_file(path).unwrap();
    took
}

fn to_file(mut command: Command, output: &Path) -> f64 {
    drop(fs::remove_file(output));
    let file = File::create(output).unwrap();
    let began = Instant::now();
    let status = command.stdout(file).status().unwrap();
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
