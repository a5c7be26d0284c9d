//! Policy `interrupt`: `KeyboardInterrupt` first, state kept if that ends the cell, else the kill.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warmcell::config::Settings;
use warmcell::execution::{Outcome, Status};
use warmcell::session::{Cell, Policy, Registry, Session};

use crate::lifecycle_support::{is_alive, json, json_without_time, number, result, until, written};
use crate::support::{Manager, Place, SAFETY, on_each_python, run};

/// A cell that is interrupted in place, by whomever or whatever.
fn gentle(code: impl Into<String>) -> Cell {
    Cell {
        on_timeout: Policy::Interrupt,
        on_interrupt: Policy::Interrupt,
        ..Cell::new(code)
    }
}

/// Runs a cell and interrupts it after a while.
async fn interrupted(session: &Session, code: &str, delay: Duration) -> Outcome {
    let mut execution = session.execute(gentle(code));
    let interrupt = execution.interrupt_token();
    let interrupting = async {
        tokio::time::sleep(delay).await;
        interrupt.cancel();
    };
    tokio::join!(result(&mut execution), interrupting).0
}

/// Runs a cell and interrupts it when it has made a file of the name `mark` in its directory.
async fn interrupted_at_mark(session: &Session, place: &Place, code: &str) -> Outcome {
    interrupted_after_mark(session, place, code, Duration::ZERO).await
}

/// The same, a while after that.
async fn interrupted_after_mark(
    session: &Session,
    place: &Place,
    code: &str,
    delay: Duration,
) -> Outcome {
    let mark = place.work().join("mark");
    fs::remove_file(&mark).ok();
    let mut execution = session.execute(gentle(code));
    let interrupt = execution.interrupt_token();
    let interrupting = async {
        until("the mark", || mark.exists()).await;
        tokio::time::sleep(delay).await;
        interrupt.cancel();
    };
    tokio::join!(result(&mut execution), interrupting).0
}

/// A manager whose cells have so long to end.
async fn with_grace(grace: Duration) -> Manager {
    let place = Place::new();
    let settings = Settings {
        interrupt_grace: grace,
        ..place.settings()
    };
    let registry = Registry::start(settings).await.unwrap();
    Manager { place, registry }
}

/// A text without the marks below the lines of a traceback, which not every Python has.
fn without_marks(text: &str) -> String {
    let is_mark = |line: &&str| {
        line.chars().any(|it| it == '^') && line.trim_matches([' ', '^', '~']).is_empty()
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_mark(line)).collect();
    lines.join("\n")
}

#[track_caller]
fn assert_kept(outcome: &Outcome, what: &str) -> Value {
    let told = json(outcome);
    assert_eq!(told["status"], "interrupted", "{what}: {told}");
    assert_eq!(told["kernel"]["state"], "kept", "{what}: {told}");
    assert_eq!(told["exit_code"], -1, "{what}");
    assert_eq!(told["error_class"], "interrupted", "{what}");
    told
}

#[tokio::test]
async fn an_interrupted_cell_keeps_its_state_and_says_so() {
    on_each_python(async |session, version| {
        run(session, "x = [1]").await;
        let code = "print('begun')\nx.append(2)\nwhile True: pass";
        let outcome = interrupted(session, code, Duration::from_millis(50)).await;
        assert_eq!(
            without_marks(&outcome.output),
            "begun\n--- stderr ---\nTraceback (most recent call last):\n  File \"<cell 2>\", line 3, in \
             <module>\n    while True: pass\nKeyboardInterrupt\n[interrupted; state is kept]",
            "{version}"
        );
        assert_eq!(
            outcome.error.as_deref(),
            Some("KeyboardInterrupt (<cell 2>, line 3)")
        );
        assert_kept(&outcome, version);
        assert_eq!(run(session, "x").await.result.as_deref(), Some("[1, 2]"));
    })
    .await;
}

