//! Resource limits and nice value of a kernel: those of whoever opens its session, never those of
//! whoever has started the server.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use warmcell::config::{Bound, Caller, ProcessLimits, Resource};
use warmcell::session::Cell;

use crate::command_kit::{Running, Unprivileged, assert_nothing_left};
use crate::lifecycle_support::until;
use crate::server_kit::{Home, http, parts};
use crate::support::{Manager, Place, finish, python, pythons, run, run_cell};

/// What a kernel has: soft and hard limits, and how nice it is.
const LOOK: &str = "import os, resource as r; print([r.getrlimit(it) for it in (r.RLIMIT_NOFILE, \
                    r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE)], os.nice(0), r.getrlimit(r.RLIMIT_CORE))";

fn bound(soft: u64, hard: Option<u64>) -> Bound {
    Bound {
        soft: Some(soft),
        hard,
    }
}

fn limits(files: u64, memory: u64, nice: i32) -> ProcessLimits {
    ProcessLimits {
        bounds: BTreeMap::from([
            (Resource::OpenFiles, bound(files, Some(files + 1))),
            (Resource::AddressSpace, bound(memory, Some(memory + 1))),
            (Resource::Cpu, bound(77, None)),
            (Resource::FileSize, bound(1 << 20, Some(1 << 21))),
        ]),
        nice: Some(nice),
    }
}

fn seen(files: u64, memory: u64, nice: i32) -> String {
    format!(
        "[({files}, {}), ({memory}, {}), (77, -1), (1048576, 2097152)] {nice} (0, 0)\n",
        files + 1,
        memory + 1
    )
}

fn caller(manager: &Manager, python: &std::path::Path, limits: ProcessLimits) -> Arc<Caller> {
    let caller = manager.place.caller(python);
    Arc::new(Caller {
        limits: Some(limits),
        ..caller
    })
}

#[tokio::test]
async fn kernels_and_commands_have_the_limits_of_their_caller() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let caller = caller(&manager, python, limits(300, 3 << 30, 6));
        let name = format!("s-{version}");
        let session = manager.registry.session(&name, &caller).unwrap();
        let first = run(&session, LOOK).await;
        assert_eq!(first.output, seen(300, 3 << 30, 6), "{version}");
        assert_eq!(first.warning, None, "{version}");
        // What a cell changes is its own, as with the environment.
        run(&session, "r.setrlimit(r.RLIMIT_NOFILE, (100, 200))").await;
        let command = "print(terminal('ulimit -n; ulimit -Hn; ulimit -v; ulimit -t; nice; ulimit -c')['output'])";
        assert_eq!(
            run(&session, command).await.output,
            "300\n301\n3145728\n77\n6\n0\n\n",
            "{version}"
        );
        // The next kernel has them too.
        run_cell(
            &session,
            Cell::new("while True: pass").timeout(std::time::Duration::from_millis(100)),
        )
        .await;
        let next = run(&session, LOOK).await;
        assert!(
            next.output.ends_with(&seen(300, 3 << 30, 6)),
            "{version}: {}",
            next.output
        );
    }
    manager.end().await;
}

#[tokio::test]
async fn a_reset_takes_the_limits_of_whoever_asks_for_it() {
    let manager = Manager::start().await;
    let one = caller(&manager, python(), limits(300, 3 << 30, 1));
    let two = caller(&manager, python(), limits(400, 4 << 30, 2));
    let session = manager.registry.session("a", &one).unwrap();
    let look = |who: &Arc<Caller>| Cell::new(LOOK).caller(Arc::clone(who));
    for who in [&one, &two] {
        // A caller of a living session changes nothing of it.
        assert_eq!(
            run_cell(&session, look(who)).await.output,
            seen(300, 3 << 30, 1)
        );
    }
    let reset = run_cell(&session, look(&two).reset()).await;
    assert!(
        reset.output.ends_with(&seen(400, 4 << 30, 2)),
        "{}",
        reset.output
    );
    let command = "print(terminal('ulimit -n; nice')['output'])";
    assert_eq!(run(&session, command).await.output, "400\n2\n\n");
    // Without limits it has those of its manager.
    let none = Arc::new(manager.place.caller(python()));
    let reset = run_cell(&session, look(&none).reset()).await;
    let own = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let own = own.map_or_else(|| "-1".to_owned(), |it| it.to_string());
    assert!(
        reset.output.contains(&format!(", ({own}, ")),
        "{}",
        reset.output
    );
    manager.end().await;
}

