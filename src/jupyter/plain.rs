//! The messages of an ordinary cell, as our own kernel writes them, read in one go.
//!
//! Tolerance has its price: each key is looked at two or three times. Nearly every cell ends with
//! the same reply of a few keys, so that one is tried first; whatever differs in any way is left to
//! the tolerant view, which alone says what a message means.

use serde::Deserialize;

use super::content::{CellReport, ExecuteReply, Names, ReplyStatus};
use super::message::Header;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortHeader {
    msg_id: String,
    msg_type: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    status: ReplyStatus,
    execution_count: u64,
    warmcell: Report,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    cell: u64,
    warnings: Vec<String>,
    names: NamesReport,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesReport {
    set: Vec<(String, String)>,
    del: Vec<String>,
    total: u64,
}

/// A header with nothing but its two necessary keys.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let ShortHeader { msg_id, msg_type } = read(bytes)?;
    Some(Header {
        msg_id,
        msg_type,
        session: None,
        username: None,
        date: None,
        version: None,
    })
}

/// The reply of a cell that has come to its end.
pub(super) fn reply(bytes: &[u8]) -> Option<ExecuteReply> {
    let reply: Reply = read(bytes)?;
    let Report {
        cell,
        warnings,
        names,
    } = reply.warmcell;
    let NamesReport { set, del, total } = names;
    Some(ExecuteReply {
        status: reply.status,
        execution_count: Some(reply.execution_count),
        ename: String::new(),
        evalue: String::new(),
        traceback: Vec::new(),
        user_expressions: None,
        warmcell: Some(CellReport {
            cell,
            exit: None,
            names: Names { set, del, total },
            warnings,
            limits: Vec::new(),
            error: None,
            interrupted: false,
            after_end_ms: 0,
            asks_exit: false,
        }),
    })
}

/// An object, and no array: serde would fill a struct from one too.
fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    bytes
        .starts_with(b"{")
        .then(|| serde_json::from_slice(bytes).ok())?
}

#[cfg(test)]
mod tests {
    use super::super::lenient;
    use super::*;

    const REPLY: &str = r#"{"status":"ok","execution_count":3,"warmcell":{"cell":7,"warnings":["a \"b\""],"names":{"set":[["x","int"],["é","s"]],"del":["y"],"total":2}}}"#;
    const HEADER: &str = r#"{"msg_id":"a_1","msg_type":"execute_reply"}"#;

    #[test]
    fn what_is_plain_means_the_same_in_both_views() {
        let tolerant: ExecuteReply = lenient::read(REPLY.as_bytes()).unwrap();
        assert_eq!(reply(REPLY.as_bytes()).unwrap(), tolerant);
        let short = header(HEADER.as_bytes()).unwrap();
        assert_eq!(short.msg_type, "execute_reply");
        assert_eq!(short.msg_id, "a_1");
    }

    #[test]
    fn what_differs_is_left_to_the_tolerant_view() {
        let changes = [
            ("\"ok\"", "null"),
            ("3", "3.5"),
            ("3", "NaN"),
            ("[\"x\",\"int\"]", "[\"x\"]"),
            ("[\"y\"]", "[1]"),
            ("\"total\":2", "\"total\":2,\"more\":1"),
            ("\"s\"", "\"\\ud800\""),
            ("\"cell\":7", "\"cell\":-7"),
        ];
        for (from, to) in changes {
            assert!(REPLY.contains(from), "{from}");
            let changed = REPLY.replacen(from, to, 1);
            assert_eq!(reply(changed.as_bytes()), None, "{changed}");
        }
        let array = r#"["ok",3,[7,[],[[],[],0]]]"#;
        assert_eq!(reply(array.as_bytes()), None);
        assert_eq!(header(br#"["a","b"]"#), None);
        assert_eq!(header(br#"{"msg_id":"a"}"#), None);
        let full = br#"{"msg_id":"a","msg_type":"b","date":"c"}"#;
        assert_eq!(header(full), None);
    }
}
