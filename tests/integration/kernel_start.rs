//! How `warmcell kernel` starts: many at once, where others are already, from connection files of every
//! shape, with Pythons that do not start.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};
use warmcell::bridge::read_connection;
use warmcell::jupyter::{Connection, SocketName};

use crate::command_kit::Running;
use crate::kernel_kit::{FrontEnd, Kernel, Wire, command, first_line, ipc};
use crate::kernel_stream::Stream;
use crate::lifecycle_support::{signal, until};
use crate::support::{Place, finish, python, text};

/// Whether a kernel answers there.
fn answers(connection: &Connection, name: &str) {
    let mut front_end = FrontEnd::new(connection, name);
    let header = front_end.request("kernel_info_request", &json!({}));
    assert_eq!(front_end.reply().parent, header);
}

#[tokio::test]
async fn thirty_kernels_that_start_at_once_have_sockets_of_their_own() {
    let place = Place::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Somebody else who takes ports all the time.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let taken: Vec<_> = (0..50).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
                std::thread::yield_now();
                drop(taken);
            }
        });
        let files: Vec<PathBuf> = (0..30)
            .map(|number| place.work().join(format!("k-{number}.json")))
            .collect();
        let start = |file: &PathBuf| command(&place, file).spawn().unwrap();
        let mut children: Vec<Child> = files.iter().map(start).collect();
        let mut kernels: Vec<Running> = Vec::new();
        for child in &mut children {
            first_line(child);
        }
        kernels.extend(children.into_iter().map(Running));
        let connections: Vec<_> = files
            .iter()
            .map(|file| read_connection(file).unwrap().unwrap())
            .collect();
        let ports: BTreeSet<u32> = connections.iter().flat_map(|it| it.ports).collect();
        assert_eq!(ports.len(), 150);
        for connection in &connections {
            answers(connection, "a");
        }
        for kernel in &mut kernels {
            signal(kernel.pid(), Signal::TERM);
        }
        for kernel in &mut kernels {
            assert!(kernel.0.wait().unwrap().success());
        }
        assert!(files.iter().all(|file| !file.exists()));
        is_over.store(true, Ordering::Relaxed);
    });
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn each_port_that_is_taken_is_named_at_once() {
    let place = Place::new();
    let file = place.work().join("k.json");
    // Where nobody else takes ports.
    let taken: Vec<TcpListener> = (0..5)
        .map(|_| TcpListener::bind("127.77.0.1:0").unwrap())
        .collect();
    let ports: Vec<u16> = taken
        .iter()
        .map(|it| it.local_addr().unwrap().port())
        .collect();
    let mut taken: Vec<Option<TcpListener>> = taken.into_iter().map(Some).collect();
    for (at, name) in SocketName::ALL.into_iter().enumerate() {
        let mut connection = json!({ "key": "", "transport": "tcp", "ip": "127.77.0.1" });
        for (other, port) in SocketName::ALL.into_iter().zip(&ports) {
            connection[other.port_key()] = json!(port);
        }
        fs::write(&file, connection.to_string()).unwrap();
        let output = finish(&mut command(&place, &file));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        let sentence = format!(
            "cannot listen at tcp://127.77.0.1:{} for {}",
            ports[at],
            name.port_key()
        );
        assert!(said.contains(&sentence), "{said}");
        assert!(said.contains("choose another port"), "{said}");
        // The next one that is missing is the next in the order of the sockets.
        taken[at] = None;
    }
    drop(taken);
    place.assert_no_survivors().await;
    assert!(file.exists(), "the file was the front end's");
}

