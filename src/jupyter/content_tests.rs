use serde_json::json;

use super::*;
use crate::config::{Bound, Resource};

#[test]
fn a_request_has_the_jupyter_fields_and_the_cell() {
    let request = ExecuteRequest::new("print('\u{e9}')\n", 7);
    let value: serde_json::Value = serde_json::from_slice(&request.to_bytes()).unwrap();
    assert_eq!(
        value,
        json!({
            "code": "print('\u{e9}')\n", "silent": false, "store_history": true,
            "user_expressions": {}, "allow_stdin": false, "stop_on_error": true,
            "warmcell": {"cell": 7},
        })
    );
}

#[test]
fn a_request_names_the_directory_also_one_that_is_no_text() {
    let named = |cwd: &'static [u8]| {
        let request = ExecuteRequest {
            cwd: Some(Path::new(std::ffi::OsStr::from_bytes(cwd))),
            ..ExecuteRequest::new("1", 7)
        };
        let value: serde_json::Value = serde_json::from_slice(&request.to_bytes()).unwrap();
        value["warmcell"].clone()
    };
    assert_eq!(
        named("/a \"\u{e9}\"".as_bytes()),
        json!({"cell": 7, "cwd": "/a \"\u{e9}\""})
    );
    assert_eq!(named(b"/\xff"), json!({"cell": 7, "cwd": [47, 255]}));
}

#[test]
fn a_full_reply_is_read() {
    let reply = ExecuteReply::parse(
        br#"{"status":"error","execution_count":4,"ename":"E","evalue":"v","traceback":["a","b\n"],
            "unknown":{"deep":[1]},
            "warmcell":{"cell":9,"exit":{"code":3,"text":"t"},
              "names":{"set":[["x","list"],["y","int"]],"del":["z"],"total":2},
              "warnings":["w"],"limits":[["nofile",5,-1],["nice_value",3,3],["core",0,0],[7,8,9]],"interrupted":true,"asks_exit":true,"error":{"class":"exception","line":"E: x","place":"<cell 4>, line 2"}}}"#,
    )
    .unwrap();
    let expected = ExecuteReply {
        status: ReplyStatus::Error,
        execution_count: Some(4),
        ename: "E".to_owned(),
        evalue: "v".to_owned(),
        traceback: vec!["a".to_owned(), "b\n".to_owned()],
        user_expressions: None,
        warmcell: Some(CellReport {
            cell: 9,
            exit: Some(Exit {
                code: 3,
                text: Some("t".to_owned()),
                number: None,
            }),
            names: Names {
                set: vec![
                    ("x".to_owned(), "list".to_owned()),
                    ("y".to_owned(), "int".to_owned()),
                ],
                del: vec!["z".to_owned()],
                total: 2,
            },
            warnings: vec!["w".to_owned()],
            limits: vec![
                Had::Bound(
                    Resource::OpenFiles,
                    Bound {
                        soft: Some(5),
                        hard: None,
                    },
                ),
                Had::Nice(3),
            ],
            error: Some(ErrorPlace {
                class: "exception".to_owned(),
                line: "E: x".to_owned(),
                place: Some("<cell 4>, line 2".to_owned()),
                missing: None,
            }),
            interrupted: true,
            after_end_ms: 0,
            asks_exit: true,
        }),
    };
    assert_eq!(reply, expected);
}

#[test]
fn a_foreign_reply_has_no_report() {
    let reply =
        ExecuteReply::parse(br#"{"status":"ok","execution_count":1,"payload":[]}"#).unwrap();
    assert_eq!((reply.status, reply.warmcell), (ReplyStatus::Ok, None));
    for status in ["aborted", "abort"] {
        let text = format!("{{\"status\":\"{status}\"}}");
        assert_eq!(
            ExecuteReply::parse(text.as_bytes()).unwrap().status,
            ReplyStatus::Aborted
        );
    }
}

#[test]
fn nulls_and_wrong_types_count_as_missing() {
    let reply = ExecuteReply::parse(
        br#"{"status":"ok","execution_count":null,"ename":null,"evalue":5,"traceback":[1,"kept",null],
            "warmcell":{"cell":null,"exit":null,"names":{"set":[["a",null],[null,"b"]],"del":null},
              "warnings":"x","limits":[1],"error":[]}}"#,
    )
    .unwrap();
    assert_eq!(reply.execution_count, None);
    assert_eq!((reply.ename.as_str(), reply.evalue.as_str()), ("", ""));
    assert_eq!(reply.traceback, ["kept"]);
    let report = reply.warmcell.unwrap();
    assert_eq!(report.names.set, [("a".to_owned(), String::new())]);
    assert_eq!((report.exit, report.warnings.len()), (None, 0));
}

