//! The arguments of a call: from the bytes of its request to checked values.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::time::Duration;

use bytes::BytesMut;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::literal::text_in_place;
use super::shown::shown;
use super::{ParameterDefault, ToolFailure, ToolSpec};

/// The longest list or dict that is taken as an argument, in bytes of JSON.
const LONGEST_TREE: usize = 1 << 20;
/// A text of more bytes is not copied.
const LONG_TEXT: usize = 64 << 10;

/// The arguments of one call, checked as they are taken out.
///
/// Every message names the tool, the argument, the type it has and the type it should have.
#[derive(Debug, Clone)]
pub struct Arguments {
    tool: &'static str,
    values: Map<String, Value>,
}

impl Arguments {
    /// Wraps the JSON object that came with the call.
    pub fn new(tool: &'static str, values: Map<String, Value>) -> Self {
        Self { tool, values }
    }

    /// Takes the JSON object that came with the call out of the bytes of its request.
    ///
    /// The longest text is made of these bytes where they are: a request that may have 64 MiB is never
    /// there twice.
    ///
    /// # Errors
    ///
    /// `usage` if it is no object, or names the argument that cannot be read.
    pub(super) fn take(
        tool: &'static str,
        request: BytesMut,
        at: Option<Range<usize>>,
    ) -> Result<Self, ToolFailure> {
        let usage = |sentence: String| Err(ToolFailure::usage(format!("{tool}: {sentence}")));
        let unreadable = |name: &str, why: &dyn Display| {
            let name = shown(name);
            usage(format!("'{name}' cannot be read: {why}"))
        };
        let Some(json) = at.and_then(|at| request.get(at)) else {
            return Ok(Self::new(tool, Map::new()));
        };
        let Ok(raw) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(json) else {
            return usage("'args' must be an object of arguments".to_owned());
        };
        let long = raw
            .iter()
            .filter(|(_, raw)| raw.get().len() > LONG_TEXT && raw.get().starts_with('"'))
            .max_by_key(|(_, raw)| raw.get().len())
            .map(|(name, _)| name.clone());
        let mut values = Map::new();
        let mut in_place = None;
        for (name, raw) in raw {
            let raw = raw.get();
            if long.as_ref() == Some(&name) {
                let start = raw.as_ptr().addr() - request.as_ptr().addr();
                in_place = Some((name, start..start + raw.len()));
                continue;
            }
            // As a tree of values a list takes many times the memory of its text.
            if raw.len() > LONGEST_TREE && !raw.starts_with('"') {
                let (name, bytes) = (shown(&name), raw.len());
                return usage(format!(
                    "'{name}' is a list or dict of {bytes} bytes, the most is {LONGEST_TREE}; give \
                     it in parts"
                ));
            }
            match serde_json::from_str(raw) {
                Ok(value) => values.insert(name, value),
                Err(error) => return unreadable(&name, &error),
            };
        }
        if let Some((name, at)) = in_place {
            match text_in_place(request, at) {
                Ok(text) => values.insert(name, Value::String(text)),
                Err(error) => return unreadable(&name, &error),
            };
        }
        Ok(Self { tool, values })
    }

    /// Refuses names that the tool does not have.
    ///
    /// # Errors
    ///
    /// `refused` for a keyword of `spec.refused`, `usage` for any other unknown name.
    pub fn check_names(&self, spec: &ToolSpec) -> Result<(), ToolFailure> {
        for (name, value) in &self.values {
            if spec
                .parameters
                .iter()
                .any(|parameter| parameter.name == name)
            {
                continue;
            }
            if spec.refused.contains(&name.as_str()) {
                // A switch that is off asks for nothing.
                if matches!(value, Value::Null | Value::Bool(false)) {
                    continue;
                }
                return Err(ToolFailure::refused(format!(
                    "{}: '{name}' is not available from a cell: the command runs in the foreground \
                     and the call returns when it ends; leave '{name}' out",
                    self.tool
                )));
            }
            let known: Vec<&str> = spec.parameters.iter().map(|p| p.name).collect();
            return Err(ToolFailure::usage(format!(
                "{}: unknown argument '{}'; it takes {}",
                self.tool,
                shown(name),
                known.join(", ")
            )));
        }
        Ok(())
    }

    /// Whether they fit the description of the tool: its names, what must be there, JSON types. The
    /// server asks before each call.
    ///
    /// # Errors
    ///
    /// As [`Arguments::check_names`]; `usage` for what is missing or of another type.
    pub fn check(&self, spec: &ToolSpec) -> Result<(), ToolFailure> {
        self.check_names(spec)?;
        for parameter in spec.parameters {
            let name = parameter.name;
            let wanted = in_words(parameter.json_type);
            let fits = match self.values.get(name).filter(|value| !value.is_null()) {
                None if parameter.default == ParameterDefault::Required => {
                    return Err(ToolFailure::usage(format!(
                        "{}: missing required argument '{name}' ({wanted})",
                        self.tool
                    )));
                }
                None => continue,
                Some(_) if parameter.json_type == "integer" => {
                    self.optional_integer(name)?;
                    continue;
                }
                Some(Value::String(_)) => parameter.json_type == "string",
                Some(Value::Bool(_)) => parameter.json_type == "boolean",
                Some(Value::Array(_)) => parameter.json_type == "array",
                Some(Value::Object(_)) => parameter.json_type == "object",
                // What range a number must have the tool says.
                Some(_) => parameter.json_type == "number",
            };
            if let Some(value) = self.values.get(name).filter(|_| !fits) {
                return Err(self.wrong_type(name, wanted, value));
            }
        }
        Ok(())
    }

