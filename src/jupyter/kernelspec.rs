//! Kernelspecs: how a kernel is started, as `kernel.json` says it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::connection::shown;
use super::wire_error::KernelspecError;

/// The longest `kernel.json` that is read, in bytes.
pub const MOST_KERNELSPEC_BYTES: usize = 1 << 20;
/// The longest name.
const MOST_NAME_BYTES: usize = 255;
/// The longest value that a substitution may give.
const MOST_VALUE_BYTES: usize = 1 << 20;

/// How a kernel is interrupted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptMode {
    /// By SIGINT.
    #[default]
    Signal,
    /// By a message on the control channel.
    Message,
}

/// A kernelspec.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernelspec {
    /// The command; `{connection_file}` in it stands for the path of the connection file.
    pub argv: Vec<String>,
    /// Variables of the kernel's environment; see [`substitute`].
    pub env: BTreeMap<String, String>,
    /// The name for people; that of the kernelspec where none is given.
    pub display_name: String,
    /// The language of its cells; empty where it is not said.
    pub language: String,
    /// How it is interrupted.
    pub interrupt_mode: InterruptMode,
    /// Whatever else it says of itself.
    pub metadata: Map<String, Value>,
}

impl Kernelspec {
    /// Reads a `kernel.json`. Unknown keys are ignored.
    ///
    /// # Errors
    ///
    /// If it is too long, no JSON object, or a value cannot be used.
    pub fn parse(bytes: &[u8]) -> Result<Self, KernelspecError> {
        if bytes.len() > MOST_KERNELSPEC_BYTES {
            return Err(KernelspecError::TooLong {
                length: bytes.len(),
                limit: MOST_KERNELSPEC_BYTES,
            });
        }
        let fields: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| KernelspecError::NotAnObject {
                reason: error.to_string(),
            })?;
        let argv = argv(fields.get("argv").unwrap_or(&Value::Null))?;
        Ok(Self {
            argv,
            env: env(fields.get("env").unwrap_or(&Value::Null))?,
            display_name: text(&fields, "display_name")?,
            language: text(&fields, "language")?,
            interrupt_mode: interrupt_mode(fields.get("interrupt_mode").unwrap_or(&Value::Null))?,
            metadata: match fields.get("metadata") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(metadata)) => metadata.clone(),
                Some(other) => return Err(refused("metadata", other, "it must be an object")),
            },
        })
    }

    /// The file.
    pub fn to_json(&self) -> String {
        // Texts and what was JSON before can always be written.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn argv(value: &Value) -> Result<Vec<String>, KernelspecError> {
    let wanted = "it must be a list of strings without NUL, the first one the program";
    let Some(words) = value.as_array().filter(|words| !words.is_empty()) else {
        return Err(refused("argv", value, wanted));
    };
    let mut argv = Vec::with_capacity(words.len());
    for (place, word) in words.iter().enumerate() {
        match word.as_str().filter(|text| !text.contains('\0')) {
            Some(text) if place > 0 || !text.is_empty() => argv.push(text.to_owned()),
            _ => return Err(refused(&format!("argv[{place}]"), word, wanted)),
        }
    }
    Ok(argv)
}

fn env(value: &Value) -> Result<BTreeMap<String, String>, KernelspecError> {
    let variables = match value {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(variables) => variables,
        other => return Err(refused("env", other, "it must be an object of strings")),
    };
    let mut env = BTreeMap::new();
    for (name, value) in variables {
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        let text = value
            .as_str()
            .filter(|text| is_name && !text.contains('\0'));
        let Some(text) = text else {
            let key = format!("env[{}]", shown(&json!(name)));
            let wanted = "it must be a string without NUL, for a variable's name";
            return Err(refused(&key, value, wanted));
        };
        env.insert(name.clone(), text.to_owned());
    }
    Ok(env)
}

