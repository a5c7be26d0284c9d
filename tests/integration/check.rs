//! `warmcell check`: the lifecycle contract against our own kernel, and against kernels that break it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use warmcell::check::{Finding, Report, Terms, Verdict, check, names};
use warmcell::config::ForeignKernel;
use warmcell::environment::kernel_at;
use warmcell::folders::private_bases;

use crate::command_kit::{Running, piped};
use crate::conformance::suites;
use crate::support::{Place, SAFETY, finish, python, text};

/// A kernelspec in a folder of the place; its folder.
fn spec(place: &Place, name: &str, content: &Value) -> PathBuf {
    let folder = place.work().join("kernels").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("kernel.json"), content.to_string()).unwrap();
    folder
}

/// Ours, as it is installed; one that is interrupted by signals is reached over TCP.
fn ours(place: &Place, interrupt_mode: &str) -> PathBuf {
    let argv = [
        env!("CARGO_BIN_EXE_warmcell"),
        "kernel",
        "-f",
        "{connection_file}",
        "--python",
        python().to_str().unwrap(),
    ];
    let content = json!({
        "argv": argv, "display_name": "ours", "language": "python", "interrupt_mode": interrupt_mode,
        "metadata": if interrupt_mode == "signal" { json!({ "warmcell_transport": "tcp" }) } else { json!({}) },
    });
    spec(place, "ours", &content)
}

/// `warmcell check`, with all its files in the place.
fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.warmcell(&["check"]);
    command.args(arguments).env("TMPDIR", place.folder.path());
    command
}

/// The library's, in a place.
fn terms(place: &Place, only: &[&str]) -> Terms {
    let folder = place.folder.path();
    let mut environment: Vec<_> = place
        .environment()
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    environment.push(("HERMES_HOME".into(), place.home().into()));
    environment.push(("XDG_RUNTIME_DIR".into(), folder.join("run").into()));
    let run = folder.join("run");
    Terms {
        only: only.iter().map(|it| (*it).to_owned()).collect(),
        ..Terms::new(
            environment,
            private_bases(Some(&run), None),
            folder.to_owned(),
        )
    }
}

async fn checked(kernel: ForeignKernel, terms: Terms) -> Report {
    let mut told = 0;
    let checking = check(kernel, terms, std::future::pending(), |_: &Finding| {
        told += 1;
    });
    let report = tokio::time::timeout(2 * SAFETY, checking).await;
    let report = report.expect("it does not end").unwrap();
    assert_eq!(told, report.checks.len());
    let total = report.passed + report.failed + report.skipped;
    assert_eq!(total, report.checks.len());
    report
}

fn finding<'a>(report: &'a Report, name: &str) -> &'a Finding {
    let found = report.checks.iter().find(|it| it.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:?}"))
}

