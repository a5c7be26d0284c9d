//! The frame reader against whatever bytes come, in whatever pieces.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What came of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Read {
    Whole(Vec<u8>),
    TooLong(u32),
}

fn read(bytes: &[u8], step: usize, longest: u32) -> (Vec<Read>, usize) {
    let mut reader = FrameReader::new(longest);
    let mut frames = Vec::new();
    for piece in bytes.chunks(step.max(1)) {
        reader.buffer().extend_from_slice(piece);
        while let Some(frame) = reader.next() {
            frames.push(match frame {
                Frame::Whole(bytes) => Read::Whole(bytes.to_vec()),
                Frame::TooLong(length) => Read::TooLong(length),
                Frame::NoRoom(_) | Frame::Stalled(_) => panic!("nobody gave up"),
            });
        }
        assert!(reader.buffer().len() <= longest as usize + 4 + piece.len());
    }
    (frames, reader.buffer().len())
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// The plain reading of the rules, to compare with.
fn model(mut bytes: &[u8], longest: u32) -> Vec<Read> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(4) {
        let length = u32::from_le_bytes(head.try_into().unwrap());
        let Some((body, rest)) = rest.split_at_checked(length as usize) else {
            break;
        };
        frames.push(if length > longest {
            Read::TooLong(length)
        } else {
            Read::Whole(body.to_vec())
        });
        bytes = rest;
    }
    frames
}

proptest! {
    #[test]
    fn any_bytes_are_cut_the_same_way_in_any_pieces(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
        rubbish in prop::collection::vec(any::<u8>(), 0..12),
        cut in 0_usize..200,
        step in 1_usize..64,
    ) {
        let mut bytes: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
        bytes.extend(&rubbish);
        bytes.truncate(cut);
        let (frames, _) = read(&bytes, step, 24);
        prop_assert_eq!(frames, model(&bytes, 24));
    }

    #[test]
    fn requests_are_read_or_refused_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(request) = Request::read(&bytes) {
            request.directory();
        }
    }

    #[test]
    fn a_request_keeps_its_number_whatever_else_is_wrong(
        id in any::<u64>(), key in "[a-z]{1,8}", value in any::<f64>(), tool in any::<bool>(),
    ) {
        let mut request = json!({"id": id, "cell": 1, key: value});
        request["tool"] = if tool { json!("terminal") } else { json!(5) };
        let bytes = serde_json::to_vec(&request).unwrap();
        match Request::read(&bytes) {
            Ok(read) => prop_assert_eq!(read.id, request["id"].as_u64().unwrap_or(id)),
            Err((number, _)) => prop_assert_eq!(number, request["id"].as_u64()),
        }
    }

    #[test]
    fn a_reply_is_one_frame_that_holds_the_result(text in any::<String>(), id in any::<Option<u64>>()) {
        let result = Map::from_iter([("content".to_owned(), Value::from(text))]);
        let frame = encode(id, &result).unwrap();
        let (frames, left) = read(&frame, 7, u32::MAX);
        prop_assert_eq!(left, 0);
        let [Read::Whole(body)] = frames.as_slice() else { panic!("{frames:?}") };
        let value: Value = serde_json::from_slice(body).unwrap();
        prop_assert_eq!(value, json!({"id": id, "result": result}));
    }
}

#[test]
fn a_frame_of_the_longest_length_is_taken_and_one_more_byte_is_skipped() {
    let mut bytes = frame(&[b'x'; 24]);
    bytes.extend(frame(&[b'y'; 25]));
    bytes.extend(frame(b"1"));
    let expected = vec![
        Read::Whole(vec![b'x'; 24]),
        Read::TooLong(25),
        Read::Whole(b"1".to_vec()),
    ];
    for step in [1, 5, 100] {
        assert_eq!(read(&bytes, step, 24), (expected.clone(), 0));
    }
}