/// `warmcell` from a shell with limits; `nice` is a program.
fn from_shell(home: &Home, line: &str, arguments: &[&str]) -> Command {
    let own = home.command(&[]);
    let (_, path) = own.get_envs().find(|(name, _)| *name == "PATH").unwrap();
    let mut command = home.place.command("/bin/sh");
    command
        .args(["-c", &format!("{line} \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_warmcell"))
        .args(arguments)
        .env("PATH", path.unwrap())
        .current_dir(home.place.work());
    command
}

#[tokio::test]
async fn whoever_starts_the_server_binds_nobody_else() {
    let home = Home::new();
    let look = |line: &str, session: &str| {
        let output = finish(&mut from_shell(&home, line, &["exec", "-s", session, LOOK]));
        let (code, out, err) = parts(&output);
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("limits"), "{err}");
        out
    };
    let root = rustix::process::getuid().is_root();
    let nicer = |nice: u32| {
        if root {
            format!("exec nice -n {nice}")
        } else {
            "exec".to_owned()
        }
    };
    let first = format!(
        "ulimit -S -n 100; ulimit -S -v 2000000; ulimit -S -t 5; ulimit -S -f 8; {}",
        nicer(5)
    );
    let one = look(&first, "one");
    assert!(one.starts_with("[(100, "), "{one}");
    assert!(
        one.contains("), (2048000000, ") && one.contains("), (5, ") && one.contains("), (4096, "),
        "{one}"
    );
    // The server itself lives under none of them.
    let server = fs::read_to_string(format!("/proc/{}/limits", home.server())).unwrap();
    for resource in ["cpu time", "file size", "address space"] {
        let line = server.lines().find(|it| it.contains(resource)).unwrap();
        assert_eq!(line.matches("unlimited").count(), 2, "{line}");
    }
    let second = format!(
        "ulimit -n 200; ulimit -v 4000000; ulimit -t 50; {}",
        nicer(3)
    );
    for session in ["two", "three"] {
        let two = look(&second, session);
        assert!(
            two.starts_with("[(200, 200), (4096000000, 4096000000), (50, 50), (-1, -1)]"),
            "{two}"
        );
        if root {
            assert!(two.ends_with(" 3 (0, 0)\n"), "{two}");
        }
    }
    let third = look("exec", "four");
    assert!(third.contains("(-1, -1), (-1, -1), (-1, -1)]"), "{third}");
    if root {
        assert!(one.ends_with(" 5 (0, 0)\n"), "{one}");
        assert!(third.ends_with(" 0 (0, 0)\n"), "{third}");
    }
    // Each session keeps its own, whoever calls.
    assert_eq!(look(&second, "one"), one);
    // Who sends none gets those of the server.
    let body = json!({"code": LOOK, "caller": {"environment": [["PATH", "/usr/bin:/bin"]], "cwd": "/tmp"}});
    let (code, told) = ask(&home, "sessions/bare/cells", &body);
    assert_eq!(code, "200", "{told}");
    let output = told["output"].as_str().unwrap();
    assert!(output.contains("(-1, -1), (-1, -1), (-1, -1)]"), "{output}");
    home.end().await;
}

