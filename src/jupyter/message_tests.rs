use super::*;

#[test]
fn a_built_header_reads_back() {
    let bytes = header(
        "id-1",
        "execute_request",
        "s\u{e9}ss\"ion",
        "2026-11-05T10:00:00.000000Z",
    );
    let header = Header::parse(&bytes).unwrap();
    assert_eq!(header.msg_id, "id-1");
    assert_eq!(header.msg_type, "execute_request");
    assert_eq!(header.session.as_deref(), Some("s\u{e9}ss\"ion"));
    assert_eq!(header.username.as_deref(), Some("warmcell"));
    assert_eq!(header.date.as_deref(), Some("2026-11-05T10:00:00.000000Z"));
    assert_eq!(header.version.as_deref(), Some("5.4"));
}

#[test]
fn a_short_header_is_enough() {
    let header = Header::parse(b" {\"msg_type\":\"error\",\"msg_id\":\"a\"}").unwrap();
    assert_eq!(
        (header.msg_id.as_str(), header.msg_type.as_str()),
        ("a", "error")
    );
    assert_eq!(header.session, None);
}

#[test]
fn other_keys_may_be_anything() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_key = format!("\"x\":{deep}");
    let others: [&[u8]; 9] = [
        b"\"session\":null,\"date\":7,\"version\":[1],\"username\":{}",
        b"\"date\":NaN",
        b"\"x\":-Infinity",
        b"\"x\":\"\\ud800\"",
        b"\"\\udc00\":\"NaN\"",
        b"\"x\":\"\xff\xfe\"",
        b"\"\xff\":1",
        b"\"x\":123456789012345678901234567890e999",
        deep_key.as_bytes(),
    ];
    for other in others {
        let mut bytes = b"{\"msg_id\":\"a\",\"msg_type\":\"b\",".to_vec();
        bytes.extend_from_slice(other);
        bytes.push(b'}');
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(
            (header.msg_id.as_str(), header.msg_type.as_str()),
            ("a", "b")
        );
        assert_eq!(header.session, None);
    }
}

#[test]
fn ids_with_lone_surrogates_are_still_strings() {
    let header = Header::parse(b"{\"msg_id\":\"a\\ud83d\",\"msg_type\":\"b\xff\"}").unwrap();
    assert_eq!(
        (header.msg_id.as_str(), header.msg_type.as_str()),
        ("a\u{fffd}", "b\u{fffd}")
    );
}

#[test]
fn what_is_no_header_is_refused() {
    let deep = "[".repeat(100_000);
    let cases: [&[u8]; 9] = [
        b"",
        b"null",
        b"[\"a\",\"b\"]",
        b"\"msg_id\"",
        b"{",
        b"{\"msg_id\":\"a\",\"msg_type\":\"b\"",
        b"{\"msg_id\":\"a\",\"msg_type\":\"b\"} x",
        b"{\"msg_id\":\"a\",\"msg_type\":\"b\",\"msg_id\":\"c\"}",
        deep.as_bytes(),
    ];
    for bytes in cases {
        assert!(
            matches!(Header::parse(bytes), Err(HeaderError::NotAnObject { .. })),
            "{bytes:?}"
        );
    }
    for bytes in [
        "{}",
        "{\"msg_id\":1,\"msg_type\":\"b\"}",
        "{\"msg_id\":null,\"msg_type\":\"b\"}",
    ] {
        assert_eq!(
            Header::parse(bytes.as_bytes()),
            Err(HeaderError::MissingKey { key: "msg_id" })
        );
    }
    let no_type = Header::parse(b"{\"msg_id\":\"a\"}");
    assert_eq!(no_type, Err(HeaderError::MissingKey { key: "msg_type" }));
}

#[test]
fn a_reply_is_known_by_the_bytes_of_its_parent() {
    let request = header("1", "execute_request", "s", "d");
    let mut reply = RawMessage::new(Channel::Shell, header("2", "x", "s", "d"), Bytes::new());
    assert!(!reply.is_child_of(&request));
    reply.parent_header = request.clone();
    assert!(reply.is_child_of(&request));
    assert_eq!(reply.parsed_header().unwrap().msg_id, "2");
}