#[tokio::test]
async fn a_timed_out_cell_keeps_its_state_and_says_so() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let outcome =
        result(&mut session.execute(
            gentle("x = 1\nimport time\ntime.sleep(60)").timeout(Duration::from_millis(250)),
        ))
        .await;
    let mut told = json_without_time(&outcome);
    told["output"] = without_marks(told["output"].as_str().unwrap()).into();
    assert_eq!(
        told,
        json!({
            "status": "timeout",
            "output": "--- stderr ---\nTraceback (most recent call last):\n  File \"<cell 1>\", line \
                3, in <module>\n    time.sleep(60)\nKeyboardInterrupt\n[timed out after 0.25 s and \
                was interrupted; state is kept]",
            "exit_code": -1, "tool_calls_made": 0,
            "error": "timed out after 0.25 s", "error_class": "timeout",
            "kernel": {"execution_count": 1, "generation": 1, "reused": false, "state": "fresh"},
            "stdout_truncated": false, "stdout_bytes_total": 0, "stdout_bytes_captured": 0,
            "stdout_bytes_omitted": 0,
        })
    );
    let next = run(&session, "x").await;
    assert_eq!(next.output, "1");
    assert_eq!(json(&next)["kernel"]["state"], "kept");
    manager.end().await;
}

/// Each policy is for its own case.
#[tokio::test]
async fn a_policy_is_for_its_own_case() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "1").await;
    let cell = Cell {
        on_timeout: Policy::Interrupt,
        ..Cell::new("while True: pass")
    };
    let mut execution = session.execute(cell);
    let interrupt = execution.interrupt_token();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        interrupt.cancel();
    });
    let outcome = result(&mut execution).await;
    assert_eq!(json(&outcome)["kernel"]["state"], "lost");
    assert_eq!(outcome.error.as_deref(), Some("interrupted"));
    let cell = Cell {
        on_interrupt: Policy::Interrupt,
        ..Cell::new("while True: pass")
    };
    let outcome = result(&mut session.execute(cell.timeout(Duration::from_millis(50)))).await;
    assert_eq!(json(&outcome)["kernel"]["reason"], "timeout");
    manager.end().await;
}

/// What an interrupt must get through to, and what it then must not have done.
const ENDLESS: [&str; 14] = [
    "import time; time.sleep(60)",
    "import asyncio; await asyncio.sleep(60)",
    "import asyncio\nwhile True: await asyncio.sleep(0)",
    "import asyncio, time\nasync def f(): time.sleep(60)\nawait asyncio.gather(f(), f())",
    "import asyncio\nasync def f(): await asyncio.sleep(60)\nasyncio.run(f())",
    "import subprocess; subprocess.run(['sleep', '60'])",
    "import subprocess; subprocess.run('sleep 60; sleep 60', shell=True)",
    "import os; os.system('sleep 60')\nprint('not reached')",
    "import os; os.system('sleep 60; echo wrong')\nprint('not reached')",
    "import threading; threading.Event().wait()",
    "from concurrent.futures import ThreadPoolExecutor\nimport time\nwith ThreadPoolExecutor() as pool: pool.submit(time.sleep, 1.5).result()",
    "terminal('sleep 60')",
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool: print(*pool.map(terminal, ['sleep 60'] * 4))",
    "class D:\n    def __del__(self):\n        for i in range(2000): pass\nwhile True: D()",
];

#[tokio::test]
async fn an_interrupt_reaches_whatever_the_cell_waits_for() {
    on_each_python(async |session, version| {
        let pid = number(session, "state = 'kept'\nimport os; os.getpid()").await;
        for code in ENDLESS {
            let outcome = interrupted(session, code, Duration::from_millis(150)).await;
            let what = format!("{version} {code}");
            assert_kept(&outcome, &what);
            assert_eq!(outcome.stdout_bytes_total, 0, "{what}: {outcome:?}");
            assert!(
                outcome
                    .output
                    .ends_with("\nKeyboardInterrupt\n[interrupted; state is kept]"),
                "{what}: {}",
                outcome.output
            );
            let next = run(session, "state, os.getpid()").await;
            assert_eq!(
                next.output,
                format!("('kept', {pid})"),
                "{version} after {code}"
            );
        }
    })
    .await;
}

