//! A file of settings as a tree: which value stands under which key, as it was written, and on which
//! line. Nothing here knows what the keys mean.
//!
//! Aliases are shared, not copied, so one that unfolds to billions of values costs nothing; what a tree
//! may have of values and of depth is bounded.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle, options};

/// The most values of a file.
const MOST_NODES: usize = 100_000;
/// The most depth, through aliases too.
const MOST_DEPTH: usize = 64;
/// The most entries of one mapping, with those that it merges.
const MOST_ENTRIES: usize = 10_000;
/// Characters of a value that are shown.
const SHOWN_CHARS: usize = 60;

/// A value.
#[derive(Debug)]
pub(super) struct Node {
    /// Where it begins, from 1.
    pub(super) line: usize,
    pub(super) value: Value,
    depth: usize,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Value {
    /// A text; written without quotes it may be a number, true, or nothing at all.
    Scalar { text: String, is_plain: bool },
    /// Values in a row.
    List(Vec<Rc<Node>>),
    /// Values by name.
    Map(Vec<Entry>),
}

/// An entry of a mapping.
#[derive(Debug)]
pub(super) struct Entry {
    /// `None` for a key that is no text.
    name: Option<String>,
    line: usize,
    value: Rc<Node>,
}

/// An entry, as it counts.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) name: &'a str,
    pub(super) line: usize,
    pub(super) node: &'a Node,
    /// The line on which the same key stands before, with another value that does not count.
    pub(super) earlier: Option<usize>,
}

/// Why a text is no tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) line: usize,
    pub(super) reason: String,
}

fn unreadable(line: usize, reason: impl Into<String>) -> Unreadable {
    let reason = reason.into();
    Unreadable { line, reason }
}

impl Node {
    /// Whether nothing is said.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, is_plain: true } if is_null(text))
    }

    /// The entries of a mapping, each name once, with those that `<<` merges; `None` if it is no
    /// mapping.
    pub(super) fn entries(&self) -> Option<Result<Vec<Found<'_>>, Unreadable>> {
        let Value::Map(entries) = &self.value else {
            return None;
        };
        let mut flat = Flat::default();
        let entered = flat.enter(entries);
        Some(entered.map(|()| flat.found))
    }

    /// As it was written, cut.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::Scalar { text, is_plain } => shown(text, *is_plain),
            Value::List(items) if items.is_empty() => "an empty list".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// A text as it stands in a sentence.
