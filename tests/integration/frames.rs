//! Whatever walks the stack comes to its end at the cell, and whatever shows code shows the cell's.

use warmcell::execution::{ErrorClass, Outcome, Status};

use crate::support::{Manager, assert_shows, on_each_python, run, shown_on_each_python};

#[track_caller]
fn assert_no_frame_of_ours(outcome: &Outcome, what: &str) {
    for ours in ["_warmcell", "hermes_tools", "<string>"] {
        assert!(!outcome.output.contains(ours), "{what}: {}", outcome.output);
    }
}

#[tokio::test]
async fn the_stack_ends_at_the_cell() {
    shown_on_each_python(&[
        ("import sys\ntry:\n    sys._getframe(1)\nexcept ValueError as error:\n    print(error)", "call stack is not deep enough\n"),
        ("sys._getframe().f_back", ""),
        ("def walk():\n    frame, names = sys._getframe(), []\n    while frame: names.append((frame.f_code.co_filename, frame.f_code.co_name)); frame = frame.f_back\n    return names\nwalk()", "[('<cell 3>', 'walk'), ('<cell 3>', '<module>')]"),
        ("import inspect\n[(it.filename, it.lineno, it.function, it.code_context) for it in inspect.stack()]", "[('<cell 4>', 2, '<module>', ['[(it.filename, it.lineno, it.function, it.code_context) for it in inspect.stack()]\\n'])]"),
        ("import traceback\ndef f(): traceback.print_stack(file=sys.stdout)\nf()", "  File \"<cell 5>\", line 3, in <module>\n    f()\n  File \"<cell 5>\", line 2, in f\n    def f(): traceback.print_stack(file=sys.stdout)\n"),
        // A repr is the cell's code too.
        ("class R:\n    def __repr__(self): return repr(walk())\nR()", "[('<cell 3>', 'walk'), ('<cell 6>', '__repr__')]"),
        ("import logging, io\nlog = logging.getLogger('x'); text = io.StringIO()\nhandler = logging.StreamHandler(text); handler.setFormatter(logging.Formatter('%(filename)s:%(lineno)d:%(funcName)s'))\nlog.addHandler(handler); log.propagate = False\ndef warn(**more): log.warning('w', **more)\nlog.warning('w'); warn(); warn(stacklevel=2)\ntext.getvalue().splitlines()", "['<cell 7>:6:<module>', '<cell 7>:5:warn', '<cell 7>:6:<module>']"),
        ("events = []\ndef trace(frame, event, argument):\n    events.append((event, frame.f_code.co_name)); return trace\nsys.settrace(trace)", ""),
        ("def f(): return 5\nf()\nsys.settrace(None)\nevents", "[('call', '<module>'), ('line', '<module>'), ('line', '<module>'), ('call', 'f'), ('line', 'f'), ('return', 'f'), ('line', '<module>')]"),
        ("events = []\ndef profile(frame, event, argument): events.append((event, frame.f_code.co_name))\nsys.setprofile(profile)", ""),
        ("def f(): return 5\nf()\nsys.setprofile(None)\n[it for it in events if it[0][:2] != 'c_'][1:]", "[('call', '<module>'), ('call', 'f'), ('return', 'f')]"),
    ])
    .await;
}

#[tokio::test]
async fn a_stack_that_is_shown_while_a_cell_awaits_holds_no_frame_of_ours() {
    on_each_python(async |session, version| {
        run(session, "import asyncio, sys, traceback, faulthandler").await;
        for code in [
            "async def f():\n    await asyncio.sleep(0)\n    traceback.print_stack(file=sys.stdout)\nawait f()",
            "async def f():\n    faulthandler.dump_traceback(sys.stdout)\nawait asyncio.gather(f())",
        ] {
            let outcome = run(session, code).await;
            assert_eq!(outcome.status, Status::Success, "{version}: {}", outcome.output);
            assert!(outcome.output.contains("<cell "), "{version}: {}", outcome.output);
            assert_no_frame_of_ours(&outcome, version);
        }
    })
    .await;
}