/// As in a terminal: what the cell waits for is interrupted, daemons and what was there before are
/// not.
#[tokio::test]
async fn only_foreground_children_of_the_cell_are_interrupted() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let server = number(
        &session,
        "import os, signal, subprocess\nserver = subprocess.Popen(['sleep', '60']); server.pid",
    )
    .await;
    // Ticks of the system are 10 ms long.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let report = manager.place.work().join("report");
    let child = format!(
        "import signal, time\ncount = 0\ndef heard(*_):\n    global count\n    count += 1\n    if count == 1: signal.setitimer(signal.ITIMER_REAL, 0.3)\nsignal.signal(signal.SIGINT, heard)\ndef tell(*_):\n    print(count, file=open({report:?}, 'w')); raise SystemExit\nsignal.signal(signal.SIGALRM, tell)\nopen('mark', 'w').close()\nwhile True: time.sleep(1)"
    );
    let code = format!(
        "daemon = subprocess.Popen(['sleep', '60'], start_new_session=True)\ntry:\n    child = subprocess.Popen([__import__('sys').executable, '-c', {child:?}])\n    child.wait()\nfinally: child.wait(5)"
    );
    let outcome = interrupted_at_mark(&session, &manager.place, &code).await;
    assert_kept(&outcome, "children");
    // Once, so that it can clean up.
    assert_eq!(written(&report).await, "1");
    let daemon = number(&session, "daemon.pid").await;
    assert!(is_alive(server) && is_alive(daemon));
    let polled = run(&session, "server.poll(), daemon.poll(), child.poll()").await;
    assert_eq!(polled.output, "(None, None, 0)");
    manager.end().await;
}

/// What is said is what was observed.
#[tokio::test]
async fn a_cell_that_goes_its_own_way_to_its_end_is_told_so() {
    on_each_python(async |session, version| {
        run(session, "x = 1").await;
        let wait = "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: ";
        for (end, output, error) in [
            (
                "print('caught')\n7",
                "caught\n7\n[interrupted; after that the cell ended by itself; state is kept]",
                "interrupted",
            ),
            (
                "raise SystemExit(3)",
                "[interrupted; after that the cell called sys.exit(3); state is kept]",
                "interrupted",
            ),
            (
                "raise ValueError('v') from None",
                "ValueError: v\n[interrupted; after that the cell raised ValueError; state is kept]",
                "interrupted",
            ),
        ] {
            let outcome =
                interrupted(session, &format!("{wait}{end}"), Duration::from_millis(80)).await;
            assert_kept(&outcome, version);
            assert!(
                outcome.output.ends_with(output),
                "{version}: {}",
                outcome.output
            );
            assert_eq!(outcome.error.as_deref(), Some(error), "{version}");
        }
        let cell = gentle(format!("{wait}print('caught')\n8")).timeout(Duration::from_millis(80));
        let outcome = result(&mut session.execute(cell)).await;
        assert_eq!(outcome.status, Status::Timeout);
        assert_eq!(outcome.result.as_deref(), Some("8"));
        assert_eq!(
            outcome.output,
            "caught\n8\n[timed out after 0.08 s and was interrupted; after that the cell ended by \
             itself; state is kept]"
        );
    })
    .await;
}

