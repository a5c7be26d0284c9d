//! Packages that have ways of their own to show something: they end in ours. With the packages
//! themselves where the conformance suites are installed, and with stand-ins on every Python.

use serde_json::{Value, json};
use warmcell::execution::{Outcome, Wishes};
use warmcell::jupyter::PublishedKind;
use warmcell::session::{Cell, Session};

use crate::conformance::suites;
use crate::kernel_kit::{Kernel, Message};
use crate::messages_kit::{Seen, show, show_cell};
use crate::support::{Manager, assert_shows, assert_shows_files, on_each_python, run};

/// IPython as far as it shows something, in the shape of IPython 9 and of IPython 7.
const IPYTHON: &str = r#"
import os, sys
FUNCTIONS = '''
def publish_display_data(data, metadata=None, source=None, *, transient=None, **kwargs): print('theirs', data)
def display(*objs, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, clear=False, **kwargs):
    """Theirs."""
    print(*objs)
def update_display(obj, *, display_id, **kwargs): print(obj)
class DisplayHandle:
    def __init__(self, display_id=None): self.display_id = display_id
    def update(self, obj, **kwargs): update_display(obj, display_id=self.display_id, **kwargs)
def clear_output(wait=False): print('cleared')
'''
for old in (False, True):
    root = os.path.join(FOLDER, 'old' if old else 'new', 'IPython')
    os.makedirs(root + '/core')
    files = {'__init__.py': '', 'core/__init__.py': '', 'display.py': 'from IPython.core.display import *'}
    if old:
        files['core/display.py'] = FUNCTIONS
    else:
        files['core/display_functions.py'] = FUNCTIONS
        files['core/display.py'] = 'from .display_functions import *'
    for name, text in files.items():
        open(os.path.join(root, name), 'w').write(text)
"#;

/// matplotlib as far as it shows something.
const MATPLOTLIB: &str = r#"
import os
root = os.path.join(FOLDER, 'mpl', 'matplotlib')
os.makedirs(root)
files = {'__init__.py': '', '_pylab_helpers.py': '''
class Gcf:
    figs = []
    @classmethod
    def get_all_fig_managers(cls): return list(cls.figs)
''', 'figure.py': '''
class Figure:
    dpi = 100
    def __init__(self):
        self.children, self.canvas = ['patch'], self
        self.figure = self
    def __repr__(self): return f'<Figure with {len(self.children) - 1} Axes>'
    def get_children(self): return self.children
    def get_facecolor(self): return 'w'
    get_edgecolor = get_facecolor
    def print_figure(self, file, *, format, dpi, facecolor, edgecolor, bbox_inches):
        if self.children[-1] == 'broken': raise ValueError('cannot be drawn')
        file.write(b'PNG' + bytes([len(self.children)]))
''', 'pyplot.py': '''
from types import SimpleNamespace
from .figure import Figure
from ._pylab_helpers import Gcf
backend = 'agg'
def figure():
    made = Figure()
    Gcf.figs.append(SimpleNamespace(canvas=made))
    return made
def plot(what='axes'):
    fig = Gcf.figs[-1].canvas if Gcf.figs else figure()
    fig.children.append(what)
def get_backend(): return backend
def get_fignums(): return list(range(len(Gcf.figs)))
def show(*args, **kwargs):
    """Theirs."""
    print('a window')
def close(which): Gcf.figs.clear()
'''}
for name, text in files.items():
    open(os.path.join(root, name), 'w').write(text)
"#;

fn stand_in(text: &str, version: &str) -> String {
    format!("FOLDER = 'p-{version}'\n{text}")
}

/// What was shown, by kind: the data, and what came with it.
fn shown(seen: &[Seen]) -> Vec<(PublishedKind, Value)> {
    let published = seen.iter().filter_map(|it| match it {
        Seen::Published(kind, content) => Some((*kind, content["data"].clone())),
        _ => None,
    });
    published.collect()
}

fn plain(text: &str) -> Value {
    json!({ "text/plain": text })
}

