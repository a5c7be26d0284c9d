//! What a reply alone decides; the wordings of each Python are tested with real cells.

use std::time::Duration;

use super::*;
use crate::execution::{Gone, LostName};
use crate::jupyter::ExecuteReply;
use crate::tools::{ReadFile, Terminal, Tool, ToolCallRecord, ToolSpec, WriteFile};

fn tools() -> Vec<&'static ToolSpec> {
    vec![ReadFile.spec(), WriteFile.spec(), Terminal.spec()]
}

fn failed(line: &str, traceback: &str, more: &str) -> CellRun {
    let json = serde_json::json!({
        "status": "error", "ename": "E", "evalue": "v", "traceback": traceback.lines().collect::<Vec<_>>(),
        "warmcell": {"error": {"class": "exception", "line": line}},
    });
    let mut json = json;
    if !more.is_empty() {
        json["warmcell"]["error"]["missing"] = serde_json::from_str(more).unwrap();
    }
    let reply = ExecuteReply::parse(json.to_string().as_bytes()).unwrap();
    let mut run = CellRun::without_output(How::Replied(Box::new(reply)));
    run.duration = Duration::from_secs(1);
    run
}

fn told(run: &CellRun, setting: &Setting<'_>) -> Option<String> {
    let class = Some(ErrorClass::Exception);
    hint(run, Status::Error, class, None, setting).map(|hint| hint.text)
}

