//! Requests of front ends: what they must hold to make sense.
//!
//! A front end gets a sentence for what it has got wrong, so nothing of a wrong type is passed over
//! here. A key that is null counts as one that is not there; unknown ones are skipped.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ContentError;
use super::lenient;

/// The content of a request that makes sense.
#[derive(Debug, Default)]
pub struct Asked(Fields);

/// The content of an `execute_request` that a front end has sent.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct WantedCell {
    /// The cell.
    pub code: String,
    /// Whether nothing of it is to be shown.
    pub silent: bool,
    /// Whether the requests behind it are not to run if it fails.
    pub stops_on_error: bool,
    /// Whether history keeps it.
    pub stores_history: bool,
    /// Whether the front end answers when it asks for input.
    pub allow_stdin: bool,
    /// What is to be evaluated after it; `None` where that is nothing.
    pub user_expressions: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fields {
    code: Option<Box<RawValue>>,
    silent: Option<Box<RawValue>>,
    store_history: Option<Box<RawValue>>,
    user_expressions: Option<Box<RawValue>>,
    allow_stdin: Option<Box<RawValue>>,
    stop_on_error: Option<Box<RawValue>>,
    cursor_pos: Option<Box<RawValue>>,
    detail_level: Option<Box<RawValue>>,
    hist_access_type: Option<Box<RawValue>>,
    target_name: Option<Box<RawValue>>,
    restart: Option<Box<RawValue>>,
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Flag,
    Count,
    Object,
}

impl Kind {
    fn in_words(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Flag => "true or false",
            Self::Count => "a number from 0",
            Self::Object => "an object",
        }
    }

    /// Whether JSON text is of this kind.
    fn holds(self, json: &str) -> bool {
        match self {
            Self::Text => json.starts_with('"'),
            Self::Flag => matches!(json, "true" | "false"),
            Self::Count => json.parse::<u64>().is_ok(),
            Self::Object => json.starts_with('{'),
        }
    }
}

impl Asked {
    /// Reads the content of a request.
    ///
    /// # Errors
    ///
    /// If it is no JSON object, a key is of a wrong type, or one is missing without which the request
    /// makes no sense.
    pub fn parse(msg_type: &str, content: &[u8]) -> Result<Self, ContentError> {
        let refuse = |reason: String| ContentError {
            message: msg_type.chars().take(64).collect::<String>().into(),
            reason,
        };
        let fields: Fields =
            lenient::read(content).map_err(|error| refuse(format!("its content: {error}")))?;
        for (key, value, kind, is_needed) in fields.of(msg_type) {
            match value.as_deref().map(RawValue::get) {
                Some(json) if !kind.holds(json) => {
                    let words = kind.in_words();
                    return Err(refuse(format!("`{key}` must be {words}")));
                }
                None if is_needed => {
                    let words = kind.in_words();
                    return Err(refuse(format!("`{key}` is missing; give {words}")));
                }
                Some(_) | None => {}
            }
        }
        Ok(Self(fields))
    }

    /// The cell of an `execute_request`.
    pub fn cell(&self) -> WantedCell {
        WantedCell {
            code: value(self.0.code.as_deref()).unwrap_or_default(),
            silent: value(self.0.silent.as_deref()).unwrap_or(false),
            stops_on_error: value(self.0.stop_on_error.as_deref()).unwrap_or(true),
            stores_history: value(self.0.store_history.as_deref()).unwrap_or(true),
            // What says nothing can ask nobody.
            allow_stdin: value(self.0.allow_stdin.as_deref()).unwrap_or(false),
            user_expressions: self.0.user_expressions.clone().filter(|wanted| {
                let inside = wanted.get().trim_start_matches('{');
                inside.trim_start() != "}"
            }),
        }
    }

    /// Where the cursor is, in code points; 0 if that is not said.
    pub fn cursor_pos(&self) -> u64 {
        value(self.0.cursor_pos.as_deref()).unwrap_or(0)
    }

    /// Whether a `shutdown_request` wants another kernel afterwards.
    pub fn wants_restart(&self) -> bool {
        value(self.0.restart.as_deref()).unwrap_or(false)
    }
}

type Rule<'a> = (&'static str, &'a Option<Box<RawValue>>, Kind, bool);

