//! The end of a traceback: the exception that ended the cell, and those that it comes from.

use crate::jupyter::{ExecuteReply, error_line};

/// Exceptions of a chain that are looked at.
const MOST_CAUSES: usize = 5;
const HEADER: &str = "Traceback (most recent call last):";
const CAUSE: &str = "The above exception was the direct cause of the following exception:";
const CONTEXT: &str = "During handling of the above exception, another exception occurred:";

/// An exception, as the last lines of its traceback tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exception<'a> {
    /// Its class, without the module; empty if that was not told.
    pub(super) kind: &'a str,
    /// Its text, the first line of it.
    pub(super) text: &'a str,
    /// The traceback above that.
    pub(super) above: &'a str,
}

impl<'a> Exception<'a> {
    /// Of a line such as `json.decoder.JSONDecodeError: Expecting value`.
    pub(super) fn read(line: &'a str, above: &'a str) -> Self {
        let (class, text) = line.split_once(": ").unwrap_or((line, ""));
        let is_name =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
        if !class.split('.').all(is_name) {
            return Self {
                kind: "",
                text: line,
                above,
            };
        }
        Self {
            kind: class.rsplit('.').next().unwrap_or(class),
            text: text.trim(),
            above,
        }
    }

    /// Whether it is one of these classes.
    pub(super) fn is(&self, kinds: &[&str]) -> bool {
        kinds.contains(&self.kind)
    }

    /// What stands between single quotes, after these words and before those.
    pub(super) fn quoted(&self, before: &str, after: &str) -> Option<&'a str> {
        let (name, rest) = self
            .text
            .strip_prefix(before)?
            .strip_prefix('\'')?
            .split_once('\'')?;
        rest.starts_with(after).then_some(name)
    }

    /// The innermost frame.
    pub(super) fn frame(&self) -> &'a str {
        let is_frame = |line: &&str| line.contains("File ") || line.contains(", in ");
        self.above.lines().rev().find(is_frame).unwrap_or_default()
    }
}

/// The last line of a reply's traceback, and all of it.
#[derive(Debug)]
pub(super) struct End {
    line: String,
    traceback: String,
}

impl End {
    pub(super) fn of(reply: &ExecuteReply) -> Self {
        let told = reply.warmcell.as_ref().and_then(|own| own.error.as_ref());
        let line = match told {
            Some(error) if !error.line.is_empty() => error.line.clone(),
            _ => error_line(&reply.ename, &reply.evalue),
        };
        Self {
            line,
            traceback: reply.traceback.join("\n"),
        }
    }

    pub(super) fn traceback(&self) -> &str {
        &self.traceback
    }

    /// The exceptions.
    pub(super) fn chain(&self) -> Vec<Exception<'_>> {
        let (mut rest, mut link) = last_link(&self.traceback);
        let mut chain = vec![Exception::read(&self.line, rest.1)];
        while let (Some(kind), Some(before)) = (link, rest.0) {
            let last = chain.last().map_or("", |it| it.kind);
            // What was merely handled while this one was raised may have nothing to do with it.
            if chain.len() > MOST_CAUSES || (kind == CONTEXT && !last.ends_with("ImportError")) {
                break;
            }
            (rest, link) = last_link(before);
            let Some(line) = line_of(rest.1) else { break };
            chain.push(Exception::read(line, rest.1));
        }
        chain
    }
}

/// A traceback without that of the exception at its end, that, and how they hang together.
fn last_link(text: &str) -> ((Option<&str>, &str), Option<&'static str>) {
    let last = [CAUSE, CONTEXT]
        .into_iter()
        .filter_map(|link| {
            // On a line of its own.
            let wanted = format!("\n{link}\n");
            text.rfind(&wanted).map(|at| (at, link, wanted.len()))
        })
        .max_by_key(|(at, ..)| *at);
    match last {
        None => ((None, text), None),
        Some((at, link, length)) => {
            let (before, rest) = text.split_at(at);
            let (_, own) = rest.split_at(length);
            ((Some(before), own), Some(link))
        }
    }
}

/// The line that tells an exception, in a traceback that ends with it: the first below the frames that
/// is not indented.
fn line_of(traceback: &str) -> Option<&str> {
    let mut lines = traceback.lines();
    lines.find(|line| *line == HEADER)?;
    lines.find(|line| !line.is_empty() && !line.starts_with([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(line: &str, traceback: &str) -> Vec<(String, String)> {
        let end = End {
            line: line.to_owned(),
            traceback: traceback.to_owned(),
        };
        let told = |it: &Exception<'_>| (it.kind.to_owned(), it.text.to_owned());
        end.chain().iter().map(told).collect()
    }

    #[test]
    fn a_line_is_a_class_and_a_text() {
        for (line, kind, text) in [
            (
                "NameError: name 'x' is not defined",
                "NameError",
                "name 'x' is not defined",
            ),
            (
                "json.decoder.JSONDecodeError: a: b",
                "JSONDecodeError",
                "a: b",
            ),
            ("MemoryError", "MemoryError", ""),
            ("KeyError: 'X'", "KeyError", "'X'"),
            ("not a class: x", "", "not a class: x"),
            ("", "", ""),
        ] {
            let read = Exception::read(line, "");
            assert_eq!((read.kind, read.text), (kind, text), "{line}");
        }
    }

    #[test]
    fn what_an_exception_was_raised_from_belongs_to_it_and_what_was_handled_does_not() {
        let first = format!(
            "{HEADER}\n  File \"<cell 1>\", line 1\n    import x\n\
                             ModuleNotFoundError: No module named 'x'\n"
        );
        let last = format!("{HEADER}\n  File \"<cell 1>\", line 3\nValueError: v");
        let cause = format!("{first}\n{CAUSE}\n\n{last}");
        let wanted = [
            ("ValueError".to_owned(), "v".to_owned()),
            (
                "ModuleNotFoundError".to_owned(),
                "No module named 'x'".to_owned(),
            ),
        ];
        assert_eq!(kinds("ValueError: v", &cause), wanted);
        let context = format!("{first}\n{CONTEXT}\n\n{last}");
        assert_eq!(kinds("ValueError: v", &context).len(), 1);
        // One that says that something cannot be imported says why.
        assert_eq!(kinds("ImportError: v", &context).len(), 2);
        // What an exception says is no traceback.
        let posing =
            format!("{HEADER}\n  File \"<cell 1>\", line 1\nValueError: {HEADER}\n{first}");
        assert_eq!(kinds("ValueError: a", &posing).len(), 1);
    }
}