/// What handles the interrupt is not interrupted again at once, and may call tools.
#[tokio::test]
async fn a_cell_may_clean_up_after_the_interrupt() {
    on_each_python(async |session, version| {
        run(session, "import asyncio").await;
        let clean = "print('cleaning')\n    time.sleep(0.15)\n    print(terminal('echo tool')['output'], 'clean')";
        for code in [
            format!("import time\ntry: time.sleep(60)\nfinally:\n    {clean}"),
            format!("import time\ntry: terminal('sleep 60')\nfinally:\n    {clean}"),
            format!("import asyncio, time\ntry: await asyncio.sleep(60)\nfinally:\n    await asyncio.sleep(0.1)\n    {clean}"),
        ] {
            for timeout in [false, true] {
                let outcome = if timeout {
                    let cell = gentle(&code).timeout(Duration::from_millis(100));
                    result(&mut session.execute(cell)).await
                } else {
                    interrupted(session, &code, Duration::from_millis(100)).await
                };
                let what = format!("{version} {code}: {}", outcome.output);
                assert!(outcome.output.starts_with("cleaning\ntool\n clean\n"), "{what}");
                assert_eq!(json(&outcome)["kernel"]["generation"], 1, "{what}");
                assert!(outcome.output.ends_with("; state is kept]"), "{what}");
            }
        }
    })
    .await;
}

/// What does not end within the grace is killed, and the result says what was tried.
#[tokio::test]
async fn a_cell_that_does_not_end_within_the_grace_loses_its_kernel() {
    let manager = with_grace(Duration::from_millis(400)).await;
    let deaf = [
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "while True:\n    try:\n        while True: pass\n    except KeyboardInterrupt: pass",
        // One call of C code.
        "sum(range(10**12))",
        "import asyncio\nwhile True:\n    try: await asyncio.sleep(60)\n    except asyncio.CancelledError: pass",
    ];
    for (number, code) in deaf.into_iter().enumerate() {
        let session = manager.session(&format!("s{number}"));
        run(&session, "x = 1").await;
        let began = Instant::now();
        let outcome = interrupted(&session, code, Duration::from_millis(100)).await;
        let took = began.elapsed();
        assert_eq!(
            outcome.output,
            "[interrupted and did not end within 0.4 s; the kernel was killed and restarted: 1 cell \
             and x are lost; rebuild what you need]",
            "{code}"
        );
        assert!(took >= Duration::from_millis(500), "{code}: {took:?}");
        assert!(took < Duration::from_secs(10), "{code}: {took:?}");
        let told = json(&outcome);
        assert_eq!(told["status"], "interrupted");
        assert_eq!(told["kernel"]["state"], "lost");
        assert_eq!(told["kernel"]["reason"], "interrupt");
        let next = run(&session, "2").await;
        assert_eq!(
            next.output,
            "[new kernel: the previous one was lost (interrupt); gone: x]\n2"
        );
    }
    let session = manager.session("timeout");
    let cell = gentle(deaf[0]).timeout(Duration::from_millis(100));
    let outcome = result(&mut session.execute(cell)).await;
    assert_eq!(outcome.status, Status::Timeout);
    assert_eq!(
        outcome.output,
        "[timed out after 0.1 s, was interrupted and did not end within 0.4 s; the kernel was killed \
         and restarted; nothing but this cell is lost]"
    );
    manager.end().await;
}

/// A kernel that its cell's own handling of the signal has cost.
#[tokio::test]
async fn a_kernel_that_dies_of_the_interrupt_is_told() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nopen('mark', 'w').close()\nwhile True: pass";
    let outcome = interrupted_at_mark(&session, &manager.place, code).await;
    assert_eq!(
        outcome.output,
        "[interrupted, and the kernel was killed by signal 2 (SIGINT); a fresh one was started; \
         nothing but this cell is lost]"
    );
    assert_eq!(outcome.status, Status::Interrupted);
    assert_eq!(json(&outcome)["kernel"]["reason"], "kernel_died");
    manager.end().await;
}

