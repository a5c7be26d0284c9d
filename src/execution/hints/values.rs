//! One type taken for another: results of tools are dicts.

use super::rules::Case;
use crate::tools::ToolSpec;

/// Methods of text that are called on dicts.
const OF_TEXT: &[&str] = &[
    "decode",
    "encode",
    "endswith",
    "find",
    "format",
    "join",
    "lower",
    "lstrip",
    "partition",
    "read",
    "readlines",
    "replace",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "upper",
];
/// Methods of dicts that are called on text.
const OF_DICTS: &[&str] = &["get", "items", "keys", "values"];

/// A value is None because the call that should have made it has failed.
pub(super) fn failed_call(case: &Case<'_>) -> Option<String> {
    let text = case.exception.text;
    if !case.exception.is(&["TypeError", "AttributeError"]) || !text.contains("NoneType") {
        return None;
    }
    if let Some(call) = case.tools.calls.iter().rev().find(|call| !call.ok) {
        return Some(format!(
            "a call of {} has failed in this cell, so its result holds None: look at result['error'] \
             before the rest",
            call.tool
        ));
    }
    let (_, why) = case.tools.refused.as_ref()?;
    Some(format!(
        "a tool call was refused in this cell ({why}), so its result holds None: look at \
         result['error'] before the rest"
    ))
}

/// What is no text of JSON since it was read already.
pub(super) fn already_parsed(case: &Case<'_>) -> Option<String> {
    if !case.exception.is(&["TypeError"]) {
        return None;
    }
    let text = case.exception.text;
    let got = text
        .strip_prefix("the JSON object must be str, bytes or bytearray, not ")
        .or_else(|| {
            text.strip_prefix("json_parse needs a str or bytes, got ")?
                .split(';')
                .next()
        })?;
    let is_parsed = ["dict", "list", "int", "float", "bool"].contains(&got.trim());
    is_parsed.then(|| {
        format!(
            "it is a {} already: use it as it is, without json.loads(); tools return dicts",
            got.trim()
        )
    })
}

/// A dict where text was expected.
pub(super) fn dict_for_text(case: &Case<'_>) -> Option<String> {
    if !case.has_to_do_with_tools() {
        return None;
    }
    let exception = case.exception;
    let text = exception.text;
    let is_one = match exception.kind {
        "AttributeError" => text
            .strip_prefix("'dict' object has no attribute '")
            .and_then(|rest| rest.split('\'').next())
            .is_some_and(|name| OF_TEXT.contains(&name)),
        // A slice of a dict: 3.12 made slices hashable.
        "KeyError" => text.starts_with("slice("),
        "TypeError" => {
            text == "unhashable type: 'slice'"
                // 3.8 to 3.10 do not say what it was instead.
                || text == "expected string or bytes-like object"
                || (text.contains("dict")
                    && [
                        "expected string or bytes-like object, got 'dict'",
                        "can only concatenate str (not \"dict\") to str",
                        "must be str, not dict",
                        "a bytes-like object is required, not 'dict'",
                        "expected str instance, dict found",
                        "expected str, bytes or os.PathLike object, not dict",
                    ]
                    .iter()
                    .any(|known| text.contains(known)))
        }
        _ => false,
    };
    is_one.then(|| format!("tools return dicts, not text{}", shapes(case)))
}

/// Text where a dict was expected.
pub(super) fn text_for_dict(case: &Case<'_>) -> Option<String> {
    if !case.has_to_do_with_tools() {
        return None;
    }
    let text = case.exception.text;
    let is_one = match case.exception.kind {
        "TypeError" => text.starts_with("string indices must be integers"),
        "AttributeError" => text
            .strip_prefix("'str' object has no attribute '")
            .and_then(|rest| rest.split('\'').next())
            .is_some_and(|name| OF_DICTS.contains(&name)),
        _ => false,
    };
    is_one.then(|| {
        format!(
            "this is text, not a dict: tools return dicts whose values are text or numbers, and a loop \
             over a dict gives its keys{}",
            shapes(case)
        )
    })
}

/// What the tools return that the cell has called, or calls by name.
fn shapes(case: &Case<'_>) -> String {
    let is_used = |tool: &&&ToolSpec| {
        case.tools.calls.iter().any(|call| call.tool == tool.name)
            || case.setting.code.contains(tool.name)
    };
    let told: Vec<String> = case
        .setting
        .tools
        .iter()
        .filter(is_used)
        .take(3)
        .map(|tool| format!("{} has {}", tool.name, tool.returns.join(", ")))
        .collect();
    if told.is_empty() {
        String::new()
    } else {
        format!("; the result of {}", told.join("; that of "))
    }
}
