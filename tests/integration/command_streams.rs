//! `warmcell exec` and a stderr that nobody reads, that is closed, full or shared with stdout: it
//! holds up what it must and makes neither limit nor Ctrl-C void.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::command_kit::{Running, assert_nothing_left, full_pipe, piped};
use crate::lifecycle_support::{signal, until, written};
use crate::support::{Place, finish, pythons, text};

/// The numbers of system calls: `write`, and those that wait for a descriptor.
const WRITE: u32 = if cfg!(target_arch = "aarch64") { 64 } else { 1 };
const POLLS: &[u32] = if cfg!(target_arch = "aarch64") {
    &[73]
} else {
    &[7, 271]
};

/// Whether a thread is in a system call that is written like that; also where it cannot be seen.
fn is_in(pid: u32, call: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let mut calls = tasks.map(|task| fs::read_to_string(task.path().join("syscall")));
    calls.any(|it| match it {
        Ok(now) => now.starts_with(call),
        // Another may have ended meanwhile.
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    })
}

/// Waits until a thread is in a write to that descriptor.
async fn blocked_on(pid: u32, fd: u32) {
    let call = format!("{WRITE} {fd:#x} ");
    until("a write that blocks", || is_in(pid, &call)).await;
}

/// Waits until a thread waits for a descriptor, or all have ended.
async fn waiting(child: &mut Running) {
    until("a poll", || {
        let pid = child.pid();
        POLLS.iter().any(|number| is_in(pid, &format!("{number} ")))
            || child.0.try_wait().unwrap().is_some()
    })
    .await;
}

/// Which streams stand on a pipe that takes nothing.
#[derive(Debug, Clone, Copy)]
enum Stuck {
    Stderr,
    /// Both, on one pipe.
    One,
    /// Both, on a pipe each.
    Each,
}

/// Sets the streams; what is returned must be kept.
fn stick(command: &mut Command, stuck: Stuck) -> Vec<OwnedFd> {
    let (reader, writer) = full_pipe();
    let mut readers = vec![reader];
    match stuck {
        Stuck::Stderr => command.stdout(Stdio::piped()),
        Stuck::One => command.stdout(writer.try_clone().unwrap()),
        Stuck::Each => {
            let (reader, writer) = full_pipe();
            readers.push(reader);
            command.stdout(writer)
        }
    };
    command.stderr(writer);
    readers
}

/// What was printed goes to who reads it, whatever becomes of the other stream.
#[tokio::test]
async fn what_is_read_is_whole_beside_a_blocked_stderr() {
    let place = Place::new();
    let code = "import sys\nsys.stderr.write('x' * 1000)\nprint('read this')\nwhile True: pass";
    let mut command = place.exec(&["-t", "1", code]);
    let readers = stick(&mut command, Stuck::Stderr);
    let mut child = Running::start(&mut command);
    assert_eq!(child.ended().await, Some(124));
    assert_eq!(child.printed().0, "read this\n");
    assert_nothing_left(&place).await;
    drop(readers);
}

/// Runs a cell on streams that take nothing; a signal, once it waits for stderr. The code at its end.
async fn ended_on(stuck: Stuck, arguments: &[&str], number: Option<Signal>) -> Option<i32> {
    let place = Place::new();
    let mut command = place.exec(arguments);
    let readers = stick(&mut command, stuck);
    let mut child = Running::start(&mut command);
    if let Some(number) = number {
        child.catches(number).await;
        blocked_on(child.pid(), 2).await;
        signal(child.pid(), number);
    }
    let code = child.ended().await;
    assert_nothing_left(&place).await;
    drop(readers);
    code
}

#[tokio::test]
async fn a_blocked_stderr_does_not_stop_the_limit() {
    const FLOOD: &str = "import sys\nwhile True: sys.stderr.write('x' * 1000); print(1)";
    let mut runs = JoinSet::new();
    for stuck in [Stuck::Stderr, Stuck::One, Stuck::Each] {
        // It is the notice that waits, or the cell itself.
        for code in ["while True: pass", FLOOD] {
            runs.spawn(async move {
                let code_at_end = ended_on(stuck, &["-t", "0.5", code], None).await;
                assert_eq!(code_at_end, Some(124), "{stuck:?} {code}");
            });
        }
    }
    runs.join_all().await;
}

