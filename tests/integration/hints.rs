//! What a result says about known mistakes, in the words of each Python.

use std::time::Duration;

use warmcell::execution::{Outcome, Status};
use warmcell::session::{Cell, Policy};
use warmcell::tools::Grant;

use crate::foreign_kit::with_ipykernel;
use crate::support::{Manager, on_each_python, run, run_cell};

/// The hint, which stands in `output` too: on a line of its own, behind the traceback.
fn hint<'a>(outcome: &'a Outcome, what: &str) -> &'a str {
    let hint = outcome
        .hint
        .as_deref()
        .unwrap_or_else(|| panic!("no hint, {what}: {}", outcome.output));
    let line = format!("\n[hint: {hint}]");
    let output = outcome.output.split("\n[the same code").next().unwrap();
    assert!(output.ends_with(&line), "{what}: {}", outcome.output);
    hint
}

/// Cells, and what their hints say.
const KNOWN: &[(&str, &str)] = &[
    ("import no_such_thing", "-m pip install no_such_thing`"),
    ("import cv2x.y", "-m pip install cv2x`"),
    (
        "import read_file",
        "read_file is no module: it is in the namespace already",
    ),
    ("from terminal import run", "terminal is no module"),
    (
        "import web_search",
        "there is no web_search in cells: what can be called is read_file, write_file, terminal, json_parse",
    ),
    (
        "from hermes_tools import search_files",
        "there is no search_files in cells",
    ),
    (
        "from hermes_tools import bash",
        "; terminal(command) runs a command",
    ),
    (
        "import hermes_tools\nhermes_tools.cat",
        "; read_file(path) reads a file",
    ),
    ("web_search('q')", "there is no web_search in cells"),
    (
        "del read_file\nread_file('x')",
        "add `from hermes_tools import read_file`",
    ),
    ("np.zeros(3)", "add `import numpy as np`"),
    ("json.dumps({})", "add `import json`"),
    ("Path('.')", "add `from pathlib import Path`"),
    ("x = {'a': true}", "Python writes True for true"),
    ("get_ipython()", "this kernel is no IPython"),
    ("import json\njson.loads({'a': 1})", "it is a dict already"),
    ("json_parse([1])", "it is a list already"),
    (
        "terminal('true').splitlines()",
        "tools return dicts, not text; the result of terminal has output, exit_code, truncated",
    ),
    (
        "r = terminal('true')\nr[:3]",
        "tools return dicts, not text",
    ),
    (
        "import re\nre.search('a', terminal('true'))",
        "tools return dicts, not text",
    ),
    ("'a' + terminal('true')", "tools return dicts, not text"),
    (
        "open('/dev/null', 'w').write(terminal('true'))",
        "tools return dicts, not text",
    ),
    (
        "for part in terminal('true'): part['output']",
        "this is text, not a dict",
    ),
    (
        "terminal('true')['output'].get('x')",
        "this is text, not a dict",
    ),
    (
        "read_file('/not/there')['content'].splitlines()",
        "a call of read_file has failed in this cell",
    ),
    (
        "read_file('/not/there')['content'][0]",
        "a call of read_file has failed in this cell",
    ),
    (
        "len(read_file('/not/there')['content'])",
        "a call of read_file has failed in this cell",
    ),
    (
        "msg = \u{201c}hello\u{201d}",
        "\u{201c} (U+201C) is a typographic quote: write \" instead; text that holds quotes goes into a triple-quoted string",
    ),
    (
        "x = 3 \u{2212} 1",
        "(U+2212) is no minus sign of Python's: write - instead",
    ),
    (
        "print(\u{ff08}1)",
        "(U+FF08) is a wide bracket: write ( instead",
    ),
    ("x\u{200b} = 1", "(U+200B) is not visible: take it out"),
    ("x =\u{a0}1", "(U+00A0) is a space that is none of Python's"),
    (
        "s = 'can\u{2019}t",
        "a string ends before its closing quote",
    ),
    ("s = 'it's'", "a string ends before its closing quote"),
    ("print(f\"a", "a string ends before its closing quote"),
    ("s = '''abc", "a triple-quoted string has no end"),
    ("x = 1\\nprint(x)", "escaped once too often"),
    ("p = 'C:\\Users\\me'", "write r'...' for paths"),
    (
        "import asyncio\nasync def main(): pass\nasync def outer(): asyncio.run(main())\nawait outer()",
        "write `await main()` instead",
    ),
    (
        "import asyncio\nasync def main(): pass\nasync def outer(): asyncio.get_event_loop().run_until_complete(main())\nawait outer()",
        "write `await main()` instead",
    ),
    (
        "import pickle\npickle.dumps(lambda: 1)",
        "only functions and classes that stand at the top level of a cell",
    ),
    (
        "import pickle\ndef f():\n    def g(): pass\n    pickle.dumps(g)\nf()",
        "only functions and classes that stand at the top level of a cell",
    ),
    (
        "import pickle, threading\npickle.dumps(threading.Lock())",
        "a _thread.lock belongs to its process",
    ),
    ("bytearray(10**18)", "it is more than there is"),
    (
        "breakpoint()",
        "nobody is at the keyboard of this cell, so a debugger ends at once",
    ),
    (
        "try:\n    import no_such_thing\nexcept ImportError as error:\n    raise ValueError('v') from error",
        "-m pip install no_such_thing`",
    ),
    (
        "try:\n    import no_such_thing\nexcept ImportError:\n    raise ImportError('Missing optional dependency')",
        "-m pip install no_such_thing`",
    ),
];