#[tokio::test]
async fn of_two_that_start_with_one_connection_file_one_is_the_kernel() {
    for (round, is_tcp) in [true, false, true, false].into_iter().enumerate() {
        let place = Place::new();
        let file = place.work().join("k.json");
        let mut connection = ipc(place.work().join("k").to_str().unwrap());
        if is_tcp {
            connection["transport"] = json!("tcp");
            // Where nobody else takes ports.
            connection["ip"] = json!("127.78.0.1");
            let free: Vec<_> = (0..5)
                .map(|_| TcpListener::bind("127.78.0.1:0").unwrap())
                .collect();
            for (name, port) in SocketName::ALL.into_iter().zip(&free) {
                connection[name.port_key()] = json!(port.local_addr().unwrap().port());
            }
        }
        fs::write(&file, connection.to_string()).unwrap();
        let start = || Running::start(command(&place, &file).stderr(Stdio::null()));
        let mut both = [start(), start()];
        let connection = read_connection(&file).unwrap().unwrap();
        let mut codes = [None; 2];
        until("the end of one of them", || {
            for (code, kernel) in codes.iter_mut().zip(&mut both) {
                *code = kernel.0.try_wait().unwrap().map(|it| it.code());
            }
            codes.iter().any(Option::is_some)
        })
        .await;
        let codes: Vec<_> = codes.into_iter().flatten().collect();
        assert_eq!(codes, [Some(125)], "round {round}");
        until("the heart of the other", || {
            Stream::connect(&connection, SocketName::Heartbeat).is_ok()
        })
        .await;
        answers(&connection, "a");
        for name in SocketName::ALL {
            Wire::connect(&connection, name, "b");
        }
        for kernel in &mut both {
            if kernel.0.try_wait().unwrap().is_none() {
                signal(kernel.pid(), Signal::TERM);
                assert_eq!(kernel.ended().await, Some(0));
            }
        }
        place.assert_no_survivors().await;
        // Nothing but the file: no socket.
        assert_eq!(fs::read_dir(place.work()).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn a_connection_file_that_cannot_be_used_leaves_nothing_behind() {
    let place = Place::new();
    let file = place.work().join("k.json");
    let prefix = place.work().join("s").display().to_string();
    let changed = |key: &str, value: Value| {
        let mut connection = ipc(&prefix);
        connection[key] = value;
        connection
    };
    let without = |key: &str| {
        let mut connection = ipc(&prefix);
        connection.as_object_mut().unwrap().remove(key);
        connection
    };
    let long = format!("/tmp/{}", "x".repeat(120));
    let lost = place.work().join("gone/s").display().to_string();
    let registration = json!({
        "kernel_id": "a", "transport": "tcp", "registration_ip": "127.0.0.1",
        "registration_port": 5_555, "signature_scheme": "hmac-sha256", "key": "a",
    });
    for (connection, code, sentence) in [
        (
            changed("shell_port", json!("1")),
            2,
            "shell_port is \"1\"; it must be a number",
        ),
        (
            changed("ip", json!(long)),
            2,
            "it must be a path of 1 to 96 bytes",
        ),
        (
            changed("ip", json!(lost)),
            125,
            "ip must name sockets in a folder that is there",
        ),
        (
            changed("iopub_port", json!(1)),
            2,
            "shell_port and iopub_port are both 1",
        ),
        (without("key"), 2, "key is missing"),
        (without("stdin_port"), 2, "stdin_port is missing"),
        (
            changed("signature_scheme", json!("hmac-sha512")),
            2,
            "signature_scheme \"hmac-sha512\"",
        ),
        (
            changed("transport", json!("udp")),
            2,
            "transport is \"udp\"",
        ),
        // As kernels of JEP 66 get it, which ours does not claim to be.
        (registration, 2, "shell_port is missing"),
        (
            json!({
                "key": "", "ip": "192.0.2.1",
                "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5,
            }),
            125,
            "ip must be an address of this machine",
        ),
    ] {
        fs::write(&file, connection.to_string()).unwrap();
        let output = finish(&mut command(&place, &file));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(sentence), "{said}");
        assert_eq!(fs::read_dir(place.work()).unwrap().count(), 1, "{said}");
    }
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn sockets_below_a_path_are_where_the_kernel_is_and_go_with_it() {
    // As Jupyter has it by default: below the kernel's directory. And as long as the system can have it.
    for prefix in ["kernel-ipc", "x"] {
        let mut connection = ipc(prefix);
        let place = Place::new();
        let file = place.work().join("k.json");
        if prefix == "x" {
            let folder = place.work().display().to_string();
            let longest = format!("{folder}/{}", prefix.repeat(95 - folder.len()));
            assert_eq!(longest.len(), 96);
            connection["ip"] = json!(longest);
            connection["hb_port"] = json!(u32::MAX);
        }
        fs::write(&file, connection.to_string()).unwrap();
        let kernel = Kernel::start_from(place, file).await;
        assert_eq!(kernel.front_end().run("print(1)").0, "1\n");
        assert_eq!(fs::read_dir(kernel.place.work()).unwrap().count(), 6);
        let place = {
            let mut kernel = kernel;
            kernel.signal(Signal::TERM);
            assert_eq!(kernel.process.ended().await, Some(0));
            kernel.left_nothing().await;
            kernel.place
        };
        assert_eq!(fs::read_dir(place.work()).unwrap().count(), 1);
    }
}

/// Whether anything in a folder may be read by others, or was.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if let Ok(it) = fs::symlink_metadata(&path) {
            if it.mode() & 0o077 != 0 {
                found.push(format!("{} {:o}", path.display(), it.mode()));
            }
            if it.is_dir() {
                found.extend(open_to_others(&path));
            }
        }
    }
    found
}

