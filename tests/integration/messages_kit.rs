//! What the tests of kernel messages share: cells with a reader of all that they show.

use serde_json::Value;
use warmcell::execution::{LiveEvent, Outcome, Wishes};
use warmcell::jupyter::{Published, PublishedKind};
use warmcell::session::{AskError, Cell, Question, QuestionKind, Session};

use crate::support::SAFETY;

/// What a cell has shown, in order: text of stdout pieces that follow one another is joined.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Out(String),
    Err(String),
    Value(String),
    Published(PublishedKind, Value),
}

impl Seen {
    /// The content of a display.
    #[track_caller]
    pub fn content(&self) -> &Value {
        match self {
            Self::Published(_, content) => content,
            other => panic!("{other:?}"),
        }
    }
}

pub fn published(shown: &Published) -> Seen {
    let content = serde_json::from_str(&shown.content(None)).unwrap();
    Seen::Published(shown.kind, content)
}

/// Puts what has come behind the rest.
pub fn push(seen: &mut Vec<Seen>, event: &LiveEvent) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match (event, seen.last_mut()) {
        (LiveEvent::Stdout(bytes), Some(Seen::Out(last)))
        | (LiveEvent::Stderr(bytes), Some(Seen::Err(last))) => last.push_str(&text(bytes)),
        (LiveEvent::Stdout(bytes), _) => seen.push(Seen::Out(text(bytes))),
        (LiveEvent::Stderr(bytes), _) => seen.push(Seen::Err(text(bytes))),
        (LiveEvent::Result(value), _) => seen.push(Seen::Value(value.clone())),
        (LiveEvent::Published(shown), _) => seen.push(published(shown)),
    }
}

/// Runs a cell to its end: its result and all that it has shown.
pub async fn show(session: &Session, code: &str) -> (Outcome, Vec<Seen>) {
    show_cell(session, Cell::new(code)).await
}

pub async fn show_cell(session: &Session, cell: Cell) -> (Outcome, Vec<Seen>) {
    let mut execution = session.execute_live(cell);
    let mut live = execution.take_live().unwrap();
    let ended = tokio::time::timeout(SAFETY, async {
        let mut seen = Vec::new();
        while let Some(event) = live.next().await {
            push(&mut seen, &event);
        }
        (execution.outcome().await, seen)
    });
    ended.await.expect("the cell gave no result")
}

/// A cell with expressions that are evaluated after it.
pub fn with_expressions(code: &str, expressions: &Value) -> Cell {
    Cell::new(code).wishes(Wishes {
        user_expressions: Some(serde_json::value::to_raw_value(expressions).unwrap()),
        ..Wishes::default()
    })
}

/// Asks the kernel something, within the safety deadline.
pub async fn ask(session: &Session, kind: QuestionKind, content: &Value) -> Value {
    try_ask(session, Question::new(kind, content.to_string()))
        .await
        .unwrap()
}

pub async fn try_ask(session: &Session, question: Question) -> Result<Value, AskError> {
    let answer = tokio::time::timeout(SAFETY, session.ask(question)).await;
    let content = answer.expect("no answer")?;
    Ok(serde_json::from_slice(&content).unwrap())
}

/// What the package comm from `PyPI` has, as far as its makers promise it.
const COMM: &str = "\
class BaseComm:
    def __init__(self, target_name='comm', data=None, metadata=None, buffers=None, comm_id=None,
                 primary=True, target_module=None, topic=None, _open_data=None, _close_data=None, **kwargs):
        import uuid
        self.comm_id = comm_id or uuid.uuid4().hex
        self.primary, self.target_name, self.target_module = primary, target_name, target_module
        self._msg_callback = self._close_callback = None
        self._closed = True
        if primary:
            self.open(data, metadata, buffers)
        else:
            self._closed = False
    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        raise NotImplementedError
    def open(self, data=None, metadata=None, buffers=None):
        import comm
        comm.get_comm_manager().register_comm(self)
        self.publish_msg('comm_open', data=data, metadata=metadata, buffers=buffers,
                         target_name=self.target_name, target_module=self.target_module)
        self._closed = False
    def close(self, data=None, metadata=None, buffers=None, deleting=False):
        if self._closed: return
        self._closed = True
        self.publish_msg('comm_close', data=data, metadata=metadata, buffers=buffers)
        import comm
        comm.get_comm_manager().unregister_comm(self)
    def send(self, data=None, metadata=None, buffers=None):
        self.publish_msg('comm_msg', data=data, metadata=metadata, buffers=buffers)
    def on_msg(self, callback): self._msg_callback = callback
    def handle_msg(self, msg):
        if self._msg_callback: self._msg_callback(msg)
    def handle_close(self, msg): pass

class CommManager:
    def __init__(self): self.comms, self.targets = {}, {}
    def register_target(self, name, f): self.targets[name] = f
    def register_comm(self, comm): self.comms[comm.comm_id] = comm
    def unregister_comm(self, comm): self.comms.pop(comm.comm_id)
    def comm_open(self, stream, ident, msg):
        from comm import create_comm
        content = msg['content']
        f = self.targets.get(content['target_name'])
        comm = create_comm(comm_id=content['comm_id'], primary=False, target_name=content['target_name'])
        self.register_comm(comm)
        if f is None: comm.close()
        else: f(comm, msg)
    def comm_msg(self, stream, ident, msg):
        comm = self.comms.get(msg['content']['comm_id'])
        if comm: comm.handle_msg(msg)
    def comm_close(self, stream, ident, msg):
        comm = self.comms.pop(msg['content']['comm_id'], None)
        if comm: comm._closed = True
";

/// Code that puts the package into a folder, to be imported from there.
pub fn comm_package(folder: &str) -> String {
    format!(
        "import os, sys\nos.makedirs('{folder}/comm')\nopen('{folder}/comm/__init__.py', 'w').write('from .base_comm import *\\ndef create_comm(*a, **k): raise TypeError\\nget_comm_manager = create_comm')\nopen('{folder}/comm/base_comm.py', 'w').write({})\nsys.path.append('{folder}')\n",
        serde_json::to_string(COMM).unwrap()
    )
}

/// Code that sends back what comes to a comm of the target `t`, with all that comes with it.
pub const ECHO: &str = "\
import comm
def opened(it, msg):
    it.on_msg(lambda msg: it.send(msg['content']['data'], msg['metadata'], msg['buffers']))
comm.get_comm_manager().register_target('t', opened)
";