#[tokio::test]
async fn a_crash_is_dumped_without_frames_of_ours() {
    let manager = Manager::start().await;
    for (version, python) in crate::support::pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let shown = run(
            &session,
            "import faulthandler, sys\ndef f(): faulthandler.dump_traceback(sys.stdout)\nf()",
        )
        .await;
        let lines: Vec<&str> = shown.output.lines().skip(1).take(2).collect();
        assert_eq!(
            lines,
            [
                "  File \"<cell 1>\", line 2 in f",
                "  File \"<cell 1>\", line 3 in <module>"
            ],
            "{version}"
        );
        let crash = "def crash(): faulthandler._sigsegv()\ncrash()";
        let outcome = run(&session, crash).await;
        assert_eq!(
            outcome.error_class,
            Some(ErrorClass::KernelDied),
            "{version}"
        );
        assert!(
            outcome
                .output
                .contains("Fatal Python error: Segmentation fault"),
            "{version}: {}",
            outcome.output
        );
        assert!(
            outcome.output.contains(
                "  File \"<cell 2>\", line 1 in crash\n  File \"<cell 2>\", line 2 in <module>\n"
            ),
            "{version}: {}",
            outcome.output
        );
        assert_no_frame_of_ours(&outcome, version);
    }
    manager.end().await;
}

#[tokio::test]
async fn warnings_name_the_line_of_the_cell() {
    on_each_python(async |session, version| {
        let code = "import warnings\ndef deep(): warnings.warn('deep', stacklevel=2)\nwarnings.warn('here')\ndeep()";
        let outcome = run(session, code).await;
        let expected = "--- stderr ---\n<cell 1>:3: UserWarning: here\n  warnings.warn('here')\n<cell 1>:4: UserWarning: deep\n  deep()\n";
        assert_shows(&outcome, expected, version);
        // What lies above the cell is nobody's, as in plain Python.
        let outcome = run(session, "warnings.warn('above', stacklevel=2)").await;
        let nobody = if version.ends_with(".13") { "<sys>:0" } else { "sys:1" };
        assert_shows(&outcome, &format!("--- stderr ---\n{nobody}: UserWarning: above\n"), version);
        run(session, "async def f(): pass").await;
        let outcome = run(session, "f()\n1").await;
        assert!(outcome.output.contains("<cell 4>:1: RuntimeWarning: coroutine 'f' was never awaited"), "{version}: {}", outcome.output);
        // As `_` it lives on until the next value.
        run(session, "f()").await;
        let outcome = run(session, "2").await;
        assert!(outcome.output.contains(&format!("{nobody}: RuntimeWarning: coroutine 'f' was never awaited")), "{version}: {}", outcome.output);
        assert_no_frame_of_ours(&outcome, version);
        run(session, "def g():\n    x = f()\n    raise ValueError").await;
        assert_no_frame_of_ours(&run(session, "g()").await, version);
        assert_no_frame_of_ours(&run(session, "3").await, version);
    })
    .await;
}

#[tokio::test]
async fn a_debugger_sees_the_cell_alone() {
    on_each_python(async |session, version| {
        // Its commands come from a file; `w` shows the whole stack.
        let code = "import io, pdb\ndef f(n):\n    debugger = pdb.Pdb(stdin=io.StringIO('w\\np n + 1\\nu\\np 6 * 7\\nc\\n'), nosigint=True, readrc=False)\n    debugger.use_rawinput = False\n    debugger.set_trace()\n    return n\nf(3)";
        let outcome = run(session, code).await;
        assert_eq!(outcome.result.as_deref(), Some("3"), "{version}: {}", outcome.output);
        assert!(outcome.output.contains("\n4\n") || outcome.output.contains(" 4\n"), "{version}: {}", outcome.output);
        assert!(outcome.output.contains("42\n"), "{version}: {}", outcome.output);
        assert!(outcome.output.contains("  <cell 1>(7)<module>()\n"), "{version}: {}", outcome.output);
        assert_no_frame_of_ours(&outcome, version);
        // Nobody is there to answer one that asks.
        let outcome = run(session, "def h():\n    breakpoint()\n    return 5\nh()").await;
        assert_ne!(outcome.error_class, Some(ErrorClass::KernelDied), "{version}");
        assert_no_frame_of_ours(&outcome, version);
        assert_shows(&run(session, "'goes on'").await, "'goes on'", version);
    })
    .await;
}

