//! Makes the Python functions of the tools from their descriptions.

use super::{ParameterDefault, ToolSpec, ToolTable};
use crate::python_source::HERMES_TOOLS;

/// The whole `hermes_tools` module: the shim, and a function for each tool.
pub fn hermes_tools(table: &ToolTable) -> String {
    let mut source = String::from(HERMES_TOOLS);
    let mut names = Vec::new();
    for tool in table.iter() {
        source.push_str("\n\n");
        source.push_str(&stub(tool.spec()));
        names.push(literal(tool.spec().name));
    }
    source.push_str(&["\n\n__all__ += [", &names.join(", "), "]\n"].concat());
    source
}

fn stub(spec: &ToolSpec) -> String {
    let mut signature: Vec<String> = spec
        .parameters
        .iter()
        .map(|parameter| format!("{}={}", parameter.name, default(parameter.default)))
        .collect();
    let arguments: Vec<String> = spec
        .parameters
        .iter()
        .map(|parameter| format!("{}: {}", literal(parameter.name), parameter.name))
        .collect();
    signature.push("**unknown".to_owned());
    let keys: Vec<String> = spec.returns.iter().map(|key| literal(key)).collect();
    let mut lines = vec![spec.about.to_owned(), String::new()];
    for parameter in spec.parameters {
        lines.push(format!("{}: {}", parameter.name, parameter.about));
    }
    lines.push(String::new());
    let keys_told = match spec.returns {
        [] => "an empty dict".to_owned(),
        keys => format!("a dict with {}", keys.join(", ")),
    };
    lines.push(format!("Returns {keys_told}; on failure also error."));
    format!(
        "def {name}({signature}):  # noqa: ANN001, ANN003, ANN201\n    {doc}\n    \
         return _call({quoted}, {{{arguments}}}, unknown, [{keys}])\n",
        name = spec.name,
        signature = signature.join(", "),
        doc = literal(&lines.join("\n")),
        quoted = literal(spec.name),
        arguments = arguments.join(", "),
        keys = keys.join(", "),
    )
}

/// The default of a parameter in Python. One that must be given has one too: what is missing is said
/// by the tool, as a failure like any other.
fn default(default: ParameterDefault) -> String {
    match default {
        ParameterDefault::Required => "_REQUIRED".to_owned(),
        ParameterDefault::Null => "None".to_owned(),
        ParameterDefault::Integer(value) => value.to_string(),
        ParameterDefault::Text(value) => literal(value),
        ParameterDefault::Boolean(value) => if value { "True" } else { "False" }.to_owned(),
    }
}

/// A string as a Python literal: JSON's escapes are Python's too.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_function_with_its_defaults() {
        let source = hermes_tools(&ToolTable::standard());
        assert!(source.starts_with("\"\"\"Host tools"));
        assert!(source.contains("def read_file(path=_REQUIRED, offset=1, limit=2000, **unknown):"));
        assert!(source.contains("def write_file(path=_REQUIRED, content=_REQUIRED, **unknown):"));
        assert!(
            source.contains(
                "def terminal(command=_REQUIRED, timeout=None, workdir=None, **unknown):"
            )
        );
        assert!(
            source.contains(
                r#"return _call("write_file", {"path": path, "content": content}, unknown, "#
            ),
            "{source}"
        );
        assert!(source.ends_with("__all__ += [\"read_file\", \"write_file\", \"terminal\"]\n"));
    }
}