    /// Whether the argument was left out or is null.
    pub fn is_absent(&self, name: &str) -> bool {
        matches!(self.values.get(name), None | Some(Value::Null))
    }

    /// A string that must be there.
    ///
    /// # Errors
    ///
    /// `usage` if it is missing or not a string.
    pub fn text(&self, name: &str) -> Result<&str, ToolFailure> {
        match self.values.get(name) {
            Some(Value::String(text)) => Ok(text),
            None | Some(Value::Null) => Err(ToolFailure::usage(format!(
                "{}: missing required argument '{name}' (a string)",
                self.tool
            ))),
            Some(other) => Err(self.wrong_type(name, "a string", other)),
        }
    }

    /// A string that must be there, to keep: it is taken out.
    ///
    /// # Errors
    ///
    /// `usage` if it is missing or not a string.
    pub fn take_text(&mut self, name: &str) -> Result<String, ToolFailure> {
        self.text(name)?;
        match self.values.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Ok(String::new()),
        }
    }

    /// A string, or `None` when left out.
    ///
    /// # Errors
    ///
    /// `usage` if it is there and not a string.
    pub fn optional_text(&self, name: &str) -> Result<Option<&str>, ToolFailure> {
        if self.is_absent(name) {
            Ok(None)
        } else {
            self.text(name).map(Some)
        }
    }

    /// An integer, or `None` when left out. A float with no fraction is taken as one.
    ///
    /// # Errors
    ///
    /// `usage` if it is there and not a whole number.
    pub fn optional_integer(&self, name: &str) -> Result<Option<i64>, ToolFailure> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match (value.as_i64(), value.as_f64()) {
                (Some(whole), _) => Ok(Some(whole)),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "checked to be whole and within the exact range of f64"
                )]
                (None, Some(float)) if float.fract() == 0.0 && float.abs() < 9e15 => {
                    Ok(Some(float as i64))
                }
                (None, Some(_)) => Err(ToolFailure::usage(format!(
                    "{}: '{name}' must be a whole number that fits into 64 bits, got {value}",
                    self.tool
                ))),
                (None, None) => Err(self.wrong_type(name, "a whole number", value)),
            },
        }
    }

    /// A number of seconds, or `None` when left out.
    ///
    /// # Errors
    ///
    /// `usage` if it is there and not a number above zero.
    pub fn optional_seconds(&self, name: &str) -> Result<Option<Duration>, ToolFailure> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(seconds) if seconds > 0.0 => Ok(Some(
                    Duration::try_from_secs_f64(seconds.min(86_400.0)).unwrap_or(Duration::MAX),
                )),
                Some(_) => Err(ToolFailure::usage(format!(
                    "{}: '{name}' must be above 0 seconds, got {value}",
                    self.tool
                ))),
                None => Err(self.wrong_type(name, "a number of seconds", value)),
            },
        }
    }

    fn wrong_type(&self, name: &str, wanted: &str, got: &Value) -> ToolFailure {
        let kind = match got {
            Value::Null => "None",
            Value::Bool(_) => "a bool",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "a dict",
        };
        ToolFailure::usage(format!(
            "{}: '{name}' must be {wanted}, got {kind}",
            self.tool
        ))
    }
}

fn in_words(json_type: &str) -> &str {
    match json_type {
        "string" => "a string",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "a bool",
        "array" => "a list",
        "object" => "a dict",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Parameter;
    use super::*;

    const fn parameter(
        name: &'static str,
        json_type: &'static str,
        default: ParameterDefault,
    ) -> Parameter {
        Parameter {
            name,
            json_type,
            default,
            about: "",
        }
    }

    const SPEC: ToolSpec = ToolSpec {
        name: "add",
        about: "",
        parameters: &[
            parameter("a", "integer", ParameterDefault::Required),
            parameter("text", "string", ParameterDefault::Null),
            parameter("list", "array", ParameterDefault::Null),
            parameter("on", "boolean", ParameterDefault::Boolean(false)),
            parameter("ratio", "number", ParameterDefault::Null),
        ],
        returns: &[],
        refused: &[],
    };

    #[test]
    fn arguments_fit_the_description_of_their_tool() {
        for (arguments, wrong) in [
            (json!({"a": 1}), None),
            (
                json!({"a": 2.0, "text": null, "list": [], "on": true, "ratio": 0.5}),
                None,
            ),
            (
                json!({}),
                Some("missing required argument 'a' (a whole number)"),
            ),
            (json!({"a": null}), Some("missing required argument 'a'")),
            (
                json!({"a": "x"}),
                Some("'a' must be a whole number, got a string"),
            ),
            (
                json!({"a": 1.5}),
                Some("'a' must be a whole number that fits"),
            ),
            (
                json!({"a": 1, "b": 2}),
                Some("unknown argument 'b'; it takes a, text"),
            ),
            (
                json!({"a": 1, "text": 5}),
                Some("'text' must be a string, got a number"),
            ),
            (
                json!({"a": 1, "list": {}}),
                Some("'list' must be a list, got a dict"),
            ),
            (
                json!({"a": 1, "on": 1}),
                Some("'on' must be a bool, got a number"),
            ),
            (
                json!({"a": 1, "ratio": "1"}),
                Some("'ratio' must be a number, got a string"),
            ),
        ] {
            let values = arguments.as_object().unwrap().clone();
            let checked = Arguments::new("add", values).check(&SPEC);
            match (checked, wrong) {
                (Ok(()), None) => {}
                (Err(failure), Some(wrong)) => {
                    assert!(failure.message.contains(wrong), "{}", failure.message);
                    assert_eq!(failure.class, "usage");
                }
                (checked, _) => panic!("{arguments}: {checked:?}"),
            }
        }
    }
}
