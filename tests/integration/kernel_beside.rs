//! What somebody notices who uses our kernel beside ipykernel.

use serde_json::{Value, json};

use crate::conformance::suites;
use crate::kernel_kit::{FrontEnd, Kernel, Message};
use crate::support::{on_each_python, pythons, run as run_in};

/// Runs a cell: the content of its reply, and all that is published.
fn run(front_end: &mut FrontEnd, code: &str) -> (Value, Vec<Message>) {
    let header = front_end.execute(code);
    let reply = front_end.reply_to(&header);
    (reply.content, front_end.all_of(&header))
}

/// The messages that are no status and no echo, by kind.
fn kinds(messages: &[Message]) -> Vec<&str> {
    let kinds = messages.iter().map(Message::kind);
    kinds
        .filter(|it| !["status", "execute_input"].contains(it))
        .collect()
}

/// What was printed: the stream and the text of each message.
fn streams(messages: &[Message]) -> Vec<(&str, &str)> {
    let printed = messages.iter().filter(|it| it.kind() == "stream");
    printed
        .map(|it| (it.content["name"].as_str().unwrap(), it.text()))
        .collect()
}

/// The value that a cell has shown.
#[track_caller]
fn value(front_end: &mut FrontEnd, code: &str) -> String {
    let (reply, messages) = run(front_end, code);
    assert_eq!(reply["status"], "ok", "{code}: {reply}");
    let result = messages.iter().find(|it| it.kind() == "execute_result");
    let result = result.unwrap_or_else(|| panic!("{code} shows nothing"));
    result.content["data"]["text/plain"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn sys_exit_fails_for_front_ends_and_drops_the_cells_that_wait() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    for (code, evalue, last) in [
        ("import sys; sys.exit()", "", "SystemExit"),
        ("sys.exit(0)", "0", "SystemExit: 0"),
        ("raise SystemExit", "", "SystemExit"),
        ("sys.exit(3)", "3", "SystemExit: 3"),
        ("sys.exit('bye')", "bye", "SystemExit: bye"),
    ] {
        let (reply, messages) = run(&mut front_end, code);
        assert_eq!(reply["status"], "error", "{code}");
        assert_eq!(reply["ename"], "SystemExit", "{code}");
        assert_eq!(reply["evalue"], evalue, "{code}");
        assert_eq!(reply["traceback"], json!([last]), "{code}");
        let error = messages.iter().find(|it| it.kind() == "error").unwrap();
        assert_eq!(error.content["traceback"], json!([last]), "{code}");
    }
    let leaving = front_end.execute("import time; time.sleep(0.2); sys.exit()");
    let waiting = front_end.execute("x = 1");
    assert_eq!(front_end.reply_to(&leaving).content["status"], "error");
    assert_eq!(front_end.reply_to(&waiting).content["status"], "aborted");
    assert_eq!(value(&mut front_end, "'x' in globals()"), "False");
    kernel.close().await;
}

#[tokio::test]
async fn what_a_plain_cell_gives_the_loop_a_later_one_awaits() {
    on_each_python(async |session, version| {
        for (code, output) in [
            ("import asyncio\nasync def g(): return 5", ""),
            (
                "import warnings; warnings.simplefilter('ignore')\nt = asyncio.ensure_future(g())",
                "",
            ),
            ("await t", "5"),
            ("t = asyncio.get_event_loop().create_task(g())", ""),
            ("await t", "5"),
            ("e = asyncio.Event()\nl = asyncio.get_event_loop()", ""),
            ("l.call_later(0.001, e.set); await e.wait()", "True"),
            (
                "await asyncio.sleep(0); asyncio.get_running_loop() is l",
                "True",
            ),
            // A program ends with it; here the next cell may ask for a loop.
            ("asyncio.run(g())", "5"),
            ("asyncio.get_event_loop() is l", "True"),
            ("l.close()", ""),
            ("await g()", "5"),
            ("t = asyncio.ensure_future(g())", ""),
            ("await t", "5"),
            // And one that a cell has put in place is the one.
            (
                "own = asyncio.new_event_loop(); asyncio.set_event_loop(own)",
                "",
            ),
            (
                "await asyncio.sleep(0); asyncio.get_running_loop() is own",
                "True",
            ),
        ] {
            let outcome = run_in(session, code).await;
            assert_eq!(outcome.error, None, "{version}: {code}");
            let shown = outcome.result.unwrap_or_default();
            assert_eq!(shown, output, "{version}: {code}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_loop_that_nobody_has_asked_for_is_made_by_no_cell() {
    on_each_python(async |session, version| {
        let code = "import sys\nevents = sys.modules.get('asyncio.events')\ngetattr(events, '_event_loop_policy', None) is None";
        let outcome = run_in(session, code).await;
        assert_eq!(outcome.result.as_deref(), Some("True"), "{version}");
        let outcome = run_in(session, "asyncio = __import__('asyncio'); asyncio.create_task(asyncio.sleep(0))").await;
        let error = outcome.error.unwrap_or_default();
        assert!(error.contains("no running event loop"), "{version}: {error}");
    })
    .await;
}

#[tokio::test]
async fn both_streams_of_a_notebooks_cell_come_as_they_were_printed() {
    for (_version, python) in pythons() {
        let kernel = Kernel::start_on(python);
        let mut front_end = kernel.front_end();
        let code = "\
import sys
for i in range(100):
    print('o', i, flush=True)
    print('e', i, file=sys.stderr, flush=True)";
        let (_, messages) = run(&mut front_end, code);
        let wanted = (0..100).flat_map(|i| {
            [
                ("stdout", format!("o {i}\n")),
                ("stderr", format!("e {i}\n")),
            ]
        });
        let wanted: Vec<(&str, String)> = wanted.collect();
        let seen = streams(&messages).into_iter();
        let seen: Vec<(&str, String)> = seen.map(|(name, text)| (name, text.to_owned())).collect();
        assert_eq!(seen, wanted);
        // Whoever does it without end is not waited for, and loses nothing.
        let code = "\
for i in range(1500):
    print('o')
    print('e', file=sys.stderr)";
        let (_, messages) = run(&mut front_end, code);
        for (name, line) in [("stdout", "o\n"), ("stderr", "e\n")] {
            let printed = streams(&messages).into_iter();
            let text: String = printed.filter(|it| it.0 == name).map(|it| it.1).collect();
            assert_eq!(text, line.repeat(1500), "{name}");
        }
        // A destructor that prints in the midst of a display, a thread, a child: none of them hangs.
        let code = "\
class Loud:
    def __del__(self): print('gone', file=sys.stderr)
import gc, os, threading
a = Loud(); a.a = a; del a
print('x')
display(1)
gc.collect()
thread = threading.Thread(target=lambda: print('t', file=sys.stderr)); thread.start(); thread.join()
pid = os.fork()
if not pid:
    print('c'); print('d', file=sys.stderr); os._exit(0)
os.waitpid(pid, 0)[1]";
        assert_eq!(value(&mut front_end, code), "0");
        kernel.close().await;
    }
}

#[tokio::test]
async fn an_interrupt_between_two_streams_leaves_nothing_behind() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    for _ in 0..30 {
        let code = "import sys\nwhile True:\n    print('o')\n    print('e', file=sys.stderr)";
        let header = front_end.execute(code);
        front_end.begun(&header);
        front_end.order("interrupt_request", &json!({}));
        assert_eq!(front_end.answer().content["status"], "ok");
        let reply = front_end.reply_to(&header);
        assert_eq!(reply.content["ename"], "KeyboardInterrupt");
        front_end.all_of(&header);
        let (reply, messages) = run(
            &mut front_end,
            "print('a'); print('b', file=sys.stderr); display(1)",
        );
        assert_eq!(reply["status"], "ok");
        assert_eq!(streams(&messages), [("stdout", "a\n"), ("stderr", "b\n")]);
    }
    kernel.close().await;
}

#[tokio::test]
async fn long_outputs_are_whole_or_cut_at_line_ends() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let (_, messages) = run(&mut front_end, "print('y' * 1_000_000)");
    let whole: String = streams(&messages).iter().map(|(_, text)| *text).collect();
    assert!(whole == "y".repeat(1_000_000) + "\n");
    let (_, messages) = run(&mut front_end, "for i in range(200_000): print(i)");
    let pieces = streams(&messages);
    assert!(pieces.iter().all(|(_, text)| text.ends_with('\n')));
    let whole: String = pieces.iter().map(|(_, text)| *text).collect();
    let lines: Vec<String> = (0..200_000).map(|i| i.to_string()).collect();
    let wanted = lines.join("\n") + "\n";
    assert!(whole == wanted);
    kernel.close().await;
}

const SECRET: &str = "'ghp_' + '0123456789abcdef' * 2";

#[tokio::test]
async fn that_secrets_are_masked_is_said_once_a_kernel_and_counted_each_time() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let (reply, messages) = run(&mut front_end, "print(1)");
    assert_eq!(reply.get("warmcell"), None);
    assert_eq!(streams(&messages), [("stdout", "1\n")]);
    for (time, says) in [(1, true), (2, false)] {
        let (reply, messages) = run(&mut front_end, &format!("print({SECRET})"));
        assert_eq!(reply["warmcell"], json!({ "redacted": 1 }), "{time}");
        let seen = streams(&messages);
        assert_eq!(seen[0], ("stdout", "[redacted:github-token]\n"), "{time}");
        assert_eq!(seen.len(), if says { 2 } else { 1 }, "{seen:?}");
        if says {
            assert_eq!(seen[1].0, "stderr");
            assert!(seen[1].1.contains("--no-redact"), "{seen:?}");
        }
    }
    kernel.close().await;
}

#[tokio::test]
async fn a_kernel_of_ones_own_shows_secrets_if_it_is_told_to() {
    let kernel = Kernel::start_as(|command| {
        command.arg("--no-redact");
    });
    let mut front_end = kernel.front_end();
    let (reply, messages) = run(&mut front_end, &format!("print({SECRET})"));
    assert_eq!(reply.get("warmcell"), None);
    let seen = streams(&messages);
    assert_eq!(seen, [("stdout", "ghp_0123456789abcdef0123456789abcdef\n")]);
    kernel.close().await;
}

#[tokio::test]
async fn who_leaves_is_not_told_how_and_plotly_knows_where_it_is() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    for code in ["exit", "quit"] {
        let (reply, messages) = run(&mut front_end, code);
        assert_eq!(reply["payload"][0]["source"], "ask_exit");
        assert_eq!(kinds(&messages), [""; 0], "{code}");
    }
    let renderer = value(&mut front_end, "import os; os.environ['PLOTLY_RENDERER']");
    assert_eq!(renderer, "'plotly_mimetype'");
    kernel.close().await;
    let kernel = Kernel::start_as(|command| {
        command.env("PLOTLY_RENDERER", "svg");
    });
    let mut front_end = kernel.front_end();
    let renderer = value(&mut front_end, "import os; os.environ['PLOTLY_RENDERER']");
    assert_eq!(renderer, "'svg'");
    kernel.close().await;
}

/// pandas as far as its tables have columns, and knows how wide they are.
const PANDAS: &str = "\
import os, sys
os.makedirs('p/pandas/core')
open('p/pandas/__init__.py', 'w').write('''
from .core.frame import DataFrame
options = {\"display.max_columns\": 0}
get_option, set_option = options.get, options.__setitem__
''')
open('p/pandas/core/__init__.py', 'w').close()
open('p/pandas/core/frame.py', 'w').write('''
class DataFrame:
    def keys(self): return iter(['price', 'power', 7, 'size'])
''')
sys.path.insert(0, 'p')
import pandas
df = pandas.DataFrame()
class Other(pandas.DataFrame): pass
Other.__module__ = '__main__'
other = Other()";

#[tokio::test]
async fn columns_of_a_table_are_completed_and_as_many_shown_as_in_a_notebook() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let (reply, _) = run(&mut front_end, PANDAS);
    assert_eq!(reply["status"], "ok", "{reply}");
    for (code, matches) in [
        ("df[\"p", json!(["power", "price"])),
        ("df['", json!(["power", "price", "size"])),
        // What is not pandas' own is not called.
        ("other['", json!([])),
    ] {
        let content = json!({ "code": code, "cursor_pos": code.len() });
        let header = front_end.request("complete_request", &content);
        let reply = front_end.reply_to(&header);
        assert_eq!(reply.content["matches"], matches, "{code}");
        front_end.all_of(&header);
    }
    let columns = value(&mut front_end, "pandas.get_option('display.max_columns')");
    assert_eq!(columns, "20");
    kernel.close().await;
}

