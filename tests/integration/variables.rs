//! The variables of a kernel, listed between cells.

use std::time::{Duration, Instant};

use warmcell::execution::{ReportedState, Status};
use warmcell::session::{Cell, Session, Variable, Variables};

use crate::lifecycle_support::{result, until};
use crate::support::{Manager, Signal, assert_shows, on_each_python, run};

/// What the kernel lists; it must be the kernel that does.
pub async fn listed(session: &Session) -> Variables {
    let variables = session.variables().await;
    assert!(variables.taken_live, "{variables:?}");
    variables
}

pub fn told(variables: &Variables) -> Vec<String> {
    let told = |it: &Variable| match &it.shape {
        Some(shape) => format!("{} {} {shape}", it.name, it.kind),
        None => format!("{} {}", it.name, it.kind),
    };
    variables.variables.iter().map(told).collect()
}

/// Runs the cell; it must end without a word.
pub async fn silently(session: &Session, code: &str, what: &str) {
    assert_shows(&run(session, code).await, "", what);
}

#[tokio::test]
async fn variables_are_listed_with_type_size_and_length() {
    on_each_python(async |session, version| {
        let nothing = listed_after(session, "pass").await;
        assert_eq!((nothing.total, told(&nothing)), (0, vec![]), "{version}");
        let code = "import sys, collections, array
n = 2**100; text = 'é' * 50; items = [1, 2, 3]; pair = (1, 2); table = {'a': 1}; some = {1, 2}
raw = b'xyz'; room = bytearray(5); f = 1.5; none = None; queue = collections.deque([1])
numbers = array.array('d', [1.0] * 1000)
class C: pass
class Own(list): pass
c = C(); own = Own([1, 2])
def function(): pass
text = text + '!'; _private = 1; terminal = 7; read_file = read_file
sizes = None";
        let variables = listed_after(session, code).await;
        assert_eq!(
            told(&variables),
            [
                "sys module",
                "collections module",
                "array module",
                "n int",
                "items list 3",
                "pair tuple 2",
                "table dict 1",
                "some set 2",
                "raw bytes 3",
                "room bytearray 5",
                "f float",
                "none NoneType",
                "queue deque",
                "numbers array",
                "C type",
                "Own type",
                "c C",
                "own Own",
                "function function",
                "text str 51",
                "terminal int",
                "sizes NoneType",
            ],
            "{version}"
        );
        assert_eq!(variables.total, 22, "{version}");
        // As sys.getsizeof() has it.
        let names: Vec<&str> = variables
            .variables
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        let code =
            format!("print(*[sys.getsizeof(globals()[name]) for name in {names:?}], end='')");
        let sizes: Vec<String> = variables
            .variables
            .iter()
            .map(|it| it.size.unwrap().to_string())
            .collect();
        assert_eq!(
            run(session, &code).await.output,
            sizes.join(" "),
            "{version}"
        );
    })
    .await;
}

pub async fn listed_after(session: &Session, code: &str) -> Variables {
    silently(session, code, code).await;
    listed(session).await
}

#[tokio::test]
async fn a_listing_leaves_no_trace() {
    on_each_python(async |session, version| {
        assert_shows(&run(session, "x = 1\nx + 41").await, "42", version);
        let before = session.status();
        for _ in 0..3 {
            assert_eq!(told(&listed(session).await), ["x int"], "{version}");
        }
        assert_eq!(session.status(), before, "{version}");
        let outcome = run(
            session,
            "_, x, sorted(k for k in globals() if not k.startswith('__'))",
        )
        .await;
        assert!(
            outcome.output.starts_with("(42, 1, ['"),
            "{version}: {outcome:?}"
        );
        assert_eq!(outcome.kernel.execution_count, 2, "{version}");
        assert_eq!(outcome.kernel.state, ReportedState::Kept, "{version}");
        assert_eq!(
            (outcome.warning, outcome.background_output),
            (None, None),
            "{version}"
        );
        let code = "import linecache
sorted(name for name in linecache.cache if name.startswith('<'))";
        let outcome = run(session, code).await;
        assert!(
            outcome.output.ends_with("'<cell 3>']"),
            "{version}: {outcome:?}"
        );
        // The record of names is as without it.
        silently(session, "y = 2; del x", version).await;
        assert_eq!(
            told(&listed(session).await),
            ["linecache module", "y int"],
            "{version}"
        );
        let lost = run(session, "import os; os._exit(1)")
            .await
            .kernel
            .lost
            .unwrap();
        assert_eq!((lost.names_total, lost.cells), (2, 4), "{version}");
        assert_eq!(lost.names[1].name, "y", "{version}");
    })
    .await;
}

