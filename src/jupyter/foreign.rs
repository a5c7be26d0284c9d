//! Typed views of what kernels say that are not ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::bundle::MimeBundle;
use super::error::ContentError;
use super::lenient::{self, or_default};

/// The content of a `stream`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StreamContent {
    /// `stdout` or `stderr`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// What was printed.
    #[serde(deserialize_with = "or_default")]
    pub text: String,
}

/// The content of a `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatusContent {
    /// `busy`, `idle` or `starting`.
    #[serde(deserialize_with = "or_default")]
    pub execution_state: String,
}

/// What a `kernel_info_reply` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KernelInfo {
    /// The name of the kernel's program.
    #[serde(deserialize_with = "or_default")]
    pub implementation: String,
    /// The version of the messaging protocol.
    #[serde(deserialize_with = "or_default")]
    pub protocol_version: String,
    /// The language of cells.
    #[serde(deserialize_with = "or_default")]
    pub language_info: LanguageInfo,
}

/// A language.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LanguageInfo {
    /// Its name, `python` for one.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// What an `execute_reply` says of the expressions that were asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Expressions {
    #[serde(deserialize_with = "or_default")]
    user_expressions: BTreeMap<String, Expression>,
}

#[derive(Debug, Clone, Default)]
struct Expression(MimeBundle);

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Value {
            data: MimeBundle,
        }
        let value: Value = or_default(deserializer)?;
        Ok(Self(value.data))
    }
}

impl Expressions {
    /// The plain text of an expression that had a value.
    pub fn text(&self, name: &str) -> Option<String> {
        self.user_expressions.get(name)?.0.text_plain()
    }
}

macro_rules! readable {
    ($($view:ty: $message:literal),*) => {$(
        impl $view {
            /// Reads the content of a message.
            ///
            /// # Errors
            ///
            /// If it is no JSON object.
            pub fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
                lenient::read(bytes).map_err(|error| ContentError {
                    message: $message.into(),
                    reason: error.to_string(),
                })
            }
        }
    )*};
}

readable! {
    StreamContent: "stream",
    StatusContent: "status",
    KernelInfo: "kernel_info_reply",
    Expressions: "execute_reply"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kernels_say_is_read_however_odd_it_is() {
        let stream = br#"{"name":"stdout","text":"a\ud800b","x":NaN}"#;
        assert_eq!(StreamContent::parse(stream).unwrap().text, "a\u{fffd}b");
        let odd = StreamContent::parse(br#"{"name":1,"text":null}"#).unwrap();
        assert_eq!(odd, StreamContent::default());
        assert!(StreamContent::parse(b"[1]").is_err());
        let status = StatusContent::parse(br#"{"execution_state":"idle"}"#).unwrap();
        assert_eq!(status.execution_state, "idle");
        let info = KernelInfo::parse(br#"{"language_info":{"name":"R"}}"#).unwrap();
        assert_eq!(info.language_info.name, "R");
        assert_eq!(KernelInfo::parse(b"{}").unwrap(), KernelInfo::default());
        let reply = br#"{"user_expressions":{
            "a":{"status":"ok","data":{"text/plain":"{}"}},"b":{"status":"error"},"c":7}}"#;
        let reply = Expressions::parse(reply).unwrap();
        assert_eq!(reply.text("a").as_deref(), Some("{}"));
        assert_eq!((reply.text("b"), reply.text("c")), (None, None));
    }
}