#[tokio::test]
async fn errors_come_before_figures_and_into_the_widget_that_captures_them() {
    let Some(python) = suites() else { return };
    let kernel = Kernel::start_on(&python);
    let mut front_end = kernel.front_end();
    let (_, messages) = run(
        &mut front_end,
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n1 / 0",
    );
    assert_eq!(kinds(&messages), ["error", "display_data"]);
    for (code, shown) in [
        ("with plt.ioff(): f = plt.figure()", &[][..]),
        ("_ = plt.figure(2).add_subplot()", &["display_data"]),
        (
            "with plt.ioff(): f = plt.figure(3)\nplt.show()",
            &["display_data"; 2],
        ),
        ("_ = plt.figure().add_subplot()", &["display_data"]),
    ] {
        let (_, messages) = run(&mut front_end, code);
        assert_eq!(kinds(&messages), shown, "{code}");
    }
    let code = "\
import ipywidgets
out = ipywidgets.Output()
with out: 1 / 0
print('after')";
    let (reply, messages) = run(&mut front_end, code);
    assert_eq!(reply["status"], "ok");
    let error = messages.iter().find(|it| it.kind() == "error").unwrap();
    assert_eq!(error.content["ename"], "ZeroDivisionError");
    let lines = error.content["traceback"].as_array().unwrap();
    assert_eq!(lines.last().unwrap(), "ZeroDivisionError: division by zero");
    assert_eq!(streams(&messages), [("stdout", "after\n")]);
    kernel.close().await;
}
