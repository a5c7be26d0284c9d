//! How kernels that are not ours are started and reached, and what is said if they are not.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warmcell::config::{ForeignKernel, KernelTransport};
use warmcell::execution::{ErrorClass, Status};

use crate::command_kit::assert_nothing_left;
use crate::foreign_kit::{
    exec, hostile, install, install_in, manager, session, spec, with_ipykernel,
};
use crate::support::{Place, SAFETY, finish, python, run, text};

/// A kernel that misbehaves in this way, over TCP.
fn over_tcp(mode: &str) -> ForeignKernel {
    ForeignKernel {
        transport: KernelTransport::Tcp,
        ..hostile(mode)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_are_reached_however_they_come_up() {
    let manager = manager(SAFETY).await;
    let only_ipc = ForeignKernel {
        transport: KernelTransport::Ipc,
        ..hostile("tells")
    };
    for (name, kernel, transport) in [
        ("unix", hostile("tells"), "ipc"),
        ("only", only_ipc, "ipc"),
        ("tcp", over_tcp("tells"), "tcp"),
    ] {
        let session = session(&manager, name, kernel);
        let outcome = run(&session, "x").await;
        let told = serde_json::from_str(&outcome.output);
        let told: Value = told.unwrap_or_else(|_| panic!("{}", outcome.output));
        assert_eq!(
            (&told["transport"], outcome.warning),
            (&json!(transport), None)
        );
    }
    for mode in ["listens-late", "colons"] {
        let session = session(&manager, mode, hostile(mode));
        let outcome = run(&session, "hello").await;
        assert_eq!(
            (outcome.output.as_str(), outcome.warning),
            ("hello", None),
            "{mode}"
        );
    }
    manager.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_knows_tcp_only_is_started_over_tcp() {
    // A third of it is what a kernel has that makes no socket.
    let manager = manager(Duration::from_secs(9)).await;
    for mode in ["tcp-or-exits", "tcp-or-waits"] {
        let first = session(&manager, mode, hostile(mode));
        let outcome = run(&first, "hello").await;
        assert_eq!(outcome.output, "hello");
        let warning = outcome.warning.unwrap_or_default();
        assert!(warning.contains("once more, over TCP"), "{warning}");
        // What the first of them has started is gone.
        let left = manager.place.survivors();
        assert!(
            left.iter().all(|it| !it.1.contains("sleep 4325")),
            "{left:?}"
        );
        // From then on it is known.
        let began = Instant::now();
        let second = session(&manager, &format!("{mode}-again"), hostile(mode));
        let outcome = run(&second, "hello").await;
        assert_eq!((outcome.output.as_str(), outcome.warning), ("hello", None));
        assert!(began.elapsed() < Duration::from_secs(3), "{mode}");
        let only_ipc = ForeignKernel {
            transport: KernelTransport::Ipc,
            argv: [hostile(mode).argv, vec![String::new()]].concat(),
            ..hostile(mode)
        };
        let third = session(&manager, &format!("{mode}-never"), only_ipc);
        let outcome = run(&third, "hello").await;
        assert_eq!(outcome.error_class, Some(ErrorClass::Unavailable));
        assert!(!outcome.output.contains("TCP"), "{}", outcome.output);
    }
    manager.end().await;
}

/// Ports that are kept for a kernel are nobody else's, however many are looked for meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn many_kernels_over_tcp_at_once_have_ports_of_their_own() {
    let manager = Arc::new(manager(SAFETY).await);
    let stop = Arc::new(AtomicBool::new(false));
    let others = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                let taken: Vec<_> = (0..100).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
                drop(taken);
            }
        }
    });
    let cells: Vec<_> = (0..12)
        .map(|number| {
            let manager = Arc::clone(&manager);
            tokio::spawn(async move {
                let session = session(&manager, &format!("k{number}"), over_tcp("honest"));
                run(&session, "hello").await
            })
        })
        .collect();
    for cell in cells {
        let outcome = cell.await.unwrap();
        assert_eq!(
            (outcome.output.as_str(), outcome.status),
            ("hello", Status::Success)
        );
    }
    stop.store(true, Ordering::Relaxed);
    others.join().unwrap();
    Arc::into_inner(manager).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ipykernel_is_reached_over_tcp_too() {
    with_ipykernel(async |manager, _session, kernel| {
        let kernel = ForeignKernel {
            transport: KernelTransport::Tcp,
            ..kernel
        };
        let session = session(manager, "tcp", kernel);
        assert_eq!(run(&session, "6*7").await.output, "42");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_ends_at_its_start_is_told_at_once_with_code_and_last_words() {
    let manager = manager(SAFETY).await;
    let exits = |code: &str| ForeignKernel {
        argv: vec![
            python().display().to_string(),
            "-c".to_owned(),
            code.to_owned(),
            "{connection_file}".to_owned(),
        ],
        ..hostile("")
    };
    for (name, kernel, sentence) in [
        (
            "words",
            hostile("exits"),
            "the kernel hostile did not start: it exited with code 7 before it answered; it said: \
             the beginning of its end | no such luck",
        ),
        (
            "silent",
            exits("import sys; sys.exit(72)"),
            "the kernel hostile did not start: it exited with code 72 before it answered",
        ),
        (
            "killed",
            exits("import os; os.kill(os.getpid(), 9)"),
            "did not start: it was killed by signal 9 (SIGKILL) before it answered",
        ),
        (
            "closes",
            hostile("closes-early"),
            "did not start: it closed a socket before it answered",
        ),
    ] {
        let began = Instant::now();
        let outcome = run(&session(&manager, name, kernel), "1").await;
        assert_eq!(outcome.error_class, Some(ErrorClass::Unavailable));
        let error = outcome.error.unwrap();
        assert!(error.contains(sentence), "{error}");
        // Not when its time is up.
        assert!(began.elapsed() < SAFETY / 2, "{:?}", began.elapsed());
    }
    manager.end().await;
}

#[tokio::test]
async fn a_kernelspec_that_cannot_be_started_is_told_with_its_file() {
    let place = Place::new();
    let honest = spec(&hostile("honest"));
    let with = |key: &str, value: Value| {
        let mut spec = honest.clone();
        spec[key] = value;
        spec
    };
    let missing = json!(["/no/such/python", "-f", "{connection_file}"]);
    let nowhere = json!(["no-such-program", "{connection_file}"]);
    for (name, spec, code, sentence) in [
        ("missing", with("argv", missing), 125, "/no/such/python"),
        ("nowhere", with("argv", nowhere), 125, "no-such-program"),
        (
            "unreached",
            with("argv", json!(["true"])),
            2,
            "argv has {connection_file} in it",
        ),
        (
            "transport",
            with("metadata", json!({ "warmcell_transport": "udp" })),
            2,
            r#"warmcell_transport must be "ipc" or "tcp""#,
        ),
    ] {
        let base = install(&place, name, &spec);
        let said = finish(&mut exec(&place, &["--kernel", name, "1"]));
        let err = text(&said.stderr);
        assert_eq!(said.status.code(), Some(code), "{err}");
        let file = base.join("kernels").join(name).join("kernel.json");
        assert!(err.contains(sentence), "{err}");
        assert!(err.contains(&file.display().to_string()), "{err}");
    }
    assert_nothing_left(&place).await;
}

/// What a kernel of the mode `tells` says of itself.
fn told(place: &Place, name: &str, environment: &[(&str, &Path)]) -> Value {
    let mut command = exec(place, &["--kernel", name, "x"]);
    command.envs(environment.iter().copied());
    let said = finish(&mut command);
    let out = text(&said.stdout);
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out:?} {}", text(&said.stderr)))
}

#[tokio::test]
async fn a_command_is_taken_from_where_the_kernel_runs_with_its_variables() {
    let place = Place::new();
    let script = place.work().join("start");
    let program = &hostile("tells").argv;
    let (python, kernel) = (&program[0], &program[1]);
    let body = format!("#!/bin/sh\nexec {python} {kernel} tells \"$@\"\n");
    fs::write(&script, body).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let mut spec = spec(&hostile("tells"));
    spec["argv"] = json!([
        "./start",
        "{connection_file}",
        "{resource_dir}",
        "{other}",
        "é $HOME"
    ]);
    let base = install(&place, "tells", &spec);
    let told = told(&place, "tells", &[]);
    let work = place.work();
    let folder = base.join("kernels/tells");
    assert_eq!(told["argv"], json!([folder, "{other}", "é $HOME"]));
    assert_eq!(told["env"], json!(work.join("x")));
    assert_eq!(told["cwd"], json!(work));
    assert_nothing_left(&place).await;
}

/// An environment of Python's that has its own.
fn environment(place: &Place, name: &str) -> PathBuf {
    let prefix = place.work().join(name);
    fs::create_dir_all(prefix.join("bin")).unwrap();
    let home = python().parent().unwrap().display();
    fs::write(prefix.join("pyvenv.cfg"), format!("home = {home}\n")).unwrap();
    symlink(python(), prefix.join("bin/python3")).unwrap();
    prefix
}

#[tokio::test]
async fn a_python_that_is_named_without_a_folder_is_that_of_the_environment() {
    let place = Place::new();
    let (own, chosen) = (environment(&place, "own"), environment(&place, "chosen"));
    let mut spec = spec(&hostile("tells"));
    spec["argv"][0] = json!("python3");
    install(&place, "anywhere", &spec);
    let base = own.join("share/jupyter");
    install_in(&base, "installed", &spec);
    let path = [place.work().join("jupyter"), base].map(|it| it.display().to_string());
    let path = PathBuf::from(path.join(":"));
    for (name, environment, python) in [
        ("anywhere", Some(&chosen), Some(&chosen)),
        ("installed", Some(&chosen), Some(&own)),
        ("installed", None, Some(&own)),
        ("anywhere", None, None),
    ] {
        let mut variables = vec![("JUPYTER_PATH", path.as_path())];
        variables.extend(environment.map(|prefix| ("VIRTUAL_ENV", prefix.as_path())));
        let told = told(&place, name, &variables);
        let found = Path::new(told["python"].as_str().unwrap());
        match python {
            Some(prefix) => assert_eq!(found, prefix.join("bin/python3"), "{name}"),
            None => assert!(!found.starts_with(place.work()), "{found:?}"),
        }
    }
    assert_nothing_left(&place).await;
}
