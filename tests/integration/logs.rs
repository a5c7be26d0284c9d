//! The log as managers write it, and as `warmcell logs` shows it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use crate::server_kit::{Home, parts};
use crate::support::Place;

fn log_of(place: &Place) -> PathBuf {
    place.home().join("logs/warmcell.log")
}

/// A log of these lines, as managers would have written it.
fn written(place: &Place, lines: &[String]) {
    let log = log_of(place);
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    fs::write(log, lines.concat()).unwrap();
}

fn line(number: usize, level: &str, session: &str) -> String {
    let now = jiff::Timestamp::now();
    format!("{now:.3} {level} [{session}] warmcell::test: line {number}\n")
}

fn logs(place: &Place, arguments: &[&str]) -> (i32, String, String) {
    let arguments: Vec<&str> = ["logs"].iter().chain(arguments).copied().collect();
    parts(&place.warmcell(&arguments).output().unwrap())
}

#[test]
fn a_manager_logs_what_became_of_sessions_and_never_what_they_say() {
    let place = Place::new();
    let secret = "s3cr3t-v4lue-of-mine-77";
    let mut command =
        place.exec(&["print('said by a cell')\nvalue_of_mine = 12345\nimport os\nos._exit(7)"]);
    let output = command
        .env("WARMCELL_LOGGING_LEVEL", "DEBUG")
        .env("MY_API_TOKEN", secret)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(126));
    let log = log_of(&place);
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(
        fs::metadata(&log).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        text.contains(
            " INFO [exec] warmcell::session::keeper: a kernel was started generation=1 pid="
        ),
        "{text}"
    );
    assert!(text.contains(" WARN [exec] warmcell::session::keeper: a kernel has died generation=1 detail=\"kernel_died: it exited with code 7\""), "{text}");
    assert!(
        text.contains(" DEBUG [exec] warmcell::session::consequences: a cell has ended"),
        "{text}"
    );
    for said in ["said by", "value_of_mine", "12345", "os._exit", secret] {
        assert!(!text.contains(said), "{said}: {text}");
    }
    for entry in text.lines() {
        let (time, rest) = entry.split_at(24);
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{entry}");
        assert!(rest.starts_with(' '), "{entry}");
    }
    let (code, shown, _) = logs(&place, &["--level", "warning", "--session", "exec"]);
    assert_eq!(code, 0);
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(shown.contains("a kernel has died"), "{shown}");
}

/// It costs a command nothing that has nothing to say.
#[test]
fn a_home_that_cannot_be_written_costs_the_log_alone() {
    let place = Place::new();
    fs::write(place.home().join("logs"), "in the way").unwrap();
    let output = place.exec(&["6 * 7"]).output().unwrap();
    assert_eq!(parts(&output), (0, "42\n".to_owned(), String::new()));
    let (code, out, err) = logs(&place, &[]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
}

#[test]
fn the_last_lines_are_shown_by_level_session_and_time() {
    let place = Place::new();
    let (code, out, err) = logs(&place, &[]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.starts_with("warmcell: there is no log yet at "),
        "{err}"
    );
    let mut lines: Vec<String> = (0..100).map(|number| line(number, "INFO", "-")).collect();
    lines[10] = "2020-01-01T00:00:00.000Z ERROR [old] a: b\n".to_owned();
    lines.push(line(100, "ERROR", "a"));
    lines.push("  below it\n".to_owned());
    lines.push(line(101, "WARN", "lead/b"));
    written(&place, &lines);
    let all = |from: usize| lines.get(from..).unwrap().concat();
    let shown = |arguments: &[&str]| {
        let (code, out, err) = logs(&place, arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        out
    };
    assert_eq!(shown(&[]), all(52));
    assert_eq!(shown(&["-n", "1"]), all(102));
    assert_eq!(shown(&["-n", "0"]), "");
    assert_eq!(shown(&["-n", "2", "--level", "WARNING"]), all(100));
    assert_eq!(
        shown(&["--level", "error", "--since", "10m"]),
        lines[100..102].concat()
    );
    assert_eq!(shown(&["--session", "lead/b"]), all(102));
    assert_eq!(shown(&["--session", "nobody"]), "");
    for (arguments, says) in [
        (
            ["--level", "loud"],
            "there are TRACE, DEBUG, INFO, WARNING, ERROR",
        ),
        (["-n", "-1"], "a number of lines is from 0 to 1000000"),
        (["-n", "many"], "a number of lines is from 0 to 1000000"),
        (
            ["--since", "10"],
            "a whole number and a unit: 90s, 10m, 2h, 3d",
        ),
        (["--since", "-5m"], "a whole number and a unit"),
        (["--session", "a b"], "use 1 to 64 of A-Z"),
    ] {
        let (code, out, err) = logs(&place, &arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
}

#[test]
fn lines_that_come_are_followed_over_a_rotation_until_nobody_reads() {
    let place = Place::new();
    written(&place, &[line(0, "INFO", "-"), line(1, "INFO", "-")]);
    let mut child = place
        .warmcell(&["logs", "-f", "-n", "1", "--level", "INFO"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut text = String::new();
        shown.read_line(&mut text).unwrap();
        text
    };
    assert!(next().ends_with("line 1\n"));
    let log = log_of(&place);
    let append = |text: &str| {
        let file = fs::OpenOptions::new().append(true).create(true).open(&log);
        file.unwrap().write_all(text.as_bytes()).unwrap();
    };
    append(&line(2, "INFO", "-"));
    assert!(next().ends_with("line 2\n"));
    append(&(line(3, "DEBUG", "-") + &line(4, "ERROR", "-") + "  below\n"));
    assert!(next().ends_with("line 4\n"));
    assert_eq!(next(), "  below\n");
    // What was written just before it was put aside is not missed.
    append(&line(5, "INFO", "-"));
    fs::rename(&log, log.with_extension("log.1")).unwrap();
    append(&line(6, "INFO", "-"));
    assert!(next().ends_with("line 5\n"));
    assert!(next().ends_with("line 6\n"));
    // Who does not read any more ends it, although nothing comes.
    drop(shown);
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[tokio::test]
async fn a_server_and_other_managers_write_the_same_log() {
    let home = Home::new();
    let (code, out, _) = home.run(&["exec", "-s", "one", "1 + 1"]);
    assert_eq!((code, out.as_str()), (0, "2\n"));
    let output = home.place.exec(&["2 + 2"]).output().unwrap();
    assert_eq!(parts(&output).1, "4\n");
    let (code, shown, err) = logs(&home.place, &["--session", "one"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        shown.contains("[one] warmcell::session::keeper: a kernel was started"),
        "{shown}"
    );
    let (_, shown, _) = logs(&home.place, &[]);
    assert!(shown.contains("the background server serves"), "{shown}");
    assert!(
        shown.contains("[exec] warmcell::session::keeper: a kernel was started"),
        "{shown}"
    );
    home.end().await;
}

#[test]
fn ctrl_c_ends_following() {
    let place = Place::new();
    written(&place, &[line(0, "INFO", "-")]);
    let mut child = place
        .warmcell(&["logs", "-f"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut byte)
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(2)
    );
}