#[tokio::test]
async fn a_second_interrupt_kills_at_once() {
    let manager = with_grace(SAFETY).await;
    let session = manager.session("a");
    let code = "import time\nwhile True:\n    try:\n        open('mark', 'w').close()\n        time.sleep(60)\n    except KeyboardInterrupt: open('caught', 'w').close()";
    let caught = manager.place.work().join("caught");
    let twice = |by_session: bool| {
        let (session, caught) = (session.clone(), caught.clone());
        async move {
            until("the interrupt", || caught.exists()).await;
            if by_session {
                assert!(session.interrupt());
            }
            Instant::now()
        }
    };
    // By the session, after one by the cell's own handle.
    let (outcome, at) = tokio::join!(
        interrupted_at_mark(&session, &manager.place, code),
        twice(true)
    );
    assert!(at.elapsed() < SAFETY / 4, "{:?}", at.elapsed());
    assert_eq!(
        outcome.output,
        "[interrupted and then ended by force; the kernel was killed and restarted; nothing but this \
         cell is lost]"
    );
    // An interrupt of one whose time is up.
    fs::remove_file(&caught).unwrap();
    let mut execution = session.execute(gentle(code).timeout(Duration::from_secs(1)));
    let (outcome, _) = tokio::join!(result(&mut execution), twice(true));
    assert_eq!(outcome.status, Status::Timeout);
    assert!(
        outcome
            .output
            .contains("[timed out after 1 s, was interrupted and then ended by force; the"),
        "{}",
        outcome.output
    );
    // A reset and a close do not wait for the grace.
    for close in [false, true] {
        fs::remove_file(&caught).unwrap();
        let ending = async {
            let at = twice(false).await;
            if close {
                session.close().await;
            } else {
                session.reset().await;
            }
            at
        };
        let (outcome, at) =
            tokio::join!(interrupted_at_mark(&session, &manager.place, code), ending);
        assert!(at.elapsed() < SAFETY / 4, "{:?}", at.elapsed());
        assert_eq!(json(&outcome)["kernel"]["state"], "lost");
        assert_eq!(outcome.output.contains("its session was closed"), close);
    }
    manager.end().await;
}

/// Of 150 interrupts of cells that print all the time each one is clean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_and_fifty_interrupts_of_a_print_loop_are_clean() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "count = 0").await;
    let prints = [
        "while True: print('abcdefgh')",
        "while True: print('x', end='', flush=True)",
        "import sys\nwhile True: sys.stderr.write('e\\n')",
        "while True: print('é' * 3000)",
        "import os\nwhile True: os.write(1, b'raw\\n'); print(1)",
    ];
    for round in 0..150_usize {
        let print = prints[round % prints.len()];
        let code = format!("count += 1\nopen('mark', 'w').close()\n{print}");
        let delay = Duration::from_micros((round as u64 * 7_919) % 60_000);
        let outcome = interrupted_after_mark(&session, &manager.place, &code, delay).await;
        let told = assert_kept(&outcome, &format!("{round}"));
        let error = told["error"].as_str().unwrap();
        assert!(
            error.starts_with("KeyboardInterrupt (<cell "),
            "{round}: {told}"
        );
        let traceback = outcome.beside_streams.traceback.as_deref().unwrap();
        assert!(
            traceback.starts_with("Traceback (most recent call last):\n"),
            "{round}: {traceback}"
        );
        assert_eq!(
            traceback.lines().last(),
            Some("KeyboardInterrupt"),
            "{round}"
        );
        assert_eq!(outcome.warning, None, "{round}");
        let next = run(&session, "count").await;
        assert_eq!(next.output, (round + 1).to_string(), "{round}");
        assert_eq!(next.background_output, None, "{round}");
    }
    manager.end().await;
}

