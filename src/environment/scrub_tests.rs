use proptest::prelude::*;

use super::*;

const KEPT: &[(&str, &str)] = &[
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/home/u"),
    ("USER", "u"),
    ("LOGNAME", "u"),
    ("SHELL", "/bin/sh"),
    ("PWD", "/home/u"),
    ("LANG", "de_AT.UTF-8"),
    ("LANGUAGE", "de:en"),
    ("LC_ALL", "C"),
    ("LC_CTYPE", "C.UTF-8"),
    ("TZ", "Europe/Vienna"),
    ("TERM", "xterm-256color"),
    ("COLORTERM", "truecolor"),
    ("TMPDIR", "/tmp/u"),
    ("TMP", ""),
    ("TEMP", "/tmp"),
    ("XDG_RUNTIME_DIR", "/run/user/1000"),
    ("XDG_SESSION_ID", "3"),
    ("VIRTUAL_ENV", "/home/u/.venv"),
    ("CONDA_PREFIX", "/opt/conda"),
    ("CONDA_DEFAULT_ENV", "base"),
    ("PYTHONPATH", "/home/u/lib"),
    ("HERMES_HOME", "/home/u/.hermes"),
    ("HERMES_PROFILE", "work"),
    ("HERMES_CONFIG", "c.yaml"),
    ("HERMES_ENV", "e"),
    ("LD_LIBRARY_PATH", "/opt/lib"),
    ("CUDA_VISIBLE_DEVICES", "0,1"),
    ("NVIDIA_VISIBLE_DEVICES", "all"),
    ("OMP_NUM_THREADS", "2"),
    ("MKL_NUM_THREADS", "2"),
    ("OPENBLAS_NUM_THREADS", "2"),
    ("MPLBACKEND", "Agg"),
    ("SSL_CERT_FILE", "/etc/ca.pem"),
    ("SSL_CERT_DIR", "/etc/ca"),
    ("REQUESTS_CA_BUNDLE", "/etc/ca.pem"),
    ("CURL_CA_BUNDLE", "/etc/ca.pem"),
    ("http_proxy", "http://proxy.example:3128"),
    ("HTTPS_PROXY", "http://proxy.example:3128/"),
    ("all_proxy", "socks5h://[::1]:1080"),
    ("FTP_PROXY", "proxy.example"),
    ("no_proxy", "localhost,.example,10.0.0.0/8"),
    ("NO_PROXY", "*"),
    // Not words of their own.
    ("XDG_MONKEY", "x"),
    ("XDG_KEYBOARD", "x"),
    ("XDG_AUTHOR", "x"),
    ("CUDA_TOKENIZER", "x"),
];

const OUTSIDE: &[(&str, &str)] = &[
    // Secret words, in families that pass too.
    ("OPENAI_API_KEY", "s"),
    ("XDG_API_KEY", "s"),
    ("XDG_apikey", "s"),
    ("XDG_TOKEN", "s"),
    ("XDG_TOKENS", "s"),
    ("XDG_TOKEN2", "s"),
    ("XDG_ACCESS-TOKEN", "s"),
    ("XDG_accessToken", "s"),
    ("XDG_APIKeyFile", "s"),
    ("XDG_ApiKey", "s"),
    ("CUDA_SECRET", "s"),
    ("CUDA_SECRETS_FILE", "s"),
    ("OMP_PASSWORD", "s"),
    ("MKL_PASSWD", "s"),
    ("OPENBLAS_CREDENTIAL", "s"),
    ("OPENBLAS_CREDENTIALS", "s"),
    ("LC_AUTH", "s"),
    ("LC_Auth", "s"),
    ("XDG_DSN", "s"),
    ("XDG_WEBHOOK_URL", "s"),
    ("XDG_CREDS", "s"),
    ("XDG_BEARER", "s"),
    // Not on the list.
    ("SSH_AUTH_SOCK", "/tmp/s"),
    ("AWS_PROFILE", "p"),
    ("DATABASE_URL", "postgres://u:p@h/d"),
    ("HERMES_SESSION", "s"),
    ("HERMES_HOME2", "s"),
    ("WARMCELL_SESSION", "s"),
    ("JUPYTER_PATH", "/j"),
    ("PYTHONHOME", "/p"),
    ("PYTHONSTARTUP", "/p"),
    ("LD_PRELOAD", "/l.so"),
    ("EDITOR", "vim"),
    ("PATHEXT", ".exe"),
    ("HOMEDRIVE", "C:"),
    ("LC", "x"),
    ("XDG", "x"),
    ("path", "/bin"),
    ("lc_all", "C"),
    ("BASH_FUNC_f%%", "() { :; }"),
    // Proxies with a user part, and names that are none.
    ("http_proxy", "http://user:pass@proxy.example:3128"),
    ("HTTPS_PROXY", "http://user@proxy.example"),
    ("all_proxy", "user:pa/ss@proxy.example"),
    ("FTP_PROXY", "ftp://u:p%40@h"),
    ("Http_Proxy", "http://proxy.example"),
    ("socks_proxy", "h"),
    // No variables at all.
    ("", "x"),
    ("XDG_\u{e9}_KEY", "s"),
];

