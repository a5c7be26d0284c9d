use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::config::{LogLevel, Mode, Policy};

fn read(text: &str) -> Configuration {
    Configuration::parse(Path::new("/h/config.yaml"), text.as_bytes(), [])
}

fn variable(name: &str, value: &str) -> Configuration {
    Configuration::parse(Path::new("/h/config.yaml"), b"", [(name, value)])
}

/// The one sentence that is told of it, and how.
fn one(configuration: &Configuration) -> (Severity, String) {
    let problems = &configuration.problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    (problems[0].severity, problems[0].to_string())
}

#[test]
fn every_key_is_read() {
    let text = "
code_execution:
  mode: Strict
  timeout: 0.5
  max_tool_calls: 7
  max_stdout_bytes: 1K
  max_spill_bytes: 2M
  kernel_idle_timeout: 0
  max_session_kernels: 9
  on_timeout: interrupt
  on_interrupt: RESTART
  interrupt_grace: 1.5
  python: /usr/bin/python3
  sandbox: false
terminal:
  env_passthrough: [A, \"B \"]
  timeout: 12
  backend: local
limits: {memory: 1G, processes: 64}
journal: {enabled: no, days: 3, bytes: 10M}
approvals: {mode: smart, timeout: 60, deny: [], unattended_mode: deny, allow_execute_code: true}
web: {backend: tavily, extract_char_limit: 2000}
security: {redact_secrets: true, allow_private_urls: false, website_blocklist: {enabled: true}}
logging: {level: WARNING}
";
    let configuration = read(text);
    assert_eq!(configuration.problems, []);
    let expected = Values {
        mode: Some(Mode::Strict),
        timeout: Some(Duration::from_millis(500)),
        max_tool_calls: Some(7),
        max_stdout_bytes: Some(1_024),
        max_spill_bytes: Some(2 << 20),
        kernel_idle_timeout: Some(Duration::ZERO),
        max_session_kernels: Some(9),
        on_timeout: Some(Policy::Interrupt),
        on_interrupt: Some(Policy::Restart),
        interrupt_grace: Some(Duration::from_millis(1_500)),
        python: Some("/usr/bin/python3".into()),
        env_passthrough: Some(vec!["A".to_owned(), "B".to_owned()]),
        terminal_timeout: Some(Duration::from_secs(12)),
        memory: Some(1 << 30),
        processes: Some(64),
        journal_enabled: Some(false),
        journal_days: Some(3),
        journal_bytes: Some(10 << 20),
        log_level: Some(LogLevel::Warning),
    };
    assert_eq!(configuration.values, expected);
}

#[test]
fn a_file_without_anything_says_nothing() {
    for text in [
        "",
        "\n# nothing\n",
        "---\n",
        "null",
        "{}",
        "code_execution:\nterminal: ~\nlimits: {}\napprovals: null\n",
        "code_execution: {timeout: , mode: null}",
        "model: {default: x}\nanything: [1, {a: b}]\n1: 2\n? [a]\n: b\n",
    ] {
        assert_eq!(read(text), Configuration::default(), "{text:?}");
    }
}

/// Ordinary keys: a warning, and the default.
#[test]
fn a_bad_value_is_told_with_key_value_place_and_default() {
    for (key, value, shown) in [
        ("timeout", "-1", "-1"),
        ("timeout", "\"abc\"", "\"abc\""),
        ("timeout", "abc", "abc"),
        ("timeout", "1e9", "1e9"),
        ("timeout", "true", "true"),
        ("timeout", "0", "0"),
        ("timeout", ".nan", ".nan"),
        ("timeout", ".inf", ".inf"),
        ("timeout", "5:00", "5:00"),
        ("timeout", "[5]", "a list"),
        ("timeout", "{a: 5}", "a mapping"),
        ("timeout", "\"\"", "\"\""),
        ("max_tool_calls", "1.5", "1.5"),
        ("max_tool_calls", "-1", "-1"),
        ("max_tool_calls", "4294967296", "4294967296"),
        ("max_stdout_bytes", "0", "0"),
        ("max_spill_bytes", "lots", "lots"),
        ("kernel_idle_timeout", "never", "never"),
        ("max_session_kernels", "0", "0"),
        ("on_timeout", "kill", "kill"),
        ("on_interrupt", "3", "3"),
        ("interrupt_grace", "-0.1", "-0.1"),
        ("python", "bin/python", "bin/python"),
        ("python", "[a]", "a list"),
    ] {
        let configuration = read(&format!("code_execution:\n\n  {key}: {value}\n"));
        let (severity, told) = one(&configuration);
        assert_eq!(severity, Severity::Warning, "{told}");
        let begins = format!("/h/config.yaml:3: code_execution.{key} must be ");
        assert!(told.starts_with(&begins), "{told}");
        assert!(told.contains(&format!(", got {shown}")), "{told}");
        let default = keys()
            .iter()
            .find(|it| it.parts().1 == key)
            .unwrap()
            .default;
        assert!(
            told.ends_with(&format!("; the default ({default}) is used")),
            "{told}"
        );
        assert_eq!(configuration.values, Values::default());
        assert_eq!(configuration.refusal(), None);
        assert_eq!(configuration.warnings(), [told]);
        let problem = &configuration.problems[0];
        assert_eq!(problem.key, format!("code_execution.{key}"));
        assert_eq!((problem.line, problem.value.as_str()), (Some(3), shown));
    }
    for text in [
        "journal: {days: 0}",
        "journal: {enabled: perhaps}",
        "logging: {level: loud}",
    ] {
        assert_eq!(one(&read(text)).0, Severity::Warning, "{text}");
    }
    for text in ["journal: 3", "web: [a]", "logging: DEBUG"] {
        let (severity, told) = one(&read(text));
        assert_eq!(severity, Severity::Warning, "{told}");
        assert!(
            told.ends_with("must hold keys and values, got 3; the defaults are used")
                || told.contains("got a list")
                || told.contains("got DEBUG"),
            "{told}"
        );
    }
    // Numbers in quotes are numbers all the same, as with the other readers of this file.
    assert_eq!(
        read("code_execution: {timeout: \"5\"}").values.timeout,
        Some(Duration::from_secs(5))
    );
}

/// Keys that protect: refused, never replaced.
#[test]
fn a_bad_value_of_what_protects_is_refused() {
    for (text, key, shown) in [
        (
            "code_execution: {mode: strcit}",
            "code_execution.mode",
            "strcit (did you mean strict?)",
        ),
        (
            "code_execution: {mode: [strict]}",
            "code_execution.mode",
            "a list",
        ),
        (
            "code_execution: {mode: true}",
            "code_execution.mode",
            "true",
        ),
        (
            "code_execution: {sandbox: maybe}",
            "code_execution.sandbox",
            "maybe",
        ),
        (
            "code_execution: {sandbox: {on: true}}",
            "code_execution.sandbox",
            "a mapping",
        ),
        ("terminal: {backend: dcoker}", "terminal.backend", "dcoker"),
        ("terminal: {backend: 3}", "terminal.backend", "3"),
        (
            "terminal: {env_passthrough: A}",
            "terminal.env_passthrough",
            "A",
        ),
        (
            "terminal: {env_passthrough: [A, [B]]}",
            "terminal.env_passthrough",
            "a list",
        ),
        (
            "terminal: {env_passthrough: [A=b]}",
            "terminal.env_passthrough",
            "a list",
        ),
        ("limits: {memory: lots}", "limits.memory", "lots"),
        ("limits: {memory: 1}", "limits.memory", "1"),
        ("limits: {memory: -1G}", "limits.memory", "-1G"),
        ("limits: {processes: 0}", "limits.processes", "0"),
        (
            "approvals: {mode: manaul}",
            "approvals.mode",
            "manaul (did you mean manual?)",
        ),
        ("approvals: {mode: 3}", "approvals.mode", "3"),
        ("approvals: {timeout: soon}", "approvals.timeout", "soon"),
        (
            "approvals: {unattended_mode: ask}",
            "approvals.unattended_mode",
            "ask",
        ),
        ("approvals: {deny: \"rm *\"}", "approvals.deny", "\"rm *\""),
        (
            "security: {redact_secrets: sometimes}",
            "security.redact_secrets",
            "sometimes",
        ),
        (
            "security: {allow_private_urls: 7}",
            "security.allow_private_urls",
            "7",
        ),
        (
            "security: {website_blocklist: x.org}",
            "security.website_blocklist",
            "x.org",
        ),
    ] {
        let configuration = read(text);
        let (severity, told) = one(&configuration);
        assert_eq!(severity, Severity::Refusal, "{told}");
        assert!(
            told.starts_with(&format!("/h/config.yaml:1: {key} must be ")),
            "{told}"
        );
        assert!(
            told.contains(&format!(", got {shown}; what protects is never replaced")),
            "{told}"
        );
        assert_eq!(configuration.refusal(), Some(told));
    }
    for text in [
        "approvals: 3",
        "code_execution: strict",
        "terminal: [a]",
        "limits: 1G",
        "security: no",
    ] {
        let (severity, told) = one(&read(text));
        assert_eq!(severity, Severity::Refusal, "{told}");
        assert!(told.contains("must hold keys and values, got "), "{told}");
        assert!(told.ends_with("correct it or remove it"), "{told}");
    }
}

/// What asks for protection that is not there yet says so; what asks for what is so anyway passes.
#[test]
fn protection_that_is_not_there_is_refused_by_name() {
    for (text, said) in [
        ("code_execution: {sandbox: true}", "there is no sandbox yet"),
        ("approvals: {mode: manual}", "nobody is asked"),
        (
            "approvals: {deny: [\"git push*\"]}",
            "not refused by patterns yet",
        ),
        (
            "terminal: {backend: docker, docker_image: python:3.12}",
            "(with docker_image: python:3.12)",
        ),
        ("terminal: {backend: docker}", "docker-image:IMAGE"),
        (
            "terminal: {ssh_user: me, ssh_host: h.example, ssh_port: 22, backend: ssh}",
            "(with ssh_host: h.example, ssh_user: me, ssh_port: 22)",
        ),
        ("terminal: {backend: singularity}", "not there yet"),
        ("terminal: {backend: modal}", "not there yet"),
        ("terminal: {backend: daytona}", "not there yet"),
        ("terminal: {backend: vercel_sandbox}", "not there yet"),
        (
            "terminal: {backend: \"docker-image:python:3.12\"}",
            "not there yet",
        ),
        ("terminal: {backend: \"podman:box\"}", "not there yet"),
        ("terminal: {backend: \"ssh:me@h:22\"}", "not there yet"),
        (
            "terminal: {local_exec_broker: {uid: 5}}",
            "not as another user",
        ),
    ] {
        let (severity, told) = one(&read(text));
        assert_eq!(severity, Severity::Refusal, "{told}");
        assert!(told.contains(said), "{told}");
    }
    for text in [
        "approvals: {mode: smart}",
        "approvals: {mode: off, cron_mode: approve}",
        "approvals: {mode: false}",
        "terminal: {backend: LOCAL, docker_image: x, ssh_host: y}",
        "terminal: {local_exec_broker: null}",
    ] {
        assert_eq!(read(text).problems, [], "{text}");
    }
    // Less is not done than is asked for.
    let (severity, told) = one(&read("security: {redact_secrets: false}"));
    assert_eq!(severity, Severity::Warning);
    assert!(told.contains("secrets are masked all the same"), "{told}");
}

#[test]
fn a_file_that_is_none_is_refused_with_its_line() {
    let refused = |bytes: &[u8]| {
        let configuration = Configuration::parse(Path::new("/h/config.yaml"), bytes, []);
        let (severity, told) = one(&configuration);
        assert_eq!(severity, Severity::Refusal);
        assert!(told.contains("nothing is run without it"), "{told}");
        told
    };
    for (bytes, begins) in [
        (
            &b"- a\n- b\n"[..],
            ":1: the configuration is a list, and must hold keys",
        ),
        (b"just text", ":1: the configuration is just text, and"),
        (b"42", ":1: the configuration is 42, and"),
        (
            b"a: 1\nb: \xff\n",
            ":2: the configuration is no text in UTF-8",
        ),
        (
            b"\x7fELF\x02\x01\x01\0\0\0",
            ":1: the configuration is no text",
        ),
        (b"\xff\xfea\0:\0", ":1: the configuration is no text"),
        (b"terminal:\n\tbackend: docker\n", ":2: the configuration "),
        (b"terminal: {backend: docker\n", ":"),
        (
            b"a: 1\n---\nterminal: {backend: docker}\n",
            ":2: the configuration a second document",
        ),
        (b"a: *b\n", ":1: "),
        (b"<<: 3\nb: 1\n", ":1: the configuration merges"),
    ] {
        let told = refused(bytes);
        assert!(
            told.starts_with(&format!("/h/config.yaml{begins}")),
            "{told}"
        );
    }
    assert!(refused(b"terminal:\n\tbackend: docker\n").contains("tabs"));
}

#[test]
fn what_stands_twice_is_told() {
    let configuration = read("code_execution:\n  timeout: 5\n  timeout: 6\n");
    let (severity, told) = one(&configuration);
    assert_eq!(severity, Severity::Warning);
    assert!(
        told.ends_with(
            ":3: code_execution.timeout stands twice (first on line 2); this one counts"
        ),
        "{told}"
    );
    assert_eq!(configuration.values.timeout, Some(Duration::from_secs(6)));
    for text in [
        "code_execution:\n  mode: strict\n  mode: project\n",
        "limits: {memory: 1G}\nlimits: {processes: 5}\n",
        "code_execution: {timeout: 5}\ncode_execution:\n",
    ] {
        assert_eq!(one(&read(text)).0, Severity::Refusal, "{text}");
    }
    assert_eq!(read("model: 1\nmodel: 2\nx: {a: 1, a: 2}\n").problems, []);
}

#[test]
fn an_unknown_key_of_ours_is_told_with_what_was_meant() {
    let told = |text: &str| one(&read(text));
    assert_eq!(
        told("code_execution:\n  tiemout: 5\n"),
        (
            Severity::Warning,
            "/h/config.yaml:2: code_execution has no key tiemout (did you mean timeout?)"
                .to_owned()
        )
    );
    assert!(
        told("limits: {memroy: 1G}")
            .1
            .contains("(did you mean memory?)")
    );
    assert!(
        told("terminal: {bakcend: docker}")
            .1
            .contains("(did you mean backend?)")
    );
    assert!(
        told("approvals: {denny: [x]}")
            .1
            .contains("(did you mean deny?)")
    );
    assert!(
        told("journal: {xyzzy: 1}")
            .1
            .ends_with("journal has no key xyzzy")
    );
    // All of a section in one sentence.
    let many: Vec<String> = (0..100).map(|n| format!("  strange_{n}: 1")).collect();
    let many = many.join("\n");
    let (_, many) = told(&format!("code_execution:\n{many}"));
    assert!(many.ends_with("strange_4 and 95 more"), "{many}");
    assert!(
        one(&read(&format!("limits: {{\"{}\": 1}}", "x".repeat(10_000))))
            .1
            .len()
            < 300
    );
    for foreign in [
        "code_execution: {kernel_mode: x}",
        "terminal: {cwd: ., home_mode: auto, docker_volumes: [], container_cpu: 1, sudo_password: x}",
        "security: {tirith_enabled: true, tirith_fail_open: true}",
        "approvals: {smart_policy: '', codex_guardian: {timeout: 20}}",
        "web: {cache_enabled: true, keyless_fallback: true}",
        "timeout: 3\nmode: strcit\ncode_executoin: {mode: strcit}\n",
    ] {
        assert_eq!(read(foreign).problems, [], "{foreign}");
    }
}

/// The other system's whole example: nothing to be told.
#[test]
fn the_other_systems_example_passes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/other_system.yaml");
    let Ok(text) = std::fs::read_to_string(path) else {
        // The published package may leave it out.
        return;
    };
    let configuration = read(&text);
    assert_eq!(configuration.problems, []);
    assert_eq!(configuration.values.max_tool_calls, Some(50));
    assert_eq!(
        configuration.values.terminal_timeout,
        Some(Duration::from_secs(180))
    );
}