fn interrupt_mode(value: &Value) -> Result<InterruptMode, KernelspecError> {
    match value {
        Value::Null => Ok(InterruptMode::default()),
        Value::String(text) if text.eq_ignore_ascii_case("signal") => Ok(InterruptMode::Signal),
        Value::String(text) if text.eq_ignore_ascii_case("message") => Ok(InterruptMode::Message),
        other => Err(refused(
            "interrupt_mode",
            other,
            "it must be \"signal\" or \"message\"",
        )),
    }
}

fn text(fields: &Map<String, Value>, key: &str) -> Result<String, KernelspecError> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(refused(key, other, "it must be a string")),
    }
}

fn refused(key: &str, value: &Value, wanted: &'static str) -> KernelspecError {
    KernelspecError::Value {
        key: key.to_owned(),
        value: shown(value),
        wanted,
    }
}

/// The name of a kernelspec in the form in which names are compared: case does not matter.
///
/// # Errors
///
/// If it is not 1 to 255 of `A-Z a-z 0-9 . _ -`, or is `.` or `..`.
pub fn kernelspec_name(name: &str) -> Result<String, KernelspecError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=MOST_NAME_BYTES).contains(&name.len());
    if fits && name.bytes().all(allowed) && ![".", ".."].contains(&name) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(KernelspecError::Name {
        name: name.chars().take(64).collect(),
        limit: MOST_NAME_BYTES,
    })
}

/// A value of `env` with `${NAME}` and `$NAME` replaced by what is asked for by name, and `$$` by one
/// dollar. What is not known stays as it is, as with Jupyter. `None` if more than a mebibyte comes of
/// it.
pub fn substitute<'a>(
    template: &str,
    mut variable: impl FnMut(&str) -> Option<&'a str>,
) -> Option<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(found) = rest.find('$') {
        let (before, from) = rest.split_at(found);
        out.push_str(before);
        let (reference, length) = reference(from);
        let value = match reference {
            Some("$") => Some("$"),
            Some(name) => variable(name),
            None => None,
        };
        let (whole, after) = from.split_at(length);
        out.push_str(value.unwrap_or(whole));
        rest = after;
        if out.len() > MOST_VALUE_BYTES {
            return None;
        }
    }
    out.push_str(rest);
    (out.len() <= MOST_VALUE_BYTES).then_some(out)
}

