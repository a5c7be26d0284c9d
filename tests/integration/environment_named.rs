//! `exec --env`, and what is told of variables that do not reach a cell.

use std::fs;

use serde_json::{Value, json};

use crate::server_kit::{Home, parts};
use crate::support::{Place, finish};

const LENGTHS: &str = "import os; print([len(os.environ.get(n, '')) for n in ('MY_TOKEN', 'FOO')])";

#[tokio::test]
async fn a_variable_that_is_named_passes_and_a_secret_one_is_masked() {
    let place = Place::new();
    let secret = "s3cret-0f4c2e8a91";
    let run = |arguments: &[&str]| {
        let mut command = place.exec(arguments);
        parts(&finish(
            command.env("MY_TOKEN", secret).env("FOO", "theirs"),
        ))
    };
    let (_, out, err) = run(&[LENGTHS]);
    assert_eq!(out, "[0, 0]\n", "{err}");
    let (_, out, err) = run(&["--env", "MY_TOKEN", "--env", "FOO=1", LENGTHS]);
    assert_eq!(out, "[17, 1]\n", "{err}");
    // Both ways, and in another form.
    let shows =
        "import os, base64; t = os.environ['MY_TOKEN']; print(t, base64.b64encode(t.encode()))";
    let given = format!("MY_TOKEN={secret}");
    for named in ["MY_TOKEN", given.as_str()] {
        let (code, out, err) = run(&["--env", named, shows]);
        assert_eq!(code, 0, "{err}");
        assert!(!out.contains(secret) && !out.contains("czNjcmV0"), "{out}");
        assert_eq!(out.matches("[redacted:environment]").count(), 2, "{out}");
        let (_, out, _) = run(&["--no-redact", "--env", named, shows]);
        assert!(out.contains(secret), "{out}");
    }
    // Words are no secrets, whatever the name.
    let (_, out, _) = run(&[
        "--env",
        "MY_TOKEN=on",
        "import os; print(os.environ['MY_TOKEN'])",
    ]);
    assert_eq!(out, "on\n");
    let (code, out, err) = run(&["--env", "NOT_SET_HERE", "print(6*7)"]);
    assert_eq!((code, out.as_str()), (0, "42\n"));
    assert!(err.contains("--env: NOT_SET_HERE is not set here"), "{err}");
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn what_cannot_be_let_through_is_usage_and_shows_no_value() {
    let home = Home::new();
    for session in [&[][..], &["-s", "s"]] {
        for (word, sentence) in [
            ("OPENAI_API_KEY", "OPENAI_API_KEY cannot be let through"),
            (
                "openai_api_key=hush",
                "openai_api_key cannot be let through",
            ),
            ("AUXILIARY_FOO_BASE_URL=hush", "cannot be let through"),
            ("HERMES_RPC_TOKEN=hush", "cannot be let through"),
            ("=hush", "--env takes NAME or NAME=VALUE"),
            ("a b=hush", "--env takes NAME or NAME=VALUE"),
        ] {
            let words = [&["exec", "--json", "--env", word], session, &["1"]].concat();
            let (code, out, err) = home.run(&words);
            let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
            assert_eq!((code, &told["error_class"]), (2, &json!("usage")), "{told}");
            let error = told["error"].as_str().unwrap();
            assert!(error.contains(sentence), "{error}");
            assert!(!out.contains("hush"), "{out}");
        }
    }
    // At the door too, and nothing was opened for it.
    home.run(&["exec", "-s", "other", "1"]);
    let mut caller = home.caller();
    caller["env"] = json!({ "OPENAI_API_KEY": "hush" });
    let answer = home.order("s", &json!({"code": "1", "caller": caller}));
    let (status, error) = answer.usage();
    assert_eq!(status, 400);
    assert!(
        error.contains("OPENAI_API_KEY cannot be let through (`caller.env`)"),
        "{error}"
    );
    assert!(!answer.body.contains("hush"), "{answer:?}");
    let (_, out, _) = home.run(&["sessions", "--json"]);
    assert!(!out.contains(r#""name":"s""#), "{out}");
    home.end().await;
}

#[tokio::test]
async fn the_environment_of_a_session_is_fixed_and_says_so() {
    let home = Home::new();
    let exec = |words: &[&str]| {
        let words = [&["exec", "-s", "s"], words].concat();
        home.run(&words)
    };
    let (_, out, err) = exec(&["--env", "FOO=1", LENGTHS]);
    assert_eq!(out, "[0, 1]\n", "{err}");
    // The same again is no news; another is told, without its value, once.
    let (_, out, err) = exec(&["--env", "FOO=1", LENGTHS]);
    assert_eq!((out.as_str(), err.as_str()), ("[0, 1]\n", ""));
    let other = [
        "--env",
        "FOO=hush-hush",
        "--env",
        "MY_TOKEN=hush-hush",
        LENGTHS,
    ];
    let (_, out, err) = exec(&other);
    assert_eq!(out, "[0, 1]\n");
    let told = "FOO, MY_TOKEN were named for it and are not passed";
    assert!(err.contains(told) && !err.contains("hush"), "{err}");
    let (_, _, err) = exec(&other);
    assert_eq!(err, "");
    let (_, out, err) = exec(&[&["--reset"], &other[..]].concat());
    assert_eq!(out, "[9, 9]\n", "{err}");
    home.end().await;
}

#[tokio::test]
async fn dropped_names_are_one_line_in_the_log_whatever_its_level() {
    let home = Home::new();
    let mut command = home.command(&["exec", "-s", "s", "1"]);
    command
        .env("HERMES_BASE_URL", "http://hush.example")
        .env("SOMETHING_ELSE", "hush")
        .env("MY_TOKEN", "hush-hush-1")
        .env("OTHER_PASSWORD", "hush-hush-2");
    let (code, _, err) = parts(&finish(&mut command));
    assert_eq!(code, 0, "{err}");
    let log = fs::read_to_string(home.place.home().join("logs/warmcell.log")).unwrap();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("variables that the kernel does not see"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    for words in [
        "DEBUG",
        "HERMES_BASE_URL",
        "SOMETHING_ELSE",
        "with_secret_names=2",
        "terminal.env_passthrough",
    ] {
        assert!(lines[0].contains(words), "{words:?} in {}", lines[0]);
    }
    for words in ["hush", "MY_TOKEN", "OTHER_PASSWORD"] {
        assert!(!log.contains(words), "{words:?} in {log}");
    }
    // What else is below the level is not there.
    let others = log.lines().filter(|line| line.contains("DEBUG"));
    assert_eq!(others.count(), 1, "{log}");
    home.end().await;
}

/// By the command line and by a session: the client and the server read the same file.
#[tokio::test]
async fn the_configuration_lets_variables_through_and_says_the_mode() {
    let home = Home::new();
    let text = "terminal: {env_passthrough: [MY_TOKEN, FOO]}\ncode_execution: {mode: strict}\n";
    fs::write(home.place.home().join("config.yaml"), text).unwrap();
    let code = "import os; print(len(os.environ.get('MY_TOKEN', '')), os.environ.get('FOO'), \
                '/cache/strict/' in os.getcwd())";
    let run = |words: &[&str]| {
        let mut command = home.command(&[&["exec"], words, &[code]].concat());
        command.env("MY_TOKEN", "t0ken-0123456789").env("FOO", "f");
        parts(&finish(&mut command))
    };
    for session in [&[][..], &["-s", "s"]] {
        let (_, out, err) = run(session);
        assert_eq!(out, "16 f True\n", "{err}");
        // A flag wins.
        let (_, out, err) = run(&[session, &["--mode", "project"]].concat());
        assert_eq!(out, "16 f False\n", "{err}");
    }
    let (code, _, err) = run(&["--cwd", "/tmp"]);
    assert_eq!(code, 2);
    assert!(err.contains("in strict mode"), "{err}");
    home.end().await;
}
