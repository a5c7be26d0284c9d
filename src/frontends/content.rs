//! The words of all answers: contents of messages, as Jupyter has them.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::execution::{ErrorClass, INTERRUPTED_KEPT, Outcome, Status};
use crate::jupyter::{Asked, ContentError, PROTOCOL_VERSION};
use crate::session::Shown;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What front ends are told of a kernel whose state is lost: the next one is there, or will be.
pub(super) const RESTARTING: &str = "restarting";
/// The next one comes.
pub(super) const STARTING: &str = "starting";
/// It is there.
pub(super) const IDLE: &str = "idle";

/// What a kernel is; its version of Python is not known before it was started once.
pub(super) fn kernel_info(python: Option<&str>) -> Value {
    let python = python.unwrap_or("3");
    json!({
        "status": "ok",
        "protocol_version": PROTOCOL_VERSION,
        "implementation": "warmcell",
        "implementation_version": VERSION,
        "language_info": {
            "name": "python",
            "version": python,
            "mimetype": "text/x-python",
            "file_extension": ".py",
            "pygments_lexer": "python3",
            "codemirror_mode": { "name": "python", "version": 3 },
            "nbconvert_exporter": "python",
        },
        "banner": format!("Python {python} in Warmcell {VERSION}"),
        "help_links": [],
        "supported_features": [],
    })
}

/// What a kernel is that is not ours, by its own words; but what front ends can have of it is what we
/// pass on.
pub(super) fn foreign_kernel_info(info: &RawValue) -> Value {
    let mut info: Map<String, Value> = serde_json::from_str(info.get()).unwrap_or_default();
    info.insert("status".to_owned(), json!("ok"));
    info.insert("protocol_version".to_owned(), json!(PROTOCOL_VERSION));
    info.insert("supported_features".to_owned(), json!([]));
    info.remove("debugger");
    for (key, value) in [
        ("implementation", json!("")),
        ("implementation_version", json!("")),
        (
            "language_info",
            json!({ "name": "", "version": "", "mimetype": "text/plain" }),
        ),
        ("banner", json!("")),
        ("help_links", json!([])),
    ] {
        info.entry(key).or_insert(value);
    }
    Value::Object(info)
}

/// The reply to what a request asks that we answer plainly; `None` if nothing here knows it. The
/// type of the reply comes first.
pub(super) fn plain_reply(msg_type: &str, asked: &Asked) -> Option<(&'static str, Value)> {
    Some(match msg_type {
        "is_complete_request" => ("is_complete_reply", json!({ "status": "unknown" })),
        "complete_request" => {
            let cursor = asked.cursor_pos();
            let reply = json!({
                "status": "ok",
                "matches": [],
                "cursor_start": cursor,
                "cursor_end": cursor,
                "metadata": {},
            });
            ("complete_reply", reply)
        }
        "inspect_request" => {
            let reply = json!({ "status": "ok", "found": false, "data": {}, "metadata": {} });
            ("inspect_reply", reply)
        }
        "history_request" => ("history_reply", json!({ "status": "ok", "history": [] })),
        "comm_info_request" => ("comm_info_reply", json!({ "status": "ok", "comms": {} })),
        _ => return None,
    })
}

/// The reply to a question that has no answer: an error, with what its kind has beside that, empty.
/// Whether code is whole is then unknown, which is an answer.
pub(super) fn unanswered(plain: Value, why: &str) -> Value {
    let mut reply = plain;
    if let Some(reply) = reply.as_object_mut()
        && reply.get("status") == Some(&"ok".into())
    {
        reply.insert("status".to_owned(), "error".into());
        reply.insert("ename".to_owned(), "NoAnswer".into());
        reply.insert("evalue".to_owned(), why.into());
        reply.insert("traceback".to_owned(), json!([]));
    }
    reply
}

pub(super) fn status(state: &str) -> Value {
    json!({ "execution_state": state })
}

pub(super) fn execute_input(code: &str, execution_count: u64) -> Value {
    json!({ "code": code, "execution_count": execution_count })
}

pub(super) fn stream(name: &str, text: &str) -> Value {
    json!({ "name": name, "text": text })
}

