//! What a cell is: its value, its name, its awaits, and the state that it leaves.

use serde_json::{Value, json};
use warmcell::execution::{ErrorClass, Outcome, Status};

use crate::support::{Manager, assert_shows, on_each_python, pythons, run, shown_on_each_python};

fn as_json(outcome: &Outcome) -> Value {
    serde_json::to_value(outcome).unwrap()
}

#[tokio::test]
async fn trace_1_success() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let mut result = as_json(&run(&session, "x = [1]; print(\"a\"); len(x)").await);
        assert!(result["duration_seconds"].take().as_f64().unwrap() < 10.0);
        assert_eq!(
            result,
            json!({
                "status": "success", "output": "a\n1", "exit_code": 0, "tool_calls_made": 0,
                "duration_seconds": null,
                "kernel": {
                    "execution_count": 1, "generation": 1, "reused": false, "state": "fresh"
                },
                "result": "1", "stdout_truncated": false, "stdout_bytes_total": 2,
                "stdout_bytes_captured": 2, "stdout_bytes_omitted": 0,
            }),
            "{version}"
        );
    }
    manager.end().await;
}

#[tokio::test]
async fn state_survives_from_cell_to_cell() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "import math\ndef area(r): return math.pi * r * r").await;
    let failed = run(&session, "kept = 7\n1/0").await;
    assert_eq!(failed.status, Status::Error);
    let outcome = run(&session, "round(area(2), 2), kept").await;
    assert_eq!(outcome.result.as_deref(), Some("(12.57, 7)"));
    assert_eq!(as_json(&outcome)["kernel"]["state"], "kept");
    manager.end().await;
}

#[tokio::test]
async fn the_last_value_is_shown_as_in_a_repl() {
    shown_on_each_python(&[
        ("1 + 1", "2"),
        ("_ * 21", "42"),
        ("None", ""),
        ("_", "42"),
        ("x = 5", ""),
        ("'only text'", "'only text'"),
        ("\"\"\"text\"\"\"\nx = 1", ""),
        ("x\n# a comment", "1"),
        ("x;", ""),
        ("# nothing but a comment", ""),
        ("if x:\n    x", ""),
        ("def twice(f):\n    return lambda: f() * 2\n@twice\ndef three():\n    return 3\nthree()", "6"),
        ("class A:\n    def __repr__(self): return 'an A'\nprint('before'); A()", "before\nan A"),
        ("_ = 3\n_", "3"),
        ("del _\n_", "3"),
        ("print('no line end', end=''); 7", "no line end\n7"),
        ("__name__", "'__main__'"),
        ("x = 1\tif True else 2\r\nif x:\r\n\ty = 'crlf'\r\ny", "'crlf'"),
        ("a = 'old mac'\rb = a\rb", "'old mac'"),
        ("\u{feff}'with a mark'", "'with a mark'"),
        ("\u{c}z = 3\nz", "3"),
        ("# -*- coding: latin-1 -*-\n'é'", "'é'"),
    ])
    .await;
}

#[tokio::test]
async fn a_repr_can_do_what_it_likes() {
    on_each_python(async |session, version| {
        let raising =
            "class R:\n    def __repr__(self): raise KeyError('no text')\n_ = 0\ndel _\n5";
        run(session, raising).await;
        let outcome = run(session, "R()").await;
        assert_eq!(
            outcome.error_class,
            Some(ErrorClass::Exception),
            "{version}"
        );
        assert_eq!(
            outcome.error.as_deref(),
            Some("KeyError: 'no text' (<cell 1>, line 2)"),
            "{version}"
        );
        assert_eq!(outcome.result, None, "{version}");
        assert_shows(&run(session, "_").await, "5", version);

        let huge = run(session, "'0123456789' * 20_000").await;
        assert_eq!(huge.result.as_ref().unwrap().chars().count(), 2_000);
        assert!(
            huge.output.len() < 50_200,
            "{version}: {}",
            huge.output.len()
        );
        assert!(
            huge.output
                .contains("\n... [150,002 bytes omitted out of 200,002] ...\n")
        );
        assert!(huge.output.starts_with("'0123") && huge.output.ends_with("6789'"));

        let lying = "class S(str):\n    def __len__(self): return 0\n    def encode(self): 1/0\n\
            class L:\n    def __repr__(self): return S('the truth')\nL()";
        assert_shows(&run(session, lying).await, "the truth", version);
        let exits = "class E:\n    def __repr__(self): raise SystemExit(4)\nE()";
        assert_eq!(run(session, exits).await.exit_code, 4, "{version}");
        assert_shows(
            &run(session, "'\\ud800 \u{e9}'.strip()").await,
            "'\\ud800 \u{e9}'",
            version,
        );
        let surrogate = "class U:\n    def __repr__(self): return 'a\\ud800b\\ud83d\\ude00'\nU()";
        assert_shows(
            &run(session, surrogate).await,
            "a\u{fffd}b\u{1f600}",
            version,
        );
    })
    .await;
}

#[tokio::test]
async fn future_features_last() {
    shown_on_each_python(&[
        (
            "from __future__ import annotations\ndef f(a: not_there): pass\nf.__annotations__",
            "{'a': 'not_there'}",
        ),
        (
            "def g(a: not_there_either): pass\ng.__annotations__",
            "{'a': 'not_there_either'}",
        ),
    ])
    .await;
}

