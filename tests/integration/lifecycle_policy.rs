//! Policy `interrupt`: `KeyboardInterrupt` first, state kept if that ends the cell, else the kill.

use std::time::{Duration, Instant};

use serde_json::json;
use warmcell::execution::Status;
use warmcell::session::{Cell, Policy};

use crate::lifecycle_support::{
    as_if_restarted, is_alive, json, json_without_time, number, result, unhinted, written,
};
use crate::policy_kit::{
    assert_kept, gentle, interrupted, interrupted_at_mark, with_grace, without_marks,
};
use crate::support::{Manager, on_each_python, run};

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
    told["output"] = without_marks(unhinted(told["output"].as_str().unwrap())).into();
    assert!(told["hint"].as_str().unwrap().contains("more time"));
    told.as_object_mut().unwrap().remove("hint");
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
        on_timeout: Some(Policy::Interrupt),
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
        on_interrupt: Some(Policy::Interrupt),
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
            unhinted(&outcome.output),
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
                assert!(unhinted(&outcome.output).ends_with("; state is kept]"), "{what}");
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
        // Twice: one may come just between the try and the next.
        "while True:\n    try:\n        while True:\n            try:\n                while True: pass\n            \
         except KeyboardInterrupt: pass\n    except KeyboardInterrupt: pass",
        // One call of C code.
        "sum(range(10**12))",
        "import asyncio\nwhile True:\n    try: await asyncio.sleep(60)\n    except asyncio.CancelledError: pass",
    ];
    for (number, code) in deaf.into_iter().enumerate() {
        let session = manager.session(&format!("s{number}"));
        // An import is no deaf code, and may take long.
        run(&session, "x = 1\n_ = __import__('asyncio')").await;
        let began = Instant::now();
        let outcome = interrupted(&session, code, Duration::from_millis(100)).await;
        let took = began.elapsed();
        assert_eq!(
            as_if_restarted(&outcome.output),
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
        as_if_restarted(unhinted(&outcome.output)),
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
        as_if_restarted(&outcome.output),
        "[interrupted, and the kernel was killed by signal 2 (SIGINT); a fresh one was started; \
         nothing but this cell is lost]"
    );
    assert_eq!(outcome.status, Status::Interrupted);
    assert_eq!(json(&outcome)["kernel"]["reason"], "kernel_died");
    manager.end().await;
}

/// A call in flight ends with the interrupt, whoever waits for it; later ones are made.
#[tokio::test]
async fn tool_calls_in_flight_end_with_the_interrupt() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "1").await;
    let code = "import threading, time\nresults = []\nthread = threading.Thread(target=lambda: results.append(terminal('echo 1 > ran; sleep 60')))\ntry:\n    thread.start()\n    while not __import__('os').path.exists('ran'): time.sleep(0.01)\n    open('mark', 'w').close()\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    thread.join()\nprint(results[0]['error'], results[0]['error_class'])\nterminal('echo later')['output']";
    let outcome = interrupted_at_mark(&session, &manager.place, code).await;
    assert_kept(&outcome, "calls");
    assert!(
        outcome
            .output
            .starts_with("the cell was interrupted interrupted\n'later\\n'\n[interrupted; after"),
        "{}",
        outcome.output
    );
    let calls: Vec<bool> = outcome.tool_calls.iter().map(|call| call.ok).collect();
    assert_eq!(calls, [false, true]);
    manager.end().await;
}

/// The task of a cell that awaits is cancelled; the traceback tells where it was.
#[tokio::test]
async fn an_interrupted_await_shows_where_it_was() {
    on_each_python(async |session, version| {
        run(session, "import asyncio").await;
        let code = "async def wait():\n    await asyncio.sleep(60)\nawait wait()";
        let outcome = interrupted(session, code, Duration::from_millis(100)).await;
        assert_kept(&outcome, version);
        // Python 3.8 does not keep it.
        if version != "3.8" {
            let error = Some("KeyboardInterrupt (<cell 2>, line 2)");
            assert_eq!(outcome.error.as_deref(), error, "{version}");
        }
        assert!(!outcome.output.contains("CancelledError"), "{version}");
        assert!(!outcome.output.contains("base_events"), "{version}");
    })
    .await;
}