pub(super) fn execute_result(text: &str, execution_count: Option<u64>) -> Value {
    json!({
        "data": { "text/plain": text },
        "metadata": {},
        "execution_count": execution_count,
    })
}

/// What an event says that a cell shows.
pub(super) fn shown(shown: &Shown) -> Value {
    let transient = match &shown.display_id {
        Some(id) => json!({ "display_id": id }),
        None => json!({}),
    };
    json!({ "data": shown.data, "metadata": shown.metadata, "transient": transient })
}

/// How a cell failed.
#[derive(Debug)]
pub(super) struct Failure {
    ename: String,
    evalue: String,
    traceback: Vec<String>,
}

impl Failure {
    /// Of a result; `None` if it is a success also for a front end: `sys.exit()` is none there, as with
    /// Jupyter's own kernels.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let beside = &outcome.beside_streams;
        if outcome.status == Status::Success && beside.raised.is_none() {
            return None;
        }
        if let Some(raised) = beside
            .raised
            .as_ref()
            .filter(|raised| !raised.ename.is_empty())
        {
            return Some(Self {
                ename: raised.ename.clone(),
                evalue: raised.evalue.clone(),
                traceback: raised.traceback.clone(),
            });
        }
        Some(Self {
            ename: ename_of(outcome.error_class).to_owned(),
            evalue: for_people(outcome.error.as_deref().unwrap_or_default()),
            // Front ends show the traceback and nothing else: it says what became of the kernel.
            traceback: beside.notices.iter().map(|it| for_people(it)).collect(),
        })
    }

    /// Of a request that makes no sense.
    pub(super) fn senseless(error: &ContentError) -> Self {
        let sentence = error.to_string();
        Self {
            ename: "ValueError".to_owned(),
            evalue: sentence.clone(),
            traceback: vec![sentence],
        }
    }

    /// The reply to a request that is no cell.
    pub(super) fn reply(&self) -> Value {
        json!({
            "status": "error",
            "ename": self.ename,
            "evalue": self.evalue,
            "traceback": self.traceback,
        })
    }

    /// The content of an `error` message.
    pub(super) fn error(&self) -> Value {
        json!({
            "ename": self.ename,
            "evalue": self.evalue,
            "traceback": self.traceback,
        })
    }
}

/// A sentence that speaks of a caller's keys, for those who have none: what named the Python of their
/// kernel is its kernelspec, or a command line.
fn for_people(sentence: &str) -> String {
    sentence
        .replace(
            "with `caller.python`",
            "with --python PATH in its kernelspec",
        )
        .replace("`caller.python`", "--python")
}

/// The class of an exception that no Python has raised, as those of Jupyter's own clients are named.
fn ename_of(class: Option<ErrorClass>) -> &'static str {
    match class {
        Some(ErrorClass::Interrupted) => "KeyboardInterrupt",
        Some(ErrorClass::Timeout) => "TimeoutError",
        Some(ErrorClass::KernelDied) => "DeadKernelError",
        Some(ErrorClass::Exit) => "SystemExit",
        Some(ErrorClass::Limit) => "MemoryError",
        _ => "RuntimeError",
    }
}

/// What no stream has carried and no error tells, a line each. That an interrupt has ended the cell
/// and nothing else needs no words: the error is a `KeyboardInterrupt`, as with any kernel of Jupyter's.
pub(super) fn notices(outcome: &Outcome, is_late_told: bool) -> Option<String> {
    let told_by_error = outcome.status != Status::Success
        && outcome
            .beside_streams
            .raised
            .as_ref()
            .is_none_or(|raised| raised.ename.is_empty());
    let mut text = String::new();
    if !told_by_error {
        let told = outcome.beside_streams.notices.iter();
        // People see their own code and its traceback: advice is for agents.
        let told = told.filter(|it| *it != INTERRUPTED_KEPT && !Outcome::is_advice(it));
        for notice in told {
            if is_late_told && outcome.tells_background(notice) {
                continue;
            }
            text.push_str(notice);
            text.push('\n');
        }
    }
    if let Some(warning) = &outcome.warning {
        text.push_str("warmcell: ");
        text.push_str(warning);
        text.push('\n');
    }
    (!text.is_empty()).then_some(text)
}

