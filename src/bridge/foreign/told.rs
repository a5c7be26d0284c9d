//! The reply to a cell, as our own kernels give it.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::python;
use super::questions::failed;
use super::traceback::{cut, place, plain};
use crate::jupyter::{ExecuteReply, ReplyStatus, error_line};

/// Characters of an error's line.
const LINE_CHARS: usize = 2_000;
/// Bytes of what expressions after a cell give, and how many are named if it is more.
const MOST_EXPRESSIONS: usize = 2 << 20;
const MOST_NAMES: usize = 100;
/// Bytes of a report on variables; ours have less.
const REPORT_BYTES: usize = 1 << 20;

/// What is known of a cell at its end, beside its kernel's reply.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Its number.
    pub(super) cell: u64,
    /// The kernel speaks Python.
    pub(super) is_python: bool,
    /// It was interrupted while it ran.
    pub(super) interrupted: bool,
    /// What it has bound, as its kernel has written it.
    pub(super) names: Option<String>,
    /// Sentences for the caller.
    pub(super) warnings: Vec<String>,
    /// How long the kernel was asked about it after its end.
    pub(super) after_its_end: Duration,
}

#[derive(Serialize)]
struct Content {
    status: &'static str,
    execution_count: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    ename: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    evalue: String,
    traceback: Vec<String>,
    user_expressions: Map<String, Value>,
    warmcell: Report,
}

#[derive(Serialize)]
struct Report {
    cell: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<Exit>,
    names: Option<Box<RawValue>>,
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
    interrupted: bool,
    after_end_ms: u64,
}

#[derive(Serialize)]
struct Exit {
    code: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize)]
