//! What a cell sees of its caller's environment: a table of variables, in kernels and in commands of
//! tools alike.

use std::collections::BTreeMap;

use serde_json::Value;
use warmcell::config::{Caller, Settings};
use warmcell::environment::{Reason, visible};
use warmcell::session::{Registry, Session};

use crate::support::{Manager, Place, SAFETY, finish, python, run, text};

/// A variable, its value, and who lets it through: nobody, everybody, or whoever names it.
type Row = (&'static str, &'static str, Passes);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passes {
    Always,
    IfNamed,
    Never,
}

use Passes::{Always, IfNamed, Never};

const TABLE: [Row; 44] = [
    ("USER", "u", Always),
    ("LOGNAME", "u", Always),
    ("SHELL", "/bin/sh", Always),
    ("LANGUAGE", "de:en", Always),
    ("LC_TIME", "C", Always),
    ("TZ", "Europe/Vienna", Always),
    ("TERM", "dumb", Always),
    ("COLORTERM", "truecolor", Always),
    ("TMP", "/tmp", Always),
    ("XDG_SESSION_ID", "3", Always),
    ("CONDA_DEFAULT_ENV", "base", Always),
    ("PYTHONPATH", "/nowhere/lib", Always),
    ("HERMES_PROFILE", "work", Always),
    ("LD_LIBRARY_PATH", "/nowhere/lib", Always),
    ("CUDA_VISIBLE_DEVICES", "0", Always),
    ("OMP_NUM_THREADS", "2", Always),
    ("MPLBACKEND", "Agg", Always),
    ("SSL_CERT_FILE", "/nowhere/ca.pem", Always),
    ("https_proxy", "http://proxy.example:3128", Always),
    ("no_proxy", "localhost", Always),
    // Not on the list: also what a vault gives under an ordinary name.
    ("MY_SETTING", "from-a-vault-1", IfNamed),
    ("HERMES_BASE_URL", "http://h.example", IfNamed),
    ("DATABASE_URL", "sqlite:///x", IfNamed),
    ("AWS_PROFILE", "p", IfNamed),
    ("SSH_AGENT_PID", "1", IfNamed),
    ("USER_PIN", "1234", IfNamed),
    ("HOME_ADDRESS", "here", IfNamed),
    ("PATHEXT", ".exe", IfNamed),
    ("FTP_PROXY", "http://u:p@proxy.example", IfNamed),
    // Names of secrets.
    ("MY_TOKEN", "t0ken-0123456789", IfNamed),
    ("GITLAB_ACCESS_TOKEN", "glpat-abcdefgh", IfNamed),
    ("DB_PASSWORD", "p4ssword!", IfNamed),
    ("XDG_API_KEY", "k3y-0123456789", IfNamed),
    ("SLACKER_WEBHOOK", "https://hooks.example", IfNamed),
    ("SENTRY_DSN", "https://dsn.example", IfNamed),
    ("CLAUDE_CODE_OAUTH_TOKEN", "o4uth-0123456789", IfNamed),
    // The agent's own, and Warmcell's.
    ("OPENAI_API_KEY", "sk-0123456789abcdef", Never),
    ("ANTHROPIC_BASE_URL", "http://a.example", Never),
    ("DEEPSEEK_BASE_URL", "http://d.example", Never),
    ("GH_TOKEN", "ghs_0123456789", Never),
    ("TELEGRAM_BOT_TOKEN", "12345:abcdefgh", Never),
    ("AUXILIARY_FOO_BASE_URL", "http://x.example", Never),
    ("auxiliary_foo_api_key", "aux-0123456789", Never),
    ("HERMES_RPC_TOKEN", "mine", Never),
];

const ENVIRONMENT: &str = "import json, os; print(json.dumps(dict(os.environ)))";
/// As a command of a tool sees it.
const COMMAND: &str = "import json
there = terminal('env -0')['output'].split(chr(0))
print(json.dumps(dict(it.split('=', 1) for it in there if '=' in it)))";

async fn seen(session: &Session, code: &str) -> BTreeMap<String, String> {
    let outcome = {
        let cell = warmcell::session::Cell {
            unmasked: true,
            ..warmcell::session::Cell::new(code)
        };
        let mut execution = session.execute(cell);
        tokio::time::timeout(SAFETY, execution.outcome())
            .await
            .unwrap()
    };
    serde_json::from_str(&outcome.output).unwrap_or_else(|_| panic!("{outcome:?}"))
}

fn environment(place: &Place) -> Vec<(String, String)> {
    let mut all = place.environment();
    for (name, value, _) in TABLE {
        all.insert(name.to_owned(), value.to_owned());
    }
    all.into_iter().collect()
}

/// Who asks for a kernel, where, what passes then, and what that is called.
type Case<'a> = (&'a Registry, &'a Caller, fn(&Row) -> bool, &'a str);

/// The rows that are seen, and no others.
fn assert_seen(seen: &BTreeMap<String, String>, passes: impl Fn(&Row) -> bool, what: &str) {
    for row @ (name, value, _) in &TABLE {
        let found = seen.get(*name).map(String::as_str);
        // What is put before or behind is Warmcell's.
        let is_there = match *name {
            "PYTHONPATH" => found.is_some_and(|found| found.starts_with(value)),
            _ => found == Some(value),
        };
        assert_eq!(is_there, passes(row), "{what}: {name} is {found:?}");
        let has_own = *name == "HERMES_RPC_TOKEN";
        assert!(is_there || found.is_none() || has_own, "{what}: {name}");
    }
}