#[test]
fn what_is_skipped_takes_no_memory() {
    let mut reader = FrameReader::new(MAX_REQUEST_BYTES);
    let length = u32::MAX;
    reader.buffer().extend_from_slice(&length.to_le_bytes());
    let piece = vec![b' '; 1 << 20];
    let mut left = length as usize;
    while left > 0 {
        assert!(reader.next().is_none());
        let count = left.min(piece.len());
        reader.buffer().extend_from_slice(&piece[..count]);
        left -= count;
        if left == 0 {
            assert!(matches!(reader.next(), Some(Frame::TooLong(u32::MAX))));
        }
        assert!(reader.buffer().capacity() <= 4 << 20);
    }
}

#[test]
fn a_frame_that_is_given_up_is_told_when_it_has_gone_by() {
    let mut reader = FrameReader::new(100);
    let long = frame(&[b'x'; 90]);
    reader.buffer().extend_from_slice(&long[..50]);
    assert!(reader.next().is_none());
    reader.give_up(Frame::NoRoom);
    reader.give_up(Frame::Stalled);
    assert_eq!(reader.buffer().len(), 0);
    reader.buffer().extend_from_slice(&long[50..80]);
    assert!(reader.next().is_none());
    reader.buffer().extend_from_slice(&long[80..]);
    reader.buffer().extend(frame(b"2"));
    assert!(matches!(reader.next(), Some(Frame::NoRoom(90))));
    assert!(matches!(reader.next(), Some(Frame::Whole(bytes)) if &bytes[..] == b"2"));
}

#[test]
fn what_is_wrong_with_a_request_is_said_with_its_number() {
    for (text, id) in [
        (r#"{"id":7,"cell":-1,"tool":"x"}"#, Some(7)),
        (r#"{"tool":"x","id":8,"tool":"y"}"#, Some(8)),
        (r#"{"id":9}"#, Some(9)),
        (r#"{"id":-1,"tool":"x"}"#, None),
        (r#"{"tool":"x"}"#, None),
        (r#"{"id":1.5,"tool":"x"}"#, None),
        ("[]", None),
        ("", None),
        ("nonsense", None),
        (r#"{"id":1,"tool":"x""#, None),
    ] {
        let (number, sentence) = Request::read(text.as_bytes()).unwrap_err();
        assert_eq!(number, id, "{text}");
        assert!(sentence.starts_with("the request makes no sense: "));
    }
}

#[test]
fn arguments_of_any_kind_do_not_spoil_the_frame() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    for args in [deep.as_str(), "1e999", &"9".repeat(5_000), "null", "[1]"] {
        let text = format!(r#"{{"id":1,"tool":"x","args":{args}}}"#);
        assert_eq!(Request::read(text.as_bytes()).unwrap().id, 1);
    }
}

#[test]
fn the_directory_is_absolute_or_unknown() {
    let directory = |cwd: &str| {
        let text = format!(r#"{{"id":1,"tool":"x"{cwd}}}"#);
        Request::read(text.as_bytes()).unwrap().directory()
    };
    assert_eq!(directory(r#","cwd":"/a/é""#), Some(PathBuf::from("/a/é")));
    let bytes = OsString::from_vec(vec![b'/', 0xff]);
    assert_eq!(directory(r#","cwd":[47,255]"#), Some(PathBuf::from(bytes)));
    for unknown in [
        "",
        r#","cwd":null"#,
        r#","cwd":"""#,
        r#","cwd":"a/b""#,
        r#","cwd":[]"#,
        r#","cwd":[300]"#,
        r#","cwd":{}"#,
    ] {
        assert_eq!(directory(unknown), None, "{unknown}");
    }
}

#[test]
fn a_long_result_becomes_a_failure_with_the_same_keys() {
    let long = Map::from_iter([("content".to_owned(), Value::from("x".repeat(17 << 20)))]);
    assert!(encode(Some(7), &long).is_none());
    let short = too_long(&long);
    assert_eq!(short["content"], Value::Null);
    assert_eq!(short["error_class"], "limit");
    assert!(short["error"].as_str().unwrap().contains("16 MiB"));
}