/// What the dollar at the beginning of a text refers to, and how long that is, in bytes.
fn reference(text: &str) -> (Option<&str>, usize) {
    let behind = text.get(1..).unwrap_or_default();
    if behind.starts_with('$') {
        return (Some("$"), 2);
    }
    let name_of = |text: &str| {
        text.bytes()
            .enumerate()
            .take_while(|(place, byte)| {
                *byte == b'_' || byte.is_ascii_alphabetic() || (*place > 0 && byte.is_ascii_digit())
            })
            .count()
    };
    if let Some(braced) = behind.strip_prefix('{') {
        let length = name_of(braced);
        let (name, end) = braced.split_at(length);
        return if length > 0 && end.starts_with('}') {
            (Some(name), length + 3)
        } else {
            (None, 1)
        };
    }
    match name_of(behind) {
        0 => (None, 1),
        length => (behind.get(..length), length + 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPEC: &str = r#"{"argv": ["/usr/bin/python3", "-m", "k", "-f", "{connection_file}"],
        "display_name": "Python é", "language": "python", "env": {"A": "${HOME}/a"},
        "interrupt_mode": "Message", "metadata": {"debugger": true}, "odd": [1]}"#;

    #[test]
    fn a_kernel_json_is_read_and_written() {
        let spec = Kernelspec::parse(SPEC.as_bytes()).unwrap();
        assert_eq!(spec.argv[4], "{connection_file}");
        assert_eq!(spec.env["A"], "${HOME}/a");
        assert_eq!(spec.interrupt_mode, InterruptMode::Message);
        assert_eq!(spec.metadata["debugger"], true);
        assert_eq!(Kernelspec::parse(spec.to_json().as_bytes()), Ok(spec));
        let least = Kernelspec::parse(br#"{"argv":["a"]}"#).unwrap();
        assert_eq!(least.interrupt_mode, InterruptMode::Signal);
        assert_eq!((least.language.as_str(), least.env.len()), ("", 0));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_key_and_value() {
        for (text, sentence) in [
            ("", "no JSON object"),
            ("[]", "no JSON object"),
            ("{}", "argv is null; it must be a list"),
            (r#"{"argv":[]}"#, "argv is a list"),
            (r#"{"argv":"a b"}"#, "argv is \"a b\""),
            (r#"{"argv":["a",1]}"#, "argv[1] is 1"),
            (r#"{"argv":[""]}"#, "argv[0] is \"\""),
            (r#"{"argv":["a\u0000"]}"#, "argv[0] is"),
            (r#"{"argv":["a"],"env":{"A":1}}"#, "env[\"A\"] is 1"),
            (r#"{"argv":["a"],"env":{"A=B":""}}"#, "env[\"A=B\"]"),
            (r#"{"argv":["a"],"env":[]}"#, "env is a list"),
            (r#"{"argv":["a"],"language":7}"#, "language is 7"),
            (
                r#"{"argv":["a"],"display_name":{}}"#,
                "display_name is an object",
            ),
            (
                r#"{"argv":["a"],"interrupt_mode":"x"}"#,
                "interrupt_mode is \"x\"",
            ),
            (r#"{"argv":["a"],"metadata":3}"#, "metadata is 3"),
        ] {
            let error = Kernelspec::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(sentence), "{error}");
        }
        let long = vec![b' '; MOST_KERNELSPEC_BYTES + 1];
        let error = Kernelspec::parse(&long).unwrap_err().to_string();
        assert!(error.contains("1048577 bytes"), "{error}");
        assert!(Kernelspec::parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn names_are_checked_and_compared_without_case() {
        assert_eq!(
            kernelspec_name("Python3.11_a-B").as_deref(),
            Ok("python3.11_a-b")
        );
        let long = "x".repeat(256);
        for name in ["", ".", "..", "a/b", "a b", "é", "a\0", "../x", &long] {
            let error = kernelspec_name(name).unwrap_err().to_string();
            assert!(error.len() < 250, "{error}");
        }
    }

    #[test]
    fn variables_are_replaced_as_jupyter_does() {
        let variable = |name: &str| match name {
            "HOME" => Some("/home/é"),
            "_x1" => Some("$HOME"),
            _ => None,
        };
        // As string.Template.safe_substitute does.
        for (template, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("${HOME}/a", "/home/é/a"),
            ("$HOME/a:$HOMER", "/home/é/a:$HOMER"),
            ("$_x1", "$HOME"),
            ("$$HOME $${HOME}", "$HOME ${HOME}"),
            ("${NO} $NO $", "${NO} $NO $"),
            ("${ HOME} ${HOME ${} $1", "${ HOME} ${HOME ${} $1"),
            ("é$HOMEé", "é/home/éé"),
        ] {
            let found = substitute(template, variable).unwrap();
            assert_eq!(found, expected, "{template}");
        }
        let long = "x".repeat(100_000);
        let grown = substitute(&"$A".repeat(100), |_| Some(&long));
        assert_eq!(grown, None);
    }

    proptest! {
        #[test]
        fn nothing_panics_and_texts_without_dollars_stay(text in "\\PC{0,60}", odd in "[${}A_1é]{0,20}") {
            drop(Kernelspec::parse(text.as_bytes()));
            drop(kernelspec_name(&text));
            prop_assert!(substitute(&odd, |_| Some("v")).is_some());
            let plain = text.replace('$', "");
            prop_assert_eq!(substitute(&plain, |_| None), Some(plain));
        }
    }
}
