//! What cells show beside their streams.

use std::time::Duration;

use serde_json::json;
use warmcell::execution::Status;
use warmcell::jupyter::PublishedKind;
use warmcell::session::{Cell, EventKind};

use crate::messages_kit::{Seen, show};
use crate::support::{Manager, assert_shows, assert_shows_files, on_each_python, run, run_cell};

const RICH: &str = "\
class Rich:
    def __repr__(self): return 'a Rich'
    def _repr_html_(self): return '<b>rich</b>'
    def _repr_markdown_(self): return None
    def _repr_png_(self): return b'\\x89PNG', {'width': 3}
    def _repr_json_(self): return {'a': [1]}
    def _repr_latex_(self): raise NotImplementedError
";

#[tokio::test]
async fn a_value_is_shown_in_all_its_forms() {
    on_each_python(async |session, version| {
        run(session, RICH).await;
        let data = json!({
            "text/plain": "a Rich", "text/html": "<b>rich</b>", "image/png": "iVBORw==",
            "application/json": {"a": [1]},
        });
        let (outcome, seen) = show(session, "print('before'); Rich()").await;
        assert_shows_files(&outcome, "before\na Rich", 1, version);
        assert_eq!(outcome.result.as_deref(), Some("a Rich"), "{version}");
        assert_eq!(seen.len(), 2, "{version}: {seen:?}");
        assert_eq!(seen[0], Seen::Out("before\n".to_owned()), "{version}");
        let content = seen[1].content();
        assert_eq!(content["data"], data, "{version}");
        assert_eq!(
            content["metadata"],
            json!({"image/png": {"width": 3}}),
            "{version}"
        );
        assert_eq!(content["execution_count"], 2, "{version}");

        let (outcome, seen) = show(session, "display(Rich())").await;
        assert_shows_files(&outcome, "a Rich\n", 1, version);
        let [Seen::Published(PublishedKind::Display, content)] = &seen[..] else {
            panic!("{version}: {seen:?}");
        };
        assert_eq!(content["data"], data, "{version}");
        assert_eq!(content["transient"], json!({}), "{version}");
    })
    .await;
}

#[tokio::test]
async fn displays_stand_in_order_with_all_that_is_printed() {
    on_each_python(async |session, version| {
        let code = "\
import os, sys
for n in range(20):
    print('p', n)
    display(n)
    os.write(1, b'raw\\n')
    os.system('echo child')
    display({'text/plain': 'd'}, raw=True)
print('end')
";
        let (outcome, seen) = show(session, code).await;
        let mut expected = Vec::new();
        let mut text = String::new();
        for n in 0..20 {
            let out = format!("p {n}\n");
            expected.push(Seen::Out(out.clone()));
            expected.push(plain(&n.to_string()));
            expected.push(Seen::Out("raw\nchild\n".to_owned()));
            expected.push(plain("d"));
            text = [text, format!("{out}{n}\nraw\nchild\nd\n")].concat();
        }
        expected.push(Seen::Out("end\n".to_owned()));
        assert_eq!(seen, expected, "{version}");
        assert_shows(&outcome, &format!("{text}end\n"), version);
        let printed = outcome.stdout_bytes_total;
        let shown: usize = (0..20).map(|n: usize| n.to_string().len() + 3).sum();
        assert_eq!(printed, (text.len() + 4 - shown) as u64, "{version}");
    })
    .await;
}

fn plain(text: &str) -> Seen {
    let content = json!({"data": {"text/plain": text}, "metadata": {}, "transient": {}});
    Seen::Published(PublishedKind::Display, content)
}

#[tokio::test]
async fn a_display_can_be_changed_and_cleared() {
    on_each_python(async |session, version| {
        let code = "\
handle = display('a', display_id='mine')
handle.update('b')
update_display('c', display_id='mine', metadata={'text/plain': {'x': 1}})
clear_output(wait=True)
fresh = display(display_id=True)
assert type(fresh.display_id) is str and len(fresh.display_id) == 32
assert display('d') is None
print('printed')
";
        let (outcome, seen) = show(session, code).await;
        // Results keep what was cleared, and show what was first shown.
        assert_shows(&outcome, "'a'\n'd'\nprinted\n", version);
        let kinds: Vec<_> = seen
            .iter()
            .filter_map(|it| match it {
                Seen::Published(kind, _) => Some(*kind),
                _ => None,
            })
            .collect();
        let expected = [
            PublishedKind::Display,
            PublishedKind::Update,
            PublishedKind::Update,
            PublishedKind::Clear,
            // A place that can be filled later.
            PublishedKind::Display,
            PublishedKind::Display,
        ];
        assert_eq!(kinds, expected, "{version}");
        assert_eq!(
            seen[1].content()["transient"]["display_id"],
            "mine",
            "{version}"
        );
        let changed = json!({
            "data": {"text/plain": "'c'"}, "metadata": {"text/plain": {"x": 1}},
            "transient": {"display_id": "mine"},
        });
        assert_eq!(seen[2].content(), &changed, "{version}");
        assert_eq!(seen[3].content(), &json!({"wait": true}), "{version}");
        assert_eq!(seen[4].content()["data"], json!({}), "{version}");
    })
    .await;
}