fn owned(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn names(scrubbed: &Scrubbed) -> Vec<&str> {
    scrubbed.dropped.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn each_variable_has_its_fate() {
    let all = owned(KEPT).into_iter().chain(owned(OUTSIDE));
    let scrubbed = scrub(all);
    assert_eq!(scrubbed.kept, owned(KEPT));
    let expected: Vec<&str> = OUTSIDE.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(&scrubbed), expected);
    let why = |name: &str| scrubbed.dropped_names().reason(name);
    for (name, reason) in [
        ("XDG_API_KEY", Reason::Secret),
        ("OPENAI_API_KEY", Reason::NeverPasses),
        ("AWS_PROFILE", Reason::NotListed),
        ("FTP_PROXY", Reason::ProxyWithUser),
    ] {
        assert_eq!(why(name), Some(reason), "{name}");
    }
    assert_eq!(why("PATH"), None);
}

#[test]
fn impossible_variables_are_dropped_and_show_no_value() {
    let scrubbed = scrub(owned(&[
        ("PATH=/secret", "x"),
        ("XDG_A\0secret", "x"),
        ("=C:", "x"),
        ("HOME", "a\0b"),
    ]));
    assert_eq!(scrubbed.kept, []);
    assert_eq!(names(&scrubbed), ["PATH", "XDG_A", "", "HOME"]);
    let all_alike = |it: &Dropped| it.reason == Reason::NoVariable;
    assert!(scrubbed.dropped.iter().all(all_alike));
}

#[test]
fn programs_of_the_user_stay() {
    let kept = owned(&[
        ("PATH", "/bin"),
        ("EDITOR", "my-editor"),
        ("PYTHONUTF8", "0"),
    ]);
    let all = with_harmless_programs(kept.clone());
    assert_eq!(all[..3], kept);
    assert_eq!(all.len(), 3 + harmless_programs().len() - 2);
    for (name, value) in [
        ("EDITOR", "my-editor"),
        ("GIT_EDITOR", "false"),
        ("PAGER", "cat"),
    ] {
        let values: Vec<&str> = all
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
            .collect();
        assert_eq!(values, [value]);
    }
}

#[test]
fn nothing_that_is_added_has_a_name_that_is_stripped() {
    for (name, value) in harmless_programs() {
        assert!(!has_secret_word(&name));
        assert!(!name.contains('=') && !value.contains('\0'));
    }
}

#[test]
fn what_is_named_on_purpose_passes_but_for_what_never_does() {
    let named = ["MY_TOKEN", "FOO", "OPENAI_API_KEY", "A=B", "NUL"].map(str::to_owned);
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let all = [
        variable("MY_TOKEN", "t"),
        variable("my_token", "t"),
        variable("OTHER", "o"),
        variable("OPENAI_API_KEY", "s"),
        variable("FOO", ""),
        variable("A=B", "x"),
        variable("NUL", "\0"),
        variable("LANG", "C"),
    ];
    let scrubbed = scrub_but(all, &named);
    let kept: Vec<&str> = scrubbed
        .kept
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(kept, ["MY_TOKEN", "FOO", "LANG"]);
    assert_eq!(
        names(&scrubbed),
        ["my_token", "OTHER", "OPENAI_API_KEY", "A", "NUL"]
    );
    // What passes is masked all the same.
    let secrets: Vec<&str> = scrubbed
        .secrets
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(secrets, ["MY_TOKEN", "my_token", "OPENAI_API_KEY"]);
}

proptest! {
    #[test]
    fn every_variable_is_either_kept_or_dropped(
        variables in prop::collection::vec(("[A-Za-z_]{0,3}(_KEY|PATH|XDG_|token)?[A-Z]?", ".{0,5}"), 0..20),
    ) {
        let count = variables.len();
        let scrubbed = scrub(variables);
        prop_assert_eq!(scrubbed.kept.len() + scrubbed.dropped.len(), count);
        // Scrubbing again changes nothing.
        let again = scrub(scrubbed.kept.clone());
        prop_assert_eq!(again.kept, scrubbed.kept);
    }

    #[test]
    fn a_secret_word_is_found_wherever_it_stands(
        before in "([A-Z0-9]{1,4}_)?",
        word in prop::sample::select(SECRET_WORDS),
        after in "(_[A-Z0-9]{1,4})?",
        lower in any::<bool>(),
    ) {
        let word = if lower { word.to_lowercase() } else { (*word).to_owned() };
        let name = format!("XDG_{before}{word}{after}");
        prop_assert!(has_secret_word(&name), "{}", name);
    }
}