/// 0 to 50 ms after the cell was handed over, also while its kernel is started: nothing is lost, and
/// the cell has done nothing after its result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_interrupt_loses_nothing() {
    let manager = Manager::start().await;
    let mut ran = 0;
    for round in 0..120_u64 {
        let session = manager.session(&format!("s{}", round / 3));
        let file = manager.place.work().join(format!("f{round}"));
        let code = format!(
            "import time\nwarm = {round}\ntime.sleep(0.04)\nopen({file:?}, 'w').close()\ntime.sleep(60)"
        );
        let delay = Duration::from_micros((round * 7_919) % 50_000);
        let outcome = interrupted(&session, &code, delay).await;
        let existed = file.exists();
        let told = json(&outcome);
        assert_eq!(told["status"], "interrupted", "{told}");
        let state = told["kernel"]["state"].as_str().unwrap();
        let count = told["kernel"]["execution_count"].as_u64().unwrap();
        assert!(state == "kept" || state == "fresh", "{told}");
        if count > 0 {
            ran += 1;
            assert_eq!(state == "fresh", count == 1, "{told}");
        }
        let next = json(&run(&session, "warm").await);
        assert_eq!(next["kernel"]["generation"], 1, "{next}");
        assert_eq!(file.exists(), existed, "it went on");
    }
    assert!(ran > 40, "{ran}");
    manager.end().await;
}

/// The interrupt of a cell that has ended is nobody's.
#[tokio::test]
async fn an_interrupt_that_crosses_with_the_end_changes_nothing() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "n = 0").await;
    let mut successes = 0;
    for round in 0..300_u64 {
        let delay = Duration::from_micros(round * 10);
        let outcome = interrupted(&session, "n += 1\nfor i in range(9): n\nn", delay).await;
        match outcome.status {
            Status::Success => successes += 1,
            status => assert_eq!(status, Status::Interrupted, "{outcome:?}"),
        }
        let before = outcome.result.clone();
        let next = run(&session, "n").await;
        assert_eq!(next.status, Status::Success, "{next:?}");
        if before.is_some() {
            assert_eq!(next.result, before, "{round}");
        }
        assert!(!session.interrupt(), "it is idle");
    }
    assert!(successes > 50, "{successes}");
    assert_eq!(json(&run(&session, "n").await)["kernel"]["generation"], 1);
    manager.end().await;
}

/// Somebody who reads along and does not read costs an interrupted cell nothing.
#[tokio::test]
async fn a_reader_who_does_not_read_costs_no_state() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "x = 1").await;
    for code in [
        "while True: print('x' * 1000)",
        // It has ended, and its last bytes wait.
        "print('x' * 300_000)",
    ] {
        let mut execution = session.execute_live(gentle(code));
        let live = execution.take_live();
        let interrupt = execution.interrupt_token();
        tokio::time::sleep(Duration::from_millis(200)).await;
        interrupt.cancel();
        let outcome = result(&mut execution).await;
        assert_eq!(json(&outcome)["kernel"]["state"], "kept", "{outcome:?}");
        drop(live);
        assert_eq!(run(&session, "x").await.output, "1");
    }
    manager.end().await;
}

#[tokio::test]
async fn an_interrupt_is_told_among_the_events() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "1").await;
    let mut events = session.events();
    let code = "open('mark', 'w').close()\nwhile True: pass";
    interrupted_at_mark(&session, &manager.place, code).await;
    let cell = gentle("while True: pass").timeout(Duration::from_millis(50));
    result(&mut session.execute(cell)).await;
    let mut seen = Vec::new();
    while seen.iter().filter(|it| *it == "cell_finished").count() < 2 {
        let event = serde_json::to_value(events.next().await.unwrap()).unwrap();
        seen.push(match event["kind"].as_str().unwrap() {
            "kernel_state" => format!(
                "{} -> {} ({})",
                event["from"].as_str().unwrap(),
                event["to"].as_str().unwrap(),
                event["reason"].as_str().unwrap()
            ),
            kind => kind.to_owned(),
        });
    }
    let one = |why: &str| {
        [
            "cell_queued".to_owned(),
            "cell_started".to_owned(),
            "idle -> busy (a cell was sent)".to_owned(),
            format!("busy -> interrupting ({why})"),
            "interrupting -> idle (the cell has ended)".to_owned(),
            "cell_finished".to_owned(),
        ]
    };
    assert_eq!(seen, [one("interrupt"), one("timeout")].concat());
    manager.end().await;
}