#[tokio::test]
async fn a_form_that_cannot_be_had_is_told_and_the_others_are_shown() {
    on_each_python(async |session, version| {
        let code = "\
class Odd:
    def __repr__(self): return 'Odd'
    def _repr_html_(self): raise KeyError('no html')
    def _repr_json_(self): return {1: {2}}
    def _repr_svg_(self): return '<svg/>'
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'own text', 'x/y': 1}, {'x/y': {'z': 2}}
class Itself:
    def _ipython_display_(self): print('by itself')
class Proxy:
    def __getattr__(self, name): return lambda *a, **k: 'anything'
    def __repr__(self): return 'Proxy'
Odd()";
        let (outcome, seen) = show(session, code).await;
        assert_eq!(outcome.status, Status::Success, "{version}");
        assert_eq!(outcome.result.as_deref(), Some("Odd"), "{version}");
        let shown = seen.iter().find(|it| matches!(it, Seen::Published(..)));
        assert_eq!(
            shown.unwrap().content()["data"],
            json!({"text/plain": "Odd", "image/svg+xml": "<svg/>"}),
            "{version}"
        );
        for part in [
            "KeyError: 'no html'",
            "line 3, in _repr_html_",
            "TypeError: not a JSON value",
        ] {
            assert!(
                outcome.output.contains(part),
                "{version}: {}",
                outcome.output
            );
        }
        assert!(
            !outcome.output.contains("_warmcell"),
            "{version}: {}",
            outcome.output
        );
        let (outcome, seen) = show(session, "Bundle()").await;
        assert_shows(&outcome, "own text", version);
        assert_eq!(
            seen[0].content()["metadata"],
            json!({"x/y": {"z": 2}}),
            "{version}"
        );
        assert_shows(&run(session, "Itself()").await, "by itself\n", version);
        assert_shows(&run(session, "Proxy()").await, "Proxy", version);
        assert_shows(
            &run(session, "Odd, 1").await,
            "(<class '__main__.Odd'>, 1)",
            version,
        );
        let raised = run(
            session,
            "class R:\n    def __repr__(self): 1/0\ndisplay(R())",
        )
        .await;
        assert_eq!(raised.status, Status::Error, "{version}");
        assert!(
            !raised.output.contains("_warmcell"),
            "{version}: {}",
            raised.output
        );
    })
    .await;
}

#[tokio::test]
async fn a_form_that_takes_for_ever_ends_with_the_cells_time() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "\
class Endless:
    def _repr_html_(self):
        while True: pass
print('x')
display(Endless())";
    let cell = Cell::new(code).timeout(Duration::from_millis(300));
    let outcome = run_cell(&session, cell).await;
    assert_eq!(outcome.status, Status::Timeout);
    assert!(outcome.output.starts_with("x\n["), "{}", outcome.output);
    manager.end().await;
}

#[tokio::test]
async fn long_data_travels_whole_and_too_long_data_is_told() {
    on_each_python(async |session, version| {
        let code = "\
display({'text/plain': 'p', 'text/html': 'h' * (3 << 20), 'image/png': b'x' * (2 << 20)}, raw=True)
display({'text/plain': 'q', 'text/html': 'h' * (65 << 20)}, raw=True)
for n in range(3): display({'text/plain': str(n), 'a/b': '\\u00e9' * 600_000}, raw=True)";
        let (outcome, seen) = show(session, code).await;
        assert!(
            outcome.output.starts_with("p\nq\n[text/html: "),
            "{version}: {}",
            outcome.output
        );
        assert!(
            outcome
                .output
                .contains("MiB of a message]\n0\n1\n2\n[image/png, 2,097,152 bytes: "),
            "{version}: {}",
            outcome.output
        );
        assert_eq!(seen.len(), 5, "{version}");
        let data = &seen[0].content()["data"];
        assert_eq!(
            data["text/html"].as_str().unwrap().len(),
            3 << 20,
            "{version}"
        );
        assert_eq!(
            data["image/png"].as_str().unwrap().len(),
            (2_usize << 20).div_ceil(3) * 4,
            "{version}"
        );
        assert_eq!(
            seen[1].content()["data"].as_object().unwrap().len(),
            1,
            "{version}"
        );
        let accented = seen[4].content()["data"]["a/b"].as_str().unwrap();
        assert_eq!(accented.chars().count(), 600_000, "{version}");
    })
    .await;
}