#[tokio::test]
async fn a_blocked_stderr_does_not_stop_a_signal() {
    let mut runs = JoinSet::new();
    for (code, stuck) in [
        // The cell has ended: its traceback waits, or a warning, the last words, what it has said.
        ("1/0", Stuck::Stderr),
        ("1/0", Stuck::One),
        ("1/0", Stuck::Each),
        ("[read_file('x') for _ in range(51)]; None", Stuck::Stderr),
        (
            "import atexit, sys; atexit.register(print, 'bye', file=sys.stderr)",
            Stuck::Stderr,
        ),
        (
            "import sys; sys.stderr.write('x' * 100_000); None",
            Stuck::Stderr,
        ),
        // It still runs.
        (
            "import sys\nwhile True: sys.stderr.write('x' * 1000)",
            Stuck::Stderr,
        ),
    ] {
        for number in [Signal::INT, Signal::TERM, Signal::HUP] {
            runs.spawn(async move {
                let code_at_end = ended_on(stuck, &[code], Some(number)).await;
                assert_eq!(code_at_end, Some(130), "{number:?} {stuck:?} {code}");
            });
        }
    }
    runs.join_all().await;
}

/// Before the first cell and after the last one too.
#[tokio::test]
async fn a_blocked_notice_does_not_stop_a_signal() {
    for (arguments, home) in [
        (vec![" "], "home"),
        (vec!["-f", "missing.py"], "home"),
        (vec!["while True: pass"], "work/file/home"),
    ] {
        let place = Place::new();
        fs::write(place.work().join("file"), "").unwrap();
        let mut command = place.exec(&arguments);
        command.env("HERMES_HOME", place.folder.path().join(home));
        let readers = stick(&mut command, Stuck::Stderr);
        let mut child = Running::start(&mut command);
        child.catches(Signal::INT).await;
        blocked_on(child.pid(), 2).await;
        signal(child.pid(), Signal::INT);
        assert_eq!(child.ended().await, Some(130), "{arguments:?}");
        assert_nothing_left(&place).await;
        drop(readers);
    }
}

/// Back-pressure, as in any pipe: nothing is lost while somebody may still read.
#[tokio::test]
async fn a_late_reader_of_stderr_gets_everything() {
    let place = Place::new();
    let code = "import sys\nsys.stderr.write('x' * 300_000 + '\\n')\n1/0";
    let mut command = place.exec(&[code]);
    let mut child = Running::start(piped(&mut command));
    child.catches(Signal::INT).await;
    blocked_on(child.pid(), 2).await;
    let mut err = Vec::new();
    child
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_end(&mut err)
        .unwrap();
    let err = text(&err);
    let (flood, traceback) = err.split_once('\n').unwrap();
    assert_eq!(flood.len(), 300_000);
    assert!(traceback.starts_with("Traceback (most recent call last)"));
    assert!(traceback.ends_with("ZeroDivisionError: division by zero\n"));
    assert_eq!(child.ended().await, Some(1));
    assert_nothing_left(&place).await;
}

/// What would stand there is lost, and nothing else.
#[tokio::test]
async fn a_stderr_that_takes_nothing_does_not_end_the_cell() {
    let place = Place::new();
    let code = "import sys\nprint('error', file=sys.stderr)\nsys.stderr.flush()\n\
                print('on')\n1/0";
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let gone = || {
        let (reader, writer) = full_pipe();
        drop(reader);
        writer
    };
    let line = format!(
        "exec \"$0\" exec --python {} \"$1\" 2>&-",
        crate::support::python().display()
    );
    let mut closed = place.command("/bin/sh");
    closed.args(["-c", &line, env!("CARGO_BIN_EXE_warmcell"), code]);
    let mut commands = [place.exec(&[code]), place.exec(&[code]), closed];
    commands[0].stderr(full());
    commands[1].stderr(gone());
    for command in &mut commands {
        let mut child = Running::start(command.stdout(Stdio::piped()));
        assert_eq!(child.ended().await, Some(1), "{command:?}");
        assert_eq!(child.printed().0, "on\n");
    }
    assert_nothing_left(&place).await;
}