#[tokio::test]
async fn what_a_cell_sees_of_forty_variables() {
    let manager = Manager::start().await;
    let every = TABLE.map(|(name, ..)| name.to_owned());
    let plain = Caller {
        environment: environment(&manager.place),
        ..manager.place.caller(python())
    };
    // Settings let them through.
    let settings = Settings {
        passed_variables: every.to_vec(),
        ..manager.place.settings()
    };
    let passing = Registry::start(settings).await.unwrap();
    // The caller names them itself; credentials are refused, so only the others.
    let named = TABLE.iter().filter(|row| row.2 != Never);
    let named = named.map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned()));
    let naming = Caller {
        environment: manager.place.environment().into_iter().collect(),
        named: named.collect(),
        ..plain.clone()
    };
    let unlisted: fn(&Row) -> bool = |row| row.2 == Always;
    let listed: fn(&Row) -> bool = |row| row.2 != Never;
    let cases: [Case<'_>; 3] = [
        (&manager.registry, &plain, unlisted, "no passthrough"),
        (&passing, &plain, listed, "passthrough"),
        (&manager.registry, &naming, listed, "--env"),
    ];
    for (registry, caller, passes, what) in cases {
        let session = registry.session(what.trim_start_matches('-'), caller);
        let session = match session {
            Ok(session) => session,
            Err(_) => registry.session("s", caller).unwrap(),
        };
        let kernel = seen(&session, ENVIRONMENT).await;
        assert_seen(&kernel, passes, what);
        let command = seen(&session, COMMAND).await;
        assert_seen(&command, passes, &format!("{what}, terminal"));
        assert!(!command.contains_key("HERMES_RPC_TOKEN"));
        for name in ["WARMCELL_HIDDEN", "WARMCELL_DROPPED"] {
            assert!(!kernel.contains_key(name) && !command.contains_key(name));
        }
        drop(session.close().await);
    }
    passing.shut_down().await;
    // Why, for those who miss one.
    let dropped = visible(&plain, &[]).dropped;
    for (name, _, passes) in TABLE {
        let reason = dropped.reason(name);
        assert_eq!(reason.is_none(), passes == Always, "{name}: {reason:?}");
        let named = reason.is_none_or(Reason::can_be_named);
        assert_eq!(named, passes != Never, "{name}: {reason:?}");
    }
    manager.end().await;
}

/// The same by the command line, where the process that reads the environment takes it out of itself.
#[tokio::test]
async fn what_a_cell_sees_is_the_same_by_the_command_line() {
    let home = crate::server_kit::Home::new();
    let env: Vec<String> = TABLE
        .iter()
        .filter(|row| row.2 == IfNamed)
        .enumerate()
        // Half with the value that they have, half with it given.
        .map(|(at, (name, value, _))| match at % 2 {
            0 => format!("--env={name}"),
            _ => format!("--env={name}={value}"),
        })
        .collect();
    for session in [&[][..], &["-s", "s"]] {
        for named in [&[][..], &env[..]] {
            let mut command = home.command(&["exec", "--no-redact"]);
            command.args(session).args(named).arg(ENVIRONMENT);
            for (name, value, _) in TABLE {
                command.env(name, value);
            }
            if !session.is_empty() && !named.is_empty() {
                // It is fixed with the kernel.
                command.arg("--reset");
            }
            let output = finish(&mut command);
            let out = text(&output.stdout);
            let what = format!(
                "{session:?} {} named: {}",
                named.len(),
                text(&output.stderr)
            );
            let seen = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{what} {out}"));
            let passes = |row: &Row| row.2 == Always || (row.2 == IfNamed && !named.is_empty());
            assert_seen(&seen, passes, &what);
        }
    }
    home.end().await;
}

/// Only the shim's folder is added to the search path, behind the user's own; nothing of the manager
/// can be imported by a program of the cell's.
#[tokio::test]
async fn the_search_path_shows_nothing_of_the_manager() {
    let manager = Manager::start().await;
    let session = manager.session("s");
    let code = "import json, os, subprocess, sys
program = 'import sys, json; print(json.dumps(sys.path))'
found = subprocess.run([sys.executable, '-c', program], stdout=subprocess.PIPE).stdout
bad = subprocess.run([sys.executable, '-c', 'import _warmcell'], stderr=subprocess.DEVNULL)
ours = [p for p in json.loads(found) + sys.path if 'warmcell' in p]
print(json.dumps([sorted(set(os.path.basename(p) for p in ours)), bad.returncode,
    os.environ['PYTHONPATH'].count(os.pathsep), sorted(os.listdir(ours[0]))]))";
    let outcome = run(&session, code).await;
    let told: Value =
        serde_json::from_str(&outcome.output).unwrap_or_else(|_| panic!("{outcome:?}"));
    assert_eq!(told[0], serde_json::json!(["tools"]));
    assert_eq!(told[1], 1);
    assert_eq!(told[2], 0);
    let files = told[3].as_array().unwrap();
    let is_ours = |it: &Value| it == "hermes_tools.py" || it == "__pycache__";
    assert!(files.iter().all(is_ours), "{told}");
    manager.end().await;
}
