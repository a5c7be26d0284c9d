//! Interrupts of `warmcell kernel`, by message and by signal: whatever runs ends, state is kept, and
//! nothing else is hit.

use rustix::process::Signal;
use serde_json::json;

use crate::kernel_kit::{FrontEnd, Kernel, ipc};

/// What a cell may be waiting for; each says when it does.
const WAITS: [&str; 9] = [
    "import time\nprint('on')\ntime.sleep(100)",
    "print('on')\nwhile True: pass",
    "print('on')\nawait asyncio.sleep(100)",
    "print('on')\nasyncio.run(asyncio.sleep(100))",
    "import subprocess\nsubprocess.run(['sh', '-c', 'echo on; sleep 300'])",
    "os.system('echo on; sleep 300')",
    "while True: print('x' * 100)",
    "import threading\nprint('on')\nthreading.Event().wait()",
    "import os\nprint('on')\nr, w = os.pipe()\nos.read(r, 1)",
];

async fn interrupted_in_everything(kernel: Kernel) {
    let mut front_end = kernel.front_end();
    front_end.run("import asyncio, os\nx = 1");
    assert_eq!(
        front_end.run("print(os.getpid() == os.getpgid(0))").0,
        "True\n"
    );
    let number = front_end.python();
    for code in WAITS {
        for by_signal in [false, true] {
            let header = front_end.execute(code);
            front_end.begun(&header);
            if by_signal {
                kernel.signal(Signal::INT);
            } else {
                front_end.order("interrupt_request", &json!({}));
                assert_eq!(front_end.answer().content, json!({ "status": "ok" }));
            }
            let reply = front_end.reply_to(&header);
            assert_eq!(reply.content["ename"], "KeyboardInterrupt", "{code}");
            let last = front_end.all_of(&header);
            assert_eq!(last.iter().rev().nth(1).unwrap().kind(), "error", "{code}");
            // The same Python, its state, and its loop.
            assert_eq!(front_end.run("await asyncio.sleep(0)").1, "ok", "{code}");
            let after = "asyncio.run(asyncio.sleep(0))\nprint(x)";
            assert_eq!(front_end.run(after).0, "1\n", "{code}");
        }
    }
    assert_eq!(front_end.python(), number);
    // What the cells had started has gone with them.
    let left: Vec<_> = kernel.place.survivors();
    assert!(
        !left.iter().any(|(_, it)| it.contains("sleep 300")),
        "{left:?}"
    );
    let mut kernel = kernel;
    kernel.signal(Signal::TERM);
    assert_eq!(kernel.process.ended().await, Some(0));
    kernel.left_nothing().await;
}

#[tokio::test]
async fn an_interrupt_ends_whatever_a_cell_waits_for_and_keeps_its_state() {
    interrupted_in_everything(Kernel::start()).await;
}

#[tokio::test]
async fn the_same_over_unix_sockets() {
    interrupted_in_everything(Kernel::start_at(&ipc("s")).await).await;
}

#[tokio::test]
async fn a_hundred_interrupts_of_an_idle_kernel_hit_nothing() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let mut other = FrontEnd::new(&kernel.connection, "other");
    front_end.run("import time\nx = 1");
    for _ in 0..100 {
        kernel.signal(Signal::INT);
    }
    for _ in 0..100 {
        front_end.order("interrupt_request", &json!({}));
        other.request("interrupt_request", &json!({}));
    }
    for _ in 0..100 {
        assert_eq!(front_end.answer().content, json!({ "status": "ok" }));
        assert_eq!(other.reply().content, json!({ "status": "ok" }));
    }
    for _ in 0..3 {
        let ran = front_end.run("time.sleep(0.05)\nprint(x)");
        assert_eq!(ran, ("1\n".to_owned(), "ok".to_owned()));
    }
    kernel.close().await;
}

#[tokio::test]
async fn a_command_that_is_just_being_started_is_interrupted_too() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    front_end.run("import os, subprocess\nx = 1");
    for round in 0..40 {
        // Said before it is started: the shell, and what the shell starts, are forked about now.
        let code = [
            "print('on')\nos.system('sleep 300')",
            "print('on')\nos.system('sleep 300; true')",
            "print('on')\nsubprocess.call('sleep 300; true', shell=True)",
        ][round % 3];
        let header = front_end.execute(code);
        front_end.begun(&header);
        front_end.order("interrupt_request", &json!({}));
        front_end.answer();
        let reply = front_end.reply_to(&header);
        assert_eq!(reply.content["ename"], "KeyboardInterrupt");
        let kept = front_end.run("print(x)");
        assert_eq!(
            kept,
            ("1\n".to_owned(), "ok".to_owned()),
            "{round}: {reply:?}"
        );
    }
    kernel.close().await;
}
