//! Streams that are closed when a command starts, and files that take no more.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::command_kit::{Unprivileged, assert_nothing_left};
use crate::server_kit::{Home, parts};
use crate::support::{Place, finish, python, text};

/// A line of shell in which `$0` is `warmcell` and `$1` the Python.
fn shell(place: &Place, line: &str) -> Command {
    let mut command = place.command("/bin/sh");
    command
        .args(["-c", line, env!("CARGO_BIN_EXE_warmcell")])
        .arg(python())
        .current_dir(place.work());
    command
}

fn ran(output: &Output) -> (i32, String, String) {
    parts(output)
}

/// Rust itself opens `/dev/null` in the place of a closed stream, and nobody would be told.
#[tokio::test]
async fn a_stdout_that_is_closed_ends_what_writes_to_it() {
    const BAD: &str = "warmcell: cannot write to stdout: Bad file descriptor (os error 9)\n";
    let place = Place::new();
    for (line, code, err) in [
        ("exec --python $1 '6*7' >&-", 141, BAD),
        ("exec --python $1 --json 1 >&-", 141, BAD),
        (
            "exec --python $1 'print(1); __import__(\"time\").sleep(60)' >&-",
            141,
            BAD,
        ),
        ("exec --python $1 'x = 6*7' >&-", 0, ""),
        (
            "exec --python $1 'import sys; sys.exit(3)' >&-",
            3,
            "[the cell called sys.exit(3); state is kept]\n",
        ),
        ("exec --json --nonsense >&-", 141, BAD),
        ("--help >&-", 141, BAD),
        ("sessions --json >&-", 141, BAD),
        ("exec --python $1 --json 1 >&- 2>&-", 141, ""),
        // To throw it away is something else.
        ("exec --python $1 '6*7' >/dev/null", 0, ""),
        ("exec --python $1 '6*7' 1<>/dev/null", 0, ""),
    ] {
        for secret in ["", "A_SECRET=1 "] {
            // With a secret it starts itself anew, and must not forget.
            let output = finish(&mut shell(&place, &format!("{secret}\"$0\" {line}")));
            assert_eq!(
                ran(&output),
                (code, String::new(), err.to_owned()),
                "{secret}{line}"
            );
        }
    }
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_closed_stdin_is_empty_and_a_closed_stderr_costs_nothing_else() {
    let place = Place::new();
    let said = "[the code is empty; give Python source]\n";
    for (line, code, out, err) in [
        ("exec --python $1 <&-", 2, "", said),
        ("exec --python $1 - <&-", 2, "", said),
        ("exec --python $1 '6*7' <&-", 0, "42\n", ""),
        ("exec --python $1 '6*7' 2>&-", 0, "42\n", ""),
        ("exec --python $1 'print(1); 1/0' 2>&-", 1, "1\n", ""),
        (
            "exec --python $1 'import os; os.write(2, b\"x\"); 6*7' 2>&- <&-",
            0,
            "42\n",
            "",
        ),
    ] {
        let output = finish(&mut shell(&place, &format!("exec \"$0\" {line}")));
        assert_eq!(
            ran(&output),
            (code, out.to_owned(), err.to_owned()),
            "{line}"
        );
    }
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_closed_stdout_ends_a_cell_of_the_server() {
    let home = Home::new();
    let shell = |line: &str| {
        let mut command = home.command(&[]);
        let path = command.get_envs().find(|(name, _)| *name == "PATH");
        let path = path.unwrap().1.unwrap().to_owned();
        command = home.place.command("/bin/sh");
        command.env("PATH", path).current_dir(home.place.work());
        command.args(["-c", line, env!("CARGO_BIN_EXE_warmcell")]);
        ran(&finish(&mut command))
    };
    assert_eq!(shell("exec \"$0\" exec -s a 'x = 1' >&-").0, 0);
    let (code, _, err) = shell("exec \"$0\" exec -s a 'x + 1' >&- <&-");
    assert_eq!(code, 141, "{err}");
    assert!(err.contains("cannot write to stdout: Bad file"), "{err}");
    // It had ended already: state is kept.
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    // One that prints on is ended, and what that has cost is not left for the next to find out.
    let line = "{ \"$0\" exec -s a 'while True: print(1)'; echo code $? >&2; } | head -n 1";
    let (_, out, err) = shell(line);
    assert_eq!(out, "1\n", "{err}");
    assert!(err.ends_with("code 141\n"), "{err}");
    assert!(err.contains("and x are lost"), "{err}");
    home.end().await;
}

/// A write beyond the limit on file size ends no command by a signal.
#[tokio::test]
async fn a_limit_on_file_size_is_an_error_that_is_named() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let file = home.place.work().join("out");
    let path = home.place.environment();
    let limited = |arguments: &str, to_file: bool| {
        let line = format!("ulimit -f 0; exec \"$0\" {arguments}");
        let mut command = home.place.command("/bin/sh");
        command
            .args(["-c", &line, env!("CARGO_BIN_EXE_warmcell")])
            .env("PATH", path.get("PATH").unwrap())
            .current_dir(home.place.work());
        if to_file {
            command.stdout(fs::File::create(&file).unwrap());
        } else {
            command.stdout(Stdio::piped());
        }
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    for arguments in [
        "sessions",
        "sessions --json",
        "sessions show a",
        "sessions show a --json",
        "sessions show none --json",
        "sessions interrupt a --json",
        "exec --json --nonsense",
        "--help",
        "exec -s a x",
        "exec -s a --json x",
    ] {
        let (code, _, err) = limited(arguments, true);
        assert_eq!(code, Some(141), "{arguments}: {err}");
        assert!(
            err.ends_with(
                "cannot write to stdout: File too large (os error 27); raise the limit on the size of \
                 files (ulimit -f)\n"
            ),
            "{arguments}: {err}"
        );
        assert_eq!(err.lines().count(), 1, "{arguments}: {err}");
    }
    assert_eq!(limited("exec -s a x", false).1, "1\n");
    assert_eq!(limited("exec --nonsense", true).0, Some(2));
    assert_eq!(limited("serve --stop", true).0, Some(0));
    home.assert_nothing_left().await;
}

#[tokio::test]
async fn a_server_that_may_write_no_files_says_so() {
    let place = Place::new();
    let unprivileged = Unprivileged::new(&place);
    for arguments in ["exec -s a 1", "serve"] {
        let line = format!("ulimit -f 0; exec \"$0\" {arguments}");
        let (code, out, err) = ran(&finish(&mut unprivileged.shell(&line)));
        assert_eq!((code, out.as_str()), (125, ""), "{arguments}: {err}");
        assert!(err.contains("ulimit -f"), "{arguments}: {err}");
        assert_eq!(err.lines().count(), 1, "{arguments}: {err}");
    }
    assert_nothing_left(&place).await;
}
