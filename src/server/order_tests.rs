use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn fault(order: &Value) -> String {
    let text = serde_json::to_vec(order).unwrap();
    fault_of(std::str::from_utf8(&text).unwrap())
}

fn fault_of(text: &str) -> String {
    CellOrder::parse(text.as_bytes()).unwrap_err().to_string()
}

fn parsed(order: &Value) -> CellOrder {
    CellOrder::parse(&serde_json::to_vec(order).unwrap()).unwrap()
}

#[test]
fn little_is_needed_of_a_cell_and_null_is_the_same_as_nothing() {
    let order = parsed(&json!({ "code": "1" }));
    assert_eq!(order.cell().timeout, None);
    assert_eq!(order.cell().grant, Grant::All);
    assert_eq!(order.patience(), None);
    let nothing: serde_json::Map<_, _> = CELL_KEYS
        .iter()
        .filter(|key| **key != "code")
        .map(|key| ((*key).to_owned(), Value::Null))
        .chain([("code".to_owned(), json!("1"))])
        .collect();
    assert_eq!(parsed(&nothing.into()), order);
    let text = serde_json::to_string(&order).unwrap();
    assert_eq!(text, r#"{"code":"1"}"#);
    let detached = parsed(&json!({ "code": "1", "detach": true }));
    assert_eq!(detached.patience(), Some(Duration::ZERO));
    let read_along = parsed(&json!({ "code": "1", "detach": true, "stream": true }));
    assert_eq!(read_along.patience(), None);
}

#[test]
fn what_goes_out_comes_in_the_same() {
    let order = CellOrder {
        code: "é\n\"".to_owned(),
        reset: true,
        timeout: Some(0.001),
        max_tool_calls: Some(u32::MAX),
        tools: Some(Vec::new()),
        on_timeout: Some(PolicyName::Interrupt),
        on_interrupt: Some(PolicyName::Restart),
        max_stdout_bytes: Some(7),
        configured: true,
        caller: Some(CallerOrder {
            environment: vec![("A".into(), "b".into()), ("é".into(), "\u{1}".into())],
            cwd: "/a".into(),
            umask: Some(0o777),
            limits: Some(serde_json::from_str(r#"{"nofile":[1,2],"cpu":"unlimited"}"#).unwrap()),
            nice: Some(NiceOrder(-20)),
            python: Some("python3".into()),
            kernel: Some(KernelOrder::Named("ir".to_owned())),
            directory: Some("b".into()),
            mode: Some(Mode::Strict),
            env: vec![("FOO".into(), "bar".into())],
        }),
        stream: true,
        quiet: true,
        wait: Some(0.5),
        detach: true,
        no_redact: true,
    };
    assert_eq!(parsed(&json!(order)), order);
    assert_eq!(
        parsed(&json!(CellOrder {
            tools: None,
            ..order.clone()
        }))
        .tools,
        None
    );
    assert_eq!(
        order.cell().grant,
        Grant::Only(std::collections::BTreeSet::new())
    );
}

#[test]
fn a_value_that_will_not_do_is_told_as_it_was_written() {
    for (key, value, told) in [
        ("timeout", "-1", "from 0.001 to 86400 seconds, got -1"),
        ("timeout", "0", "got 0"),
        ("timeout", "1e999", "got 1e999"),
        ("timeout", "86400.5", "got 86400.5"),
        ("timeout", "\"5\"", "got \"5\""),
        ("timeout", "true", "got true"),
        ("timeout", "[1, 2]", "got [1, 2]"),
        ("wait", "-0.1", "from 0 to 31536000 seconds, got -0.1"),
        ("wait", "1e300", "got 1e300"),
        ("wait", "{}", "got {}"),
        (
            "max_tool_calls",
            "3.5",
            "must be an integer from 0 to 4294967295, got 3.5",
        ),
        ("max_tool_calls", "-1", "got -1"),
        ("max_tool_calls", "4294967296", "got 4294967296"),
        ("max_tool_calls", "\"7\"", "got \"7\""),
        ("reset", "1", "must be true or false, got 1"),
        ("stream", "\"yes\"", "must be true or false, got \"yes\""),
        ("detach", "[]", "must be true or false, got []"),
        (
            "on_timeout",
            "\"kill\"",
            "must be \"restart\" or \"interrupt\", got \"kill\"",
        ),
        ("on_interrupt", "1", "got 1"),
        (
            "tools",
            "\"read_file\"",
            "must be a list of names, got \"read_file\"",
        ),
        ("tools", "[1]", "must be a list of names, got [1]"),
        ("code", "5", "must be a string, got 5"),
        (
            "code",
            "\"\\ud800\"",
            "whole characters (no lone surrogates), got \"\\ud800\"",
        ),
        ("caller", "[]", "must be a JSON object, got []"),
    ] {
        let code = if key == "code" { "" } else { "\"code\":\"1\"," };
        let sentence = fault_of(&format!("{{{code}\"{key}\": {value}}}"));
        assert!(
            sentence.starts_with(&format!("`{key}`")),
            "{key}: {sentence}"
        );
        assert!(sentence.ends_with(told), "{key}: {sentence}");
    }
    let long = fault(&json!({ "code": "1", "timeout": "x".repeat(1 << 20) }));
    assert!(long.len() < 300, "{long}");
    let sentence = fault_of(r#"{"code": "1", "timeout": NaN}"#);
    assert!(
        sentence.contains("`timeout`") && sentence.contains("JSON has no NaN"),
        "{sentence}"
    );
    assert_eq!(fault(&json!({})), "there is no `code`; give Python source");
}

#[test]
fn keys_that_mean_nothing_are_told_with_those_that_do() {
    let sentence = fault(&json!({ "code": "1", "tiemout": 1, "x\n": [], "caller": null }));
    assert_eq!(
        sentence,
        "the order of a cell has no keys \"tiemout\", \"x \"; it has code, reset, timeout, \
         max_tool_calls, tools, on_timeout, on_interrupt, max_stdout_bytes, configured, caller, stream, \
         quiet, wait, detach, no_redact"
    );
    let sentence = fault(&json!({ "command": "ls" }));
    assert!(sentence.contains("no key \"command\""), "{sentence}");
    assert!(
        sentence.contains("give Python source as `code`, not a `command`"),
        "{sentence}"
    );
    let sentence = fault(&json!({ "code": "1", "caller": { "cwd": "/", "home": "/" } }));
    assert!(
        sentence.starts_with("`caller` has no key \"home\"; it has environment, "),
        "{sentence}"
    );
    let many: serde_json::Map<_, _> = (0..1_000)
        .map(|n| (n.to_string().repeat(1_000), Value::Null))
        .collect();
    let sentence = fault(&many.into());
    assert!(
        sentence.contains(" (and 995 more); ") && sentence.len() < 1_000,
        "{sentence}"
    );
    let sentence = fault_of(r#"{"code": "1", "code": "2"}"#);
    assert!(sentence.contains("`code` is given twice"), "{sentence}");
}

#[test]
fn what_is_no_object_is_told() {
    for (text, told) in [
        ("[]", "must be a JSON object, got []"),
        (" null", "got null"),
        ("\"{}\"", "got \"{}\""),
        ("-1", "got -1"),
        ("{", "makes no sense: EOF while parsing"),
        ("{} {}", "makes no sense: trailing characters"),
        ("x", "makes no sense: expected value"),
        ("", "makes no sense: EOF"),
    ] {
        let sentence = fault_of(text);
        assert!(sentence.contains(told), "{text}: {sentence}");
    }
    let deep = fault_of(&"[".repeat(1 << 20));
    assert!(
        deep.contains("must be a JSON object") && deep.len() < 400,
        "{deep}"
    );
    let deep = format!("{{\"code\":\"1\",\"x\":{}", "[".repeat(1 << 20));
    assert!(fault_of(&deep).len() < 400);
    assert!(CellOrder::parse(b"{\"code\":\"\xff\"}").is_err());
}

#[test]
fn a_caller_is_read_in_both_forms_of_an_environment() {
    let of = |environment: Value| {
        let order = json!({ "code": "1", "caller": { "cwd": "/", "environment": environment } });
        CellOrder::parse(&serde_json::to_vec(&order).unwrap())
            .map(|order| order.caller.unwrap().environment)
            .map_err(|fault| fault.to_string())
    };
    let expected = vec![
        ("A".to_owned(), "1".to_owned()),
        ("B".to_owned(), String::new()),
    ];
    assert_eq!(of(json!({ "A": "1", "B": "" })), Ok(expected.clone()));
    assert_eq!(of(json!([["A", "1"], ["B", ""]])), Ok(expected));
    assert_eq!(of(json!({})), Ok(Vec::new()));
    assert_eq!(of(Value::Null), Ok(Vec::new()));
    for (odd, told) in [
        (
            json!({ "A": 1 }),
            "`caller.environment`: the value of A must be a string",
        ),
        (json!({ "A": null }), "the value of A must be a string"),
        (json!([["A"]]), "item 1 must be a pair of strings"),
        (
            json!([["A", "1"], ["SECRET", 5]]),
            "item 2 must be a pair of strings",
        ),
        (json!(["A=1"]), "item 1 must be a pair of strings"),
        (
            json!("A=1"),
            "`caller.environment` must be an object of names and values, or a list of pairs, got",
        ),
        (json!(5), "got 5"),
    ] {
        let sentence = of(odd).unwrap_err();
        assert!(sentence.contains(told), "{sentence}");
        assert!(!sentence.contains("SECRET"), "{sentence}");
    }
    let many: Vec<_> = (0..10_001).map(|n| (n.to_string(), "")).collect();
    assert!(of(json!(many)).unwrap_err().contains("more than 10,000"));
    let many: serde_json::Map<_, _> = many.into_iter().map(|(n, v)| (n, json!(v))).collect();
    assert!(of(many.into()).unwrap_err().contains("more than 10,000"));
    for (key, value, told) in [
        (
            "umask",
            json!(512),
            "`caller.umask` must be an integer from 0 to 511 (0o777), got 512",
        ),
        ("umask", json!(-1), "got -1"),
        ("umask", json!("022"), "got \"022\""),
        ("nice", json!(20), "`caller.nice`: "),
        ("limits", json!({ "x": 1 }), "`caller.limits`: "),
        (
            "limits",
            json!("x".repeat(1 << 17)),
            "`caller.limits` must be shorter than 64 KiB",
        ),
        ("cwd", json!(5), "`caller.cwd` must be a string, got 5"),
        (
            "mode",
            json!("strcit"),
            "`caller.mode` must be \"project\" or \"strict\", got \"strcit\"",
        ),
        ("env", json!("A=b"), "`caller.env` must be an object"),
        (
            "cwd",
            json!(null),
            "there is no `caller.cwd`; give the absolute path",
        ),
        (
            "python",
            json!(["python3"]),
            "`caller.python` must be a string",
        ),
        (
            "directory",
            json!(false),
            "`caller.directory` must be a string, got false",
        ),
    ] {
        let mut caller = json!({ "cwd": "/" });
        caller[key] = value;
        let sentence = fault(&json!({ "code": "1", "caller": caller }));
        assert!(sentence.contains(told), "{key}: {sentence}");
    }
}

#[test]
fn how_long_to_wait_is_read() {
    let wait = |text: &str| WaitOrder::parse(text.as_bytes()).map(|it| it.timeout);
    assert_eq!(wait("{}").unwrap(), None);
    assert_eq!(wait(r#"{"timeout":null}"#).unwrap(), None);
    assert_eq!(
        wait(r#"{"timeout":0.5}"#).unwrap(),
        Some(Duration::from_millis(500))
    );
    for (text, told) in [
        (
            r#"{"timeout":-1}"#,
            "`timeout`: a time to wait must be from 0 to 31536000 seconds, got -1",
        ),
        (r#"{"wait":1}"#, "has no key \"wait\"; it has timeout"),
        ("[]", "must be a JSON object, got []"),
    ] {
        let sentence = wait(text).unwrap_err().to_string();
        assert!(sentence.contains(told), "{sentence}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["restart", "/", "python3", "read_file", "1", "\0"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let key = prop_oneof![any_key(), "[a-z_=\0]{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    let keys: Vec<String> = CELL_KEYS
        .iter()
        .chain(CALLER_KEYS)
        .map(|key| (*key).to_owned())
        .collect();
    prop::sample::select(keys)
}

/// Objects that are nearly orders.
fn nearly_an_order() -> impl Strategy<Value = Value> {
    prop::collection::vec((any_key(), any_json()), 0..8).prop_map(|pairs| {
        let mut order: serde_json::Map<_, _> = pairs.into_iter().collect();
        order.entry("code").or_insert_with(|| json!("1"));
        Value::Object(order)
    })
}

/// An order is taken, and then its session decides without a panic; or it is refused with a sentence.
fn decided(text: &[u8]) {
    match CellOrder::parse(text) {
        Ok(order) => {
            let patience = order.patience().unwrap_or_default();
            assert!(patience <= Duration::from_secs(31_536_000));
            let cell = order.cell();
            let table = crate::tools::ToolTable::standard();
            if let Err(fault) = cell.check(&table) {
                assert!(!fault.to_string().is_empty());
            }
            // What was understood is understood the same again.
            let again = serde_json::to_vec(&order).unwrap();
            assert_eq!(CellOrder::parse(&again).unwrap(), order);
        }
        Err(fault) => {
            let refusal = super::super::refusal::Refusal::from(fault);
            let (status, refused) = refusal.into_parts();
            assert_eq!(status, 400);
            assert!(!refused.error.is_empty() && refused.error.len() < 2_000);
            assert_eq!(refused.error_class, crate::execution::ErrorClass::Usage);
        }
    }
}

proptest! {
    #[test]
    fn any_json_is_an_order_or_refused(order in prop_oneof![any_json(), nearly_an_order()]) {
        decided(&serde_json::to_vec(&order).unwrap());
    }

    #[test]
    fn any_bytes_are_an_order_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        order in nearly_an_order(),
        at in any::<prop::sample::Index>(),
    ) {
        decided(&bytes);
        // An order that is broken somewhere.
        let mut text = serde_json::to_vec(&order).unwrap();
        let at = at.index(text.len());
        text.splice(at..at, bytes.into_iter().take(2));
        decided(&text);
    }
}