/// A pipe that somebody else has made non-blocking gets everything all the same.
#[tokio::test]
async fn a_stream_that_does_not_block_gets_everything() {
    let place = Place::new();
    let code = "import sys\nfor i in range(3000): print('x' * 99)\n\
                sys.stderr.write('e' * 300_000)\nprint(1, file=open('mark', 'w'))";
    let mut command = place.exec(&[code]);
    let (out, our_out) = rustix::pipe::pipe().unwrap();
    let (err, our_err) = rustix::pipe::pipe().unwrap();
    for end in [&our_out, &our_err] {
        fcntl_setfl(end, fcntl_getfl(end).unwrap() | OFlags::NONBLOCK).unwrap();
    }
    let mut child = Running::start(command.stdout(our_out).stderr(our_err));
    drop(command);
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        File::from(err).read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    let mut bytes = Vec::new();
    let mut out = File::from(out);
    // It has to wait for us at first.
    waiting(&mut child).await;
    out.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 300_000);
    assert_eq!(reading.join().unwrap(), 300_000);
    written(&place.work().join("mark")).await;
    assert_eq!(child.ended().await, Some(0));
    assert_nothing_left(&place).await;
}

/// The timer that looks for the end of a flood does not ring when Python has taken its handler away.
#[tokio::test]
async fn a_flood_just_before_the_end_is_no_death() {
    let place = Place::new();
    let code = "import time\nclass Slow:\n    def __del__(self, sleep=time.sleep): sleep(0.3)\n\
                slow = Slow()\nfor _ in range(5000): print('x' * 99)";
    for (version, python) in pythons() {
        let mut command = place.warmcell(&["exec", "--python", python.to_str().unwrap(), code]);
        let output = tokio::task::spawn_blocking(move || finish(&mut command));
        let output = output.await.unwrap();
        assert_eq!(text(&output.stderr), "", "{version}");
        assert_eq!(output.stdout.len(), 500_000, "{version}");
        assert_eq!(output.status.code(), Some(0), "{version}");
    }
    assert_nothing_left(&place).await;
}

/// On one terminal or file, what we tell does not stand behind half a line of the cell's.
#[tokio::test]
async fn a_notice_begins_a_line_of_its_own() {
    for (code, shared, out, err) in [
        (
            "print('half', end='')\n1/0",
            "half\nTraceback",
            "half",
            "Traceback",
        ),
        (
            "print('half', end='')\nwhile True: pass",
            "half\n[timed out",
            "half",
            "[timed out",
        ),
        (
            "import sys; sys.stderr.write('half')\n1/0",
            "half\nTraceback",
            "",
            "half\nTraceback",
        ),
        (
            "import sys; sys.stderr.write('half'); 7",
            "half\n7\n",
            "7\n",
            "half",
        ),
        (
            "print('whole')\n1/0",
            "whole\nTraceback",
            "whole\n",
            "Traceback",
        ),
    ] {
        let place = Place::new();
        let path = place.work().join("both");
        let both = File::create(&path).unwrap();
        let mut command = place.exec(&["-t", "1", code]);
        command.stdout(both.try_clone().unwrap()).stderr(both);
        Running::start(&mut command).ended().await;
        let told = fs::read_to_string(&path).unwrap();
        assert!(told.starts_with(shared), "{told}");
        let output = finish(&mut place.exec(&["-t", "1", code]));
        assert_eq!(text(&output.stdout), out);
        assert!(text(&output.stderr).starts_with(err), "{output:?}");
        assert_nothing_left(&place).await;
    }
}
