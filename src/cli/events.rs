//! What happens in a session, a line for each event.

use serde_json::Value;

use super::list::{clean, shown};
use crate::words::{agreeing, counted};

/// Characters of an error or a value in a line.
const MOST_CHARS: usize = 200;

/// An event in one line: when, its number, the cell if it concerns one, what, and what there is to say of
/// that.
pub(super) fn event_line(event: &Value) -> String {
    let text = |path: &str| shown(event.pointer(path));
    let cell = event
        .get("cell")
        .map_or_else(String::new, |cell| format!(" cell {cell}"));
    let kind = text("/kind");
    let detail = match kind.as_str() {
        "kernel_state" => {
            let reason = text_of(event, "/reason");
            let why = if reason.is_empty() {
                String::new()
            } else {
                format!(" ({})", clean(reason))
            };
            format!("{} -> {}{why}", text("/from"), text("/to"))
        }
        "cell_queued" => "a cell waits for its turn".to_owned(),
        "cell_started" => "it runs".to_owned(),
        "stdout" | "stderr" => format!("{:?}", text_of(event, "/text")),
        "result" => cut(&text("/data")),
        "display" => "something to be shown".to_owned(),
        "tool_started" => format!("call {}: {}", text("/id"), text("/tool")),
        "tool_finished" => {
            let ended = if event.get("ok").and_then(Value::as_bool) == Some(true) {
                "ok"
            } else {
                "failed"
            };
            format!("call {}: {ended} after {} ms", text("/id"), text("/ms"))
        }
        "cell_finished" => match text_of(event, "/outcome/error") {
            "" => text("/outcome/status"),
            error => format!("{}: {}", text("/outcome/status"), cut(&clean(error))),
        },
        "kernel_exited" => match (event.get("code"), event.get("signal")) {
            (Some(code), _) if !code.is_null() => format!("with code {code}"),
            (_, Some(signal)) if !signal.is_null() => format!("by signal {signal}"),
            _ => "how is not known".to_owned(),
        },
        "late_output" => format!(
            "between cells, {}: {:?}",
            text("/stream"),
            text_of(event, "/text")
        ),
        "lagged" => {
            let missed = event.pointer("/missed").and_then(Value::as_u64);
            let missed = missed.unwrap_or_default();
            let are = agreeing(missed, "is", "are");
            format!("{} {are} missing here", counted(missed, "event"))
        }
        // Of a later version.
        _ => cut(&clean(&event.to_string())),
    };
    format!("{} {:>5}{cell} {kind} {detail}", text("/at"), text("/seq"))
}

fn text_of<'a>(event: &'a Value, path: &str) -> &'a str {
    let text = event.pointer(path).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn cut(text: &str) -> String {
    let mut chars = text.chars();
    let mut cut: String = chars.by_ref().take(MOST_CHARS).collect();
    if chars.next().is_some() {
        cut.push_str("...");
    }
    cut
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_event_is_a_line_that_says_something() {
        let line = |more: Value| {
            let mut event = json!({ "at": "T", "seq": 7 });
            event
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let line = event_line(&event);
            let rest = line.strip_prefix("T     7 ").unwrap();
            rest.to_owned()
        };
        for (event, told) in [
            (
                json!({ "kind": "kernel_state", "from": "idle", "to": "busy", "reason": "cell" }),
                "kernel_state idle -> busy (cell)",
            ),
            (
                json!({ "kind": "kernel_state", "from": "idle", "to": "dead", "reason": "" }),
                "kernel_state idle -> dead",
            ),
            (
                json!({ "kind": "cell_queued" }),
                "cell_queued a cell waits for its turn",
            ),
            (
                json!({ "kind": "cell_started", "cell": 3 }),
                "cell 3 cell_started it runs",
            ),
            (
                json!({ "kind": "stdout", "cell": 3, "text": "a\u{1b}\n" }),
                "cell 3 stdout \"a\\u{1b}\\n\"",
            ),
            (
                json!({ "kind": "stderr", "cell": 3, "text": "" }),
                "cell 3 stderr \"\"",
            ),
            (
                json!({ "kind": "result", "cell": 3, "data": "42" }),
                "cell 3 result 42",
            ),
            (
                json!({ "kind": "result", "cell": 3, "data": "" }),
                "cell 3 result -",
            ),
            (
                json!({ "kind": "tool_started", "cell": 3, "id": 1, "tool": "terminal" }),
                "cell 3 tool_started call 1: terminal",
            ),
            (
                json!({ "kind": "tool_finished", "cell": 3, "id": 1, "ok": true, "ms": 5 }),
                "cell 3 tool_finished call 1: ok after 5 ms",
            ),
            (
                json!({ "kind": "tool_finished", "cell": 3, "id": 1, "ok": false, "ms": 0 }),
                "cell 3 tool_finished call 1: failed after 0 ms",
            ),
            (
                json!({ "kind": "cell_finished", "cell": 3, "outcome": { "status": "success" } }),
                "cell 3 cell_finished success",
            ),
            (
                json!({
                    "kind": "cell_finished",
                    "outcome": { "status": "error", "error": "NameError: x\n" },
                }),
                "cell_finished error: NameError: x\u{fffd}",
            ),
            (
                json!({ "kind": "kernel_exited", "code": 3 }),
                "kernel_exited with code 3",
            ),
            (
                json!({ "kind": "kernel_exited", "code": 0 }),
                "kernel_exited with code 0",
            ),
            (
                json!({ "kind": "kernel_exited", "signal": 9 }),
                "kernel_exited by signal 9",
            ),
            (
                json!({ "kind": "kernel_exited" }),
                "kernel_exited how is not known",
            ),
            (
                json!({ "kind": "late_output", "cell": 3, "stream": "stdout", "text": "a" }),
                "cell 3 late_output between cells, stdout: \"a\"",
            ),
            (
                json!({ "kind": "lagged", "missed": 12 }),
                "lagged 12 events are missing here",
            ),
        ] {
            assert_eq!(line(event), told);
        }
        assert!(line(json!({ "kind": "new", "x": 1 })).starts_with("new {\"at\":"));
        let long = line(json!({ "kind": "result", "data": "y".repeat(1_000) }));
        assert!(long.ends_with("y...") && long.len() < 300, "{long}");
        assert_eq!(event_line(&json!(null)), "-     - - null");
    }
}