#[test]
fn many_problems_are_a_few_sentences() {
    let text = "code_execution: {timeout: x, max_tool_calls: x, max_stdout_bytes: x, max_spill_bytes: x, \
        kernel_idle_timeout: x, interrupt_grace: x, on_timeout: x}";
    let warnings = read(text).warnings();
    assert_eq!(warnings.len(), 6);
    assert_eq!(warnings[5], "and 2 more in the configuration");
}

#[test]
fn variables_say_the_same_as_keys() {
    let set = variable("WARMCELL_CODE_EXECUTION_TIMEOUT", "5");
    assert_eq!(set.problems, []);
    assert_eq!(set.values.timeout, Some(Duration::from_secs(5)));
    let names = variable("WARMCELL_TERMINAL_ENV_PASSTHROUGH", "A, B,");
    assert_eq!(
        names.values.env_passthrough,
        Some(vec!["A".to_owned(), "B".to_owned()])
    );
    assert_eq!(
        one(&variable("WARMCELL_CODE_EXECUTION_TIMEOUT", "abc")),
        (
            Severity::Warning,
            "WARMCELL_CODE_EXECUTION_TIMEOUT: code_execution.timeout must be a number of seconds from 0.001 \
             to 86400, got abc; it is left out, and what config.yaml says is used, else the default (300)"
                .to_owned()
        )
    );
    let (severity, told) = one(&variable("WARMCELL_CODE_EXECUTION_MODE", "strcit"));
    assert_eq!(severity, Severity::Refusal, "{told}");
    let (severity, told) = one(&variable("WARMCELL_LIMITS_MEMROY", "1G"));
    assert_eq!(severity, Severity::Warning);
    assert!(
        told.contains("(did you mean WARMCELL_LIMITS_MEMORY?)"),
        "{told}"
    );
    // Set to nothing is not set; others are not looked at.
    for (name, value) in [
        ("WARMCELL_CODE_EXECUTION_TIMEOUT", ""),
        ("WARMCELL_SESSION", "x"),
        ("WARMCELL_HIDDEN", "x"),
        ("WARMCELL_TIMEOUT", "5"),
        ("CODE_EXECUTION_TIMEOUT", "abc"),
    ] {
        assert_eq!(variable(name, value), Configuration::default(), "{name}");
    }
    // What is wrong with the file stays wrong.
    let both = Configuration::parse(
        Path::new("c"),
        b"code_execution: {mode: strcit}",
        [("WARMCELL_CODE_EXECUTION_MODE", "project")],
    );
    assert!(both.refusal().is_some());
}

