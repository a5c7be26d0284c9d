//! `warmcell exec` and the outside: signals, a closed stdout, one that nobody reads.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::lifecycle_support::{signal, until, written};
use crate::support::{Place, SAFETY, finish, text};

/// Waits for the end; its code.
async fn ended(child: &mut Child) -> Option<i32> {
    let mut status = None;
    until("the end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    })
    .await;
    status.unwrap().code()
}

fn piped(place: &Place, arguments: &[&str]) -> Child {
    place
        .exec(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn all(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    stream.unwrap().read_to_end(&mut bytes).unwrap();
    text(&bytes)
}

#[tokio::test]
async fn each_signal_interrupts_the_cell_and_is_told() {
    for number in [Signal::INT, Signal::TERM, Signal::HUP] {
        for json in [false, true] {
            let place = Place::new();
            let mark = place.work().join("mark");
            let code =
                format!("print('before')\nprint(1, file=open({mark:?}, 'w'))\nwhile True: pass");
            let arguments = if json {
                vec!["--json", &code]
            } else {
                vec![code.as_str()]
            };
            let mut child = piped(&place, &arguments);
            written(&mark).await;
            let began = Instant::now();
            signal(child.id(), number);
            assert_eq!(ended(&mut child).await, Some(130), "{number:?}");
            assert!(began.elapsed() < Duration::from_secs(5));
            let (out, err) = (all(child.stdout.take()), all(child.stderr.take()));
            if json {
                let told: serde_json::Value = serde_json::from_str(&out).unwrap();
                assert_eq!(told["status"], "interrupted");
                assert_eq!(told["kernel"]["state"], "lost");
                assert!(
                    told["output"]
                        .as_str()
                        .unwrap()
                        .starts_with("before\n[interrupted; ")
                );
            } else {
                assert_eq!(out, "before\n");
                assert!(
                    err.starts_with("[interrupted; the kernel was killed"),
                    "{err}"
                );
            }
            place.assert_no_survivors().await;
        }
    }
}

#[tokio::test]
async fn a_second_interrupt_does_no_harm() {
    let place = Place::new();
    let mark = place.work().join("mark");
    let code = format!("print(1, file=open({mark:?}, 'w'))\nwhile True: pass");
    let mut child = piped(&place, &[&code]);
    written(&mark).await;
    for _ in 0..3 {
        signal(child.id(), Signal::INT);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    assert_eq!(ended(&mut child).await, Some(130));
    place.assert_no_survivors().await;
}

/// From the first moment on.
#[tokio::test]
async fn an_interrupt_while_the_kernel_starts_ends_the_command() {
    for delay in (10..60).step_by(5) {
        let place = Place::new();
        let mut child = piped(&place, &["while True: pass"]);
        tokio::time::sleep(Duration::from_millis(delay)).await;
        signal(child.id(), Signal::INT);
        let code = ended(&mut child).await;
        // Before it watches for signals it is ended by them, as any program.
        assert!(matches!(code, Some(130) | None), "{code:?}");
        place.assert_no_survivors().await;
    }
}

#[tokio::test]
async fn an_interrupted_cell_ends_the_row() {
    let place = Place::new();
    let mark = place.work().join("mark");
    let (one, two) = (place.work().join("1.py"), place.work().join("2.py"));
    std::fs::write(
        &one,
        format!("print(1, file=open({mark:?}, 'w'))\nwhile True: pass"),
    )
    .unwrap();
    std::fs::write(&two, "print('second')").unwrap();
    let mut child = piped(
        &place,
        &["-f", one.to_str().unwrap(), "-f", two.to_str().unwrap()],
    );
    written(&mark).await;
    signal(child.id(), Signal::TERM);
    assert_eq!(ended(&mut child).await, Some(130));
    assert_eq!(all(child.stdout.take()), "");
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_closed_stdout_ends_the_cell() {
    let place = Place::new();
    let mut child = piped(&place, &["while True: print('x' * 1000)"]);
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 5_000]).unwrap();
    drop(stdout);
    assert_eq!(ended(&mut child).await, Some(141));
    place.assert_no_survivors().await;
}

/// A reader that does not read makes neither the limit nor the interrupt void.
#[tokio::test]
async fn a_blocked_stdout_does_not_stop_the_limit() {
    for merged in [false, true] {
        let place = Place::new();
        let mut command = place.exec(&["-t", "0.5", "while True: print('x' * 1000)"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(if merged {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .spawn()
            .unwrap();
        let began = Instant::now();
        assert_eq!(ended(&mut child).await, Some(124));
        let took = began.elapsed();
        eprintln!("exec with a blocked stdout and a limit of 0.5 s: {took:?}");
        assert!(took < Duration::from_secs(8), "{took:?}");
        place.assert_no_survivors().await;
    }
}

#[tokio::test]
async fn a_blocked_stdout_does_not_stop_an_interrupt() {
    for (code, arguments) in [
        ("while True: print('x' * 1000)", vec![]),
        // The cell has ended, its output waits.
        (
            "print('x' * 200_000); print(1, file=open('mark', 'w'))",
            vec![],
        ),
        (
            "x = 'x' * 1000\nfor i in range(45): print(x)\nprint(1, file=open('mark', 'w'))",
            vec!["--json"],
        ),
    ] {
        let place = Place::new();
        let mut arguments = arguments.clone();
        arguments.push(code);
        let mut child = piped(&place, &arguments);
        tokio::time::sleep(Duration::from_millis(600)).await;
        let began = Instant::now();
        signal(child.id(), Signal::INT);
        let status = ended(&mut child).await;
        if arguments.len() == 1 {
            assert_eq!(status, Some(130), "{code}");
        }
        assert!(began.elapsed() < Duration::from_secs(8), "{code}");
        place.assert_no_survivors().await;
    }
}

/// A slow reader gets everything.
#[tokio::test]
async fn a_slow_reader_gets_everything() {
    let place = Place::new();
    let mut child = piped(&place, &["for i in range(3000): print('x' * 199)"]);
    let mut stdout = child.stdout.take().unwrap();
    let (mut total, mut buffer) = (0, vec![0; 40_000]);
    let began = Instant::now();
    loop {
        let count = stdout.read(&mut buffer).unwrap();
        total += count;
        if count == 0 {
            break;
        }
        assert!(began.elapsed() < SAFETY);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(total, 600_000);
    assert_eq!(ended(&mut child).await, Some(0));
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn what_is_printed_at_the_orderly_end_is_shown() {
    let place = Place::new();
    let code = "import atexit, tempfile, threading, time, sys\natexit.register(print, 'bye')\natexit.register(print, 'error', file=sys.stderr)\nt = tempfile.TemporaryDirectory(); print(t.name)\ndef late(): time.sleep(0.2); print('late')\nthreading.Thread(target=late).start()";
    let output = finish(&mut place.exec(&[code]));
    let out = text(&output.stdout);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[1..], ["late", "bye"], "{out}");
    assert!(!std::fs::exists(lines[0]).unwrap());
    assert_eq!(text(&output.stderr), "error\n");
    assert_eq!(output.status.code(), Some(0));
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn an_orderly_end_takes_a_second_at_most() {
    let place = Place::new();
    let code = "import atexit, time\natexit.register(print, 'before')\natexit.register(lambda: (print('hangs', flush=True), time.sleep(60)))\nNone";
    let began = Instant::now();
    let output = finish(&mut place.exec(&[code]));
    let took = began.elapsed();
    assert_eq!(text(&output.stdout), "hangs\n");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        took > Duration::from_secs(1) && took < Duration::from_secs(4),
        "{took:?}"
    );
    place.assert_no_survivors().await;
}