#[tokio::test]
async fn display_functions_of_ipython_show_as_ours_do() {
    use PublishedKind::{Clear, Display, Update};
    on_each_python(async |session, version| {
        assert_shows(&run(session, &stand_in(IPYTHON, version)).await, "", version);
        for shape in ["new", "old"] {
            let code = format!(
                "\
import sys
for name in [name for name in sys.modules if name.startswith('IPython')]: del sys.modules[name]
sys.path.insert(0, 'p-{version}/{shape}')
from IPython.display import *
from IPython.display import DisplayHandle, display, publish_display_data, update_display
assert display.__doc__ == 'Theirs.' and display.__module__.startswith('IPython.core.display')
display(1, 'b')
handle = display('first', display_id='x')
assert type(handle) is DisplayHandle and handle.display_id == 'x'
handle.update('second')
update_display('third', display_id='x')
publish_display_data({{'text/html': '<b>'}}, {{'text/html': {{'a': 1}}}}, transient={{'display_id': 'y'}})
display({{'text/plain': 'raw'}}, raw=True, display_id=False)
place = display(display_id=True)
place.update('filled')
clear_output(True)
sys.path.remove('p-{version}/{shape}')"
            );
            let (outcome, seen) = show(session, &code).await;
            assert_eq!(outcome.error, None, "{version} {shape}");
            assert_shows(&outcome, "1\n'b'\n'first'\n[text/html]\nraw\n", version);
            let expected = [
                (Display, plain("1")),
                (Display, plain("'b'")),
                (Display, plain("'first'")),
                (Update, plain("'second'")),
                (Update, plain("'third'")),
                (Display, json!({ "text/html": "<b>" })),
                (Display, plain("raw")),
                (Display, json!({})),
                (Update, plain("'filled'")),
                (Clear, Value::Null),
            ];
            assert_eq!(shown(&seen), expected, "{version} {shape}");
            let place = &seen[7].content()["transient"]["display_id"];
            assert_eq!(&seen[8].content()["transient"]["display_id"], place, "{version}");
            assert_eq!(seen[5].content()["metadata"], json!({ "text/html": { "a": 1 } }));
        }
    })
    .await;
}

/// Runs a cell as one of a notebook.
async fn in_notebook(session: &Session, code: &str) -> (Outcome, Vec<Seen>) {
    let wishes = Wishes {
        origin: Some("m1".to_owned()),
        ..Wishes::default()
    };
    show_cell(session, Cell::new(code).wishes(wishes)).await
}

fn picture(children: u8) -> Value {
    let png = ["UE5HAQ==", "UE5HAg==", "UE5HAw=="][usize::from(children) - 1];
    let text = format!("<Figure with {} Axes>", children - 1);
    json!({ "text/plain": text, "image/png": png })
}

#[tokio::test]
async fn figures_of_matplotlib_are_pictures() {
    use PublishedKind::{Display, Error, Result};
    on_each_python(async |session, version| {
        let prepare = stand_in(MATPLOTLIB, version)
            + &format!("\nimport sys; sys.path.insert(0, 'p-{version}/mpl')");
        assert_shows(&run(session, &prepare).await, "", version);
        let code = "import matplotlib.pyplot as plt\nfig = plt.figure()\nplt.plot()\nfig";
        let (outcome, seen) = show(session, code).await;
        assert_shows_files(&outcome, "<Figure with 1 Axes>", 1, version);
        assert_eq!(shown(&seen), [(Result, picture(2))], "{version}");
        // Nothing is drawn in it.
        let (_, seen) = show(session, "display(plt.Figure())").await;
        assert_eq!(shown(&seen), [(Display, plain("<Figure with 0 Axes>"))]);

        // All that are open, and then none is.
        let code = "assert plt.show.__doc__ == 'Theirs.'\nplt.figure(); plt.plot(); plt.plot()\nplt.show()\nplt.get_fignums()";
        let (outcome, seen) = show(session, code).await;
        assert_shows_files(
            &outcome,
            "<Figure with 1 Axes>\n<Figure with 2 Axes>\n[]",
            2,
            version,
        );
        assert_eq!(
            shown(&seen),
            [(Display, picture(2)), (Display, picture(3))],
            "{version}"
        );
        // What the cell leaves open stays so, unless it is a notebook's.
        let (_, seen) = show(session, "plt.plot()").await;
        assert_eq!(seen, [], "{version}");
        let (outcome, seen) = in_notebook(session, "plt.plot(); print('a'); 7").await;
        assert_shows_files(&outcome, "a\n<Figure with 2 Axes>\n7", 1, version);
        let kinds = [Seen::Out("a\n".to_owned()), Seen::Value("7".to_owned())];
        assert_eq!(seen[..2], kinds, "{version}");
        assert_eq!(shown(&seen), [(Display, picture(3))], "{version}");
        // One that it has shown is not shown again; one that fails is told.
        let code = "fig = plt.figure()\nplt.plot()\ndisplay(fig)\nother = plt.figure()";
        let (_, seen) = in_notebook(session, code).await;
        assert_eq!(
            shown(&seen),
            [
                (Display, picture(2)),
                (Display, plain("<Figure with 0 Axes>"))
            ],
            "{version}"
        );
        let (outcome, seen) = in_notebook(session, "plt.plot('broken')\n1/0").await;
        assert!(outcome.output.contains("cannot be drawn"), "{version}");
        assert_eq!(
            outcome.error.as_deref(),
            Some("ZeroDivisionError: division by zero (<cell 8>, line 2)")
        );
        // The error of the cell comes first.
        assert_eq!(
            shown(&seen),
            [
                (Error, Value::Null),
                (Display, plain("<Figure with 1 Axes>"))
            ]
        );
        assert_shows(&run(session, "plt.get_fignums()").await, "[]", version);
        // One with windows shows them.
        let code = "plt.backend = 'QtAgg'\nplt.plot()\nplt.show()\nplt.get_fignums()";
        let (outcome, _) = in_notebook(session, code).await;
        assert_shows(&outcome, "a window\n[0]", version);
    })
    .await;
}

