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