/// Failures that are nobody's known mistake, and successes.
const UNKNOWN: &[&str] = &[
    "1/0",
    "raise ValueError('NameError: name \\'json\\' is not defined')",
    "print(\"NameError: name 'json' is not defined\")\n1/0",
    "import sys\nprint(\"ModuleNotFoundError: No module named 'x'\", file=sys.stderr)\n1/0",
    "try:\n    import no_such_thing\nexcept ImportError:\n    1/0",
    "try:\n    np\nexcept NameError:\n    pass",
    "{}['MY_TOKEN']",
    "import os\nos.environ['NEVER_SET']",
    "'a'['b']",
    "None.x",
    "unheard_of",
    "1 +",
    "x = f'a' f'b' if",
    "'it\u{2019}s', 'a \u{2212} b'",
    "import json\njson.loads('{')",
    "import sys\nsys.exit(3)",
    "input()",
    "import asyncio\nasync def main(): pass\nasyncio.run(main())",
    "raise RuntimeError('This is not a known one')",
    "from json import no_such_name",
    "read_file('/not/there')['error']",
];

#[tokio::test]
async fn known_mistakes_are_told_what_to_do_in_the_words_of_each_python() {
    on_each_python(async |session, version| {
        for (code, wanted) in KNOWN {
            let outcome = run(session, code).await;
            let what = format!("{version}: {code}");
            let hint = hint(&outcome, &what);
            assert!(hint.contains(wanted), "{what}: {hint}");
            assert_eq!(outcome.status, Status::Error, "{what}");
            // What a cell has deleted is there for the next one.
            run(session, "from hermes_tools import *").await;
        }
    })
    .await;
}

#[tokio::test]
async fn no_hint_for_other_failures_and_none_on_success() {
    on_each_python(async |session, version| {
        for code in UNKNOWN {
            let outcome = run(session, code).await;
            assert_eq!(outcome.hint, None, "{version}: {code}");
            assert!(!outcome.output.contains("[hint:"), "{version}: {code}");
        }
        // IPython's own words are told by the kernel, below the traceback, and once.
        let outcome = run(session, "%cd /tmp").await;
        let hint = outcome.hint.unwrap();
        assert!(hint.starts_with("os.chdir(...)"), "{version}: {hint}");
        assert_eq!(outcome.output.matches("os.chdir").count(), 1, "{version}");
    })
    .await;
}