#[tokio::test]
async fn what_python_itself_prints_shows_the_line() {
    on_each_python(async |session, version| {
        run(session, "import threading, _thread\ndef g(): 1/0  # the line").await;
        for (code, begins) in [
            ("t = threading.Thread(target=g, name='worker')\nt.start(); t.join()", "Exception in thread worker:\n"),
            ("class D:\n    def __del__(self): g()\nD()\npass", "Exception ignored in: <function D.__del__ at 0x"),
            ("done = threading.Event()\ndef h():\n    try: g()\n    finally: done.set()\n_thread.start_new_thread(h, ())\ndone.wait()\nimport time\nwhile _thread._count(): time.sleep(0.001)", "Exception ignored in thread started by"),
            ("import weakref\nclass A: pass\na = A(); r = weakref.ref(a, lambda _: g())\ndel a", "Exception ignored in: <function <lambda> at 0x"),
        ] {
            let outcome = run(session, code).await;
            let what = format!("{version}: {code}: {}", outcome.output);
            assert_eq!(outcome.status, Status::Success, "{what}");
            assert!(outcome.output.contains(&format!("--- stderr ---\n{begins}")), "{what}");
            assert!(outcome.output.contains("\n  File \"<cell 1>\", line 2, in g\n    def g(): 1/0  # the line\n"), "{what}");
            assert!(outcome.output.ends_with("ZeroDivisionError: division by zero\n"), "{what}");
            assert_no_frame_of_ours(&outcome, &what);
        }
        // A hook of the cell's own is asked instead.
        let own = "import sys\nsys.unraisablehook = lambda it: print('mine', it.exc_value)\nthreading.excepthook = lambda it: print('mine too', it.exc_value)\nD()\nt = threading.Thread(target=g); t.start(); t.join()";
        assert_shows(&run(session, own).await, "mine division by zero\nmine too division by zero\n", version);
        // And what the cell itself raises after that is still the cell's.
        let failed = run(session, "1/0").await;
        assert_eq!(failed.error_class, Some(ErrorClass::Exception), "{version}");
        assert!(failed.output.starts_with("--- stderr ---\nTraceback"), "{version}: {}", failed.output);
        let both = run(session, "sys.unraisablehook = None\n1/0").await;
        assert_eq!(both.error_class, Some(ErrorClass::Exception), "{version}");
        assert_shows(&run(session, "sys.unraisablehook").await, "", version);
    })
    .await;
}