fn ask(home: &Home, path: &str, body: &Value) -> (String, Value) {
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "POST /warmcell/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\
         \r\n{body}"
    );
    let answer = http(&home.socket(), request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().to_owned();
    (code, serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn limits_that_make_no_sense_are_usage() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    for (key, value, words) in [
        (
            "limits",
            json!({"core": 0}),
            "there is no limit \"core\" to be set; there are cpu, ",
        ),
        (
            "limits",
            json!({"cpu": -1}),
            "`caller.limits`: cpu is -1; give a number from 0",
        ),
        (
            "limits",
            json!({"as": [2, 1]}),
            "must not be more than the second",
        ),
        ("limits", json!([1]), "invalid type"),
        (
            "nice",
            json!(20),
            "`caller.nice`: it is 20; give a number from -20 to 19",
        ),
    ] {
        let mut caller = json!({"environment": [["PATH", "/usr/bin:/bin"]], "cwd": "/tmp"});
        caller[key] = value;
        let (code, told) = ask(
            &home,
            "sessions/new/cells",
            &json!({"code": "1", "caller": caller}),
        );
        assert_eq!(
            (code.as_str(), &told["error_class"]),
            ("400", &json!("usage")),
            "{told}"
        );
        let error = told["error"].as_str().unwrap();
        assert!(error.contains(words), "{error}");
    }
    home.end().await;
}

/// Of a server that somebody runs by hand the limits may be meant.
#[tokio::test]
async fn a_server_in_the_foreground_gives_its_own_to_those_who_send_none() {
    let home = Home::new();
    let line = "ulimit -S -n 300; ulimit -S -v 3000000; exec";
    let mut server =
        Running::start(from_shell(&home, line, &["serve"]).stderr(std::process::Stdio::null()));
    until("its door", || home.has_door()).await;
    let body = json!({"code": LOOK, "caller": {"environment": [["PATH", "/usr/bin:/bin"]], "cwd": "/tmp"}});
    let (code, told) = ask(&home, "sessions/bare/cells", &body);
    assert_eq!(code, "200", "{told}");
    let output = told["output"].as_str().unwrap();
    assert!(
        output.starts_with("[(300, ") && output.contains("(3072000000, "),
        "{output}"
    );
    let (_, out, err) = home.run(&["exec", "-s", "a", LOOK]);
    assert!(out.contains("(-1, -1), (-1, -1), (-1, -1)]"), "{out} {err}");
    home.run(&["serve", "--stop"]);
    assert_eq!(server.ended().await, Some(0));
    home.end().await;
}

#[tokio::test]
async fn what_cannot_be_given_is_told_once_with_both_values() {
    let place = Place::new();
    let unprivileged = Unprivileged::new(&place);
    let shell = |line: &str| parts(&finish(&mut unprivileged.shell(line)));
    let (code, _, err) = shell("ulimit -n 100; exec nice -n 4 \"$0\" exec -s a 1");
    assert_eq!(code, 0, "{err}");
    assert!(!err.contains("limits"), "{err}");
    let code = format!("exec \"$0\" exec -s b --json '{LOOK}'");
    let (_, out, _) = shell(&format!("ulimit -n 150; {code}"));
    let told: Value = serde_json::from_str(&out).unwrap();
    assert!(
        told["output"]
            .as_str()
            .unwrap()
            .starts_with("[(100, 100), "),
        "{told}"
    );
    assert_eq!(
        told["warning"],
        "this kernel does not have all limits of its caller, because its manager was started under \
         others: open files (ulimit -n) 100, not 150, nice value 4, not 0; only a manager that is started \
         anew can give them (`warmcell serve --stop` ends the background server)"
    );
    for _ in 0..2 {
        let (_, out, _) = shell(&format!("ulimit -n 150; {code}"));
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(told.get("warning"), None, "{told}");
    }
    // Less can always be given.
    let (code, out, err) = shell(&format!(
        "ulimit -n 90; exec nice -n 9 \"$0\" exec -s c '{LOOK}'"
    ));
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with("[(90, 90), ") && out.ends_with(" 9 (0, 0)\n"),
        "{out}"
    );
    assert!(!err.contains("limits"), "{err}");
    assert_eq!(shell("exec \"$0\" serve --stop").0, 0);
    assert_nothing_left(&place).await;
}

/// It would be found by everybody, and of use to nobody.
#[tokio::test]
async fn a_server_with_too_few_descriptors_does_not_come_to_be() {
    let place = Place::new();
    let unprivileged = Unprivileged::new(&place);
    for count in [12, 20, 60] {
        let line = format!("ulimit -n {count}; exec \"$0\" exec -s a 1");
        let (code, _, err) = parts(&finish(&mut unprivileged.shell(&line)));
        assert_eq!(code, 125, "{count}: {err}");
        assert!(err.contains("ulimit -n"), "{count}: {err}");
    }
    let (code, out, err) = parts(&finish(
        &mut unprivileged.shell("exec \"$0\" exec -s a 6*7"),
    ));
    assert_eq!((code, out.as_str()), (0, "42\n"), "{err}");
    assert_eq!(
        parts(&finish(&mut unprivileged.shell("exec \"$0\" serve --stop"))).0,
        0
    );
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_kernel_that_has_used_up_its_processor_time_costs_nobody_else() {
    let manager = Manager::start().await;
    let mut few = limits(300, 3 << 30, 0);
    few.bounds.insert(Resource::Cpu, bound(1, Some(20)));
    let session = manager
        .registry
        .session("a", &caller(&manager, python(), few))
        .unwrap();
    let other = manager.session("other");
    run(&other, "x = 5").await;
    let outcome = run(&session, "y = 1\nwhile True: pass").await;
    let error = outcome.error.unwrap();
    assert_eq!(
        error,
        "the kernel was killed by signal 24 (SIGXCPU, its limit on processor time, ulimit -t) while running the cell"
    );
    assert_eq!(run(&other, "x").await.result.as_deref(), Some("5"));
    assert_eq!(run(&session, "6*7").await.result.as_deref(), Some("42"));
    manager.end().await;
}
