//! `warmcell exec` under limits that are too small for it: the right answer, or 125 and one sentence
//! that names the limit and says what to do.

use std::fs;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use crate::command_kit::{Running, Unprivileged, assert_nothing_left, bit};
use crate::support::{Place, finish, python, text};

/// `warmcell exec` under a limit of the shell's.
fn limited(place: &Place, limit: &str, arguments: &[&str]) -> Command {
    let line = format!("ulimit {limit} || exit 99; exec \"$0\" exec \"$@\"");
    let mut command = place.command("/bin/sh");
    command
        .args(["-c", &line, env!("CARGO_BIN_EXE_warmcell"), "--python"])
        .arg(python())
        .args(arguments)
        .current_dir(place.work());
    command
}

/// The right answer, or 125 and one sentence with these words.
#[track_caller]
fn answered_or_refused(output: &Output, words: &str, what: &str) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    if output.status.code() == Some(0) {
        assert_eq!((out.as_str(), err.as_str()), ("42\n", ""), "{what}");
        return;
    }
    assert_eq!(output.status.code(), Some(125), "{what}: {err}");
    assert_eq!(out, "", "{what}");
    assert_eq!(err.lines().count(), 1, "{what}: {err}");
    assert!(err.contains(words), "{what}: {err}");
}

/// With 3 the system's loader cannot even open a library of the program: that is its own error.
#[tokio::test]
async fn few_descriptors_are_answered_or_refused_with_their_limit() {
    let place = Place::new();
    for count in 4..=40 {
        let output = finish(&mut limited(
            &place,
            &format!("-n {count}"),
            &["print(6*7)"],
        ));
        answered_or_refused(&output, "ulimit -n", &format!("ulimit -n {count}"));
        if count == 40 {
            assert_eq!(output.status.code(), Some(0), "40 are enough");
        }
        let output = finish(&mut limited(
            &place,
            &format!("-n {count}"),
            &["--json", "6*7"],
        ));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        if output.status.code() != Some(0) {
            assert_eq!(told["error_class"], "unavailable");
            assert!(told["error"].as_str().unwrap().contains("ulimit -n"));
        }
    }
    assert_nothing_left(&place).await;
}

/// A soft limit is raised for the manager, and kernels see what the user has set.
#[tokio::test]
async fn a_soft_limit_on_descriptors_is_the_kernels() {
    let place = Place::new();
    let code = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])";
    for count in ["6", "20", "100"] {
        let limit = format!("-S -n {count}");
        let output = finish(&mut limited(&place, &limit, &["print(6*7)"]));
        answered_or_refused(&output, "ulimit -n", &limit);
    }
    let output = finish(&mut limited(&place, "-S -n 100", &[code]));
    assert_eq!(text(&output.stdout), "100\n", "{output:?}");
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn few_processes_are_answered_or_refused_with_their_limit() {
    let place = Place::new();
    // Root is not bound by it.
    let unprivileged = Unprivileged::new(&place);
    for count in 1..=8 {
        // Shells differ in its letter.
        let line = format!(
            "ulimit -u {count} 2>/dev/null || ulimit -p {count} || exit 99; exec \"$0\" exec \"$1\""
        );
        let output = finish(unprivileged.shell(&line).arg("print(6*7)"));
        answered_or_refused(&output, "ulimit -u", &format!("ulimit -u {count}"));
    }
    assert_nothing_left(&place).await;
}

/// A write beyond the limit on file size is an error like any other, and leaves nothing half done.
#[tokio::test]
async fn a_limit_on_file_size_ends_nobody() {
    for blocks in ["0", "1", "20", "100000"] {
        let place = Place::new();
        for _ in 0..2 {
            let limit = format!("-f {blocks}");
            let output = finish(&mut limited(&place, &limit, &["print(6*7)"]));
            let (code, err) = (output.status.code(), text(&output.stderr));
            if code == Some(0) {
                assert_eq!(text(&output.stdout), "42\n", "{limit}: {err}");
            } else {
                assert_eq!(code, Some(125), "{limit}: {err}");
                assert!(err.contains("ulimit -f"), "{limit}: {err}");
            }
            let left: Vec<_> = [place.home(), place.folder.path().join("run")]
                .iter()
                .flat_map(|base| files(base))
                .filter(|name| name.contains(".new-"))
                .collect();
            assert!(left.is_empty(), "{limit}: {left:?}");
            // Once it is unpacked less is to be written.
            assert_eq!(finish(&mut place.exec(&["1"])).status.code(), Some(0));
        }
        // An output that does not fit is told too.
        let file = fs::File::create(place.work().join("out")).unwrap();
        let mut command = limited(&place, "-f 20", &["print('x' * 20_000)"]);
        let mut child = Running::start(command.stdout(file).stderr(Stdio::piped()));
        assert_eq!(child.ended().await, Some(141));
        let err = child.printed().1;
        assert!(
            err.contains("cannot write to stdout: File too large"),
            "{err}"
        );
        assert_nothing_left(&place).await;
    }
}

/// The names below a folder.
fn files(base: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![base.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            found.push(entry.path().display().to_string());
            folders.push(entry.path());
        }
    }
    found
}

/// Kernels, what they start, and commands take signals as below a plain Python and shell.
#[tokio::test]
async fn signals_are_taken_as_below_a_plain_python() {
    let place = Place::new();
    let code = "import subprocess, sys\n\
                print(open('/proc/self/status').read())\n\
                print(subprocess.run(['cat', '/proc/self/status'], stdout=-1).stdout.decode())\n\
                print(terminal('cat /proc/self/status')['output'] if 'terminal' in globals() else '')";
    let output = finish(&mut place.exec(&[code]));
    let mut plain = place.command(&python().display().to_string());
    let expected = finish(plain.args(["-c", code]));
    let parts = |output: &Output| -> Vec<String> {
        let text = text(&output.stdout);
        text.split("Name:").skip(1).map(str::to_owned).collect()
    };
    let (ours, plain) = (parts(&output), parts(&expected));
    assert_eq!((ours.len(), plain.len()), (3, 2), "{output:?}");
    let taken = |status: &str, number| {
        ["SigBlk:", "SigIgn:", "SigCgt:"].map(|set| bit(status, set, number))
    };
    for number in [Signal::XFSZ, Signal::PIPE, Signal::HUP, Signal::TERM] {
        for (ours, plain) in ours.iter().zip(&plain) {
            assert_eq!(taken(ours, number), taken(plain, number), "{number:?}");
        }
        assert_eq!(
            taken(&ours[2], number),
            [false; 3],
            "{number:?} in a command"
        );
    }
}