/// A session on the Python that has the packages.
async fn with_packages(test: impl AsyncFn(&Session)) {
    let Some(python) = suites() else { return };
    let manager = Manager::start().await;
    test(&manager.session_on("a", &python)).await;
    manager.end().await;
}

#[tokio::test]
async fn ipython_itself_shows_as_ours_do() {
    use PublishedKind::{Display, Result, Update};
    with_packages(async |session| {
        let code = "\
from IPython.display import (HTML, Image, JSON, Markdown, clear_output, display, display_html,
                             publish_display_data, update_display)
from IPython.core.interactiveshell import InteractiveShell
display(HTML('<b>x</b>'), Markdown('*m*'))
display_html('<i>', raw=True)
handle = display(JSON({'a': 1}), display_id=True)
handle.update(1)
publish_display_data({'text/plain': 'p'})
HTML('last')";
        let (outcome, seen) = show(session, code).await;
        assert_eq!(outcome.error, None);
        let shown = shown(&seen);
        let forms: Vec<(PublishedKind, Vec<&str>)> = shown
            .iter()
            .map(|(kind, data)| {
                (
                    *kind,
                    data.as_object().unwrap().keys().map(|it| &**it).collect(),
                )
            })
            .collect();
        assert_eq!(
            forms,
            [
                (Display, vec!["text/html", "text/plain"]),
                (Display, vec!["text/markdown", "text/plain"]),
                (Display, vec!["text/html"]),
                (Display, vec!["application/json", "text/plain"]),
                (Update, vec!["text/plain"]),
                (Display, vec!["text/plain"]),
                (Result, vec!["text/html", "text/plain"]),
            ]
        );
        assert_eq!(shown[0].1["text/html"], "<b>x</b>");

        // A shell that somebody makes shows here too, and one that captures has the word.
        let code = "\
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
display(1)
shell.display_pub.publish({'text/plain': 'by the shell'})
with capture_output() as captured: display(2)
len(captured.outputs)";
        let (outcome, _) = show(session, code).await;
        assert_shows(&outcome, "1\nby the shell\n1", "a shell");
    })
    .await;
}