#[test]
fn a_missing_module_is_installed_with_the_interpreter_of_the_kernel() {
    let line = "ModuleNotFoundError: No module named 'cv2'";
    let tools = tools();
    let setting = Setting {
        tools: &tools,
        ..Setting::of("import cv2")
    };
    for (more, wanted) in [
        (
            r#""pip":true"#,
            "`/v e/bin/python' -m pip install opencv-python` with terminal() installs it",
        ),
        (
            r#""uv":true"#,
            "`uv pip install --python '/v e/bin/python' opencv-python` with",
        ),
        (
            r#""ensurepip":true"#,
            "-m ensurepip --upgrade && '/v e/bin/python' -m pip install opencv-python`",
        ),
        (
            r#""pip":true,"managed":true"#,
            "-m venv .venv && .venv/bin/python -m pip install opencv-python`",
        ),
        (r#""pip":false"#, "no pip and cannot make itself one"),
        (
            r#""pip":true,"file":"/p/lib/cv2.py""#,
            "sys.path.insert(0, \"/p/lib\")",
        ),
        (
            r#""pip":true,"file":"/p/cv2/__init__.py""#,
            "sys.path.insert(0, \"/p\")",
        ),
    ] {
        let more = format!(r#"{{"module":"cv2","python":"/v e/bin/python",{more}}}"#);
        let hint = told(&failed(line, "", &more), &setting).unwrap();
        assert!(hint.contains(wanted.trim_start_matches('`')), "{hint}");
        assert!(
            more.contains("\"file\"") || hint.contains("/v e/bin/python"),
            "{hint}"
        );
    }
    let foreign = Setting {
        foreign: Some("python3"),
        ..setting
    };
    let hint = told(&failed(line, "", ""), &foreign).unwrap();
    assert!(hint.contains("`%pip install opencv-python`"), "{hint}");
}

#[test]
fn packages_are_not_always_called_as_their_modules() {
    for (module, code, package) in [
        ("PIL", "", "pillow"),
        ("sklearn", "", "scikit-learn"),
        ("yaml", "", "PyYAML"),
        ("bs4", "", "beautifulsoup4"),
        ("dotenv", "", "python-dotenv"),
        ("dateutil", "", "python-dateutil"),
        ("Crypto", "", "pycryptodome"),
        ("some_thing", "", "some_thing"),
        ("google.cloud.storage", "", "google-cloud-storage"),
        ("google.protobuf", "", "protobuf"),
        (
            "google",
            "import google.generativeai as genai",
            "google-generativeai",
        ),
        (
            "google",
            "from google.cloud.big_query import x",
            "google-cloud-big-query",
        ),
        ("distutils", "", "setuptools"),
    ] {
        let line = format!("ModuleNotFoundError: No module named '{module}'");
        let hint = told(&failed(&line, "", ""), &Setting::of(code)).unwrap();
        assert!(hint.contains(&format!("pip install {package}`")), "{hint}");
    }
    for (module, code) in [
        ("google", "import google"),
        ("__main__.x", ""),
        ("a b", ""),
        ("-r x", ""),
    ] {
        let line = format!("ModuleNotFoundError: No module named '{module}'");
        assert_eq!(
            told(&failed(&line, "", ""), &Setting::of(code)),
            None,
            "{module}"
        );
    }
}

#[test]
fn what_the_cell_says_is_no_failure() {
    let posing = "NameError: name 'json' is not defined";
    let setting = Setting::of("");
    // The text of an exception, what it has printed, what was handled.
    for (line, traceback) in [
        (format!("ValueError: {posing}"), String::new()),
        (
            "ValueError: v".to_owned(),
            format!("{posing}\nValueError: v"),
        ),
        (
            "ValueError: v".to_owned(),
            format!(
                "Traceback (most recent call last):\n  x\n{posing}\n\nDuring handling of the above \
                 exception, another exception occurred:\n\nTraceback (most recent call last):\n  y\n\
                 ValueError: v"
            ),
        ),
        ("KeyError: 'MY_TOKEN'".to_owned(), String::new()),
    ] {
        assert_eq!(
            told(&failed(&line, &traceback, ""), &setting),
            None,
            "{line}"
        );
    }
    assert!(told(&failed(posing, "", ""), &setting).is_some());
}

#[test]
fn a_variable_that_was_taken_out_is_told_with_the_reason() {
    let dropped =
        |name: &str| (name == "MY_TOKEN").then(|| "its name speaks of a secret".to_owned());
    let setting = Setting {
        dropped: &dropped,
        ..Setting::of("")
    };
    let frames = |file: &str| {
        format!(
            "  File \"<cell 1>\", line 1, in <module>\n  File \"{file}\", line 679, in __getitem__\n"
        )
    };
    for (line, above) in [
        ("KeyError: 'MY_TOKEN'", frames("<frozen os>")),
        ("KeyError: 'MY_TOKEN'", frames("/usr/lib/python3.8/os.py")),
        (
            "client.ConfigError: set the MY_TOKEN environment variable",
            String::new(),
        ),
        // As ipykernel shows it.
        (
            "KeyError: 'MY_TOKEN'",
            "File <frozen os>:685, in _Environ.__getitem__(self, key)\n".to_owned(),
        ),
    ] {
        let traceback = format!("Traceback (most recent call last):\n{above}{line}");
        let hint = told(&failed(line, &traceback, ""), &setting).unwrap();
        assert!(
            hint.starts_with("MY_TOKEN is set where the caller is"),
            "{hint}"
        );
        assert!(hint.ends_with(": its name speaks of a secret"), "{hint}");
    }
    for (line, above) in [
        ("KeyError: 'MY_TOKEN'", frames("/x/mine.py")),
        ("KeyError: 'OTHER'", frames("<frozen os>")),
        ("ValueError: MY_TOKEN", String::new()),
    ] {
        let traceback = format!("Traceback (most recent call last):\n{above}{line}");
        assert_eq!(
            told(&failed(line, &traceback, ""), &setting),
            None,
            "{line}"
        );
    }
}

#[test]
fn what_went_with_an_earlier_kernel_is_not_to_be_imported_but_made_again() {
    let mut gone = Gone::default();
    let name = |name: &str, kind: &str| LostName {
        name: name.to_owned(),
        kind: kind.to_owned(),
    };
    gone.add(
        [name("df", "DataFrame"), name("np", "module")],
        "timeout 1 s",
    );
    // A kernel that held nothing makes nothing forgotten.
    gone.add([], "reset");
    let setting = Setting {
        gone: &gone,
        ..Setting::of("")
    };
    let hint = |name: &str| {
        told(
            &failed(&format!("NameError: name '{name}' is not defined"), "", ""),
            &setting,
        )
    };
    assert_eq!(
        hint("df").unwrap(),
        "df was lost with an earlier kernel (timeout 1 s): run again the code that made it"
    );
    assert!(hint("np").unwrap().ends_with(": import it again"));
    assert_eq!(hint("pd").unwrap(), "add `import pandas as pd`");
    assert_eq!(hint("zz"), None);
}

#[test]
fn results_of_tools_are_told_only_where_tools_are_called() {
    let tools = tools();
    let line = "TypeError: string indices must be integers, not 'str'";
    let setting = |code| Setting {
        tools: &tools,
        ..Setting::of(code)
    };
    assert_eq!(told(&failed(line, "", ""), &setting("'a'['b']")), None);
    assert_eq!(
        told(&failed(line, "", ""), &setting("my_terminal('a')['b']")),
        None
    );
    let hint = told(
        &failed(line, "", ""),
        &setting("for m in terminal('ls'): m['x']"),
    )
    .unwrap();
    assert!(
        hint.contains("terminal has output, exit_code, truncated"),
        "{hint}"
    );
    let mut run = failed(
        "AttributeError: 'NoneType' object has no attribute 'splitlines'",
        "",
        "",
    );
    assert_eq!(told(&run, &setting("")), None);
    run.tool_use.calls.push(ToolCallRecord {
        tool: "read_file".to_owned(),
        ms: 1,
        ok: false,
    });
    let hint = told(&run, &setting("")).unwrap();
    assert!(
        hint.starts_with("a call of read_file has failed in this cell"),
        "{hint}"
    );
}

#[test]
fn advice_of_the_kernel_is_the_hint_and_not_said_twice() {
    let traceback = "  File \"<cell 1>\", line 1\nSyntaxError: invalid syntax\n[this is IPython, not Python: \
                     os.chdir(...) goes to a directory; ipykernel takes it as it is]";
    let run = failed("SyntaxError: invalid syntax", traceback, "");
    let hint = hint(
        &run,
        Status::Error,
        Some(ErrorClass::Syntax),
        None,
        &Setting::of("%cd /"),
    )
    .unwrap();
    assert_eq!(hint.told, Told::Whole);
    assert_eq!(
        hint.text,
        "os.chdir(...) goes to a directory; ipykernel takes it as it is"
    );
}
