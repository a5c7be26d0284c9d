//! How `warmcell kernel` and its Python end, and that nothing is left of them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::json;
use warmcell::bridge::read_connection;
use warmcell::session::Cell;

use crate::command_kit::Running;
use crate::kernel_kit::{FrontEnd, Kernel, command, first_line, ipc};
use crate::lifecycle_support::{signal, until};
use crate::support::{Manager, Place, SAFETY, python};

const CHILD: &str = "import subprocess; p = subprocess.Popen(['sleep', '300'])";

#[tokio::test]
async fn each_signal_that_ends_a_kernel_leaves_nothing() {
    for number in [Signal::TERM, Signal::HUP] {
        let kernel = Kernel::start();
        let mut front_end = kernel.front_end();
        front_end.run(CHILD);
        let header = front_end.execute("import time; print('on'); time.sleep(100)");
        front_end.begun(&header);
        kernel.signal(number);
        kernel.ended().await;
    }
    // One that interrupts ends nothing, also while nothing runs.
    let kernel = Kernel::start();
    kernel.signal(Signal::INT);
    assert_eq!(kernel.front_end().run("print(1)").0, "1\n");
    kernel.close().await;
}

#[tokio::test]
async fn a_kernel_that_was_killed_leaves_its_place_to_the_next() {
    let mut place = Place::new();
    let file = place.work().join("k.json");
    let prefix = place.work().join("s").display().to_string();
    fs::write(&file, ipc(&prefix).to_string()).unwrap();
    let mut sessions = Vec::new();
    for round in 0..3 {
        let mut kernel = Kernel::start_from(place, file.clone()).await;
        let mut front_end = kernel.front_end();
        // It knows nothing of the one before, and messages tell the two apart.
        assert_eq!(front_end.run("print('x' in globals()); x = 1").0, "False\n");
        let header = front_end.execute(CHILD);
        let reply = front_end.reply_to(&header);
        sessions.push(reply.header["session"].to_string());
        // By force, and in good order for the next one to come at once.
        let (number, code) = if round == 1 {
            (Signal::TERM, Some(0))
        } else {
            (Signal::KILL, None)
        };
        kernel.signal(number);
        assert_eq!(kernel.process.ended().await, code);
        kernel.place.assert_no_survivors().await;
        place = kernel.place;
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 3);
}

#[tokio::test]
async fn a_python_that_is_killed_while_nothing_is_asked_goes_with_its_children() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let number = front_end.python();
    let (child, _) = front_end.run(&format!("{CHILD}; print(p.pid)"));
    signal(number, Signal::KILL);
    // Not as zombies either: their numbers are free.
    for number in [&number.to_string(), child.trim()] {
        until("the end", || !Path::new("/proc").join(number).exists()).await;
    }
    let (text, status) = front_end.run("print(4)");
    assert_eq!(status, "ok");
    assert!(text.starts_with("4\n[new kernel: "), "{text}");
    assert!(text.contains("signal 9"), "{text}");
    kernel.close().await;
}

#[tokio::test]
async fn what_ends_a_kernel_while_its_python_dies_leaves_nothing() {
    for round in 0..8 {
        let kernel = Kernel::start();
        let mut front_end = kernel.front_end();
        // In one breath: the Python dies, the next one starts, and everything is to end.
        front_end.execute("import os; os._exit(1)");
        if round % 2 == 0 {
            let restart = json!({ "restart": round % 4 == 0 });
            front_end.order("shutdown_request", &restart);
        } else {
            front_end.reply();
            kernel.signal(Signal::TERM);
        }
        kernel.ended().await;
    }
}

#[tokio::test]
async fn sessions_that_are_closed_while_their_kernel_dies_come_not_back() {
    let manager = Manager::start().await;
    for _ in 0..200 {
        let session = manager.session("a");
        let mut execution = session.execute(Cell::new("import os; os._exit(1)"));
        let closed = tokio::time::timeout(SAFETY, session.close());
        let (outcome, closed) = tokio::join!(execution.outcome(), closed);
        assert_ne!(outcome.exit_code, 0, "{outcome:?}");
        closed.expect("it does not end");
        assert_eq!(manager.registry.kernels(), 0);
    }
    manager.end().await;
}