#[tokio::test]
async fn the_command_that_installs_a_module_is_that_of_the_interpreter_in_use() {
    on_each_python(async |session, version| {
        let python = run(session, "import sys; print(sys.executable, end='')").await;
        let outcome = run(session, "import yamlx.y, yaml_not_there").await;
        let hint = hint(&outcome, version);
        let command = format!("`{} -m pip install yamlx` with terminal()", python.output);
        assert!(hint.contains(&command), "{version}: {hint}");
        // A file of the project that lies elsewhere.
        let made = "import os\nos.makedirs('src/inner', exist_ok=True)\nopen('src/inner/helper_of_mine.py', 'w').close()";
        run(session, made).await;
        let outcome = run(session, "import helper_of_mine").await;
        let told = outcome.hint.unwrap();
        assert!(told.contains("src/inner/helper_of_mine.py, and its folder is not on the path"), "{version}: {told}");
        let (_, line) = told.split_once("`import sys; ").unwrap();
        let line = line.split('`').next().unwrap();
        let mended = run(session, &format!("import sys\n{line}\nimport helper_of_mine\n'there'")).await;
        assert_eq!(mended.output, "'there'", "{version}: {line}");
    })
    .await;
}

#[tokio::test]
async fn a_python_without_pip_is_told_how_to_get_one() {
    let manager = Manager::start().await;
    for (version, python) in crate::tools_kit::oldest_and_newest() {
        let root = manager.place.work().join(format!("venv-{version}"));
        let made = manager
            .place
            .command(python.to_str().unwrap())
            .args(["-m", "venv", "--without-pip"])
            .arg(&root)
            .status()
            .unwrap();
        assert!(made.success());
        let session = manager.session_on(&format!("s-{version}"), &root.join("bin/python"));
        let outcome = run(
            &session,
            "import os\nos.environ['PATH'] = ''\nimport no_such_thing",
        )
        .await;
        let hint = hint(&outcome, version);
        let python = root.join("bin/python").display().to_string();
        let command = format!(
            "it has no pip; `{python} -m ensurepip --upgrade && {python} -m pip install no_such_thing`"
        );
        assert!(hint.contains(&command), "{version}: {hint}");
    }
    manager.end().await;
}

#[tokio::test]
async fn a_timeout_is_told_what_to_do() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let late = |policy| {
        let mut cell = Cell::new("import time\ntime.sleep(60)").timeout(Duration::from_millis(200));
        cell.on_timeout = Some(policy);
        cell
    };
    run(&session, "x = 1").await;
    let killed = run_cell(&session, late(Policy::Restart)).await;
    let told = killed.hint.as_deref().unwrap();
    for advice in [
        "more time (`timeout`, exec -t)",
        "--detach",
        "on_timeout `interrupt`",
    ] {
        assert!(told.contains(advice), "{told}");
    }
    // In short the line that tells the loss says it; the second time all of it.
    let short = "; rebuild what you need, or give the cell more time]";
    assert!(killed.output.ends_with(short), "{}", killed.output);
    let killed = run_cell(&session, late(Policy::Restart)).await;
    hint(&killed, "killed again");
    let kept = run_cell(&session, late(Policy::Interrupt)).await;
    let told = hint(&kept, "kept");
    assert!(
        told.ends_with("; what it has made so far is there"),
        "{told}"
    );
    manager.end().await;
}

#[tokio::test]
async fn what_was_lost_is_told_until_it_is_made_again() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, "import json as np\ndf = [1]").await;
    run(&session, "import os\nos._exit(1)").await;
    run(&session, "1").await;
    // Not only in the first cell of the new kernel.
    let outcome = run(&session, "df").await;
    let told = hint(&outcome, "df");
    assert!(
        told.starts_with("df was lost with an earlier kernel (kernel_died: it exited with code 1)"),
        "{told}"
    );
    let outcome = run(&session, "np.x").await;
    assert!(hint(&outcome, "np").ends_with("import it again"));
    manager.end().await;
}

