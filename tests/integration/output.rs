//! What a cell prints: all of it, in order, in the right cell, whatever writes it.

use std::time::Duration;

use warmcell::execution::{ErrorClass, Status};
use warmcell::session::Cell;

use crate::lifecycle_support::as_if_restarted;
use crate::support::{
    Manager, Signal, assert_shows, on_each_python, pythons, run, run_cell, run_live,
    shown_on_each_python,
};

#[tokio::test]
async fn everything_that_writes_is_captured_in_order() {
    shown_on_each_python(&[
        (
            "import os, sys, subprocess, ctypes\nlibc = ctypes.CDLL(None)\nprint('print')\nsys.stdout.buffer.write(b'buffer\\n')\nos.write(1, b'raw\\n')\nlibc.printf(b'C line\\n')\nsubprocess.run(['echo', 'child'])\nos.system('echo system')\nprint('last')",
            "print\nbuffer\nraw\nC line\nchild\nsystem\nlast\n",
        ),
        // Pieces without a line end keep their place too.
        (
            "print('a', end='')\nlibc.printf(b'b')\nsys.stdout.write('c')\nos.write(1, b'd')\nlibc.printf(b'e')\nos.system('printf f')\nprint('g', end='')",
            "abcdefg",
        ),
        // stderr stands apart, in its own order.
        (
            "print('out 1'); print('err 1', file=sys.stderr); os.system('echo err 2 >&2'); os.write(2, b'err 3\\n'); print('out 2')",
            "out 1\nout 2\n--- stderr ---\nerr 1\nerr 2\nerr 3\n",
        ),
        // What print cannot encode is escaped; bytes that are no UTF-8 are replaced; NUL is kept.
        ("print('é', '\\ud800', '→ 😀 中文')", "é \\ud800 → 😀 中文\n"),
        ("os.write(1, b'a\\xff\\xfeb\\n\\x00c'); None", "a\u{fffd}\u{fffd}b\n\0c"),
        ("import array\nprint(sys.stdout.buffer.write(array.array('i', [65, 66])), sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.encoding)", "A\0\0\0B\0\0\08 False 1 utf-8\n"),
        ("sys.stdout.writelines(['x\\n', 'y\\n']); print('z', flush=True)", "x\ny\nz\n"),
        ("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as caught:\n    print('inside')\ncaught.getvalue()", "'inside\\n'"),
    ])
    .await;
}

#[tokio::test]
async fn a_full_pipe_is_drained_while_the_gil_is_held() {
    let code = "import ctypes, sys\nn = ctypes.PyDLL(None).printf(b'1' * 300_000 + b'\\n')\n\
                print(n, file=sys.stderr)";
    let shown = format!(
        "{}\n\n... [OUTPUT TRUNCATED - 250,001 bytes omitted out of 300,001 total] ...\n\n{}\n\
         --- stderr ---\n300001\n[the whole output is in ",
        "1".repeat(20_000),
        "1".repeat(29_999)
    );
    on_each_python(async |session, version| {
        let output = run(session, code).await.output;
        assert!(output.starts_with(&shown), "{version}: {output}");
    })
    .await;
}