#[tokio::test]
async fn widgets_move_and_capture_what_is_printed() {
    with_packages(async |session| {
        let code = "\
import ipywidgets
from tqdm.notebook import tqdm
for n in tqdm(range(3), mininterval=0): pass";
        let (outcome, seen) = in_notebook(session, code).await;
        assert_eq!(outcome.error, None);
        let views = shown(&seen);
        let views: Vec<&Value> = views
            .iter()
            .filter(|(kind, _)| *kind == PublishedKind::Display)
            .map(|(_, data)| data)
            .collect();
        assert_eq!(views.len(), 1, "{seen:?}");
        assert!(views[0]["application/vnd.jupyter.widget-view+json"].is_object());
        let values: Vec<&Value> = seen
            .iter()
            .filter_map(|it| match it {
                Seen::Published(PublishedKind::CommMessage, content) => {
                    content["data"]["state"].get("value")
                }
                _ => None,
            })
            .filter(|value| value.is_number())
            .collect();
        assert_eq!(values.last(), Some(&&json!(3.0)), "{values:?}");
        assert!(values.len() >= 3, "{values:?}");

        // What is printed in an Output is between the messages that say so, by the front end's id.
        let code = "\
out = ipywidgets.Output()
display(out)
print('before')
with out:
    print('inside')
    display(1)
    1/0
print('after')";
        let (outcome, seen) = in_notebook(session, code).await;
        assert_eq!(outcome.error, None, "{}", outcome.output);
        let words: Vec<String> = seen
            .iter()
            .filter_map(|it| match it {
                Seen::Out(text) => Some(text.trim().to_owned()),
                Seen::Err(text) => Some(text.lines().last().unwrap().to_owned()),
                Seen::Published(PublishedKind::CommMessage, content) => {
                    let id = content["data"]["state"].get("msg_id")?.as_str()?;
                    Some(format!("captures {id:?}"))
                }
                Seen::Published(PublishedKind::Error, content) => {
                    let lines = content["traceback"].as_array().unwrap();
                    Some(lines.last().unwrap().as_str().unwrap().to_owned())
                }
                Seen::Published(PublishedKind::Display, content) => Some(
                    content["data"]["text/plain"]
                        .as_str()
                        .unwrap()
                        .chars()
                        .take(6)
                        .collect(),
                ),
                _ => None,
            })
            .collect();
        assert_eq!(
            words,
            [
                "Output",
                "before",
                "captures \"m1\"",
                "inside",
                "1",
                "ZeroDivisionError: division by zero",
                "captures \"\"",
                "after"
            ]
        );
        let (outcome, seen) = in_notebook(
            session,
            "from ipywidgets import interact\n_ = interact(lambda x: x * 2, x=4)",
        )
        .await;
        assert_eq!(outcome.error, None, "{}", outcome.output);
        let data = shown(&seen).into_iter().map(|(_, data)| data);
        assert!(
            data.filter(|it| it["text/plain"] == "8").count() == 1,
            "{seen:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn matplotlib_itself_shows_pictures() {
    with_packages(async |session| {
        let code = "import matplotlib.pyplot as plt\nlines = plt.plot([1, 2])\nplt.show()";
        let png = |seen: &[Seen]| -> usize {
            let data = shown(seen).into_iter().map(|(_, data)| data);
            data.filter(|it| {
                it["image/png"]
                    .as_str()
                    .is_some_and(|it| it.starts_with("iVBOR"))
            })
            .count()
        };
        let (outcome, seen) = show(session, code).await;
        assert_shows_files(&outcome, "<Figure size 640x480 with 1 Axes>\n", 1, "show()");
        assert_eq!(png(&seen), 1);
        let code = "fig, axes = plt.subplots()\nfig";
        let (outcome, seen) = in_notebook(session, code).await;
        assert_shows_files(&outcome, "<Figure size 640x480 with 1 Axes>", 1, "a value");
        assert_eq!(png(&seen), 1);
        let (_, seen) = in_notebook(session, "_ = plt.plot([3, 4])").await;
        assert_eq!(png(&seen), 1);
        assert_shows(&run(session, "plt.get_fignums()").await, "[]", "closed");
        let code = "\
plt.switch_backend('module://matplotlib_inline.backend_inline')
_ = plt.plot([3, 4])
plt.show()";
        let (outcome, seen) = show(session, code).await;
        assert_eq!(outcome.error, None, "{}", outcome.output);
        assert_eq!(png(&seen), 1);
    })
    .await;
}

#[tokio::test]
async fn an_output_widget_captures_what_its_front_end_knows_by_its_own_id() {
    let Some(python) = suites() else { return };
    let kernel = Kernel::start_on(&python);
    let mut front_end = kernel.front_end();
    let code = "\
import ipywidgets
out = ipywidgets.Output()
with out: print('inside')
print('after')";
    let header = front_end.execute(code);
    assert_eq!(front_end.reply().content["status"], "ok");
    let id: Value = serde_json::from_str(&header).unwrap();
    let words = front_end.all_of(&header);
    let words: Vec<String> = words
        .iter()
        .filter_map(|message: &Message| match message.kind() {
            "stream" => Some(message.content["text"].as_str().unwrap().to_owned()),
            "comm_msg" => {
                let state = &message.content["data"]["state"];
                Some(state.get("msg_id")?.as_str()?.to_owned())
            }
            _ => None,
        })
        .collect();
    let id = id["msg_id"].as_str().unwrap();
    assert_eq!(words, [id, "inside\n", "", "after\n"]);
    kernel.close().await;
}
