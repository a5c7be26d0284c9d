//! Tracebacks: they show the code of cells, and no frame of ours.

use warmcell::execution::{ErrorClass, Outcome};

use crate::support::{Manager, assert_shows, on_each_python, run, run_cell, shown_on_each_python};

/// A traceback without our frames, in which each of these lines stands.
#[track_caller]
fn assert_traceback(outcome: &Outcome, lines: &[&str], what: &str) {
    for line in lines {
        assert!(
            outcome.output.contains(line),
            "{what}: {line} in {}",
            outcome.output
        );
    }
    for ours in ["_warmcell", "hermes_tools"] {
        assert!(
            !outcome.output.contains(ours),
            "{what}: {ours} in {}",
            outcome.output
        );
    }
}

#[tokio::test]
async fn a_function_of_an_earlier_cell_shows_its_code() {
    on_each_python(async |session, version| {
        let first = run(session, "def outer(f):\n    return f()  # the outer line\n").await;
        assert_shows(&first, "", version);
        run(session, "def inner():\n    return 1/0  # the inner line\n").await;
        let lines = [
            "  File \"<cell 3>\", line 2, in <module>\n    outer(inner)\n",
            "  File \"<cell 1>\", line 2, in outer\n    return f()  # the outer line\n",
            "  File \"<cell 2>\", line 2, in inner\n    return 1/0  # the inner line\n",
        ];
        let failed = run(session, "\nouter(inner)").await;
        assert_traceback(&failed, &lines, version);
        assert_eq!(
            failed.error.as_deref(),
            Some("ZeroDivisionError: division by zero (<cell 2>, line 2)"),
            "{version}"
        );
        // Whoever empties the cache of lines does not take them from us.
        run(
            session,
            "import linecache; linecache.clearcache(); linecache.checkcache()",
        )
        .await;
        assert_traceback(&run(session, "\nouter(inner)").await, &lines[1..], version);
        let source = run(
            session,
            "import inspect\nprint(inspect.getsource(inner), end='')",
        )
        .await;
        assert_shows(
            &source,
            "def inner():\n    return 1/0  # the inner line\n",
            version,
        );
        let line = run(session, "linecache.getline('<cell 1>', 1)").await;
        assert_shows(&line, "'def outer(f):\\n'", version);
    })
    .await;
}

#[tokio::test]
async fn lines_are_counted_as_the_compiler_counts_them() {
    on_each_python(async |session, version| {
        let code =
            "text = '''a\u{c}b\u{85}c\u{2028}d\u{1c}e'''\r\n# two\r# three\n\u{c}\n1/0  # five";
        let failed = run(session, code).await;
        let lines = ["  File \"<cell 1>\", line 5, in <module>\n    1/0  # five\n"];
        assert_traceback(&failed, &lines, version);
    })
    .await;
}

