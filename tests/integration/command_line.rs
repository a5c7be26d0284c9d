//! `warmcell exec`: arguments, streams, exit codes, JSON.

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::{Place, finish, text};

/// Runs `warmcell exec` to its end, and checks that nothing is left.
async fn exec(place: &Place, arguments: &[&str]) -> Output {
    let output = finish(&mut place.exec(arguments));
    place.assert_no_survivors().await;
    output
}

fn objects(output: &Output) -> Vec<Value> {
    text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn exec_prints_and_exits_with_0() {
    let place = Place::new();
    let output = exec(&place, &["print(6*7)"]).await;
    assert_eq!(text(&output.stdout), "42\n");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test]
async fn stdout_stderr_values_and_tracebacks_go_where_they_belong() {
    let place = Place::new();
    let code = "import sys\nprint('out', end='')\nprint('err', file=sys.stderr)\n[1, 'two']";
    let output = exec(&place, &[code]).await;
    assert_eq!(text(&output.stdout), "out\n[1, 'two']\n");
    assert_eq!(text(&output.stderr), "err\n");
    let output = exec(&place, &["print('before')\n{}['key']"]).await;
    assert_eq!(text(&output.stdout), "before\n");
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("Traceback (most recent call last):\n  File \"<cell 1>\", line 2"));
    assert!(stderr.ends_with("KeyError: 'key'\n"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn nothing_stands_between_cells_and_an_empty_success_prints_nothing() {
    let place = Place::new();
    for (name, code) in [
        ("a.py", "x = 1"),
        ("b.py", "print('b', end='')"),
        ("c.py", "print(x)"),
    ] {
        fs::write(place.work().join(name), code).unwrap();
    }
    let output = exec(&place, &["-f", "a.py", "--file", "b.py", "-f", "c.py"]).await;
    assert_eq!(text(&output.stdout), "b1\n");
    assert_eq!(text(&output.stderr), "");
}

#[tokio::test]
async fn files_are_cells_of_one_kernel_until_the_first_that_fails() {
    let place = Place::new();
    fs::write(place.work().join("a.py"), "import sys\nx = 41\nsys.exit(0)").unwrap();
    fs::write(place.work().join("b.py"), "print(x + 1)\n1/0").unwrap();
    fs::write(place.work().join("c.py"), "print('never')").unwrap();
    let output = exec(
        &place,
        &["--json", "-f", "a.py", "-f", "b.py", "-f", "c.py"],
    )
    .await;
    assert_eq!(
        text(&output.stderr),
        "warmcell: 1 further cell was not run\n"
    );
    let objects = objects(&output);
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["status"], "success");
    assert_eq!(objects[0]["kernel"]["execution_count"], 1);
    assert_eq!(objects[1]["kernel"]["execution_count"], 2);
    assert_eq!(objects[1]["kernel"]["reused"], true);
    assert!(
        objects[1]["output"]
            .as_str()
            .unwrap()
            .starts_with("42\n--- stderr ---\n")
    );
    assert_eq!(
        objects[1]["error"],
        "ZeroDivisionError: division by zero (<cell 2>, line 2)"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn exit_codes_are_those_of_the_contract() {
    let place = Place::new();
    for (code, expected) in [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(0)", 0),
        ("import sys; sys.exit(256)", 1),
        ("import sys; sys.exit(300)", 44),
        ("import sys; sys.exit('no')", 1),
        ("x =", 1),
        ("import no_such_module_at_all", 1),
        ("import os; os._exit(0)", 126),
    ] {
        let output = exec(&place, &[code]).await;
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{code}: {}",
            text(&output.stderr)
        );
    }
    let output = exec(&place, &["-t", "0.3", "while True: pass"]).await;
    assert_eq!(output.status.code(), Some(124));
    assert!(text(&output.stderr).starts_with("[timed out after 0.3 s; the kernel was killed"));
    let output = finish(&mut place.warmcell(&["exec", "--python", "/no/such/python", "1"]));
    assert_eq!(output.status.code(), Some(125));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("/no/such/python (from --python)"),
        "{stderr}"
    );
    assert!(stderr.contains("install Python 3.8 or newer, or name one with --python PATH"));
}

#[tokio::test]
async fn usage_is_refused_with_2_and_a_sentence() {
    let place = Place::new();
    fs::write(place.work().join("nul.py"), "print(1)\0").unwrap();
    fs::write(place.work().join("bytes.py"), b"x = '\xff'").unwrap();
    fs::write(place.work().join("long.py"), vec![b'#'; (8 << 20) + 1]).unwrap();
    fs::write(place.work().join("empty.py"), " \n").unwrap();
    for (arguments, sentence) in [
        (
            vec!["-f", "missing.py"],
            "cannot read missing.py: No such file",
        ),
        (
            vec!["-f", "nul.py"],
            "the code holds a NUL character at byte 8; remove it",
        ),
        (
            vec!["-f", "bytes.py"],
            "bytes.py is not UTF-8: the byte at offset 5",
        ),
        (
            vec!["-f", "long.py"],
            "long.py has more than 8 MiB, the limit of a cell",
        ),
        (
            vec!["-f", "empty.py"],
            "the code is empty; give Python source",
        ),
        (vec![""], "the code is empty; give Python source"),
        (vec!["1", "-f", "a.py"], "cannot be used with"),
        (
            vec!["-t", "0", "1"],
            "a time limit must be from 0.001 to 86400 seconds, got 0",
        ),
        (vec!["-t", "1e9", "1"], "got 1e9"),
        (vec!["-t", "-1", "1"], "got -1"),
        (
            vec!["--max-tool-calls", "-1", "1"],
            "'-1' for '--max-tool-calls <N>'",
        ),
        (
            vec!["--tools", "nope", "1"],
            "there is no tool \"nope\"; there are read_file",
        ),
        (
            vec!["--tools", "terminal", "--no-tools", "1"],
            "cannot be used with",
        ),
        (vec!["--on-timeout", "nope", "1"], "restart, interrupt"),
        (vec!["--no-such-flag", "1"], "--no-such-flag"),
        (vec!["empty.py"], "to run the file say -f \"empty.py\""),
    ] {
        let output = exec(&place, &arguments).await;
        let stderr = text(&output.stderr);
        assert!(stderr.contains(sentence), "{arguments:?}: {stderr}");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        // A program that asked for JSON gets JSON, whatever is wrong.
        let output = exec(&place, &[&["--json"], &*arguments].concat()).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let objects = objects(&output);
        assert_eq!(objects.len(), 1, "{arguments:?}");
        assert_eq!(objects[0]["error_class"], "usage", "{arguments:?}");
        let error = objects[0]["error"].as_str().unwrap();
        assert!(error.contains(sentence), "{arguments:?}: {error}");
    }
    let output = exec(&place, &["--json", "-f", "nul.py"]).await;
    assert_eq!(output.status.code(), Some(2));
    let objects = objects(&output);
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["status"], "error");
    assert_eq!(objects[0]["error_class"], "usage");
}

#[tokio::test]
async fn code_comes_from_stdin_with_a_dash_and_in_a_pipe() {
    let place = Place::new();
    for arguments in [vec!["-"], vec![], vec!["--json"]] {
        let mut command = place.exec(&arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A byte order mark is accepted.
        child
            .stdin
            .take()
            .unwrap()
            .write_all("\u{feff}print('é')".as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let stdout = text(&output.stdout);
        if arguments == ["--json"] {
            assert_eq!(objects(&output)[0]["output"], "é\n");
        } else {
            assert_eq!(stdout, "é\n");
        }
        assert_eq!(output.status.code(), Some(0));
    }
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn without_code_at_a_terminal_it_says_what_to_give() {
    let place = Place::new();
    // `script` gives the command a terminal; it is not everywhere.
    if !["/usr/bin/script", "/bin/script"]
        .iter()
        .any(|path| std::path::Path::new(path).exists())
    {
        eprintln!("NOT TESTED: no script(1) to make a terminal");
        return;
    }
    let program = format!("{} exec", env!("CARGO_BIN_EXE_warmcell"));
    let mut command = place.command("script");
    command.args(["-q", "-e", "-c", &program, "/dev/null"]);
    let output = finish(&mut command);
    assert!(text(&output.stdout).contains("nothing to run: give CODE, -f FILE, or -"));
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn the_kernel_has_the_callers_directory_umask_and_scrubbed_environment() {
    let place = Place::new();
    fs::create_dir(place.work().join("sub")).unwrap();
    let code = "import os\nprint(os.getcwd(), os.environ.get('PWD'))\n\
                print('%03o' % os.umask(0))\n\
                print(os.environ.get('MY_TOKEN'), os.environ.get('SOMETHING'))\n\
                print(os.environ['LC_TEST'], os.environ['HERMES_HOME'] == os.environ['HERMES_HOME'])";
    let mut command = place.command("/bin/sh");
    let line = format!(
        "umask 027; exec \"$0\" exec --cwd sub --python {} \"$1\"",
        crate::support::python().display()
    );
    command
        .args(["-c", &line, env!("CARGO_BIN_EXE_warmcell"), code])
        .env("MY_TOKEN", "secret")
        .env("SOMETHING", "else")
        .env("LC_TEST", "passes")
        .current_dir(place.work());
    let output = finish(&mut command);
    let sub = place.work().join("sub").canonicalize().unwrap();
    let sub = sub.display();
    assert_eq!(
        text(&output.stdout),
        format!("{sub} {sub}\n027\nNone None\npasses True\n"),
        "{}",
        text(&output.stderr)
    );
    let output = exec(&place, &["--cwd", "nowhere", "1"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("nowhere"),
        "{}",
        text(&output.stderr)
    );
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn tools_can_be_chosen_or_taken_away() {
    let place = Place::new();
    fs::write(place.work().join("f.txt"), "hello\n").unwrap();
    let code = "print(read_file('f.txt')['content'], terminal('echo hi').get('error'))";
    let output = exec(&place, &["--tools", "read_file", code]).await;
    let stdout = text(&output.stdout);
    assert!(stdout.starts_with("hello\n"), "{stdout}");
    assert!(stdout.contains("'terminal' is not granted to this cell; callable: read_file"));
    let output = exec(
        &place,
        &["--no-tools", "print(read_file('f.txt')['error'])"],
    )
    .await;
    assert!(text(&output.stdout).contains("no tool may be called"));
    let code = "print([read_file('f.txt').get('error') for _ in range(2)])";
    let output = exec(&place, &["--max-tool-calls", "1", code]).await;
    assert_eq!(
        text(&output.stdout),
        "[None, 'tool call limit reached (1 in this cell)']\n"
    );
    // Also where the cell looks at no result.
    assert_eq!(
        text(&output.stderr),
        "warmcell: 1 tool call was refused: tool call limit reached (1 in this cell)\n"
    );
}

#[tokio::test]
async fn output_streams_as_it_comes_and_whole() {
    let place = Place::new();
    let code = "import sys\nprint('first', flush=True)\nsys.stdin.close()\n\
                open('go').read()\nfor n in range(100_000): print(n)";
    let go = place.work().join("go");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &go,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let mut child = place.exec(&[code]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    // The cell is still running: it waits for us.
    assert_eq!(line, "first\n");
    fs::write(&go, "").unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    let mut expected: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    expected.push(String::new());
    let expected = expected.join("\n");
    assert!(
        rest == expected,
        "the output of the flood is not whole: {} bytes",
        rest.len()
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn help_tells_limits_exit_codes_and_examples() {
    let place = Place::new();
    let output = finish(&mut place.warmcell(&["--version"]));
    assert_eq!(
        text(&output.stdout),
        format!("warmcell {}\n", env!("CARGO_PKG_VERSION"))
    );
    let output = finish(&mut place.warmcell(&["exec", "--help"]));
    let help = text(&output.stdout);
    for words in [
        "0.001 to 86400",
        "[default: 300]",
        "[default: 50]",
        "130  interrupted",
    ] {
        assert!(help.contains(words), "{words:?} is missing in\n{help}");
    }
    let examples: Vec<&str> = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("warmcell exec "))
        .collect();
    let expected = [
        "'print(6*7)'",
        "-f load.py -f analyse.py",
        "--env DATABASE_URL --env DEBUG=1 -f report.py",
    ];
    assert_eq!(examples, expected);
    let output = finish(&mut place.warmcell(&[]));
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn what_is_cut_off_at_the_end_is_told() {
    let place = Place::new();
    let code = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()";
    let output = exec(&place, &[code]).await;
    assert_eq!(output.status.code(), Some(0));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("threads or atexit functions that were still at work were cut off"),
        "{stderr}"
    );
    let output = exec(&place, &["import atexit; atexit.register(print, 'bye')\n1"]).await;
    assert_eq!(text(&output.stdout), "1\nbye\n");
    assert_eq!(text(&output.stderr), "");
}

#[tokio::test]
async fn a_stdout_that_takes_nothing_is_told() {
    let place = Place::new();
    for arguments in [vec!["print(1)"], vec!["--json", "1"]] {
        let mut command = place.exec(&arguments);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let child = command.stdout(full).stderr(Stdio::piped()).spawn();
        let output = child.unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("cannot write to stdout: No space left"),
            "{stderr}"
        );
    }
    place.assert_no_survivors().await;
}
