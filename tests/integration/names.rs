//! The record of variables: what a loss says is gone.

use warmcell::execution::Lost;
use warmcell::session::Session;

use crate::support::{on_each_python, run};

/// Runs the cells, then loses the kernel; what the result says is lost.
async fn lost_after(session: &Session, cells: &[&str]) -> Lost {
    for code in cells {
        run(session, code).await;
    }
    let outcome = run(session, "import os; os._exit(1)").await;
    outcome.kernel.lost.unwrap()
}

fn told(lost: &Lost) -> Vec<String> {
    lost.names
        .iter()
        .map(|it| format!("{} {}", it.name, it.kind))
        .collect()
}

#[tokio::test]
async fn the_latest_bound_names_and_their_types_are_told() {
    let many: Vec<String> = (280..300).map(|n| format!("v{n} int")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let cases: &[(&[&str], &[&str], u64)] = &[
        (&[], &[], 0),
        (
            &["x = [1]", "y = 'text'; x2 = 2.5"],
            &["x list", "y str", "x2 float"],
            3,
        ),
        (
            &["a = 1; b = 2; c = 3", "a = 'again'", "del b"],
            &["c int", "a str"],
            2,
        ),
        (
            &["a = 1", "a += 0.5", "b = a", "del a", "a = None"],
            &["b float", "a NoneType"],
            2,
        ),
        (
            &[
                "import json, os.path as p",
                "from math import pi",
                "def f(): pass",
                "class C: pass",
                "c = C()",
            ],
            &[
                "json module",
                "p module",
                "pi float",
                "f function",
                "C type",
                "c C",
            ],
            6,
        ),
        (
            &[
                "for i, ch in enumerate('ab'): pass",
                "with open('/dev/null') as file: pass",
                "try:\n    1/0\nexcept Exception as e:\n    kept = 1",
                "[n for n in range(3)]",
                "(walrus := 5)",
            ],
            &[
                "i int",
                "ch str",
                "file TextIOWrapper",
                "kept int",
                "walrus int",
            ],
            5,
        ),
        (
            &[
                "exec('made = 1; other = 2')",
                "exec('made = \"text\"')",
                "exec('del other')",
            ],
            &["made str"],
            1,
        ),
        (
            &["def f():\n    global g\n    g = 1.5", "f()"],
            &["f function", "g float"],
            2,
        ),
        (
            &[
                "def f():\n    global g, h\n    g = 1\n    globals().pop('h', None)",
                "h = 1",
                "f()",
                "g = None",
                "f()",
            ],
            &["f function", "g int"],
            2,
        ),
        (
            &["globals().update(p=1, q=2)", "globals().pop('p')"],
            &["q int"],
            1,
        ),
        (
            &["from colorsys import *"],
            &[
                "rgb_to_yiq function",
                "yiq_to_rgb function",
                "rgb_to_hls function",
                "hls_to_rgb function",
                "rgb_to_hsv function",
                "hsv_to_rgb function",
            ],
            6,
        ),
        (
            &["for n in range(300): exec(f'v{n} = n')", "del n"],
            &many,
            300,
        ),
        (
            &[
                "for n in range(300): globals()[f'v{n}'] = n",
                "for n in range(290): del globals()[f'v{n}']\ndel n",
            ],
            &[
                "v290 int", "v291 int", "v292 int", "v293 int", "v294 int", "v295 int", "v296 int",
                "v297 int", "v298 int", "v299 int",
            ],
            10,
        ),
        (
            &[
                "for n in range(300): globals()[f'v{n}'] = n",
                "globals().clear()",
                "left = 1",
            ],
            &["left int"],
            1,
        ),
        (
            &[
                "_private = 1; __dunder = 2; __name__ = 'x'",
                "__annotations__ = {}",
                "x: int = 3",
                "y: int",
            ],
            &["x int"],
            1,
        ),
        (
            &[
                "read_file",
                "terminal = 5",
                "import hermes_tools",
                "write_file = hermes_tools.write_file",
            ],
            &["terminal int", "hermes_tools module"],
            2,
        ),
        (
            &[
                "terminal = 5",
                "import hermes_tools; terminal = hermes_tools.terminal",
            ],
            &["hermes_tools module"],
            1,
        ),
        (
            &[
                "globals()['a\\nb'] = 1",
                "globals()['x' * 9_000_000] = 2",
                "globals()['\\ud800'] = 3",
                "globals()[5] = 4",
                "globals()[''] = 5",
            ],
            &[
                "a\u{fffd}b int",
                &format!("{} int", "x".repeat(100)),
                "\u{fffd} int",
                " int",
            ],
            4,
        ),
        (
            &[
                "class M(type):\n    @property\n    def __name__(cls): raise SystemExit\nclass H(metaclass=M): pass\nh = H()\nclass L(metaclass=type('M2', (type,), {'__name__': 'x' * 5000})): pass\nl = L()",
            ],
            &["M type", "H M", "h H", "L M2", "l L"],
            5,
        ),
        (
            &[
                "class K(str):\n    def __hash__(self): return hash('kept')\n    def __eq__(self, other): raise SystemExit(3)",
                "kept = 1",
                "globals()[K('k')] = 2",
                "kept",
            ],
            &["K type", "kept int"],
            2,
        ),
        (
            &[
                "x = 1\n1/0\ny = 2",
                "if False: z = 1",
                "def f():\n    local = 1\nf()",
            ],
            &["x int", "f function"],
            2,
        ),
        (
            &[
                "v = 1",
                "import sys\nsys.settrace(lambda *a: None)",
                "w = 2",
            ],
            &["v int", "sys module", "w int"],
            3,
        ),
    ];
    on_each_python(async |session, version| {
        for (cells, names, total) in cases {
            let lost = lost_after(session, cells).await;
            let what = format!("{version}: {cells:?}")
                .chars()
                .take(300)
                .collect::<String>();
            assert_eq!(told(&lost), *names, "{what}");
            assert_eq!(
                (lost.names_total, lost.cells),
                (*total, cells.len() as u64),
                "{what}"
            );
        }
    })
    .await;
}