/// Nothing is left: no process, no folder.
async fn assert_nothing_left(place: &Place) {
    place.assert_no_survivors().await;
    let is_left = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        // What lies in doors is that of kernels that were killed; the next manager removes it.
        name.starts_with("m-") || name.starts_with("warmcell-check")
    };
    for folder in ["", "run/warmcell"] {
        let entries = fs::read_dir(place.folder.path().join(folder));
        let left: Vec<_> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(is_left)
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn our_own_kernel_passes_every_check() {
    let place = Place::new();
    let install = ["kernelspec", "install", "--python"];
    assert!(
        finish(place.warmcell(&install).arg(python()))
            .status
            .success()
    );
    let output = finish(&mut command(&place, &["Warmcell", "--json"]));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let found: Vec<&str> = checks
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(found, names());
    for check in checks {
        assert_eq!(check["verdict"], "pass", "{check}");
    }
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert_eq!(
        (&report["kernel"], &report["implementation"]),
        (&json!("warmcell"), &json!("warmcell"))
    );
    assert_eq!(report["passed"], found.len());
    assert_eq!(
        (&report["failed"], &report["skipped"]),
        (&json!(0), &json!(0))
    );
    let figure = |check: &str, name: &str| {
        let check = checks.iter().find(|it| it["name"] == check).unwrap();
        let value = check["figures"][name].as_f64();
        value.unwrap_or_else(|| panic!("{name} is no number: {check}"))
    };
    for (check, name) in [
        ("start", "reply_ms"),
        ("start", "rss_mb"),
        ("reuse", "median_ms"),
        ("interrupt-sleep", "end_ms"),
        ("descriptors", "descriptors_after"),
        ("restart", "again_ms"),
        ("orphans-killed", "gone_ms"),
    ] {
        assert!(figure(check, name) > 0.0, "{check} {name}");
    }
    assert!(figure("orphans-shutdown", "survivors") < 1.0);
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_program_checks_a_kernel_over_tcp_that_is_interrupted_by_signals() {
    let place = Place::new();
    let kernel = kernel_at(&ours(&place, "signal")).unwrap();
    assert!(!kernel.interrupted_by_message);
    let only = [
        "interrupt-idle",
        "interrupt-sleep",
        "interrupt-await",
        "interrupt-child",
        "timeout",
        "descriptors",
        "restart",
        "orphans-killed",
    ];
    let report = checked(kernel, terms(&place, &only)).await;
    assert_eq!(report.checks.len(), only.len() + 1);
    assert!(report.is_good(), "{report:?}");
    let start = finding(&report, "start");
    assert!(start.observed.contains(" over TCP; "), "{start:?}");
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn what_a_kernel_leaves_behind_is_named_and_ended() {
    let place = Place::new();
    let line = format!(
        "setsid sleep 1234 & exec {} kernel -f \"$0\" --python {}",
        env!("CARGO_BIN_EXE_warmcell"),
        python().display()
    );
    let content = json!({
        "argv": ["/bin/sh", "-c", line, "{connection_file}"], "language": "python",
        "interrupt_mode": "message",
    });
    let folder = spec(&place, "leaves", &content);
    let only = "orphans-killed,orphans-shutdown";
    let folder = folder.to_str().unwrap();
    let output = finish(&mut command(&place, &[folder, "--only", only]));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("the kernel leaves: /bin/sh"), "{said}");
    assert!(lines[1].starts_with("pass    start  "), "{said}");
    for (line, name) in [(2, "orphans-killed"), (4, "orphans-shutdown")] {
        assert!(
            lines[line].starts_with(&format!("fail    {name}")),
            "{said}"
        );
        assert!(lines[line].contains("1 process left after 2 s: "), "{said}");
        assert!(lines[line].contains("(sleep 1234)"), "{said}");
        assert!(lines[line].contains("ended by this check"), "{said}");
        assert!(
            lines[line + 1].trim().starts_with("expected: 2 s after"),
            "{said}"
        );
    }
    assert!(
        lines[6].starts_with("3 checks: 1 passed, 2 failed, 0 skipped, in "),
        "{said}"
    );
    assert_nothing_left(&place).await;
}

/// The kernel of raw sockets that misbehaves in this way, and says that it speaks this language.
fn hostile(place: &Place, mode: &str, language: &str) -> ForeignKernel {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/hostile_kernel.py");
    let content = json!({
        "argv": [python(), program, mode, "{connection_file}"], "language": language,
    });
    kernel_at(&spec(place, mode, &content)).unwrap()
}

#[tokio::test]
async fn kernels_that_mean_no_good_fail_and_hold_nobody_up() {
    let place = Place::new();
    let only = [
        "reuse",
        "interrupt-sleep",
        "timeout",
        "death-inside",
        "orphans-killed",
    ];
    let short = |mode: &str| Terms {
        start: if ["mute", "prints"].contains(&mode) {
            Duration::from_millis(700)
        } else {
            // It cannot be started again where it was killed.
            Duration::from_secs(2)
        },
        patience: Duration::from_millis(300),
        ..terms(&place, &only)
    };
    let modes = [
        ("mute", "start", "it did not answer within 0.7 s"),
        (
            "prints",
            "start",
            "it did not answer within 0.7 s; it said: ",
        ),
        (
            "exits",
            "start",
            "before it answered; it said: no such luck",
        ),
        (
            "frame",
            "reuse",
            "no reply came; it broke the protocol on its iopub socket a ",
        ),
        (
            "garbage",
            "reuse",
            "no reply came; it broke the protocol on its shell socket",
        ),
        ("half", "reuse", "no reply came; its sockets were closed"),
        ("closes", "reuse", "no reply came; its sockets were closed"),
        ("never-idle", "reuse", "not that the kernel is idle again"),
        ("forged", "reuse", "1/0: it succeeded"),
        ("odd", "reuse", "1/0: it succeeded"),
        (
            "honest",
            "death-inside",
            "a reply says that the cell succeeded",
        ),
    ];
    for (mode, name, sentence) in modes {
        let began = Instant::now();
        let report = checked(hostile(&place, mode, "python"), short(mode)).await;
        assert!(!report.is_good(), "{mode}: {report:?}");
        let found = finding(&report, name);
        assert_eq!(found.verdict, Verdict::Fail, "{mode}: {found:?}");
        assert!(found.observed.contains(sentence), "{mode}: {found:?}");
        let longest = report.checks.iter().map(|it| it.observed.len()).max();
        assert!(longest < Some(1_000), "{mode}: {report:?}");
        if ["frame", "never-idle"].contains(&mode) {
            let skipped = finding(&report, "interrupt-sleep");
            assert_eq!(skipped.observed, "not even a simple cell ran");
        }
        if name == "start" {
            assert_eq!(report.skipped, only.len(), "{mode}: {report:?}");
        }
        assert!(
            began.elapsed() < SAFETY,
            "{mode} took {:?}",
            began.elapsed()
        );
        assert_nothing_left(&place).await;
    }
}

#[tokio::test]
async fn a_kernel_of_another_language_is_checked_without_cells() {
    let place = Place::new();
    let kernel = hostile(&place, "honest", "echo");
    let report = checked(kernel, terms(&place, &[])).await;
    assert_eq!(report.language, "echo");
    for name in ["start", "interrupt-sleep", "reuse"] {
        let found = finding(&report, name);
        let expected = if name == "start" {
            Verdict::Pass
        } else {
            Verdict::Skipped
        };
        assert_eq!(found.verdict, expected, "{found:?}");
    }
    let skipped = finding(&report, "late-output");
    assert!(skipped.observed.contains("speaks \"echo\""), "{skipped:?}");
    for name in [
        "interrupt-idle",
        "death-killed",
        "orphans-killed",
        "orphans-shutdown",
    ] {
        assert_eq!(finding(&report, name).verdict, Verdict::Pass, "{report:?}");
    }
    // It ends without a word.
    let restart = finding(&report, "restart");
    assert!(restart.observed.contains("was not answered"), "{restart:?}");
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_kernel_that_knows_no_unix_sockets_is_started_once_more() {
    let place = Place::new();
    let kernel = hostile(&place, "tcp-or-exits", "echo");
    let report = checked(kernel, terms(&place, &["orphans-killed"])).await;
    assert!(report.is_good(), "{report:?}");
    let start = finding(&report, "start");
    assert!(start.observed.contains(" over TCP; "), "{start:?}");
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn ctrl_c_ends_the_check_and_the_kernel() {
    for number in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let folder = ours(&place, "message");
        let mut command = command(&place, &[folder.to_str().unwrap(), "--only", "interrupt-c"]);
        let mut running = Running::start(piped(&mut command));
        let mut stdout = BufReader::new(running.0.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("pass    start") {
            line.clear();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended early");
        }
        crate::lifecycle_support::signal(running.pid(), number);
        assert_eq!(running.ended().await, Some(130));
        let (_, said) = running.printed();
        assert_eq!(said, "warmcell: the check was stopped\n");
        assert_nothing_left(&place).await;
    }
}

#[tokio::test]
async fn a_check_that_is_killed_leaves_no_process_and_no_folder() {
    let place = Place::new();
    let folder = ours(&place, "message");
    let mut command = command(&place, &[folder.to_str().unwrap(), "--only", "interrupt-c"]);
    let mut running = Running::start(piped(&mut command));
    let mut stdout = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("pass    start") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended early");
    }
    crate::lifecycle_support::signal(running.pid(), Signal::KILL);
    running.ended().await;
    // The process that is left closes stdout when it has cleaned up.
    while stdout.read_line(&mut line).unwrap() > 0 {}
    place.assert_no_survivors().await;
    let folders = fs::read_dir(place.folder.path()).unwrap().flatten();
    let names = folders.map(|it| it.file_name().to_string_lossy().into_owned());
    let left: Vec<_> = names
        .filter(|it| it.starts_with("warmcell-check"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_reader_who_goes_away_ends_the_check() {
    let place = Place::new();
    let folder = ours(&place, "message");
    let mut command = command(
        &place,
        &[folder.to_str().unwrap(), "--only", "interrupt-idle"],
    );
    let mut running = Running::start(command.stdout(Stdio::piped()));
    drop(running.0.stdout.take());
    assert_eq!(running.ended().await, Some(141));
    assert_nothing_left(&place).await;
}

#[test]
fn what_cannot_be_checked_is_said_with_what_there_is() {
    let place = Place::new();
    let jupyter = place.work().join("jupyter");
    for (name, content) in [
        ("one", r#"{"argv":["/bin/true","{connection_file}"]}"#),
        ("broken", "{"),
    ] {
        let folder = jupyter.join("kernels").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kernel.json"), content).unwrap();
    }
    fs::create_dir(place.work().join("folder")).unwrap();
    let refused = |arguments: &[&str]| {
        let output = finish(command(&place, arguments).env("JUPYTER_PATH", &jupyter));
        (
            output.status.code().unwrap(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    for (named, sentences) in [
        ("nothing", ["it is not installed", "there are one"]),
        (
            "broken",
            [
                "broken/kernel.json: kernel.json is no JSON object",
                "there are one",
            ],
        ),
        ("a b", ["a b", "there are one"]),
        ("folder", ["it is not installed", "./folder"]),
        (
            "./folder",
            [
                "folder/kernel.json: No such file",
                "no kernel can be checked",
            ],
        ),
        (
            "./jupyter/kernels/broken",
            ["kernel.json is no JSON object", "broken/kernel.json"],
        ),
    ] {
        let (code, stdout, stderr) = refused(&[named]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{named}: {stderr}");
        for sentence in sentences {
            assert!(stderr.contains(sentence), "{named}: {stderr}");
        }
        let (code, stdout, stderr) = refused(&[named, "--json"]);
        assert_eq!((code, stderr.as_str()), (2, ""), "{named}: {stdout}");
        let told: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(told["error_class"], "usage");
        assert!(
            told["error"].as_str().unwrap().contains(sentences[0]),
            "{told}"
        );
    }
    for arguments in [
        &["one", "--only", "nonsense"][..],
        &["one", "--start-timeout", "0"],
        &[],
    ] {
        assert_eq!(refused(arguments).0, 2, "{arguments:?}");
    }
    let (_, _, said) = refused(&["one", "--only", "nonsense"]);
    assert!(said.contains("there are start, reuse, "), "{said}");
    // A program that is no kernel does not start as one.
    let (code, said, _) = refused(&["one"]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("fail    start               it ended (exit status: 0) before it answered"),
        "{said}"
    );
    assert!(
        said.contains("skipped reuse               the kernel did not start"),
        "{said}"
    );
}

#[tokio::test]
async fn ipykernel_fails_what_it_is_known_to_fail() {
    let Some(suites) = suites() else { return };
    let place = Place::new();
    let content = json!({
        "argv": [suites, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python",
    });
    let folder = spec(&place, "ipy", &content);
    let only = "reuse,output,late-output,interrupt-idle,interrupt-sleep,interrupt-await,interrupt-child,\
                restart,death-inside,death-killed,orphans-killed";
    let mut command = command(
        &place,
        &[folder.to_str().unwrap(), "--only", only, "--json"],
    );
    let output = finish(command.env("IPYTHONDIR", place.work().join("ipython")));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed: Vec<&Value> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["verdict"] != "pass")
        .collect();
    let names: Vec<&str> = failed
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["interrupt-await", "orphans-killed"], "{report}");
    // As it has it: the cell goes on, or ends in a way that is no interrupt.
    let observed = failed[0]["observed"].as_str().unwrap();
    let ways = [
        "it still ran 3 s after the interrupt",
        "it failed: CancelledError: ",
    ];
    assert!(
        ways.iter().any(|it| observed.starts_with(it.trim_end())),
        "{observed}"
    );
    assert_eq!(failed[1]["figures"]["survivors"], 3);
    assert_eq!(report["implementation"], "ipython");
    assert_eq!(output.status.code(), Some(1));
    assert_nothing_left(&place).await;
}