#[tokio::test]
async fn every_way_to_end_a_cell_is_its_own() {
    on_each_python(async |session, version| {
        for (code, error) in [
            ("next(iter([]))", "StopIteration"),
            ("raise StopAsyncIteration", "StopAsyncIteration"),
            ("raise GeneratorExit", "GeneratorExit"),
            ("raise IndexError('pop from empty list')", "IndexError: pop from empty list"),
            ("{}[0]", "KeyError: 0"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("raise RecursionError('r')", "RecursionError: r"),
            ("raise MemoryError", "MemoryError"),
        ] {
            let outcome = run(session, code).await;
            let count = outcome.kernel.execution_count;
            assert_eq!(outcome.error, Some(format!("{error} (<cell {count}>, line 1)")), "{version}");
            assert_eq!(outcome.status, Status::Error, "{version}: {code}");
        }
        // What is deep is taken down while the cell runs, not at its end.
        let deep = "class N:\n    def __init__(self, next): self.next = next\n    def __del__(self):\n        global gone; gone += 1\ngone, node = 0, None\nfor _ in range(10_000): node = N(node)\ndel node\ngone";
        assert_shows(&run(session, deep).await, "10000", version);
    })
    .await;
}

#[tokio::test]
async fn errors_of_every_stage_of_the_compiler_show_the_line() {
    on_each_python(async |session, version| {
        for (code, line, text) in [
            ("x = 1\nreturn 3", 2, "return 3"),
            ("if 1:\n    break", 2, "break"),
            ("continue", 1, "continue"),
            ("class C:\n    yield 3", 2, "yield 3"),
            ("def f():\n    x = 1; nonlocal x", 2, "x = 1; nonlocal x"),
            ("def f():\n    nonlocal y", 2, "nonlocal y"),
            ("def f():\n    x = 1\n    global x", 3, "global x"),
            (
                "from __future__ import nope",
                1,
                "from __future__ import nope",
            ),
            (
                "x = 1\nfrom __future__ import annotations",
                2,
                "from __future__ import annotations",
            ),
            ("def f(a, a): pass", 1, "def f(a, a): pass"),
            ("def f():\n    await g()", 2, "await g()"),
            ("y = = 2", 1, "y = = 2"),
            ("a, *b, *c = d", 1, "a, *b, *c = d"),
        ] {
            let outcome = run(session, code).await;
            let what = format!("{version}: {code}: {}", outcome.output);
            let count = outcome.kernel.execution_count;
            assert_eq!(outcome.error_class, Some(ErrorClass::Syntax), "{what}");
            let shown = format!("  File \"<cell {count}>\", line {line}\n    {text}\n");
            assert!(outcome.output.contains(&shown), "{what}");
        }
    })
    .await;
}

/// Reports of exceptions that nobody can catch belong to who made them.
#[tokio::test]
async fn what_another_thread_tells_is_not_the_cells() {
    let begin = r#"
import sys, threading
told = 0
def hook(report):
    global told
    told += report.exc_type is KeyError
sys.unraisablehook = hook
class Telling:
    def __del__(self): raise KeyError("of a thread")
going = True
def work():
    while going: Telling()
thread = threading.Thread(target=work)
sys.setswitchinterval(1e-5)
thread.start()
"#;
    on_each_python(async |session, version| {
        run(session, begin).await;
        for _ in 0..30 {
            let outcome = run(session, "1/0").await;
            let error = outcome.error.unwrap();
            assert!(error.starts_with("ZeroDivisionError: division by zero (<cell "), "{version}: {error}");
            let outcome = run(session, "(1,) * 100_000 + [1]").await;
            let error = outcome.error.unwrap();
            assert!(error.starts_with("TypeError: can only concatenate"), "{version}: {error}");
            assert_shows(&run(session, "6*7").await, "42", version);
        }
        let end = "going = False; thread.join(); sys.setswitchinterval(0.005); told > 0, sys.unraisablehook is hook";
        assert_shows(&run(session, end).await, "(True, True)", version);
    })
    .await;
}

/// Python 3.12 and newer have sys.monitoring.
#[tokio::test]
async fn callbacks_of_monitoring_see_cells_only() {
    let begin = r#"
import sys
seen = set()
def callback(code, *more):
    seen.add(code.co_filename)
    if code.co_name == "raises": raise ValueError("of the callback")
def raises(): pass
monitoring = sys.monitoring
monitoring.use_tool_id(3, "test")
events = monitoring.events
every = (events.PY_START, events.PY_RETURN, events.LINE, events.RAISE, events.EXCEPTION_HANDLED, events.PY_UNWIND)
for event in every:
    assert monitoring.register_callback(3, event, callback) is None
monitoring.set_events(3, sum(every))
"#;
    on_each_python(async |session, version| {
        if matches!(version, "3.8" | "3.9" | "3.10" | "3.11") {
            return;
        }
        let first = run(session, begin).await;
        assert_eq!(first.status, Status::Success, "{version}: {}", first.output);
        let raised = run(session, "kept = 5\nraises()").await;
        assert_eq!(raised.error_class, Some(ErrorClass::Exception), "{version}");
        assert!(raised.error.unwrap().starts_with("ValueError: of the callback"), "{version}");
        assert_shows(&run(session, "seen.clear()\nkept").await, "5", version);
        // Nothing but the cells has run.
        let end = "names, _ = set(seen), monitoring.set_events(3, 0)\n[name for name in names if name[:6] != '<cell ']";
        assert_shows(&run(session, end).await, "[]", version);
        // Our code raises and handles exceptions too, and what it cannot switch off stays.
        let asked = "monitoring.set_events(3, sum(every))\nimport asyncio, colorsys, this as _this\nawait asyncio.sleep(0, 6)";
        let awaited = run(session, asked).await;
        assert_eq!(awaited.result.as_deref(), Some("6"), "{version}: {}", awaited.output);
        let end = "monitoring.set_events(3, 0)\n[monitoring.register_callback(3, event, None) is callback for event in every], [name for name in seen if 'warmcell' in name]";
        let all = format!("([{}], [])", ["True"; 6].join(", "));
        assert_shows(&run(session, end).await, &all, version);
    })
    .await;
}