#[test]
fn each_key_has_a_variable_of_its_own_and_a_default_that_it_takes() {
    let mut names: Vec<String> = keys().iter().map(Key::variable).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), keys().len());
    for key in keys() {
        assert!(is_configuration_variable(&key.variable()), "{}", key.name);
        if key.default != "none" {
            let (section, name) = key.parts();
            let text = format!("{section}: {{{name}: {}}}", key.default);
            assert_eq!(read(&text).problems, [], "{text}");
        }
    }
    assert!(!is_configuration_variable("WARMCELL_SESSION"));
}

#[test]
fn a_bomb_is_a_value_like_any_other() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (one, next) in ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
        .windows(2)
        .map(|it| (it[0], it[1]))
    {
        let again = vec![format!("*{one}"); 8].join(", ");
        writeln!(text, "{next}: &{next} [{again}]").unwrap();
    }
    assert_eq!(read(&text), Configuration::default());
    let (severity, told) = one(&read(&format!("{text}code_execution: {{timeout: *i}}\n")));
    assert_eq!(severity, Severity::Warning);
    assert!(told.contains("got a list"), "{told}");
    assert_eq!(
        one(&read(&format!("{text}terminal: *i\n"))).0,
        Severity::Refusal
    );
}

#[test]
fn every_seed_runs() {
    // The published package leaves the fuzz folder out.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/configuration");
    let Ok(seeds) = std::fs::read_dir(folder) else {
        return;
    };
    let seeds: Vec<_> = seeds.map(|seed| seed.unwrap().path()).collect();
    assert!(seeds.len() >= 10);
    for seed in seeds {
        exercise(&std::fs::read(seed).unwrap());
    }
}

/// Pieces of which files of settings are made.
fn nearly_a_file() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<String> = keys()
        .iter()
        .flat_map(|key| {
            let (section, name) = key.parts();
            [format!("{section}:\n"), format!("  {name}: ")]
        })
        .collect();
    let piece = prop_oneof![
        4 => prop::sample::select(names).prop_map(String::into_bytes),
        3 => "[0-9a-zA-Z*&~'\"\\[\\]{}:,|>#.-]{0,6}\n".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..6),
        1 => Just(b"  <<: *a\n".to_vec()),
        1 => Just(b"x: &a {timeout: 5, mode: [}\n".to_vec()),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&bytes);
    }

    #[test]
    fn nothing_that_looks_like_a_file_is_too_much(bytes in nearly_a_file()) {
        exercise(&bytes);
    }
}

/// It is read by every command: milliseconds would be felt. A bound that only a fault reaches.
#[test]
fn a_long_file_is_read_in_no_time() {
    let lines = (0..5_000).map(|n| format!("key_{n}: {{a: [1, 2], b: text}} # why"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let began = Instant::now();
    assert_eq!(read(&text), Configuration::default());
    assert!(began.elapsed() < Duration::from_secs(10));
}