#[tokio::test]
async fn displays_of_threads_and_children_are_shown_or_printed() {
    on_each_python(async |session, version| {
        let code = "\
import threading
threads = [threading.Thread(target=lambda: [display(1) for _ in range(20)]) for _ in range(4)]
[t.start() for t in threads]
for _ in range(20): display(2)
[t.join() for t in threads]
import os
pid = os.fork()
if pid == 0:
    display('in a child')
    os._exit(0)
os.waitpid(pid, 0)
go = threading.Event()
late = threading.Thread(target=lambda: (go.wait(), display('late')))
late.start()";
        let (outcome, seen) = show(session, code).await;
        assert_eq!(
            outcome.status,
            Status::Success,
            "{version}: {}",
            outcome.output
        );
        let shown = seen.iter().filter(|it| matches!(it, Seen::Published(..)));
        assert_eq!(shown.count(), 100, "{version}");
        assert!(outcome.output.ends_with("'in a child'\n"), "{version}");
        let outcome = run(session, "go.set(); late.join()").await;
        assert_shows(&outcome, "'late'\n", version);
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_displays_costs_the_manager_little_and_holds_nobody_up() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "\
import os
from _warmcell import shown, display as d
link, header = shown.link, shown.request.header
content = {'data': {'text/html': 'h' * 500_000}, 'metadata': {}}
while True:
    link.send('iopub', 'display_data', header, content)";
    let before = resident();
    let mut execution = session.execute_live(Cell::new(code).timeout(Duration::from_secs(2)));
    // Nobody reads.
    let live = execution.take_live().unwrap();
    let other = manager.session("b");
    assert_shows(&run(&other, "1").await, "1", "another session");
    let outcome = execution.outcome().await;
    drop(live);
    assert_eq!(outcome.status, Status::Timeout);
    assert!(
        resident() < before + (64 << 20),
        "{} {}",
        before,
        resident()
    );
    let cell = Cell::new(code).timeout(Duration::from_secs(1));
    assert_eq!(run_cell(&session, cell).await.status, Status::Timeout);
    assert!(
        resident() < before + (64 << 20),
        "{} {}",
        before,
        resident()
    );
    manager.end().await;
}

/// Bytes of memory of this process.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test]
async fn those_who_watch_see_displays_as_events() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(&session, RICH).await;
    let mut events = session.events();
    let code = "display(Rich(), display_id='i')\nclear_output()\ndisplay({'text/plain': 't' * 20_000, 'x/y': 'z' * 300_000}, raw=True, display_id='i', update=True)\nRich()";
    run(&session, code).await;
    let mut found = Vec::new();
    while let Some(event) = events.next().await {
        match event.kind {
            EventKind::CellFinished { .. } => break,
            EventKind::CellQueued
            | EventKind::CellStarted { .. }
            | EventKind::KernelState { .. } => {}
            _ => {
                let mut event = serde_json::to_value(&event).unwrap();
                for key in ["seq", "at", "session", "generation"] {
                    event.as_object_mut().unwrap().remove(key);
                }
                found.push(event);
            }
        }
    }
    let data = json!({
        "text/plain": "a Rich", "text/html": "<b>rich</b>", "image/png": "iVBORw==",
        "application/json": {"a": [1]},
    });
    let metadata = json!({"image/png": {"width": 3}});
    assert_eq!(
        found,
        [
            json!({"cell": 2, "kind": "display", "data": data, "metadata": metadata,
                "display_id": "i"}),
            json!({"cell": 2, "kind": "clear_output", "wait": false}),
            json!({"cell": 2, "kind": "update_display", "data": {"text/plain": "t".repeat(16 << 10)},
                "metadata": {}, "display_id": "i", "omitted": ["x/y"]}),
            json!({"cell": 2, "kind": "result", "data": "a Rich",
                "shown": {"data": data, "metadata": metadata}}),
        ]
    );
    manager.end().await;
}

#[tokio::test]
async fn a_users_own_display_wins_and_ours_is_no_variable() {
    on_each_python(async |session, version| {
        run(session, "x = 1").await;
        let names: Vec<_> = session.variables().await.variables;
        assert_eq!(names.len(), 1, "{version}: {names:?}");
        let own = "def display(*a): print('mine', *a)\ndisplay(1)";
        assert_shows(&run(session, own).await, "mine 1\n", version);
        assert_shows(&run(session, "display(2)").await, "mine 2\n", version);
        assert_shows(
            &run(
                session,
                "del display\ntry: display(3)\nexcept NameError: print('gone')",
            )
            .await,
            "gone\n",
            version,
        );
    })
    .await;
}