#[tokio::test]
async fn no_frame_of_ours_stands_in_a_traceback() {
    let cells = [
        ("input('? ')", "EOFError: input() cannot be answered"),
        (
            "import getpass\ngetpass.getpass()",
            "EOFError: getpass() cannot be answered",
        ),
        ("json_parse('{')", "JSONDecodeError: "),
        (
            "def g(): 1/0\nretry(g, max_attempts=1)",
            "    def g(): 1/0\n",
        ),
        (
            "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1/0\nawait f()",
            "    1/0\n",
        ),
        (
            "async def h():\n    await f()\nawait asyncio.gather(f(), h())",
            "    1/0\n",
        ),
        (
            "def callback(): 1/0\nasync def c():\n    loop = asyncio.get_running_loop()\n    \
             loop.call_soon(callback)\n    await asyncio.sleep(0.001)\nawait c()\nraise KeyError(1)",
            "    def callback(): 1/0\n",
        ),
        (
            "try:\n    1/0\nexcept ZeroDivisionError as error:\n    raise ValueError('b') from error",
            "The above exception was the direct cause of the following exception:\n",
        ),
        (
            "try:\n    retry(g, max_attempts=1)\nexcept ZeroDivisionError:\n    raise ValueError('b')",
            "During handling of the above exception, another exception occurred:\n",
        ),
        ("import os\nos.fork(1)", "TypeError: "),
        (
            "os.posix_spawn('/not/there', ['x'], {})",
            "FileNotFoundError: ",
        ),
        (
            "import subprocess\nsubprocess.run(['/not/there'])",
            "FileNotFoundError: ",
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool:\n    \
             pool.submit(g).result()",
            "    def g(): 1/0\n",
        ),
        (
            "pool.submit(g)",
            "RuntimeError: cannot schedule new futures after shutdown",
        ),
        ("asyncio.run(asyncio.get_running_loop)", "ValueError: "),
        (
            "import threading\nt = threading.Thread(target=g)\nt.start()\nt.join()\nt.start()",
            "RuntimeError: threads can only be started once",
        ),
        (
            "from multiprocessing.pool import ThreadPool\nwith ThreadPool(1) as p:\n    p.map(lambda n: n / 0, [1])",
            "ZeroDivisionError: division by zero",
        ),
        (
            "import multiprocessing\ndef divide(n): return n / 0\nwith multiprocessing.Pool(1) as p:\n    p.map(divide, [1])",
            "    def divide(n): return n / 0\n",
        ),
        (
            "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(1) as pool:\n    \
             pool.submit(divide, 1).result()",
            "    def divide(n): return n / 0\n",
        ),
        ("eval('1 +')", "SyntaxError: "),
        (
            "import warnings\nwarnings.simplefilter('error')\nwarnings.warn('w')",
            "UserWarning: w",
        ),
    ];
    on_each_python(async |session, version| {
        for (code, line) in cells {
            let what = format!("{version}: {code}");
            let outcome = run(session, code).await;
            assert_eq!(outcome.error_class, Some(ErrorClass::Exception), "{what}");
            let last = code.lines().last().unwrap_or_default().trim();
            let shown = format!("\n    {last}\n");
            let lines: &[&str] = &[line, &shown, "Traceback (most recent call last):\n  File \"<cell "];
            // What came below the cell's own coroutine has no line of the cell.
            assert_traceback(&outcome, lines, &what);
        }
        if version.rsplit('.').next().and_then(|it| it.parse().ok()) >= Some(11) {
            let group = "def g(): retry(lambda: 1/0, max_attempts=1)\ntry:\n    g()\nexcept Exception as error:\n    \
                raise ExceptionGroup('several', [error])";
            let outcome = run(session, group).await;
            assert_traceback(&outcome, &["ExceptionGroup: several (1 sub-exception)"], version);
            assert_eq!(
                outcome.error.as_deref(),
                Some("ExceptionGroup: several (1 sub-exception) (<cell 22>, line 5)"),
            );
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_cell_prints_of_tracebacks_shows_no_frame_of_ours() {
    on_each_python(async |session, version| {
        let cells = [
            "import traceback\ndef g(): retry(lambda: 1/0, max_attempts=1)\ntry:\n    g()\nexcept Exception:\n    traceback.print_exc()",
            "import logging\ntry:\n    g()\nexcept Exception:\n    logging.exception('told')",
            "traceback.print_stack()",
            "import threading\nt = threading.Thread(target=g)\nt.start()\nt.join()",
            "from concurrent.futures import ThreadPoolExecutor\ndef told():\n    try:\n        g()\n    except Exception:\n        traceback.print_exc()\nwith ThreadPoolExecutor(1) as pool:\n    pool.submit(told).result()",
            "import os\npid = os.fork()\nif not pid:\n    g()\nos.waitpid(pid, 0)",
            "import multiprocessing\np = multiprocessing.Process(target=g)\np.start()\np.join()",
            "async def a(): g()\nimport asyncio\nt = asyncio.gather(a(), return_exceptions=True)\nexcept_ = (await t)[0]\ntraceback.print_exception(type(except_), except_, except_.__traceback__)",
        ];
        for code in cells {
            // print_stack() in a thread of executors is shown from the thread's beginning.
            let what = format!("{version}: {code}");
            let code = code.replace("t = asyncio.gather(a(), return_exceptions=True)\nexcept_ = (await t)[0]", "except_ = (await asyncio.wait_for(asyncio.gather(*[a()], return_exceptions=True), 9))[0]");
            let outcome = run(session, &code).await;
            assert!(outcome.output.contains("File \"<cell "), "{what}: {}", outcome.output);
            // Python's own report of a thread is made in C, and cannot be taught.
            if !code.contains("target=g") {
                assert_traceback(&outcome, &[], &what);
            }
            for ours in ["_warmcell/", "<string>"] {
                assert!(!outcome.output.contains(ours), "{what}: {}", outcome.output);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn syntax_errors_name_their_place() {
    on_each_python(async |session, version| {
        run(session, "kept = 1").await;
        let outcome = run(session, "x = 1\ny = = 2\nkept = 2").await;
        assert_eq!(outcome.error_class, Some(ErrorClass::Syntax), "{version}");
        assert_eq!(
            outcome.error.as_deref(),
            Some("SyntaxError: invalid syntax (<cell 2>, line 2)"),
            "{version}"
        );
        assert_traceback(
            &outcome,
            &["  File \"<cell 2>\", line 2\n    y = = 2\n"],
            version,
        );
        let outcome = run(session, "if True:\nx = 1").await;
        assert!(
            outcome
                .error
                .as_deref()
                .unwrap()
                .starts_with("IndentationError: expected an indented block"),
            "{version}: {:?}",
            outcome.error
        );
        assert_eq!(outcome.error_class, Some(ErrorClass::Syntax), "{version}");
        for code in [
            "return 5",
            "yield 1",
            "x = 'open",
            "if True:\n\tx = 1\n        y = 2",
            "def f(:\n  pass",
            "\u{a0}x = 1",
            "f'{'",
        ] {
            let outcome = run(session, code).await;
            assert_eq!(
                outcome.error_class,
                Some(ErrorClass::Syntax),
                "{version}: {code}"
            );
        }
        assert_shows(&run(session, "kept").await, "1", version);
    })
    .await;
}

#[tokio::test]
async fn errors_are_one_line_and_one_class() {
    on_each_python(async |session, version| {
        let missing = run(session, "\nimport not_there_at_all").await;
        assert_eq!(missing.error_class, Some(ErrorClass::MissingModule), "{version}");
        assert_eq!(missing.error.as_deref(), Some("ModuleNotFoundError: No module named 'not_there_at_all' (<cell 1>, line 2)"), "{version}");
        let several = run(session, "raise ValueError('one\\ntwo\\nthree')").await;
        assert_eq!(several.error.as_deref(), Some("ValueError: one (<cell 2>, line 1)"), "{version}");
        assert!(several.output.ends_with("ValueError: one\ntwo\nthree"), "{version}: {}", several.output);
        let bare = run(session, "raise KeyboardInterrupt").await;
        assert_eq!(bare.error.as_deref(), Some("KeyboardInterrupt (<cell 3>, line 1)"), "{version}");
        assert_eq!((bare.error_class, bare.exit_code), (Some(ErrorClass::Exception), 1), "{version}");
        let own = run(session, "class Mine(BaseException): pass\nraise Mine('é\\ud800')").await;
        assert_eq!(own.error_class, Some(ErrorClass::Exception), "{version}: {}", own.output);
        assert!(own.error.as_deref().unwrap().contains("Mine: é"), "{version}: {:?}", own.error);
        let limit = "import resource\nold = resource.getrlimit(resource.RLIMIT_AS)\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, old[1]))\ntry:\n    bytearray(8 << 30)\nfinally:\n    resource.setrlimit(resource.RLIMIT_AS, old)";
        assert_eq!(run(session, limit).await.error_class, Some(ErrorClass::Exception), "{version}");
        let limit = limit.replace("try:\n    ", "").replace("finally:\n    ", "");
        let outcome = run(session, &limit).await;
        assert_eq!(outcome.error_class, Some(ErrorClass::Limit), "{version}: {}", outcome.output);
        let ends = run(session, "resource.setrlimit(resource.RLIMIT_AS, old)\n'alive'").await;
        assert_shows(&ends, "'alive'", version);
    })
    .await;
}

#[tokio::test]
async fn an_exception_that_lies_about_itself_is_told_all_the_same() {
    on_each_python(async |session, version| {
        let cells = [
            "class E(Exception):\n    def __str__(self): raise KeyError(1)\nraise E()",
            "class E(Exception):\n    def __str__(self): raise SystemExit(1)\nraise E()",
            "class E(Exception):\n    def __str__(self): raise KeyboardInterrupt\nraise E()",
            "class E(Exception):\n    def __str__(self): return 5\nraise E()",
            "class M(type):\n    @property\n    def __name__(cls): raise KeyError(2)\n    __qualname__ = __name__\nclass E(Exception, metaclass=M): pass\nraise E()",
            "raise type('N' * 5_000_000, (Exception,), {})('t' * 9_000_000)",
            "class E(SystemExit):\n    code = property(lambda self: 1/0)\nraise E('x')",
            "class T:\n    def __str__(self): raise KeyboardInterrupt\nraise SystemExit(T())",
            "raise SystemExit('x' * 9_000_000)",
            "class I(int):\n    def __lt__(self, other): 1/0\n    __gt__ = __le__ = __ge__ = __eq__ = __lt__\nraise SystemExit(I(3))",
            "raise SystemExit(10 ** 5000)",
            "e = SyntaxError('s', ('<cell ' + 'f' * 9_000_000, 1, 1, 'text'))\nraise e",
            "e = SyntaxError('s')\ne.filename = e.lineno = e.text = object()\nraise e",
            "exec(compile('1/0', '<cell ' + 'f' * 9_000_000, 'exec'))",
            "import traceback\ntraceback.TracebackException = None\n1/0",
            "import sys\nsys.stderr = None\nraise SystemExit('told')",
            "sys.stderr = 5\nraise SystemExit('told')",
            "sys.stderr = sys.__stderr__\nsys.excepthook = None\n1/0",
        ];
        for code in cells {
            let outcome = run(session, code).await;
            let what = format!("{version}: {code}");
            assert_ne!(outcome.error_class, Some(ErrorClass::KernelDied), "{what}");
            assert!(outcome.output.len() < 80_000, "{what}: {}", outcome.output.len());
            assert!(outcome.error.as_ref().is_none_or(|error| error.len() < 4_500), "{what}");
            assert_ne!(outcome.exit_code, 0, "{what}");
        }
        let hidden = "class E(Exception):\n    __traceback__ = property(lambda self: 1/0)\nraise E('text')";
        let outcome = run(session, hidden).await;
        assert!(outcome.error.unwrap().starts_with("E: text (<cell "), "{version}");
        assert!(outcome.output.ends_with("E: text"), "{version}: {}", outcome.output);
        let told = run(session, "sys.stderr = 5\nraise SystemExit('told')").await;
        assert!(told.output.contains("--- stderr ---\ntold\n"), "{version}: {}", told.output);
    })
    .await;
}

#[tokio::test]
async fn deep_recursion_is_an_exception() {
    shown_on_each_python(&[(
        "def f(): return f()\ntry:\n    f()\nexcept RecursionError:\n    print('deep')",
        "deep\n",
    )])
    .await;
    let manager = Manager::start().await;
    let session = manager.session("a");
    let outcome = run_cell(
        &session,
        warmcell::session::Cell::new("def f(): return f()\nf()"),
    )
    .await;
    assert!(
        outcome
            .error
            .as_deref()
            .unwrap()
            .starts_with("RecursionError: maximum recursion depth")
    );
    assert!(
        outcome.output.contains("[Previous line repeated "),
        "{}",
        outcome.output
    );
    manager.end().await;
}