#[tokio::test]
async fn threads_that_print_keep_their_lines_whole() {
    // In a calm and in a flood; every line is there once, and each thread's are in its order.
    let code = "import threading
def say(n):
    for k in range(LINES):
        print(f'{n} {k}\\n', end='')
threads = [threading.Thread(target=say, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print('end')";
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        for lines in [200, 3_000] {
            let cell = Cell::new(code.replace("LINES", &lines.to_string()));
            let (_, stdout) = run_live(&session, cell).await;
            let text = String::from_utf8(stdout).unwrap();
            let mut next = [0; 4];
            for line in text.lines().filter(|line| *line != "end") {
                let (thread, number) = line.split_once(' ').expect(line);
                let next = &mut next[thread.parse::<usize>().expect(line)];
                assert_eq!(
                    number.parse::<u32>().expect(line),
                    *next,
                    "{version}: {line}"
                );
                *next += 1;
            }
            assert_eq!(next, [lines; 4], "{version}");
        }
    }
    manager.end().await;
}

#[tokio::test]
async fn a_flood_is_counted_to_the_byte_and_keeps_its_ends() {
    on_each_python(async |session, version| {
        let code = "for n in range(62_500):\n    print(f'{n:079}')\nprint('last', end='')";
        let (outcome, stdout) = run_live(session, Cell::new(code)).await;
        assert_eq!(stdout.len(), 5_000_004, "{version}");
        let mut wanted: Vec<u8> = (0..62_500).flat_map(|n| format!("{n:079}\n").into_bytes()).collect();
        wanted.extend_from_slice(b"last");
        assert!(stdout == wanted, "{version}");
        let outcome_numbers =
            (outcome.stdout_bytes_total, outcome.stdout_bytes_captured, outcome.stdout_bytes_omitted);
        assert_eq!(outcome_numbers, (5_000_004, 50_000, 4_950_004), "{version}");
        assert!(outcome.stdout_truncated, "{version}");
        let (head, rest) = outcome.output.split_once("\n\n... [OUTPUT TRUNCATED - ").unwrap();
        let (notice, tail) = rest.split_once("] ...\n\n").unwrap();
        assert_eq!(notice, "4,950,004 bytes omitted out of 5,000,004 total");
        let (tail, _) = tail.split_once("\n[the whole output is in ").unwrap();
        assert_eq!((head.as_bytes(), tail.as_bytes()), (&wanted[..20_000], &wanted[4_970_004..]));
        // A flood on stderr has a window of 10,000 bytes.
        let outcome = run(session, "import sys\nfor n in range(10_000):\n    print(f'{n:09}', file=sys.stderr)").await;
        let (head, rest) = outcome.output.split_once("\n\n... [").unwrap();
        assert_eq!(head.len(), "--- stderr ---\n".len() + 4_000, "{version}");
        assert_eq!(rest.split_once("...\n\n").unwrap().1.len(), 6_000, "{version}");
        assert!(!outcome.stdout_truncated, "{version}");
        // After it small prints are there at once, in order with what others write.
        let code = "import os\nfor n in range(6_000):\n    print(n)\nprint('a')\nos.system('echo b')\nprint('c')\nos.fork() or os._exit(0)\nos.wait()\nprint('d')";
        let outcome = run(session, code).await;
        assert!(outcome.output.ends_with("5999\na\nb\nc\nd\n"), "{version}");
        assert_eq!(outcome.stdout_bytes_total, 28_890 + 8, "{version}");
    })
    .await;
}

#[tokio::test]
async fn what_was_written_before_a_kill_is_there() {
    on_each_python(async |session, version| {
        let limit = Duration::from_millis(600);
        let cell = Cell::new("print('whole')\nprint('partial', end='')\nimport time; time.sleep(60)").timeout(limit);
        let outcome = run_cell(session, cell).await;
        assert_eq!(outcome.status, Status::Timeout, "{version}");
        assert!(outcome.output.starts_with("whole\npartial\n[timed out after 0.6 s; "), "{version}: {}", outcome.output);
        assert_eq!(outcome.stdout_bytes_total, 13, "{version}");
        let dead = run(session, "print('last words', end=''); import os; os._exit(3)").await;
        assert!(dead.output.contains("last words\n[the kernel exited with code 3 "), "{version}: {}", dead.output);
        // A flood may lose its last 72 KiB, and what comes after the flood nothing.
        let code = "import time\nfor n in range(20_000):\n    print(f'{n:09}')\ntime.sleep(0.1)\nprint('after')\nimport os; os.kill(os.getpid(), 9)";
        let (_, stdout) = run_live(session, Cell::new(code)).await;
        assert_eq!(String::from_utf8_lossy(&stdout[stdout.len() - 6..]), "after\n", "{version}");
        assert_eq!(stdout.len(), 200_006, "{version}");
        let flood = "n = 0\nwhile True:\n    print(f'{n:09}')\n    n += 1";
        let (_, stdout) = run_live(session, Cell::new(flood).timeout(limit)).await;
        let last = stdout.len() / 10 - 1;
        assert_eq!(stdout[last * 10..last * 10 + 9], *format!("{last:09}").as_bytes(), "{version}");
    })
    .await;
}

/// A flood has its end whatever breaks it off: interrupts of the cell's own, at any point of it.
#[tokio::test]
async fn a_flood_that_is_broken_off_anywhere_holds_nothing_back() {
    let script = include_str!("../python/flood_interrupted.py");
    on_each_python(async |session, version| {
        let outcome = run(session, script).await;
        assert_eq!(
            outcome.status,
            Status::Success,
            "{version}: {}",
            outcome.output
        );
        let points: u32 = outcome.output.trim().parse().unwrap();
        assert!(points > 10, "{version}: {points}");
    })
    .await;
}

/// A thread that prints much and then nothing more: its text is there although the cell goes on.
#[tokio::test]
async fn the_end_of_a_threads_flood_does_not_wait_for_the_cell() {
    on_each_python(async |session, version| {
        let code = "import os, threading, time
def flood():
    for n in range(20_000):
        print(f'{n:09}')
thread = threading.Thread(target=flood)
thread.start()
thread.join()
time.sleep(0.2)
os.kill(os.getpid(), 9)";
        let (_, stdout) = run_live(session, Cell::new(code)).await;
        assert_eq!(stdout.len(), 200_000, "{version}");
    })
    .await;
}

#[tokio::test]
async fn what_comes_between_cells_is_told_apart() {
    let manager = Manager::start().await;
    let (go, done) = (Signal::new(&manager, "go"), Signal::new(&manager, "done"));
    let session = manager.session("a");
    let code = "import threading
def late():
    open('go').read()
    print('é' * 6_000)
    print('late', flush=True)
    open('done', 'w').close()
threading.Thread(target=late).start()
print('now')";
    assert_shows(&run(&session, code).await, "now\n", "a thread");
    go.give().await;
    done.wait().await;
    let outcome = run(&session, "print('next')").await;
    let background = outcome.background_output.as_ref().unwrap();
    assert_eq!(
        (background.bytes_total, background.text.len()),
        (12_006, 10_000)
    );
    assert!(
        background.text.ends_with("éé\nlate\n"),
        "{}",
        background.text
    );
    assert_eq!(
        (outcome.stdout_bytes_total, outcome.result.as_deref()),
        (5, None)
    );
    assert!(
        outcome
            .output
            .starts_with("next\n[12006 bytes printed between cells: ..."),
        "{}",
        outcome.output
    );
    // Told once.
    assert_eq!(run(&session, "1").await.background_output, None);
    // A child that outlives the cell does not hold it back.
    let child = "import subprocess
child = subprocess.Popen(['sh', '-c', 'cat go; echo from the child; echo apart >&2; : > done'])
print('at once')";
    assert_shows(&run(&session, child).await, "at once\n", "a child");
    go.give().await;
    done.wait().await;
    let outcome = run(&session, "child.wait()").await;
    let background = outcome.background_output.unwrap();
    assert_eq!(
        (background.text.as_str(), background.bytes_total),
        ("xfrom the child\napart\n", 22)
    );
    // What is written while a cell runs appears in that cell.
    run(&session, "threading.Thread(target=late).start()").await;
    let during = run(
        &session,
        "open('go', 'w').write('x')\nopen('done').read()\nprint('own')",
    )
    .await;
    assert_eq!(during.background_output, None);
    assert_eq!(during.stdout_bytes_total, 12_010);
    manager.end().await;
}

#[tokio::test]
async fn a_daemon_thread_that_prints_for_ever_holds_nothing_up() {
    on_each_python(async |session, version| {
        let code = "import threading\ndef for_ever():\n    while True: print('x' * 70)\nthreading.Thread(target=for_ever, daemon=True).start()\nprint('begun')";
        let outcome = run(session, code).await;
        assert_eq!(outcome.exit_code, 0, "{version}");
        for n in 0..5 {
            let outcome = run(session, &format!("print('cell {n}')\n{n}")).await;
            assert_eq!(outcome.result, Some(n.to_string()), "{version}");
        }
    })
    .await;
}

#[tokio::test]
async fn games_with_descriptors_are_put_right() {
    let put_right = |fd: usize| {
        let name = ["stdin", "stdout", "stderr"][fd];
        format!("the cell closed or moved descriptor {fd} ({name}); it was put right")
    };
    on_each_python(async |session, version| {
        let cells = [
            ("import os, sys\nfor fd in range(3): os.close(fd)", vec![put_right(0), put_right(1), put_right(2)]),
            ("null = os.open('/dev/null', os.O_RDWR)\nfor fd in range(21): fd == null or os.dup2(null, fd)", vec![put_right(1), put_right(2)]),
            ("os.closerange(3, 64)", vec![]),
            ("os.dup2(2, 1)", vec![put_right(1)]),
            ("sys.stdout.close()", vec!["the cell closed sys.stdout; it was opened anew".to_owned()]),
            ("sys.stderr.close(); sys.stdin.close()", vec!["the cell closed sys.stderr; it was opened anew".to_owned()]),
            ("kept = sys.stdout.detach()", vec!["the cell closed sys.stdout; it was opened anew".to_owned()]),
            ("sys.stdout = None", vec!["the cell left sys.stdout unusable (None); it was put right".to_owned()]),
            ("import fcntl\nfor fd in (1, 2): fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)\nprint('x' * 70_000); print('y' * 70_000)", vec![]),
            ("os.system('true'); fcntl.fcntl(1, 1031, 1 << 20)\nprint('z' * 900_000)", vec![]),
            ("fcntl.fcntl(1, 1031, 4096)\nprint('z' * 900_000)", vec![]),
            ("os.close(1)\ntry:\n    print('lost')\nexcept OSError as error:\n    print(error.errno, file=sys.stderr)", vec![put_right(1)]),
        ];
        for (code, warnings) in cells {
            let what = format!("{version}: {code}");
            let outcome = run(session, code).await;
            assert_eq!(outcome.exit_code, 0, "{what}: {}", outcome.output);
            let warnings = (!warnings.is_empty()).then(|| warnings.join("; "));
            assert_eq!(outcome.warning, warnings, "{what}");
            let next = run(session, "print('out'); os.system('echo child'); print('err', file=sys.stderr); sys.stdin.read()").await;
            assert_shows(&next, "out\nchild\n''\n--- stderr ---\nerr\n", &what);
            assert_eq!(next.warning, None, "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_kernel_without_its_link_has_died() {
    on_each_python(async |session, version| {
        run(session, "x = 1").await;
        let outcome = run(session, "print('before')\nimport os\nos.closerange(3, 65_536)\nimport time\ntime.sleep(60)").await;
        assert_eq!(outcome.error_class, Some(ErrorClass::KernelDied), "{version}");
        assert!(as_if_restarted(&outcome.output).starts_with("before\n[the kernel closed its link to the manager while running the cell; a fresh one was started: 1 cell and x are lost; "), "{version}: {}", outcome.output);
        let next = run(session, "x = 2\nx").await;
        assert_eq!(next.result.as_deref(), Some("2"), "{version}");
    })
    .await;
}

#[tokio::test]
async fn sys_stdout_may_be_replaced_for_good() {
    shown_on_each_python(&[
        ("import io, sys\nold = sys.stdout\nsys.stdout = mine = io.StringIO()\nprint('into mine')", ""),
        ("print('more')\nmine.getvalue()", "'into mine\\nmore\\n'"),
        ("sys.stdout = old\nprint('back')", "back\n"),
        ("class Hostile:\n    def __getattr__(self, name): raise KeyboardInterrupt\n    def __eq__(self, other): raise SystemExit\nsys.stdout = Hostile()", ""),
        ("sys.stdout = old\nprint('back again')", "back again\n"),
    ])
    .await;
}