struct Error {
    class: &'static str,
    line: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

/// A reply that says that the cell has failed, for a reason of ours.
pub(super) fn refusal(class: &'static str, name: &str, sentence: &str, told: Told) -> Bytes {
    content(&Content {
        status: "error",
        execution_count: None,
        ename: name.to_owned(),
        evalue: sentence.to_owned(),
        traceback: Vec::new(),
        user_expressions: Map::new(),
        warmcell: Report {
            cell: told.cell,
            exit: None,
            names: names(told.names.as_deref()),
            warnings: told.warnings,
            error: Some(Error {
                class,
                line: sentence.to_owned(),
                place: None,
            }),
            interrupted: told.interrupted,
            after_end_ms: milliseconds(told.after_its_end),
        },
    })
}

/// The reply of a kernel, with what it does not say itself.
pub(super) fn reply(reply: &ExecuteReply, told: Told) -> Bytes {
    let ename = cut(&plain(&reply.ename));
    let evalue = plain(&reply.evalue);
    let exit = (told.is_python && ename == "SystemExit").then(|| exit(&evalue));
    let is_good_exit = exit.as_ref().is_some_and(|exit| exit.code == 0);
    let failed = reply.status != ReplyStatus::Ok && !is_good_exit;
    let traceback = cut(&plain(&reply.traceback.join("\n")));
    let error = failed.then(|| {
        let line = error_line(&ename, &evalue);
        Error {
            class: class(&ename, &told),
            line: line.chars().take(LINE_CHARS).collect(),
            place: place(&traceback),
        }
    });
    let shows = failed && exit.is_none();
    content(&Content {
        status: if failed { "error" } else { "ok" },
        execution_count: reply.execution_count,
        ename: if failed { ename } else { String::new() },
        evalue: if failed { cut(&evalue) } else { String::new() },
        traceback: if shows {
            traceback.lines().map(str::to_owned).collect()
        } else {
            Vec::new()
        },
        user_expressions: expressions(reply),
        warmcell: Report {
            cell: told.cell,
            exit: exit.filter(|_| failed),
            names: names(told.names.as_deref()),
            warnings: told.warnings,
            error,
            interrupted: told.interrupted,
            after_end_ms: milliseconds(told.after_its_end),
        },
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Those of the caller. If they are too long for the link it is said of each.
fn expressions(reply: &ExecuteReply) -> Map<String, Value> {
    let text = reply.user_expressions.as_deref().unwrap_or_default();
    let mut expressions: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    expressions.remove(python::REPORT);
    if text.len() > MOST_EXPRESSIONS {
        let sentence = format!(
            "the expressions have {} bytes; the limit is 2 MiB",
            text.len()
        );
        expressions.retain(|name, _| name.len() <= LINE_CHARS);
        return expressions
            .into_iter()
            .take(MOST_NAMES)
            .map(|(name, _)| (name, failed(&sentence)))
            .collect();
    }
    expressions
}

fn content(content: &Content) -> Bytes {
    // Texts and numbers can always be written.
    serde_json::to_vec(content).unwrap_or_default().into()
}

/// The report, if it is one: the manager reads it with care.
fn names(report: Option<&str>) -> Option<Box<RawValue>> {
    let report = report.filter(|it| it.len() <= REPORT_BYTES && it.starts_with('{'))?;
    RawValue::from_string(report.to_owned()).ok()
}

fn class(ename: &str, told: &Told) -> &'static str {
    if ename == "KeyboardInterrupt" && told.interrupted {
        return "interrupted";
    }
    match ename {
        "SyntaxError" | "IndentationError" | "TabError" if told.is_python => "syntax",
        "ModuleNotFoundError" if told.is_python => "missing_module",
        "MemoryError" if told.is_python => "limit",
        _ => "exception",
    }
}

/// The argument of `sys.exit`, out of its text.
fn exit(argument: &str) -> Exit {
    match argument.trim() {
        "" | "None" | "False" => Exit {
            code: 0,
            text: None,
        },
        number if number.parse::<i64>().is_ok() => Exit {
            code: number.parse().unwrap_or(1),
            text: None,
        },
        _ => Exit {
            code: 1,
            text: Some(argument.chars().take(LINE_CHARS).collect()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reply_text: &str, told: Told) -> ExecuteReply {
        let kernels = ExecuteReply::parse(reply_text.as_bytes()).unwrap();
        ExecuteReply::parse(&reply(&kernels, told)).unwrap()
    }

    fn python() -> Told {
        Told {
            cell: 7,
            is_python: true,
            ..Told::default()
        }
    }

    #[test]
    fn an_error_has_class_line_and_place() {
        let text = r#"{"status":"error","execution_count":2,"ename":"ZeroDivisionError",
            "evalue":"division by zero","traceback":["\u001b[31m---\u001b[0m\nTraceback","Cell In[2], line 1\n"]}"#;
        let reply = told(text, python());
        let report = reply.warmcell.unwrap();
        let error = report.error.unwrap();
        assert_eq!(error.line, "ZeroDivisionError: division by zero");
        assert_eq!(error.place.as_deref(), Some("<cell 2>, line 1"));
        assert_eq!((report.cell, error.class.as_str()), (7, "exception"));
        assert_eq!(reply.traceback, ["---", "Traceback", "Cell In[2], line 1"]);
    }

    #[test]
    fn an_error_without_a_name_or_a_text_is_told_with_what_it_has() {
        for (name, text, line) in [
            ("", "127", "127"),
            ("E", "", "E"),
            (" ", "", "the cell failed, and its kernel does not say why"),
            ("E", "x", "E: x"),
        ] {
            let reply = format!(r#"{{"status":"error","ename":"{name}","evalue":"{text}"}}"#);
            let found = told(&reply, Told::default()).warmcell.unwrap().error;
            assert_eq!(found.unwrap().line, line);
        }
    }

    #[test]
    fn classes_follow_the_name() {
        for (name, class) in [
            ("SyntaxError", "syntax"),
            ("ModuleNotFoundError", "missing_module"),
            ("MemoryError", "limit"),
            ("KeyboardInterrupt", "interrupted"),
            ("ValueError", "exception"),
        ] {
            let text = format!(r#"{{"status":"error","ename":"{name}","evalue":"x"}}"#);
            let interrupted = Told {
                interrupted: true,
                ..python()
            };
            let found = told(&text, interrupted).warmcell.unwrap().error.unwrap();
            assert_eq!(found.class, class);
        }
        let text = r#"{"status":"error","ename":"SyntaxError","evalue":"x"}"#;
        let other = told(text, Told::default()).warmcell.unwrap().error.unwrap();
        assert_eq!(other.class, "exception");
    }

    #[test]
    fn sys_exit_is_told_as_such() {
        for (argument, status, code, words) in [
            ("3", ReplyStatus::Error, 3, None),
            ("-1", ReplyStatus::Error, -1, None),
            ("boom", ReplyStatus::Error, 1, Some("boom")),
        ] {
            let text = format!(
                r#"{{"status":"error","ename":"SystemExit","evalue":"{argument}","traceback":["x"]}}"#
            );
            let reply = told(&text, python());
            let exit = reply.warmcell.unwrap().exit.unwrap();
            assert_eq!((reply.status, exit.code), (status, code));
            assert_eq!(exit.text.as_deref(), words);
            assert!(reply.traceback.is_empty());
        }
        for argument in ["0", "", "None"] {
            let text =
                format!(r#"{{"status":"error","ename":"SystemExit","evalue":"{argument}"}}"#);
            let reply = told(&text, python());
            assert_eq!(reply.status, ReplyStatus::Ok);
            assert_eq!(reply.warmcell.unwrap().exit, None);
        }
    }

    #[test]
    fn names_are_passed_on_if_they_are_a_report() {
        let ok = r#"{"status":"ok","execution_count":1}"#;
        let names = r#"{"set":[["x","int"]],"del":["y"],"total":4}"#;
        let with = |names: &str| Told {
            names: Some(names.to_owned()),
            ..python()
        };
        let found = told(ok, with(names)).warmcell.unwrap().names;
        assert_eq!(found.set, [("x".to_owned(), "int".to_owned())]);
        assert_eq!((found.del.len(), found.total), (1, 4));
        for odd in ["", "[1]", "{", "<object>", "{\"set\": <>}"] {
            let found = told(ok, with(odd)).warmcell.unwrap().names;
            assert_eq!(found.total, 0, "{odd}");
        }
    }

    #[test]
    fn a_reply_fits_through_the_link_however_long_its_parts_are() {
        let long = "x".repeat(5 << 20);
        let text = format!(
            r#"{{"status":"error","ename":"{long}","evalue":"{long}","traceback":["{long}"],
                "user_expressions":{{"a":{{"data":{{"text/plain":"{long}"}}}},"{long}":1}}}}"#
        );
        let kernels = ExecuteReply::parse(text.as_bytes()).unwrap();
        let with = Told {
            names: Some(format!(r#"{{"set":[],"odd":"{long}"}}"#)),
            ..python()
        };
        let content = reply(&kernels, with);
        assert!(content.len() < 1 << 20, "{}", content.len());
        let told = ExecuteReply::parse(&content).unwrap();
        let expressions = told.user_expressions.unwrap();
        assert!(expressions.contains("the limit is 2 MiB"), "{expressions}");
    }
}