#[test]
fn surrogates_nan_and_bad_utf8_do_not_lose_a_reply() {
    let reply = ExecuteReply::parse(
        b"{\"status\":\"error\",\"evalue\":\"a\\ud800b\",\"traceback\":[\"c\\udfff\",\"\xff\"],\"x\":NaN}",
    )
    .unwrap();
    assert_eq!(reply.evalue, "a\u{fffd}b");
    assert_eq!(reply.traceback, ["c\u{fffd}", "\u{fffd}"]);
}

#[test]
fn exit_codes_are_cut_to_the_range() {
    for (code, read) in [
        ("3", 3),
        ("-1", -1),
        ("null", 0),
        ("123456789012345678901234567890", i64::MAX),
        ("-123456789012345678901234567890", i64::MIN),
        ("\"text\"", 1),
        ("1.5", 1),
        ("[]", 1),
    ] {
        let text =
            format!("{{\"status\":\"error\",\"warmcell\":{{\"exit\":{{\"code\":{code}}}}}}}");
        let reply = ExecuteReply::parse(text.as_bytes()).unwrap();
        assert_eq!(reply.warmcell.unwrap().exit.unwrap().code, read, "{code}");
    }
}

#[test]
fn unreadable_replies_are_errors_with_a_reason() {
    for text in [
        "",
        "[]",
        "{}",
        "{\"status\":\"fine\"}",
        "{\"status\":null}",
        "{\"status\":\"ok\"",
        "[\"ok\"]",
    ] {
        let error = ExecuteReply::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.message, "execute_reply");
        assert!(!error.reason.is_empty());
    }
}

#[test]
fn depth_is_an_error_or_ignored_but_never_a_crash() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let unknown = format!("{{\"status\":\"ok\",\"x\":{deep}}}");
    assert!(ExecuteReply::parse(unknown.as_bytes()).is_ok());
    let known = format!("{{\"status\":\"ok\",\"traceback\":{deep}}}");
    assert!(
        ExecuteReply::parse(known.as_bytes())
            .unwrap()
            .traceback
            .is_empty()
    );
    let status = format!("{{\"status\":{deep}}}");
    assert!(ExecuteReply::parse(status.as_bytes()).is_err());
    assert!(ExecuteReply::parse("[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn a_result_keeps_its_forms_as_they_came() {
    let result = ExecuteResult::parse(
        br#"{"execution_count":2,"metadata":null,
            "data":{"text/plain":"4\ud800","text/html":["<b>","4</b>"],"application/json":{"a": [1, 2]}}}"#,
    )
    .unwrap();
    assert_eq!(result.execution_count, Some(2));
    assert_eq!(result.data.text_plain().unwrap(), "4\u{fffd}");
    assert_eq!(result.data.text("text/html").unwrap(), "<b>4</b>");
    assert_eq!(result.data.text("application/json"), None);
    assert_eq!(result.data.raw("application/json"), Some("{\"a\": [1, 2]}"));
    let mimes: Vec<&str> = result.data.mimes().collect();
    assert_eq!(mimes, ["application/json", "text/html", "text/plain"]);
}

#[test]
fn a_display_may_have_an_id_or_nothing() {
    let shown = DisplayData::parse(
        br#"{"data":{"text/plain":"x","application/json":NaN},"metadata":{"image/png":{"width":3}},
            "transient":{"display_id":"d"}}"#,
    )
    .unwrap();
    assert_eq!(shown.display_id(), Some("d"));
    assert_eq!(shown.data.raw("application/json"), Some("null"));
    assert_eq!(shown.metadata.raw("image/png"), Some("{\"width\":3}"));
    for text in ["{}", "{\"data\":null,\"metadata\":null,\"transient\":null}"] {
        let empty = DisplayData::parse(text.as_bytes()).unwrap();
        assert!(empty.data.is_empty());
        assert_eq!(empty.display_id(), None);
    }
}

#[test]
fn an_error_is_read() {
    let error = ErrorContent::parse(br#"{"ename":"A","evalue":"b","traceback":["c"]}"#).unwrap();
    assert_eq!((error.ename.as_str(), error.evalue.as_str()), ("A", "b"));
    assert_eq!(error.traceback, ["c"]);
}
