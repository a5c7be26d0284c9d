//! The generated functions, for tools of any shape.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use warmcell::tools::{
    Arguments, Parameter, ParameterDefault, Tool, ToolContext, ToolResult, ToolSpec, ToolTable,
};

use crate::support::{Manager, pythons};
use crate::tools_kit::json_of;

/// Returns what it was given.
#[derive(Debug)]
struct Shape(&'static ToolSpec);

static BARE: ToolSpec = ToolSpec {
    name: "bare",
    about: "Takes nothing and returns nothing: \"\"\" \\ 'quoted' \u{1F40D}\n\tend\\",
    parameters: &[],
    returns: &[],
    refused: &[],
};

static FULL: ToolSpec = ToolSpec {
    name: "full",
    about: "",
    parameters: &[
        parameter(
            "text",
            ParameterDefault::Text("a \"quoted\" \\ {text}\n\u{1F40D}"),
        ),
        parameter("number", ParameterDefault::Integer(-1)),
        parameter("yes", ParameterDefault::Boolean(true)),
        parameter("no", ParameterDefault::Boolean(false)),
        parameter("none", ParameterDefault::Null),
    ],
    returns: &["given"],
    refused: &[],
};

const fn parameter(name: &'static str, default: ParameterDefault) -> Parameter {
    Parameter {
        name,
        json_type: match default {
            ParameterDefault::Integer(_) => "integer",
            ParameterDefault::Boolean(_) => "boolean",
            ParameterDefault::Required | ParameterDefault::Null | ParameterDefault::Text(_) => {
                "string"
            }
        },
        default,
        about: "",
    }
}

#[async_trait]
impl Tool for Shape {
    fn spec(&self) -> &'static ToolSpec {
        self.0
    }

    async fn call(&self, arguments: Arguments, _context: &ToolContext) -> ToolResult {
        let mut result = ToolResult::new();
        if let Err(failure) = arguments.check_names(self.0) {
            return failure.into_result(self.0);
        }
        if !self.0.returns.is_empty() {
            let given = json!([
                arguments.optional_text("text").unwrap(),
                arguments.optional_integer("number").unwrap(),
                arguments.is_absent("none"),
            ]);
            result.insert("given".to_owned(), given);
        }
        result
    }
}

#[tokio::test]
async fn a_tool_of_any_shape_has_a_function_that_works() {
    let shapes = [&BARE, &FULL].map(|spec| Arc::new(Shape(spec)) as Arc<dyn Tool>);
    let manager = Manager::with_tools(ToolTable::of(shapes.to_vec())).await;
    for (version, python) in pythons() {
        let session = manager.session_on(version, python);
        let code = r#"
import inspect, json, hermes_tools
print(json.dumps([
    bare(), full(), full("b", number=2),
    bare(unknown=1).get("error_class"), bare.__doc__.splitlines()[0], "Returns" in bare.__doc__,
    str(inspect.signature(bare)), sorted(set(hermes_tools.__all__) & {"bare", "full"}),
    [p.default for p in inspect.signature(full).parameters.values()][:5],
]))
"#;
        let value = json_of(&session, code).await;
        let text = "a \"quoted\" \\ {text}\n\u{1F40D}";
        let first = BARE.about.lines().next();
        let expected = json!([
            {}, {"given": [text, -1, true]}, {"given": ["b", 2, true]},
            "usage", first, true,
            "(**unknown)", ["bare", "full"],
            [text, -1, true, false, null],
        ]);
        assert_eq!(value, expected, "{version}");
    }
    manager.end().await;
}