#[tokio::test]
async fn top_level_await_works() {
    shown_on_each_python(&[
        ("import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n\nawait f(3)", "3"),
        ("x = await f(4)\nx", "4"),
        ("total = 0\nasync def numbers():\n    for n in range(4):\n        yield n\nasync for n in numbers():\n    total += n\ntotal", "6"),
        ("class M:\n    async def __aenter__(self): return 'in'\n    async def __aexit__(self, *error): print('out')\nasync with M() as m:\n    print(m)", "in\nout\n"),
        ("[n async for n in numbers()]", "[0, 1, 2, 3]"),
        ("{await f(1): await f(2)}", "{1: 2}"),
        // Tasks go on in the next await, and only there.
        ("seen = []\nasync def background():\n    for n in range(3):\n        seen.append(n)\n        await asyncio.sleep(0)\ntask = None\nasync def begin():\n    global task\n    task = asyncio.ensure_future(background())\nawait begin()\nlen(seen) < 3", "True"),
        ("len(seen) < 3, await task, seen", "(True, None, [0, 1, 2])"),
        ("asyncio.run(f(8))", "8"),
        ("await f(9)", "9"),
        ("asyncio.new_event_loop().run_until_complete(f(10))", "10"),
        ("try:\n    await asyncio.wait_for(asyncio.sleep(30), 0.001)\nexcept asyncio.TimeoutError:\n    print('late')", "late\n"),
        ("await asyncio.gather(*(f(n) for n in range(3)))", "[0, 1, 2]"),
        ("def plain():\n    return asyncio.run(f(11))\nplain()", "11"),
        // What stands before the only await has the loop too.
        ("t = asyncio.create_task(f(12))\nawait t", "12"),
        ("import asyncio as a\nfuture = a.get_running_loop().create_future()\nfuture.set_result(None)\nawait future", "[completed without output]"),
        ("u = asyncio.ensure_future(f(13)); (await u, [name for name in globals() if 'value' in name])", "(13, [])"),
        ("_", "(13, [])"),
        ("await f(1)\nasyncio.get_running_loop().is_running()", "True"),
    ])
    .await;
}

#[tokio::test]
async fn an_await_that_fails_leaves_the_loop_usable() {
    on_each_python(async |session, version| {
        let begin = "import asyncio\nasync def f(what):\n    await asyncio.sleep(0)\n    raise what\nleft = []";
        run(session, begin).await;
        let failed = run(session, "await f(ValueError('no'))").await;
        assert_eq!(failed.error.as_deref(), Some("ValueError: no (<cell 1>, line 4)"), "{version}");
        let exit = run(session, "await f(SystemExit(3))").await;
        assert_eq!((exit.exit_code, exit.output.as_str()), (3, "[the cell called sys.exit(3); state is kept]"), "{version}");
        let interrupt = run(session, "await f(KeyboardInterrupt())").await;
        assert_eq!(interrupt.error_class, Some(ErrorClass::Exception), "{version}");
        // A task that ends the cell from below: the cell's own coroutine does not go on later.
        let below = run(
            session,
            "async def own():\n    try:\n        await asyncio.sleep(0.001)\n        await asyncio.sleep(0.001)\n        left.append(1)\n    except asyncio.CancelledError:\n        left.append('cancelled')\n        raise\nasync def both():\n    asyncio.ensure_future(f(SystemExit(5)))\n    await own()\nawait both()",
        )
        .await;
        assert_eq!(below.exit_code, 5, "{version}: {}", below.output);
        assert_shows(&run(session, "await asyncio.sleep(0.01)\nleft").await, "['cancelled']", version);
        let cancelled = run(session, "async def c(): raise asyncio.CancelledError('mine')\nawait c()").await;
        assert_eq!(cancelled.error_class, Some(ErrorClass::Exception), "{version}");
        let closed = run(session, "async def close(): asyncio.get_running_loop().stop()\nawait close()\n1").await;
        assert_ne!(closed.error_class, Some(ErrorClass::KernelDied), "{version}: {}", closed.output);
        assert_shows(&run(session, "await asyncio.sleep(0, 'works')").await, "'works'", version);
    })
    .await;
}

#[tokio::test]
async fn an_await_works_beside_files_that_shadow_asyncio() {
    let manager = Manager::start().await;
    for name in [
        "socket",
        "random",
        "asyncio",
        "selectors",
        "traceback",
        "threading",
    ] {
        let text = format!("print('the user\\'s {name}')\nmine = True\n");
        std::fs::write(manager.place.work().join(format!("{name}.py")), text).unwrap();
    }
    let session = manager.session("a");
    let awaited = "async def f(): return 5\nawait f()";
    assert_shows(&run(&session, awaited).await, "5", "await");
    let outcome = run(&session, "import asyncio; asyncio.mine").await;
    assert_shows(&outcome, "the user's asyncio\nTrue", "import");
    let outcome = run(&session, "1/0").await;
    assert!(outcome.output.contains("    1/0"), "{}", outcome.output);
    manager.end().await;
}

#[tokio::test]
async fn a_semicolon_at_the_end_hides_the_value() {
    shown_on_each_python(&[
        ("1;", ""),
        ("x = 2; x", "2"),
        ("x = 3; x;  # hidden", ""),
        ("(\n4\n);\n# a comment;\n", ""),
        ("5  # ;", "5"),
        ("';'", "';'"),
        ("'é' + '''\n;''';", ""),
        ("import asyncio\nawait asyncio.sleep(0, 6);", ""),
        // What was not shown is not the last value either.
        ("7", "7"),
        ("8;", ""),
        ("_", "7"),
    ])
    .await;
}