impl Fields {
    /// The keys of a request: what they hold, and whether it makes no sense without them.
    fn of(&self, msg_type: &str) -> Vec<Rule<'_>> {
        use Kind::{Count, Flag, Object, Text};
        match msg_type {
            "execute_request" => vec![
                ("code", &self.code, Text, true),
                ("silent", &self.silent, Flag, false),
                ("store_history", &self.store_history, Flag, false),
                ("user_expressions", &self.user_expressions, Object, false),
                ("allow_stdin", &self.allow_stdin, Flag, false),
                ("stop_on_error", &self.stop_on_error, Flag, false),
            ],
            "complete_request" => vec![
                ("code", &self.code, Text, true),
                ("cursor_pos", &self.cursor_pos, Count, false),
            ],
            "inspect_request" => vec![
                ("code", &self.code, Text, true),
                ("cursor_pos", &self.cursor_pos, Count, false),
                ("detail_level", &self.detail_level, Count, false),
            ],
            "is_complete_request" => vec![("code", &self.code, Text, true)],
            "history_request" => vec![("hist_access_type", &self.hist_access_type, Text, false)],
            "comm_info_request" => vec![("target_name", &self.target_name, Text, false)],
            "shutdown_request" => vec![("restart", &self.restart, Flag, false)],
            _ => vec![],
        }
    }
}

fn value<T: serde::de::DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    raw.and_then(lenient::raw_value)
}

/// What an `input_reply` gives: a lone surrogate in it is U+FFFD. `None` if it holds no text.
pub fn input_value(content: &[u8]) -> Option<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct InputReply {
        #[serde(deserialize_with = "lenient::or_default")]
        value: Option<String>,
    }
    let reply: InputReply = lenient::read(content).ok()?;
    reply.value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_makes_no_sense_is_told_by_its_key() {
        for (msg_type, content, reason) in [
            ("execute_request", "{}", "`code` is missing; give a string"),
            (
                "execute_request",
                r#"{"code":null}"#,
                "`code` is missing; give a string",
            ),
            (
                "execute_request",
                r#"{"code":3}"#,
                "`code` must be a string",
            ),
            (
                "execute_request",
                r#"{"code":"","silent":"no"}"#,
                "`silent` must be true or false",
            ),
            (
                "execute_request",
                r#"{"code":"","user_expressions":[]}"#,
                "`user_expressions` must be an object",
            ),
            (
                "complete_request",
                r#"{"code":"","cursor_pos":-1}"#,
                "`cursor_pos` must be a number from 0",
            ),
            (
                "shutdown_request",
                r#"{"restart":1}"#,
                "`restart` must be true or false",
            ),
        ] {
            let error = Asked::parse(msg_type, content.as_bytes()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("unreadable {msg_type}: {reason}")
            );
        }
        for content in ["", "[]", "null", "7", "\"a\"", "{", "code"] {
            let error = Asked::parse("history_request", content.as_bytes()).unwrap_err();
            assert!(
                error.to_string().contains("object") || content == "{",
                "{error}"
            );
        }
    }

    #[test]
    fn what_makes_sense_is_read_with_what_python_writes() {
        let content = br#"{"code":"a\ud800","silent":true,"odd":NaN,"stop_on_error":null}"#;
        let cell = Asked::parse("execute_request", content).unwrap().cell();
        assert_eq!((cell.code.as_str(), cell.silent), ("a\u{fffd}", true));
        assert!(cell.stops_on_error);
        let content = br#"{"code":"","stop_on_error":false}"#;
        let asked = Asked::parse("execute_request", content).unwrap();
        assert!(!asked.cell().stops_on_error);
        let asked = Asked::parse("complete_request", br#"{"code":"a","cursor_pos":1}"#);
        assert_eq!(asked.unwrap().cursor_pos(), 1);
        let asked = Asked::parse("shutdown_request", br#"{"restart":true}"#);
        assert!(asked.unwrap().wants_restart());
        // What nobody knows may hold anything.
        assert!(Asked::parse("x_request", br#"{"code":1}"#).is_ok());
    }

    #[test]
    fn an_answer_keeps_all_but_its_lone_surrogates() {
        let value = |content: &str| input_value(content.as_bytes());
        let whole = value(r#"{"value":"abc\ud800def\ud83d\ude00"}"#);
        assert_eq!(whole.as_deref(), Some("abc\u{fffd}def\u{1f600}"));
        for none in ["", "{}", "[]", r#"{"value":7}"#, r#"{"value":null}"#] {
            assert_eq!(value(none), None);
        }
    }
}