pub(super) fn shown(text: &str, is_plain: bool) -> String {
    let cut: String = text.chars().take(SHOWN_CHARS).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    if is_plain && !cut.is_empty() && !cut.contains(char::is_control) {
        format!("{cut}{more}")
    } else {
        format!("{cut:?}{more}")
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// A mapping with what it merges.
#[derive(Default)]
struct Flat<'a> {
    found: Vec<Found<'a>>,
    known: HashMap<&'a str, usize>,
    looked_at: usize,
}

impl<'a> Flat<'a> {
    fn enter(&mut self, entries: &'a [Entry]) -> Result<(), Unreadable> {
        let before: HashSet<usize> = (0..self.found.len()).collect();
        let mut merged = Vec::new();
        for entry in entries {
            self.looked_at += 1;
            if self.looked_at > MOST_ENTRIES {
                let reason = format!("has more than {MOST_ENTRIES} entries with what it merges");
                return Err(unreadable(entry.line, reason));
            }
            let Some(name) = entry.name.as_deref() else {
                continue;
            };
            if name == "<<" {
                merged.push(entry);
                continue;
            }
            let (line, node) = (entry.line, &*entry.value);
            match self.known.get(name).copied() {
                // The one who merges wins.
                Some(at) if before.contains(&at) => {}
                Some(at) => {
                    if let Some(found) = self.found.get_mut(at) {
                        // As with the other readers of this file the last one counts.
                        found.earlier = Some(found.line);
                        (found.line, found.node) = (line, node);
                    }
                }
                None => {
                    self.known.insert(name, self.found.len());
                    self.found.push(Found {
                        name,
                        line,
                        node,
                        earlier: None,
                    });
                }
            }
        }
        for entry in merged {
            self.merge(entry)?;
        }
        Ok(())
    }

    fn merge(&mut self, entry: &'a Entry) -> Result<(), Unreadable> {
        let no_mapping = || unreadable(entry.line, "merges (`<<`) what is no mapping");
        match &entry.value.value {
            Value::Map(entries) => self.enter(entries),
            Value::List(items) => {
                for item in items {
                    let Value::Map(entries) = &item.value else {
                        return Err(no_mapping());
                    };
                    self.enter(entries)?;
                }
                Ok(())
            }
            Value::Scalar { .. } => Err(no_mapping()),
        }
    }
}

/// Reads a file; `None` if nothing stands in it.
pub(super) fn read(text: &str) -> Result<Option<Rc<Node>>, Unreadable> {
    let limits = options! {
        flow_nesting_limit: MOST_DEPTH,
        block_nesting_limit: MOST_DEPTH,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, limits) {
        let (event, span) =
            next.map_err(|error| with_tabs(text, error.marker().line(), &error.info()))?;
        builder.take(event, span.start.line())?;
    }
    Ok(builder.root)
}

/// What is wrong; with tabs what to do, and where: most people do not see them.
fn with_tabs(text: &str, line: usize, said: &str) -> Unreadable {
    let is_indented_by_tabs = |text: &str| {
        let rest = text.trim_start_matches([' ', '\t']);
        text.strip_suffix(rest).is_some_and(|it| it.contains('\t'))
    };
    let mut lines = (1..).zip(text.lines()).skip(line.saturating_sub(1));
    let indented = match lines.next() {
        Some((line, text)) if is_indented_by_tabs(text) => Some(line),
        _ if !said.contains("tab") => None,
        _ => lines
            .find(|(_, text)| is_indented_by_tabs(text))
            .map(|(line, _)| line),
    };
    match indented {
        Some(line) => unreadable(
            line,
            format!("is indented by tabs, where YAML takes spaces alone ({said})"),
        ),
        None => unreadable(line, format!("is no YAML: {said}")),
    }
}

/// A collection that has not ended.
struct Open {
    line: usize,
    anchor: usize,
    depth: usize,
    what: OpenValue,
}

enum OpenValue {
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>, Option<(Option<String>, usize)>),
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    documents: usize,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Unreadable> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(unreadable(line, "a second document begins; one is read"));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, _tag) => {
                let value = Value::Scalar {
                    text: text.into_owned(),
                    is_plain: style == ScalarStyle::Plain,
                };
                self.node(line, value, anchor, 0)
            }
            Event::SequenceStart(_, anchor, _tag) => {
                self.begin(line, anchor, OpenValue::List(Vec::new()));
                Ok(())
            }
            Event::MappingStart(_, anchor, _tag) => {
                self.begin(line, anchor, OpenValue::Map(Vec::new(), None));
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| unreadable(line, "an alias stands within itself"))?;
                self.put(line, node)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, line: usize, anchor: usize, what: OpenValue) {
        self.open.push(Open {
            line,
            anchor,
            depth: 0,
            what,
        });
    }

    fn end(&mut self) -> Result<(), Unreadable> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let value = match open.what {
            OpenValue::List(items) => Value::List(items),
            OpenValue::Map(entries, _) => Value::Map(entries),
        };
        self.node(open.line, value, open.anchor, open.depth)
    }

    fn node(
        &mut self,
        line: usize,
        value: Value,
        anchor: usize,
        depth: usize,
    ) -> Result<(), Unreadable> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            let reason = format!("has more than {MOST_NODES} values");
            return Err(unreadable(line, reason));
        }
        let node = Rc::new(Node { line, value, depth });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.put(line, node)
    }

    /// Puts a value where it belongs.
    fn put(&mut self, line: usize, node: Rc<Node>) -> Result<(), Unreadable> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node).filter(|node| !node.is_nothing());
            return Ok(());
        };
        open.depth = open.depth.max(node.depth + 1);
        if open.depth > MOST_DEPTH {
            let reason = format!("is nested more than {MOST_DEPTH} deep, with its aliases");
            return Err(unreadable(line, reason));
        }
        match &mut open.what {
            OpenValue::List(items) => items.push(node),
            OpenValue::Map(entries, key) => match key.take() {
                None => {
                    let name = match &node.value {
                        Value::Scalar { text, .. } => Some(text.clone()),
                        _ => None,
                    };
                    *key = Some((name, line));
                }
                Some((name, line)) => entries.push(Entry {
                    name,
                    line,
                    value: node,
                }),
            },
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
