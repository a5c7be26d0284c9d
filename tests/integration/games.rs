//! What cells do to the Python under them: the kernel answers all the same, and goes on.

use std::time::Duration;

use warmcell::execution::{ErrorClass, Status};
use warmcell::session::Cell;

use crate::support::{Manager, assert_shows, on_each_python, run, run_cell};

/// After each of these the kernel still says how cells end.
const GAMES: &[&str] = &[
    "import builtins\ndel builtins.print, builtins.len, builtins.isinstance, builtins.repr, builtins.getattr",
    "import builtins\nfor name in dir(builtins):\n    if name[0] != '_': delattr(builtins, name)",
    "import builtins\nbuiltins.__dict__.clear()",
    "import builtins\nbuiltins.__import__ = builtins.open = builtins.str = builtins.type = None",
    "del __builtins__",
    "__builtins__ = {}",
    "globals().clear()",
    "__name__ = 5; __builtins__ = None",
    "print = None\nrepr = len = None",
    "import sys\nsys.modules.clear()",
    "import sys\nfor name in list(sys.modules): sys.modules[name] = None",
    "import sys\nsys.modules = {}; sys.path = None; sys.meta_path = None",
    "import sys\nsys.path_importer_cache = None; sys.path_hooks = None",
    "import sys\nsys.path_importer_cache['x'] = type('F', (), {'invalidate_caches': 5})()",
    "import sys\ndel sys.stdout, sys.stderr, sys.stdin",
    "import sys\ndel sys.modules, sys.path, sys.excepthook, sys.displayhook",
    "import os\nos.write = os.read = os.getpid = os.fstat = os.environ = os.stat = os.listdir = None",
    "import os\nos.environ.clear()",
    "import sys\nsys.settrace(lambda *a: 1/0); (lambda: 0)()",
    "import sys\nsys.setprofile(lambda *a: 1/0)",
    "import sys\ndef trace(*a): raise SystemExit\ndef f(): pass\nsys.settrace(trace)\ntry: f()\nfinally: sys.setprofile(trace); f()",
    "import sys\ndef trace(frame, event, argument): return trace\nsys.settrace(trace)",
    "import sys, threading\nthreading.settrace(lambda *a: 1/0)\nsys.setswitchinterval(1e-6)",
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)",
    "import signal\nsignal.signal(signal.SIGINT, lambda *a: 1/0)",
    "import signal\nfor s in signal.Signals:\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass",
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "import gc\ngc.disable(); gc.set_threshold(1, 1, 1); gc.callbacks.append(lambda *a: 1/0)",
    "import warnings\nwarnings.simplefilter('error')",
    "import faulthandler\nfaulthandler.disable(); faulthandler.enable()",
    "import sys\nsys.setrecursionlimit(60)",
    "import sys\nsys.set_int_max_str_digits(640) if hasattr(sys, 'set_int_max_str_digits') else 0",
    "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))",
    "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
    "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (0, 0))",
    "import os\nos.umask(0o777); os.nice(1)",
    "import os\nos.setsid if os.getpid() == os.getsid(0) else 1/0",
    "import locale\nlocale.setlocale(locale.LC_ALL, 'C')",
    "import sys, traceback, linecache\ntraceback.TracebackException.format = None\nlinecache.cache = None",
    "import traceback\ntraceback.StackSummary = None",
    "import threading\nthreading.Thread.start = None; threading.excepthook = None",
    "import asyncio\nasyncio.set_event_loop_policy(None)\nasyncio.Task = asyncio.CancelledError = None",
    "import io\nio.TextIOWrapper = io.FileIO = io.BufferedIOBase = None",
    "import contextvars\ncontextvars.copy_context = None",
    "import atexit\natexit._clear()",
    "import _warmcell.cell\nfrom _warmcell import link",
    "import time\ntime.monotonic = time.time = None",
];

