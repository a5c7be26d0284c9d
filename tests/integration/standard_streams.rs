//! What a cell does to sys.stdin, sys.stdout and sys.stderr costs it nothing, and is put right.

use warmcell::execution::{ErrorClass, Status};

use crate::support::{assert_shows, on_each_python, run};

/// How a cell makes a stream unusable, and what is told of it: `{S}` is its name.
const FAULTS: &[(&str, &str)] = &[
    (
        "del sys.{S}",
        "the cell left sys.{S} unusable (deleted); it was put right",
    ),
    (
        "del sys.{S}, sys.__{S}__",
        "the cell left sys.{S} unusable (deleted); it was put right",
    ),
    (
        "sys.{S} = None",
        "the cell left sys.{S} unusable (None); it was put right",
    ),
    (
        "sys.{S} = sys.__{S}__ = None",
        "the cell left sys.{S} unusable (None); it was put right",
    ),
    (
        "sys.{S} = 5",
        "the cell left sys.{S} unusable (write() raises AttributeError); it was put right",
    ),
    (
        "sys.{S} = type('W', (), {'flush': lambda self: None})()",
        "the cell left sys.{S} unusable (write() raises AttributeError); it was put right",
    ),
    (
        "sys.{S}.close()",
        "the cell closed sys.{S}; it was opened anew",
    ),
    (
        "sys.{S}.detach()",
        "the cell closed sys.{S}; it was opened anew",
    ),
    (
        "sys.{S}.buffer.close()",
        "the cell closed sys.{S}; it was opened anew",
    ),
    (
        "import io; sys.{S} = io.StringIO(); sys.{S}.close()",
        "the cell closed sys.{S}; it was opened anew",
    ),
    (
        "sys.{S}.flush = None",
        "the cell left sys.{S} unusable (flush() raises TypeError); it was put right",
    ),
    (
        "sys.{S}.write = lambda text: 1/0",
        "the cell left sys.{S} unusable (write() raises ZeroDivisionError); it was put right",
    ),
];

/// What the methods of a stream may raise.
const RAISED: &[(&str, &str)] = &[
    ("raise OSError(28, 'full')", "OSError"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("raise SystemExit(3)", "SystemExit"),
    ("raise GeneratorExit", "GeneratorExit"),
    ("return getattr(self, method)(*a)", "RecursionError"),
];

fn faults() -> Vec<(String, String)> {
    let mut faults: Vec<(String, String)> = FAULTS
        .iter()
        .map(|(code, told)| ((*code).to_owned(), (*told).to_owned()))
        .collect();
    for (body, kind) in RAISED {
        for method in ["write", "flush"] {
            let other = if method == "write" { "flush" } else { "write" };
            faults.push((
                format!(
                    "class S:\n    def {method}(self, *a, method='{method}'): {body}\n    def {other}(self, *a): pass\nsys.{{S}} = S()"
                ),
                format!("the cell left sys.{{S}} unusable ({method}() raises {kind}); it was put right"),
            ));
        }
    }
    faults
}

#[tokio::test]
async fn a_stream_that_a_cell_makes_unusable_changes_no_result_and_is_put_right() {
    on_each_python(async |session, version| {
        run(session, "import sys").await;
        for (code, told) in faults() {
            for stream in ["stdout", "stderr"] {
                let (code, told) = (code.replace("{S}", stream), told.replace("{S}", stream));
                let what = format!("{version}: {code}");
                let good = run(session, &format!("{code}\n6 * 7")).await;
                assert_eq!(good.status, Status::Success, "{what}: {}", good.output);
                assert_eq!(good.result.as_deref(), Some("42"), "{what}");
                assert_eq!(good.warning.as_deref(), Some(told.as_str()), "{what}");
                let prints = "print('out'); print('err', file=sys.stderr)\nsys.__stdout__.fileno(), sys.__stderr__.fileno()";
                let next = run(session, prints).await;
                assert_shows(&next, "out\n(1, 2)\n--- stderr ---\nerr\n", &what);
                assert_eq!(next.warning, None, "{what}");

                let failed = run(session, &format!("{code}\n1/0")).await;
                assert_eq!(failed.error_class, Some(ErrorClass::Exception), "{what}");
                let error = failed.error.unwrap();
                assert!(error.starts_with("ZeroDivisionError: division by zero (<cell "), "{what}: {error}");
                assert_eq!(failed.warning.as_deref(), Some(told.as_str()), "{what}");

                let exit = run(session, &format!("{code}\nsys.exit('told')")).await;
                assert_eq!((exit.exit_code, exit.error_class), (1, Some(ErrorClass::Exit)), "{what}");
                assert_eq!(exit.warning.as_deref(), Some(told.as_str()), "{what}");
            }
        }
        // Before a child they are flushed, in the middle of the cell.
        let child = run(session, "import os\ndel sys.stdout, sys.stderr\nos.system('true')").await;
        assert_eq!(child.result.as_deref(), Some("0"), "{version}: {}", child.output);
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_the_cells_own_that_works_stays_and_is_not_written_to() {
    on_each_python(async |session, version| {
        // print() needs no flush().
        let code = "import sys\nclass Tee:\n    def __init__(self): self.seen = []\n    def write(self, text): self.seen.append(text)\ntee = sys.stdout = Tee()\nprint('a')";
        let first = run(session, code).await;
        assert_eq!((first.status, first.warning), (Status::Success, None), "{version}");
        for _ in 0..3 {
            assert_eq!(run(session, "print('b')").await.warning, None, "{version}");
        }
        let seen = "sys.stdout = sys.__stdout__\n[text for text in tee.seen if text]";
        let expected = "['a', '\\n', 'b', '\\n', 'b', '\\n', 'b', '\\n']";
        assert_shows(&run(session, seen).await, expected, version);
        // It is asked once whether it takes text.
        assert_shows(&run(session, "tee.seen.count('')").await, "1", version);
    })
    .await;
}

/// Python keeps text back then, until a stream is flushed.
#[tokio::test]
async fn a_stream_that_buffers_text_is_written_out_at_the_end_of_its_cell() {
    on_each_python(async |session, version| {
        for (stream, place) in [("stdout", "first\n"), ("stderr", "--- stderr ---\nfirst\n")] {
            let buffers = format!("import os, sys\nsys.{stream}.reconfigure(write_through=False)\nprint('first', file=sys.{stream})");
            assert_shows(&run(session, &buffers).await, place, version);
            let child = format!("print('parent', file=sys.{stream}); _ = os.system('echo child >&{}')", if stream == "stdout" { 1 } else { 2 });
            let expected = place.replace("first", "parent\nchild");
            assert_shows(&run(session, &child).await, &expected, version);
        }
    })
    .await;
}
