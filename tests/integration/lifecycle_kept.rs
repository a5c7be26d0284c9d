//! Interrupts that keep the kernel: `KeyboardInterrupt` in the cell that is meant, whatever it does.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use warmcell::jupyter::ReplyStatus;
use warmcell::kernel::{CellRequest, Ending};

use crate::lifecycle_bare::{Bare, GRACE, Kept};
use crate::lifecycle_support::{median_and_worst, until};
use crate::support::{python, pythons};

/// What an interrupt must get through to.
const ENDLESS: [&str; 8] = [
    "while True: pass",
    "import time; time.sleep(30)",
    "import asyncio; await asyncio.sleep(30)",
    "import asyncio\nwhile True: await asyncio.sleep(0)",
    "import subprocess; subprocess.run(['sleep', '30'])",
    "while True: print('x', end='')",
    "import threading; threading.Event().wait()",
    "[x async for x in __import__('asyncio').StreamReader()]",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_keeps_the_kernel_on_every_version() {
    let mut all = tokio::task::JoinSet::new();
    for (version, python) in pythons() {
        all.spawn(async move {
            let mut bare = Bare::start(python).await;
            bare.run("state = 'kept'").await;
            for code in ENDLESS {
                let ended = bare.interrupted(code, Duration::from_millis(40)).await;
                assert!(
                    ended.is_interrupted(),
                    "{version} {code}: {:?}",
                    ended.reply
                );
                let next = bare.run("print(state)").await;
                assert_eq!(next.text, "kept\n", "{version} after {code}");
            }
            bare.end().await;
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// 0 to 20 ms after the cell was handed over, cells that end in that time included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_is_never_lost_and_never_hits_the_next_cell() {
    let codes = [
        "while True: pass",
        "import time; time.sleep(9)",
        "import asyncio; await asyncio.sleep(9)",
        "for i in range(200_000): pass",
        "x = [i for i in range(100)]; x",
        "while True: print('a')",
    ];
    let mut all = tokio::task::JoinSet::new();
    for part in 0..3_u64 {
        all.spawn(async move {
            let mut bare = Bare::start(python()).await;
            bare.run("state = 'kept'; import asyncio").await;
            let mut times = Vec::new();
            for round in 0..120_u64 {
                let code = codes[usize::try_from(round).unwrap() % codes.len()];
                let delay = Duration::from_micros(((round * 3 + part) * 7_919) % 20_000);
                let file = bare.place.work().join(format!("f{round}"));
                let endless = code.contains('9') || code.contains("while");
                let code = format!("{code}\nopen({file:?}, 'w')");
                let ended = bare.interrupted(&code, delay).await;
                let existed = file.exists();
                if ended.is_interrupted() {
                    times.push(ended.after);
                } else {
                    assert_eq!(
                        ended.reply.status,
                        ReplyStatus::Ok,
                        "{code}: {:?}",
                        ended.reply
                    );
                    assert!(existed && !endless, "{code}");
                }
                let next = bare.run("print(state)").await;
                assert_eq!(next.text, "kept\n", "{round}: {:?}", next.reply);
                assert_eq!(
                    next.reply.status,
                    ReplyStatus::Ok,
                    "{round}: {:?}",
                    next.reply
                );
                assert_eq!(file.exists(), existed, "{code} went on");
            }
            bare.end().await;
            times
        });
    }
    let times: Vec<Duration> = all.join_all().await.into_iter().flatten().collect();
    assert!(times.len() > 200, "{}", times.len());
    let (middle, worst) = median_and_worst(times);
    eprintln!("kept interrupt: result after {middle:?} (worst {worst:?})");
    assert!(worst < GRACE);
}

/// Python swallows what is raised in a destructor: the signal is sent again.
#[tokio::test]
async fn destructors_do_not_swallow_an_interrupt_for_good() {
    let mut bare = Bare::start(python()).await;
    let mut times = Vec::new();
    for work in [20, 2_000] {
        let code = format!(
            "class D:\n    def __del__(self):\n        for i in range({work}): pass\nwhile True: D()"
        );
        for round in 0..100 {
            let delay = Duration::from_micros(50 * round);
            let ended = bare.interrupted(&code, delay).await;
            assert!(ended.is_interrupted(), "{:?}", ended.reply);
            times.push(ended.after);
        }
    }
    // Cyclic garbage is destroyed anywhere.
    let code = "class C:\n    def __init__(self): self.me = self\n    def __del__(self): sum(range(500))\nwhile True: C()";
    for round in 0..50 {
        let delay = Duration::from_micros(200 * round);
        let ended = bare.interrupted(code, delay).await;
        assert!(ended.is_interrupted(), "{:?}", ended.reply);
        times.push(ended.after);
    }
    let (middle, worst) = median_and_worst(times);
    eprintln!("interrupt among destructors: result after {middle:?} (worst {worst:?})");
    let next = bare.run("import sys; print(sys.gettrace())").await;
    assert_eq!(next.text, "None\n");
    bare.end().await;
}

/// An import that was interrupted can be made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_import_leaves_nothing_broken() {
    const NAMES: &str = "asyncio, xml.etree.ElementTree, email.mime.text, http.client";
    let mut all = tokio::task::JoinSet::new();
    for (version, python) in pythons() {
        all.spawn(async move {
            for round in 0..5 {
                let mut bare = Bare::start(python).await;
                let code = format!("import {NAMES}\nwhile True: pass");
                let ended = bare
                    .interrupted(&code, Duration::from_millis(7 * round))
                    .await;
                assert!(ended.is_interrupted(), "{version}: {:?}", ended.reply);
                let code = format!("import {NAMES}\nprint(await asyncio.sleep(0, 7))");
                let next = bare.run(&code).await;
                assert_eq!(next.text, "7\n", "{version} {round}: {:?}", next.reply);
                bare.end().await;
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// An import that takes for ever is interrupted all the same.
#[tokio::test]
async fn an_import_that_hangs_is_interrupted() {
    let mut bare = Bare::start(python()).await;
    let module = bare.place.work().join("hangs.py");
    fs::write(module, "while True: pass").unwrap();
    let ended = bare
        .interrupted("import hangs", Duration::from_millis(20))
        .await;
    assert!(ended.is_interrupted(), "{:?}", ended.reply);
    bare.end().await;
}

#[tokio::test]
async fn a_cell_that_catches_the_interrupt_once_ends_by_itself() {
    let mut bare = Bare::start(python()).await;
    bare.run("import asyncio, time").await;
    for code in [
        "try:\n    while True: pass\nexcept KeyboardInterrupt:\n    print('caught')\n    print('done')\nprint('end')\n7",
        "import time\ntry:\n    time.sleep(9)\nexcept KeyboardInterrupt:\n    print('caught')\n    print('done')\nprint('end')",
        "import asyncio\ntry:\n    await asyncio.sleep(9)\nexcept asyncio.CancelledError:\n    print('caught')\n    print('done')\nprint('end')",
    ] {
        let ended = bare.interrupted(code, Duration::from_millis(30)).await;
        assert_eq!(ended.text, "caught\ndone\nend\n", "{code}");
        assert_eq!(ended.reply.status, ReplyStatus::Ok, "{:?}", ended.reply);
    }
    bare.end().await;
}

/// An awaited cell must not go on inside the next one.
#[tokio::test]
async fn an_interrupted_await_does_not_go_on_in_a_later_cell() {
    let mut bare = Bare::start(python()).await;
    bare.run("import asyncio, time").await;
    let file = bare.place.work().join("ticks");
    let code = format!(
        "import asyncio, time\nwhile True:\n    open({file:?}, 'a').write('x')\n    await asyncio.sleep(0.001)"
    );
    for round in 0..20_u64 {
        let ended = bare
            .interrupted(&code, Duration::from_micros(900 * round))
            .await;
        assert!(ended.is_interrupted(), "{:?}", ended.reply);
        let size = fs::metadata(&file).map_or(0, |found| found.len());
        let next = bare.run("await asyncio.sleep(0.005); print('next')").await;
        assert_eq!(next.text, "next\n", "{:?}", next.reply);
        assert_eq!(fs::metadata(&file).map_or(0, |found| found.len()), size);
    }
    // A task that refuses to end for a while is driven until it has.
    let stubborn = "async def f():\n    for i in range(3):\n        try: await asyncio.sleep(9)\n        except asyncio.CancelledError: print('no')\n    await asyncio.sleep(9)\nawait f()";
    let ended = bare.interrupted(stubborn, Duration::from_millis(10)).await;
    assert!(ended.is_interrupted(), "{:?}", ended.reply);
    assert_eq!(ended.text, "no\nno\nno\n");
    bare.end().await;
}

/// Threads that print do not take the interrupt of the main thread for theirs.
#[tokio::test]
async fn a_thread_that_prints_is_not_interrupted() {
    let mut bare = Bare::start(python()).await;
    let code = "import threading\nerrors = []\ndef talk():\n    try:\n        while not stop: print('t')\n    except BaseException as e: errors.append(e)\nstop = []\nts = [threading.Thread(target=talk) for _ in range(3)]\nfor t in ts: t.start()";
    bare.run(code).await;
    for _ in 0..10 {
        let ended = bare
            .interrupted("while True: print('m')", Duration::from_millis(5))
            .await;
        assert!(ended.is_interrupted(), "{:?}", ended.reply);
    }
    let ended = bare
        .run("stop.append(1)\nfor t in ts: t.join()\nprint(); print(errors)")
        .await;
    assert!(ended.text.ends_with("\n[]\n"), "{}", ended.text);
    bare.end().await;
}

#[tokio::test]
async fn a_cell_that_does_not_end_within_the_grace_is_killed() {
    let mut bare = Bare::start(python()).await;
    bare.cells += 1;
    let kernel = bare.kernel.clone();
    let cell = bare.cells;
    let mark = bare.place.work().join("mark");
    // One that only catches what is raised could be hit between two tries.
    let code = format!(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nopen({mark:?}, 'w').close()\nwhile True: pass"
    );
    let sink = Arc::new(Mutex::new(Kept::default()));
    let request = CellRequest {
        code: &code,
        cell,
        cwd: None,
        msg_id: "m",
        session: "s",
        date: "2026-01-01T00:00:00Z",
        sink,
        silent: false,
        store_history: true,
        user_expressions: None,
        origin: None,
        input: None,
    };
    let interrupting = async {
        until("the cell", || mark.exists()).await;
        let began = Instant::now();
        for _ in 0..5 {
            // A second interrupt does not lengthen the grace.
            kernel.interrupt(cell, Duration::from_millis(300)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        began
    };
    let (end, began) = tokio::join!(bare.kernel.execute(request), interrupting);
    let took = began.elapsed();
    assert!(matches!(end.unwrap().ending, Ending::Killed));
    assert!(
        took >= Duration::from_millis(290) && took < Duration::from_secs(2),
        "{took:?}"
    );
    bare.kernel.gone().await;
    bare.provisioner.shut_down().await;
    bare.place.assert_no_survivors().await;
}