#[tokio::test]
async fn the_kernel_answers_whatever_a_cell_has_done() {
    on_each_python(async |session, version| {
        for game in GAMES {
            let what = format!("{version}: {game}");
            let played = run_cell(session, Cell::new(*game).reset()).await;
            assert_ne!(
                played.error_class,
                Some(ErrorClass::KernelDied),
                "{what}: {}",
                played.output
            );
            let next = run(session, "'alive'").await;
            assert_eq!(next.output.lines().next(), Some("'alive'"), "{what}");
            let failed = run(session, "1/0").await;
            assert_eq!(
                failed.error_class,
                Some(ErrorClass::Exception),
                "{what}: {}",
                failed.output
            );
            assert!(
                failed
                    .error
                    .as_deref()
                    .unwrap()
                    .starts_with("ZeroDivisionError"),
                "{what}: {:?}",
                failed.error
            );
            let last = run(session, "x = 5\nx").await;
            assert_eq!(last.result.as_deref(), Some("5"), "{what}: {}", last.output);
            assert_eq!(last.kernel.execution_count, 4, "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn alarms_that_ring_between_cells_do_no_harm() {
    on_each_python(async |session, version| {
        let code = "import signal, os, time\ndef handler(number, frame): raise TimeoutError('too late')\nsignal.signal(signal.SIGALRM, handler)\nsignal.getsignal(signal.SIGALRM) is handler, signal.signal(signal.SIGALRM, handler) is handler";
        assert_shows(&run(session, code).await, "(True, True)", version);
        // In a cell it raises there, without a frame of ours.
        let outcome = run(session, "signal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(30)").await;
        assert_eq!(outcome.error.as_deref(), Some("TimeoutError: too late (<cell 1>, line 2)"), "{version}");
        assert!(!outcome.output.contains("_warmcell"), "{version}: {}", outcome.output);
        // Between cells, and while the kernel answers, it is told and nothing more.
        run(session, "signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)").await;
        let mut told = 0;
        for _ in 0..100 {
            let outcome = run(session, "7").await;
            assert_ne!(outcome.error_class, Some(ErrorClass::KernelDied), "{version}: {}", outcome.output);
let between = "Exception in a signal handler, between cells:";
            let background = outcome.background_output.map_or_else(String::new, |it| it.text);
            told += usize::from(outcome.output.contains(between) || background.contains(between));
        }
        let stop = "try:\n    signal.setitimer(signal.ITIMER_REAL, 0)\nexcept TimeoutError:\n    signal.setitimer(signal.ITIMER_REAL, 0)\n8";
        while run(session, stop).await.result.is_none() {}
        // What rang last may still be told.
        assert_eq!(run(session, "9").await.result.as_deref(), Some("9"), "{version}");
        assert!(told > 0, "{version}");
    })
    .await;
}

#[tokio::test]
async fn trace_functions_of_a_cell_see_cells_only() {
    on_each_python(async |session, version| {
        let code = "import sys\nseen = set()\ndef trace(frame, event, argument):\n    seen.add(frame.f_code.co_filename.rpartition('/')[2])\nsys.settrace(trace)\nsys.setprofile(trace)";
        run(session, code).await;
        run(session, "def f(): pass\nf()\nsys.gettrace() is trace").await;
        let outcome = run(session, "f()\nsys.settrace(None); sys.setprofile(None)\nsorted(seen)").await;
        let seen = outcome.result.unwrap();
        assert_eq!(seen, "['<cell 1>', '<cell 2>', '<cell 3>']", "{version}");
    })
    .await;
}

#[tokio::test]
async fn code_of_every_size_and_depth_gets_an_answer() {
    let parens = format!("{}1{}", "(".repeat(150), ")".repeat(150));
    let deep: Vec<String> = vec![
        "(".repeat(100_000),
        format!("{}1", "-".repeat(100_000)),
        format!("x = 0\n{}", ["x"; 60_000].join("+")),
        format!("x{}", ".y".repeat(100_000)),
        format!("x{}", "[0]".repeat(100_000)),
        (0..1_000)
            .map(|n| [&" ".repeat(n), "if 1:\n"].concat())
            .collect(),
        format!("{}pass", "lambda:".repeat(20_000)),
        format!("'''{}", "x\n".repeat(100_000)),
    ];
    on_each_python(async |session, version| {
        for code in &deep {
            let outcome = run(session, code).await;
            let what = format!(
                "{version}: {}: {:?}",
                code.chars().take(20).collect::<String>(),
                outcome.error
            );
            assert!(
                matches!(
                    outcome.error_class,
                    Some(ErrorClass::Syntax | ErrorClass::Exception)
                ),
                "{what}"
            );
            assert!(
                outcome.output.len() < 61_000,
                "{what}: {}",
                outcome.output.len()
            );
        }
        if version != "3.8" {
            assert_shows(&run(session, &parens).await, "1", version);
        }
        let sum = format!("n = 1\nprint({})", ["n"; 900].join(" + "));
        assert_shows(&run(session, &sum).await, "900\n", version);
        let line = format!("s = '{}'\nlen(s)", "é".repeat(1_000_000));
        assert_shows(&run(session, &line).await, "1000000", version);
        let wrong = format!("s = '{}'; 1/0", "x".repeat(1_000_000));
        let outcome = run(session, &wrong).await;
        assert_eq!(
            outcome.error.as_deref(),
            Some(
                format!(
                    "ZeroDivisionError: division by zero (<cell {}>, line 1)",
                    outcome.kernel.execution_count
                )
                .as_str()
            ),
            "{version}"
        );
        assert!(
            outcome.output.len() < 61_000,
            "{version}: {}",
            outcome.output.len()
        );
    })
    .await;
}

#[tokio::test]
async fn a_cell_of_8_mib() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let filler = "# 456789 123456789 123456789 123456789 123456789 123456789 12345\n";
    let mut code = filler.repeat((8 << 20) / filler.len() - 1);
    code.push_str("1 + 1\n");
    let spaces = (8 << 20) - code.len();
    code.push_str(&" ".repeat(spaces));
    assert_eq!(code.len(), 8 << 20);
    assert_shows(&run(&session, &code).await, "2", "8 MiB");
    code.push(' ');
    let outcome = run(&session, &code).await;
    assert_eq!(
        (outcome.error_class, outcome.status),
        (Some(ErrorClass::Usage), Status::Error)
    );
    assert_eq!(outcome.kernel.execution_count, 0, "it did not run");
    let memory = run(&session, "import sys\n[0] * (1 << 50)").await;
    assert_eq!(
        memory.error.as_deref(),
        Some("MemoryError (<cell 2>, line 2)")
    );
    assert_shows(&run(&session, "3").await, "3", "after");
    manager.end().await;
}

#[tokio::test]
async fn an_interrupt_page_of_another_cell_is_no_interrupt() {
    on_each_python(async |session, version| {
        // A signal that nobody has sent for this cell is not for it.
        let code = "import os, signal\nfor _ in range(100): os.kill(os.getpid(), signal.SIGINT)\n'not hit'";
        assert_shows(&run(session, code).await, "'not hit'", version);
        let code = "signal.signal(signal.SIGINT, signal.default_int_handler)\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    for _ in range(1000): pass\nexcept KeyboardInterrupt:\n    print('as the cell wanted')";
        assert_shows(&run(session, code).await, "as the cell wanted\n", version);
        let cell = Cell::new("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nimport time\ntime.sleep(60)").timeout(Duration::from_millis(50));
        assert_eq!(run_cell(session, cell).await.status, Status::Timeout, "{version}");
    })
    .await;
}