/// Starts a command, says the number of its process, and waits.
const FRONT_END: &str = "
import os, subprocess, sys
environment = dict(os.environ, JPY_PARENT_PID=str(os.getpid()))
kernel = subprocess.Popen(sys.argv[1:], env=environment, stderr=subprocess.PIPE)
kernel.stderr.readline()
print(kernel.pid, flush=True)
kernel.wait()
";

/// Has the one above started, kills it when asked to, and is the one to whom its children fall.
const ABOVE: &str = "
import ctypes, os, subprocess, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
front_end = subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], stdout=subprocess.PIPE)
kernel = int(front_end.stdout.readline())
print('on', flush=True)
sys.stdin.readline()
front_end.kill()
front_end.wait()
print(os.waitpid(kernel, 0) == (kernel, 0), flush=True)
";

fn arguments_of(command: &Command) -> Vec<String> {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|it| it.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_kernel_whose_front_end_is_gone_ends_whoever_adopts_it() {
    let place = Place::new();
    let file = place.work().join("k.json");
    let mut above = place.command(python().to_str().unwrap());
    let above = above
        .args(["-c", ABOVE, FRONT_END])
        .args(arguments_of(&command(&place, &file)))
        .current_dir(place.work())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut above = Running::start(above);
    let mut said = BufReader::new(above.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "on");
    let connection = read_connection(&file).unwrap().unwrap();
    let mut front_end = FrontEnd::new(&connection, "a");
    front_end.run(CHILD);
    let header = front_end.execute("import time; print('on'); time.sleep(100)");
    front_end.begun(&header);
    let stdin = above.0.stdin.as_mut().unwrap();
    stdin.write_all(b"\n").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "True");
    assert_eq!(above.ended().await, Some(0));
    place.assert_no_survivors().await;
    assert!(!file.exists());
}

/// Whether this user may make a namespace of processes.
fn in_a_container(place: &Place) -> Option<Command> {
    let unshare = || {
        let mut command = place.command("unshare");
        command.args(["-p", "-f", "--mount-proc", "--kill-child"]);
        command
    };
    let works = unshare()
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success());
    if !works {
        eprintln!("NOT TESTED: a namespace of processes cannot be made here");
    }
    works.then(unshare)
}

#[tokio::test]
async fn a_kernel_may_be_process_one_or_have_been_started_by_it() {
    let place = Place::new();
    let file = place.work().join("k.json");
    for is_started_by_one in [true, false] {
        let Some(mut container) = in_a_container(&place) else {
            return;
        };
        if is_started_by_one {
            let script = "JPY_PARENT_PID=$$ \"$@\" & wait $!";
            container.args(["/bin/sh", "-c", script, "sh"]);
        }
        container
            .args(arguments_of(&command(&place, &file)))
            .current_dir(place.work())
            .stderr(Stdio::piped());
        let mut child = container.spawn().unwrap();
        first_line(&mut child);
        let mut container = Running(child);
        let connection = read_connection(&file).unwrap().unwrap();
        let mut front_end = FrontEnd::new(&connection, "a");
        // Daemons of commands fall to the kernel or to process one, and are nobody's concern.
        let code = "import os\nprint(os.getpid() < 100, os.system('(sleep 300 &) ; true'))";
        assert_eq!(
            front_end.run(code),
            ("True 0\n".to_owned(), "ok".to_owned())
        );
        front_end.run("os._exit(1)");
        assert_eq!(front_end.run("1").1, "ok");
        front_end.order("shutdown_request", &json!({ "restart": false }));
        assert_eq!(container.ended().await, Some(0));
        place.assert_no_survivors().await;
    }
}
