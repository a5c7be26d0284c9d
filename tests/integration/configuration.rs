//! `<home>/config.yaml` and the variables that say the same, as commands see them.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::support::{Place, finish, python, text};

/// A home with this file.
fn with(config: impl AsRef<[u8]>) -> Place {
    let place = Place::new();
    fs::write(place.home().join("config.yaml"), config).unwrap();
    place
}

/// `warmcell exec ARGUMENTS`, with variables: code, stdout, stderr.
fn exec_with(
    place: &Place,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> (i32, String, String) {
    let mut command = place.exec(arguments);
    command.envs(variables.iter().copied());
    let output = finish(&mut command);
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn exec(place: &Place, arguments: &[&str]) -> (i32, String, String) {
    exec_with(place, &[], arguments)
}

fn json(place: &Place, arguments: &[&str]) -> (i32, Value, String) {
    let arguments = [&["--json"], arguments].concat();
    let (code, out, err) = exec(place, &arguments);
    let result = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out:?} {err:?}"));
    (code, result, err)
}

#[tokio::test]
async fn a_bad_value_of_an_ordinary_key_is_a_warning() {
    for (value, shown) in [
        ("-1", "-1"),
        ("\"abc\"", "\"abc\""),
        ("1e9", "1e9"),
        ("true", "true"),
    ] {
        let place = with(format!("code_execution:\n  timeout: {value}\n"));
        let path = place.home().join("config.yaml");
        let warning = format!(
            "{}:2: code_execution.timeout must be a number of seconds from 0.001 to 86400, got {shown}; \
             the default (300) is used",
            path.display()
        );
        let (code, out, err) = exec(&place, &["print(1)"]);
        assert_eq!((code, out.as_str()), (0, "1\n"));
        assert_eq!(err, format!("warmcell: {warning}\n"));
        let (code, result, err) = json(&place, &["print(1)"]);
        assert_eq!((code, &result["status"]), (0, &"success".into()));
        assert_eq!(result["warning"], warning);
        assert_eq!(err, format!("warmcell: {warning}\n"));
        place.assert_no_survivors().await;
    }
}

#[tokio::test]
async fn a_bad_value_of_what_protects_is_refused_and_no_cell_runs() {
    for (config, said) in [
        (
            "code_execution: {mode: strcit}",
            "code_execution.mode must be project or strict, got strcit",
        ),
        ("approvals: 3", "approvals must hold keys and values, got 3"),
        ("code_execution: {sandbox: true}", "there is no sandbox yet"),
        (
            "terminal: {backend: docker, docker_image: x}",
            "(with docker_image: x)",
        ),
        ("limits: {memory: lots}", "limits.memory must be"),
        ("- a\n- b\n", "is a list, and must hold keys and values"),
        ("terminal:\n\tbackend: docker\n", "tabs"),
    ] {
        let place = with(config);
        let code = "open('ran', 'w')";
        for session in [&[][..], &["-s", "a"]] {
            let (status, out, err) = exec(&place, &[session, &[code]].concat());
            assert_eq!((status, out.as_str()), (2, ""), "{config}: {err}");
            assert!(err.starts_with("warmcell: ") && err.contains(said), "{err}");
            assert!(err.contains("config.yaml:"), "{err}");
            let (status, result, _) = json(&place, &[session, &[code]].concat());
            assert_eq!((status, &result["error_class"]), (2, &"usage".into()));
            assert!(result["error"].as_str().unwrap().contains(said), "{result}");
        }
        assert!(!place.work().join("ran").exists());
        let served = finish(&mut place.warmcell(&["serve"]));
        assert_eq!(served.status.code(), Some(2), "{}", text(&served.stderr));
        place.assert_no_survivors().await;
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_refused_with_its_place() {
    let long = "# x\n".repeat(13 << 20);
    for (config, said) in [
        (
            &b"a: 1\n\xff\xfe\0"[..],
            "config.yaml:2: the configuration is no text in UTF-8",
        ),
        (
            long.as_bytes(),
            "config.yaml: the configuration has 54525952 bytes, and 1048576 are read at most",
        ),
        (b"code_execution: {timeout: 5\n", "config.yaml:"),
        (
            b"limits: {memory: 1G}\nlimits: {memory: 2G}\n",
            "there are two sections limits",
        ),
    ] {
        let place = with(config);
        let (status, _, err) = exec(&place, &["1"]);
        assert_eq!(status, 2, "{err}");
        assert!(err.contains(said), "{err}");
        place.assert_no_survivors().await;
    }
}

#[tokio::test]
async fn what_says_nothing_is_no_trouble() {
    let mut bomb = "a: &a [x, x]\n".to_owned();
    for (before, next) in ["a", "b", "c", "d", "e", "f"]
        .windows(2)
        .map(|it| (it[0], it[1]))
    {
        writeln!(
            bomb,
            "{next}: &{next} [{}]",
            vec![format!("*{before}"); 90].join(", ")
        )
        .unwrap();
    }
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/other_system.yaml"
    );
    let example = fs::read_to_string(example).unwrap();
    for config in ["", "# nothing\n", &bomb, &example] {
        let place = with(config);
        let (status, out, err) = exec(&place, &["print(1)"]);
        assert_eq!(
            (status, out.as_str(), err.as_str()),
            (0, "1\n", ""),
            "{config:.80}"
        );
        let (_, result, _) = json(&place, &["print(1)"]);
        assert_eq!(result.get("warning"), None);
        place.assert_no_survivors().await;
    }
}

#[tokio::test]
async fn unknown_keys_are_told_once_with_what_was_meant() {
    let place = with("code_execution: {tiemout: 1, on_interupt: restart}\nmodel: {anything: 1}\n");
    let (status, _, err) = exec(&place, &["1"]);
    assert_eq!(status, 0);
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(
        err.contains(
            "code_execution has no key tiemout (did you mean timeout?), on_interupt (did you mean \
             on_interrupt?)"
        ),
        "{err}"
    );
    place.assert_no_survivors().await;
}

/// Built-in, file, variable, flag: the later wins.
#[tokio::test]
async fn flags_win_over_variables_and_these_over_the_file() {
    let made = |place: &Place, variables: &[(&str, &str)], flags: &[&str]| {
        let code = "for _ in range(6): read_file('nothing')";
        let arguments = [&["--json"], flags, &[code]].concat();
        let (_, out, err) = exec_with(place, variables, &arguments);
        let result: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}"));
        result["tool_calls_made"].as_u64().unwrap()
    };
    let place = with("code_execution: {max_tool_calls: 3}");
    let variable = [("WARMCELL_CODE_EXECUTION_MAX_TOOL_CALLS", "2")];
    assert_eq!(made(&Place::new(), &[], &[]), 6);
    assert_eq!(made(&place, &[], &[]), 3);
    // Also where the command starts itself anew, because there is something to hide.
    let hiding = [variable[0], ("MY_TOKEN", "0123456789abcdef")];
    assert_eq!(made(&place, &hiding, &[]), 2);
    assert_eq!(made(&place, &variable, &["--max-tool-calls", "1"]), 1);
    let (status, _, err) = exec_with(
        &place,
        &[("WARMCELL_CODE_EXECUTION_MODE", "strcit")],
        &["1"],
    );
    assert_eq!(status, 2);
    assert!(
        err.contains("WARMCELL_CODE_EXECUTION_MODE: code_execution.mode must be"),
        "{err}"
    );
    let (_, seen, _) = exec_with(
        &place,
        &variable,
        &["import os; [k for k in os.environ if 'WARMCELL_CODE' in k]"],
    );
    assert_eq!(seen, "[]\n");
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn each_limit_of_the_file_is_in_force() {
    let place = with(
        "code_execution:\n  timeout: 0.5\n  on_timeout: interrupt\n  max_stdout_bytes: 1K\n\
         terminal: {timeout: 0.2, env_passthrough: [MY_TOKEN]}\n",
    );
    let (status, result, _) = json(&place, &["while True: pass"]);
    assert_eq!((status, &result["status"]), (124, &"timeout".into()));
    assert!(
        result["error"].as_str().unwrap().contains("0.5 s"),
        "{result}"
    );
    // Its kernel was kept: this is policy `interrupt`.
    assert_eq!(result["kernel"]["state"], "fresh");
    let (_, result, _) = json(&place, &["print('x' * 5000)"]);
    assert_eq!(result["stdout_bytes_total"], 5_001);
    assert!(
        result["stdout_bytes_captured"].as_u64().unwrap() <= 1_024,
        "{result}"
    );
    let (_, out, _) = exec(&place, &["terminal('sleep 5')['exit_code']"]);
    assert_eq!(out, "124\n");
    let token = [("MY_TOKEN", "one two"), ("MY_SECRET", "x")];
    let code = "import os; os.environ.get('MY_TOKEN'), 'MY_SECRET' in os.environ";
    let (_, out, _) = exec_with(&place, &token, &[code]);
    assert_eq!(out, "('one two', False)\n");
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn memory_of_processes_is_limited() {
    let place = with("limits: {memory: 512M}");
    let code = "x = bytearray(1 << 30)";
    for session in [&[][..], &["-s", "a"]] {
        let (status, result, _) = json(&place, &[session, &[code]].concat());
        assert_eq!(
            (status, &result["error_class"]),
            (1, &"limit".into()),
            "{result}"
        );
    }
    let code = "import resource; resource.getrlimit(resource.RLIMIT_AS)";
    let (_, out, _) = exec(&place, &[code]);
    assert_eq!(out, "(536870912, 536870912)\n");
    finish(&mut place.warmcell(&["serve", "--stop"]));
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn the_python_of_the_file_is_used_and_a_flag_wins() {
    let place = with("code_execution: {python: /nowhere/python}");
    let run = |arguments: &[&str]| {
        let output = finish(place.warmcell(&["exec"]).args(arguments));
        (
            output.status.code().unwrap(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (status, _, err) = run(&["1"]);
    assert_eq!(status, 125);
    assert!(err.contains("/nowhere/python"), "{err}");
    let python = python().display().to_string();
    assert_eq!(run(&["--python", &python, "print(1)"]).0, 0);
    fs::write(
        place.home().join("config.yaml"),
        format!("code_execution: {{python: {python}}}"),
    )
    .unwrap();
    let code = "import sys; print(sys.executable)";
    assert_eq!(run(&[code]).1, format!("{python}\n"));
    place.assert_no_survivors().await;
}

/// A file that is bad keeps nobody from what needs none.
#[tokio::test]
async fn a_bad_file_stops_no_command_that_needs_none() {
    let place = with("code_execution: {mode: strcit}");
    for arguments in [
        &["--version"][..],
        &["exec", "--help"],
        &["sessions"],
        &["sessions", "--json"],
        &["kernelspec", "list"],
        &["serve", "--stop"],
        &["serve", "--stop", "--json"],
    ] {
        let output = finish(&mut place.warmcell(arguments));
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        assert!(
            !text(&output.stderr).contains("config.yaml"),
            "{arguments:?}"
        );
    }
    let output = finish(&mut place.warmcell(&["kernel", "-f", "k.json"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("strcit"));
    place.assert_no_survivors().await;
}

/// What stands in `.env` is a secret, whatever its name.
#[tokio::test]
async fn secrets_of_the_home_are_masked() {
    let place = Place::new();
    fs::write(
        place.home().join(".env"),
        "export PROVIDER=\"q7Rk29xLmPz81vTnB4\"\n",
    )
    .unwrap();
    let code = "print('q7Rk29xLm' + 'Pz81vTnB4')";
    for session in [&[][..], &["-s", "a"]] {
        let (_, out, err) = exec(&place, &[session, &[code]].concat());
        assert!(out.starts_with("[redacted:"), "{out} {err}");
    }
    finish(&mut place.warmcell(&["serve", "--stop"]));
    place.assert_no_survivors().await;
}

/// Whoever opened the session's server: what a caller's configuration lets through reaches its kernel.
#[tokio::test]
async fn mode_and_variables_of_the_configuration_reach_kernels_of_the_background_too() {
    let place = with("code_execution: {mode: strict}");
    let code = "import os; print(os.listdir(), os.environ.get('MY_TOKEN'))";
    let variables = [
        ("WARMCELL_TERMINAL_ENV_PASSTHROUGH", "MY_TOKEN"),
        ("MY_TOKEN", "one two"),
    ];
    fs::write(place.work().join("file"), "").unwrap();
    for session in [&[][..], &["-s", "a"]] {
        let (_, out, err) = exec_with(&place, &variables, &[session, &[code]].concat());
        assert_eq!(out, "[] one two\n", "{err}");
    }
    let (_, out, err) = exec_with(&place, &variables, &["-s", "b", "--mode", "project", code]);
    assert_eq!(out, "['file'] one two\n", "{err}");
    finish(&mut place.warmcell(&["serve", "--stop"]));
    place.assert_no_survivors().await;
}