#[tokio::test]
async fn what_is_made_is_private_from_its_first_moment_whatever_the_umask() {
    for is_ipc in [false, true, true, true] {
        let place = Place::new();
        // A folder in which new files have another group, and nothing is taken away from their modes.
        let folder = place.work().join("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o2777)).unwrap();
        let file = folder.join("k.json");
        let given = place.work().join("given.json");
        let named = if is_ipc { &given } else { &file };
        let prefix = folder.join("s").display().to_string();
        fs::write(&given, ipc(&prefix).to_string()).unwrap();
        let mut shell = place.command("/bin/sh");
        shell
            .args(["-c", "umask 000; exec \"$@\"", "sh"])
            .arg(env!("CARGO_BIN_EXE_warmcell"))
            .args(["kernel", "-f"])
            .arg(named)
            .arg("--python")
            .arg(python())
            .current_dir(place.work())
            .stderr(Stdio::null());
        let mut kernel = Running::start(&mut shell);
        let runtime = place.folder.path().join("run");
        until("the kernel", || {
            assert_eq!(open_to_others(&folder), [""; 0]);
            assert_eq!(open_to_others(&runtime), [""; 0]);
            let connection = read_connection(named).ok().flatten();
            connection.is_some_and(|it| Stream::connect(&it, SocketName::Heartbeat).is_ok())
        })
        .await;
        let made = fs::read_dir(&folder).unwrap().count();
        assert_eq!(made, if is_ipc { 5 } else { 1 });
        let connection = read_connection(named).unwrap().unwrap();
        let mut front_end = FrontEnd::new(&connection, "a");
        let code =
            "open('made', 'w').close()\nimport os\nprint(oct(os.stat('made').st_mode & 0o777))";
        assert_eq!(front_end.run(code).0, "0o666\n", "a cell has its own umask");
        assert_eq!(open_to_others(&folder), [""; 0]);
        assert_eq!(open_to_others(&runtime), [""; 0]);
        signal(kernel.pid(), Signal::TERM);
        assert_eq!(kernel.ended().await, Some(0));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        place.assert_no_survivors().await;
    }
}

#[tokio::test]
async fn a_kernel_whose_runtime_folder_vanishes_has_pythons_all_the_same() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let code = "read_file('k.json').get('error')";
    front_end.run(code);
    let runtime = kernel.place.folder.path().join("run");
    fs::remove_dir_all(runtime.join("warmcell")).unwrap();
    assert_eq!(front_end.run("print(1)").0, "1\n");
    front_end.run("import os; os._exit(1)");
    let (text, status) = front_end.run("print(2, read_file('k.json').get('error'))");
    assert_eq!(status, "ok");
    assert!(text.starts_with("2 None\n"), "{text}");
    assert_eq!(open_to_others(&runtime), [""; 0]);
    kernel.close().await;
}

#[tokio::test]
async fn the_python_that_is_meant_runs() {
    let place = Place::new();
    let venv = place.work().join("venv");
    fs::create_dir_all(venv.join("bin")).unwrap();
    let home = python().parent().unwrap().display();
    fs::write(venv.join("pyvenv.cfg"), format!("home = {home}\n")).unwrap();
    for name in ["python", "python3"] {
        std::os::unix::fs::symlink(python(), venv.join("bin").join(name)).unwrap();
    }
    let file = place.work().join("k.json");
    let mut command = place.warmcell(&["kernel", "-f", "k.json"]);
    let child = command
        .env("VIRTUAL_ENV", &venv)
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    first_line(&mut child);
    let mut kernel = Running(child);
    let connection = read_connection(&file).unwrap().unwrap();
    let mut front_end = FrontEnd::new(&connection, "a");
    let (prefix, _) = front_end.run("import sys; print(sys.prefix)");
    assert_eq!(prefix.trim(), venv.to_str().unwrap());
    signal(kernel.pid(), Signal::TERM);
    assert_eq!(kernel.ended().await, Some(0));
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_python_that_does_not_start_is_told_to_each_who_asks_and_not_tried_for_ever() {
    let place = Place::new();
    let starts = place.work().join("starts");
    let program = place.work().join("python");
    let script = format!(
        "#!/bin/sh\necho started >> {}\necho its last words >&2\nexit 7\n",
        starts.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let gone = place.work().join("gone/python");
    for (python, words) in [
        (&program, &["its last words", "7"][..]),
        (&gone, &["gone/python"]),
    ] {
        // As a front end does, with a file of its own.
        let file = place.work().join("k.json");
        let prefix = place.work().join("sockets");
        fs::write(&file, ipc(prefix.to_str().unwrap()).to_string()).unwrap();
        let mut command = place.warmcell(&["kernel", "-f", "k.json", "--python"]);
        let child = command.arg(python).spawn().unwrap();
        let mut kernel = Running(child);
        let connection = read_connection(&file).unwrap().unwrap();
        until("its sockets", || {
            (1..=5).all(|number| place.work().join(format!("sockets-{number}")).exists())
        })
        .await;
        // Who it is it can say without a Python.
        answers(&connection, "who");
        let mut front_end = FrontEnd::new(&connection, "a");
        for _ in 0..3 {
            let header = front_end.execute("1");
            let reply = front_end.reply();
            assert_eq!(reply.content["status"], "error");
            let told = reply.content.to_string();
            for word in words {
                assert!(told.contains(word), "{told}");
            }
            let words: Vec<String> = front_end
                .all_of(&header)
                .iter()
                .map(|it| it.word().to_owned())
                .collect();
            assert_eq!(words, ["busy", "execute_input", "error", "idle"]);
        }
        signal(kernel.pid(), Signal::TERM);
        assert_eq!(kernel.ended().await, Some(0));
    }
    // At the start, for the question, and for each cell.
    let started = fs::read_to_string(&starts).unwrap().lines().count();
    assert!((1..=5).contains(&started), "{started}");
    place.assert_no_survivors().await;
}