#[tokio::test]
async fn tables_of_pandas_are_measured_by_what_they_hold() {
    on_each_python(async |session, version| {
        // As far as it matters, what pandas looks like.
        let code = "
import os, sys
home = 'lib-%d.%d' % sys.version_info[:2]
os.makedirs(home + '/pandas/core')
for name in ('', '/core'): open(home + '/pandas' + name + '/__init__.py', 'w').close()
with open(home + '/pandas/core/frame.py', 'w') as file: file.write('''
class Index:
    def __init__(self, n): self.nbytes = 8 * n; self._n = n
    def __len__(self): return self._n
class Array:
    nbytes = 100
class Manager: pass
class DataFrame:
    def __init__(self, arrays):
        self._mgr = Manager()
        self._mgr.axes = [Index(2), Index(3)]
        self._mgr.arrays = arrays
    def __sizeof__(self): 1/0
    def memory_usage(self): 1/0
''')
sys.path.insert(0, os.path.abspath(home))
from pandas.core.frame import DataFrame, Array, Index
class Mine: nbytes = 5
class Sub(DataFrame): pass
df = DataFrame([Array(), Array()]); foreign = DataFrame([Mine()]); sub = Sub([Array()]); index = Index(4)
class Late(DataFrame): pass
Late.__name__ = 'DataFrame'; Late.__module__ = 'pandas.core.frame'
late = Late([])";
        silently(session, code, version).await;
        let variables = listed(session).await;
        let of = |name: &str| {
            let found = variables.variables.iter().find(|it| it.name == name).unwrap();
            (found.size, found.shape.clone())
        };
        assert_eq!(of("df"), (Some(224), Some("(3, 2)".to_owned())), "{version}");
        assert_eq!(of("index"), (Some(32), Some("4".to_owned())), "{version}");
        for name in ["foreign", "sub", "late"] {
            assert_eq!(of(name), (None, None), "{version}: {name}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_thread_binds_and_deletes_between_cells_is_seen() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let go = Signal::new(&manager, "go");
    let done = Signal::new(&manager, "done");
    let code = "import threading
x = 1
def work():
    open('go').read()
    global y, x
    y = [1]
    del x
    open('done', 'w').close()
threading.Thread(target=work).start()";
    let variables = listed_after(&session, code).await;
    assert_eq!(
        told(&variables),
        ["threading module", "x int", "work function"]
    );
    go.give().await;
    done.wait().await;
    let variables = listed(&session).await;
    assert_eq!(
        told(&variables),
        ["threading module", "work function", "y list 1"]
    );
    manager.end().await;
}

#[tokio::test]
async fn while_a_cell_runs_it_is_told_what_was_known_before() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let none = session.variables().await;
    assert_eq!((none.taken_live, none.total), (false, 0));
    run(&session, "x = [1]; y = 2").await;
    let gate = Signal::new(&manager, "gate");
    let mut cell = session.execute(Cell::new("z = 3\nopen('gate').read()"));
    until("the cell", || session.status().running.is_some()).await;
    let began = Instant::now();
    let variables = session.variables().await;
    assert!(began.elapsed() < Duration::from_millis(500));
    assert!(!variables.taken_live);
    assert_eq!(
        (variables.total, told(&variables)),
        (2, vec!["x list".into(), "y int".into()])
    );
    let json = serde_json::to_string(&variables).unwrap();
    let expected = r#"{"taken_live":false,"total":2,"variables":[{"name":"x","type":"list"},{"name":"y","type":"int"}]}"#;
    assert_eq!(json, expected);
    gate.give().await;
    let outcome = result(&mut cell).await;
    assert_eq!((outcome.status, outcome.warning), (Status::Success, None));
    assert_eq!(listed(&session).await.total, 3);
    // A kernel that is gone holds nothing.
    run(&session, "import os; os._exit(1)").await;
    assert_eq!(session.variables().await.total, 0);
    session.close().await;
    assert_eq!(session.variables().await.total, 0);
    manager.end().await;
}

#[tokio::test]
async fn a_kernel_that_does_not_answer_is_left_in_peace() {
    on_each_python(async |session, version| {
        // A thread that keeps Python to itself: a page says when it has begun, since a system call
        // would let others in.
        let code = format!(
            "import sys, threading, time, os, mmap
go, begun = os.path.abspath('go-{version}'), os.path.abspath('begun-{version}')
os.mkfifo(go)
with open(begun, 'w+b') as file: file.write(b' '); file.flush(); page = mmap.mmap(file.fileno(), 1)
interval = sys.getswitchinterval()
def spin():
    open(go).read()
    sys.setswitchinterval(100)
    until = time.monotonic() + 2.5
    page[0:1] = b'x'
    while time.monotonic() < until: pass
    sys.setswitchinterval(interval)
thread = threading.Thread(target=spin); thread.start()
x = 1
print(go, begun)"
        );
        let outcome = run(session, &code).await;
        let (go, begun) = outcome.output.trim_end().split_once(' ').unwrap();
        tokio::fs::write(go, b"x").await.unwrap();
        until("the thread", || std::fs::read(begun).unwrap() == b"x").await;
        let (first, second) = tokio::join!(session.variables(), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            session.variables().await
        });
        for variables in [first, second] {
            assert!(!variables.taken_live, "{version}");
            let x = variables.variables.iter().find(|it| it.name == "x");
            assert_eq!(x.unwrap().kind, "int", "{version}");
        }
        // What is answered too late disturbs no cell.
        let outcome = run(session, "thread.join(); x + 1").await;
        assert_shows(&outcome, "2", version);
        assert_eq!(outcome.kernel.state, ReportedState::Kept, "{version}");
        assert_eq!(
            (outcome.warning, outcome.background_output),
            (None, None),
            "{version}"
        );
        assert!(listed(session).await.total > 5, "{version}");
    })
    .await;
}

#[tokio::test]
async fn listings_and_cells_do_not_get_in_each_others_way() {
    on_each_python(async |session, version| {
        run(session, "total = 0").await;
        for n in 1..=50 {
            let ((), outcome) = tokio::join!(
                async {
                    for _ in 0..3 {
                        session.variables().await;
                    }
                },
                async {
                    let code = format!("total += {n}; total");
                    run(session, &code).await
                }
            );
            let expected = (n * (n + 1) / 2).to_string();
            assert_shows(&outcome, &expected, version);
            assert_eq!(outcome.warning, None, "{version}");
        }
        assert_eq!(told(&listed(session).await), ["total int"], "{version}");
    })
    .await;
}