/// Beside the reply to a cell: when it has begun.
pub(super) fn started(at: &str) -> Value {
    json!({ "started": at })
}

/// The reply to a cell.
pub(super) fn execute_reply(failure: Option<&Failure>, execution_count: u64) -> Value {
    match failure {
        None => json!({
            "status": "ok",
            "execution_count": execution_count,
            "user_expressions": {},
            "payload": [],
        }),
        Some(failure) => json!({
            "status": "error",
            "ename": failure.ename,
            "evalue": failure.evalue,
            "traceback": failure.traceback,
            "execution_count": execution_count,
            "user_expressions": {},
            "payload": [],
        }),
    }
}

/// Beside the reply to a cell that has called `exit()`: a console is to end, and with it the kernel if
/// it has started that itself.
pub(super) fn exit_payload() -> Value {
    json!([{ "source": "ask_exit", "keepkernel": true }])
}

/// In the reply to a cell: how many secrets were masked in what it has shown.
pub(super) fn redacted(count: u64) -> Value {
    json!({ "redacted": count })
}

/// The reply to a cell that does not run because one before it has failed.
pub(super) fn aborted(execution_count: u64) -> Value {
    json!({ "status": "aborted", "execution_count": execution_count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::{BackgroundOutput, KernelReport, Raised};

    #[test]
    fn a_kernel_that_is_not_ours_is_told_in_its_own_words() {
        let read = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            foreign_kernel_info(&raw)
        };
        let info = read(
            r#"{"implementation":"ir","banner":"R","language_info":{"name":"R","odd":[1]},
                "protocol_version":"4.0","debugger":true,"supported_features":["debugger"],"x":1}"#,
        );
        assert_eq!(info["language_info"], json!({ "name": "R", "odd": [1] }));
        assert_eq!(
            (&info["implementation"], &info["x"]),
            (&json!("ir"), &json!(1))
        );
        assert_eq!(info["protocol_version"], PROTOCOL_VERSION);
        assert_eq!(info["supported_features"], json!([]));
        assert_eq!(info.get("debugger"), None);
        let none = read("[]");
        assert_eq!(
            (&none["status"], &none["language_info"]["name"]),
            (&json!("ok"), &json!(""))
        );
    }

    #[test]
    fn a_failure_is_the_exception_or_else_what_became_of_the_kernel() {
        let mut outcome = Outcome::not_run(
            ErrorClass::Interrupted,
            "interrupted",
            KernelReport::untouched(1, 1),
        );
        outcome.warning = Some("odd".to_owned());
        let failure = Failure::of(&outcome).unwrap();
        let reply = execute_reply(Some(&failure), 3);
        assert_eq!(reply["ename"], "KeyboardInterrupt");
        assert_eq!(reply["traceback"], json!(["[interrupted]"]));
        assert_eq!(reply["status"], "error");
        assert_eq!(reply["execution_count"], 3);
        assert_eq!(notices(&outcome, false).unwrap(), "warmcell: odd\n");

        outcome.beside_streams.raised = Some(Raised {
            ename: "E".to_owned(),
            evalue: "v".to_owned(),
            traceback: vec!["a".to_owned(), "b".to_owned()],
        });
        let failure = Failure::of(&outcome).unwrap();
        assert_eq!(
            failure.error(),
            json!({ "ename": "E", "evalue": "v", "traceback": ["a", "b"] })
        );
        assert_eq!(
            notices(&outcome, false).unwrap(),
            "[interrupted]\nwarmcell: odd\n"
        );
        // The error has said it.
        outcome.beside_streams.notices = vec![INTERRUPTED_KEPT.to_owned()];
        assert_eq!(notices(&outcome, false).unwrap(), "warmcell: odd\n");

        // What was printed between cells is said to those who have not seen it.
        let notice = "[7 bytes printed between cells: a]".to_owned();
        outcome.beside_streams.notices.push(notice);
        outcome.background_output = Some(BackgroundOutput {
            text: "a".to_owned(),
            bytes_total: 7,
        });
        let told = notices(&outcome, false).unwrap();
        assert!(told.contains("between cells"), "{told}");
        let told = notices(&outcome, true).unwrap();
        assert_eq!(told, "warmcell: odd\n");
    }
}