#[tokio::test]
async fn the_same_failure_again_asks_for_a_change() {
    on_each_python(async |session, version| {
        let failing = "def f(): pass\nraise ValueError(f'{f} {object()}')";
        for repeat in 0..3 {
            let outcome = run(session, failing).await;
            assert_eq!(outcome.repeat_of_previous, repeat, "{version}");
            let line = format!(
                "\n[the same code has failed the same way {} times in a row: change it",
                repeat + 1
            );
            assert_eq!(
                outcome.output.contains(&line),
                repeat > 0,
                "{version}: {}",
                outcome.output
            );
            let json = serde_json::to_value(&outcome).unwrap();
            assert_eq!(
                json.get("repeat_of_previous").is_some(),
                repeat > 0,
                "{version}"
            );
        }
        // It fails otherwise; other code fails; it works.
        for other in ["raise ValueError(1)", "x = 1"] {
            let failing = "if 'x' not in globals(): 1/0\nraise KeyError(x)";
            run(session, other).await;
            assert_eq!(
                run(session, failing).await.repeat_of_previous,
                0,
                "{version}"
            );
            assert_eq!(
                run(session, failing).await.repeat_of_previous,
                1,
                "{version}"
            );
        }
        for repeat in 0..2 {
            let cell = Cell::new("while True: pass").timeout(Duration::from_millis(100));
            let outcome = run_cell(session, cell).await;
            assert_eq!(outcome.repeat_of_previous, repeat, "{version}");
            let line = "\n[the same code has run out of time 2 times in a row";
            assert_eq!(
                outcome.output.contains(line),
                repeat > 0,
                "{version}: {}",
                outcome.output
            );
        }
    })
    .await;
}

#[tokio::test]
async fn results_of_tools_that_nobody_looks_at_are_told() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let outcome = run(&session, "for _ in range(3):\n    r = terminal('echo a')").await;
    assert_eq!(
        outcome.output,
        "[completed without output; 3 tool results were produced and none was shown: print what you need \
         of them]"
    );
    let outcome = run(&session, "r = terminal('echo a')").await;
    assert_eq!(
        outcome.output,
        "[completed without output; 1 tool result was produced and none was shown: print what you need of \
         it]"
    );
    // One that is shown, or a cell that made none.
    assert!(
        !run(&session, "r = terminal('echo a'); r['output']")
            .await
            .output
            .contains("produced")
    );
    assert_eq!(
        run(&session, "x = 1").await.output,
        "[completed without output]"
    );
    let mut cell = Cell::new("r = terminal('echo a')");
    cell.grant = Grant::Only(std::collections::BTreeSet::new());
    let refused = run_cell(&session, cell).await;
    assert_eq!(
        refused.output, "[completed without output]",
        "none was made"
    );
    manager.end().await;
}

#[tokio::test]
async fn the_lines_at_the_end_of_output_stand_in_order() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "import threading, time\nprint('out')\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\nwhile True: time.sleep(0.05)";
    let late = || {
        let mut cell = Cell::new(code).timeout(Duration::from_millis(400));
        cell.on_timeout = Some(Policy::Interrupt);
        cell
    };
    run_cell(&session, late()).await;
    let outcome = run_cell(&session, late()).await;
    let mut at = 0;
    for part in [
        "out\n",
        "late\n",
        "--- stderr ---\n",
        "KeyboardInterrupt\n[timed out after 0.4 s",
        "\n[hint: give it more time",
        "\n[the same code has run out of time 2 times",
    ] {
        let (_, rest) = outcome.output.split_at(at);
        let found = rest.find(part);
        assert!(found.is_some(), "{part}: {}", outcome.output);
        at += found.unwrap();
    }
    manager.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kernels_that_are_not_ours_get_the_same_hints() {
    with_ipykernel(async |_manager, session, _kernel| {
        for (code, wanted) in [
            (
                "import no_such_thing",
                "`%pip install no_such_thing` in a cell of its own",
            ),
            ("json.dumps({})", "add `import json`"),
            (
                "msg = \u{201c}hello\u{201d}",
                "(U+201C) is a typographic quote",
            ),
            ("import json\njson.loads({})", "it is a dict already"),
            (
                "import asyncio\nasync def main(): pass\nasyncio.run(main())",
                "write `await main()` instead",
            ),
            (
                "from hermes_tools import bash",
                "; terminal(command) runs a command",
            ),
        ] {
            let outcome = run(session, code).await;
            let hint = hint(&outcome, code);
            assert!(hint.contains(wanted), "{code}: {hint}");
        }
        for code in ["1/0", "1 +", "x = 1"] {
            assert_eq!(run(session, code).await.hint, None, "{code}");
        }
        assert_eq!(run(session, "1/0").await.repeat_of_previous, 0);
        assert_eq!(run(session, "1/0").await.repeat_of_previous, 1);
    })
    .await;
}
