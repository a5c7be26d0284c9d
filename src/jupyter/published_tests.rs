use super::super::message::Channel;
use super::*;

fn message(content: &str) -> RawMessage {
    let header = Bytes::from_static(br#"{"msg_id":"a","msg_type":"x"}"#);
    RawMessage::new(Channel::Iopub, header, Bytes::from(content.to_owned()))
}

fn read(kind: PublishedKind, content: &str) -> Published {
    Published::read(kind, message(content)).unwrap()
}

#[test]
fn unknown_keys_stay_and_the_cells_number_is_the_managers() {
    let content = r#"{"data":{"text/plain":"a","image/png":"x"},"odd":[1],"execution_count":7}"#;
    let shown = read(PublishedKind::Result, content);
    assert_eq!(shown.text().as_deref(), Some("a"));
    let own: serde_json::Value = serde_json::from_str(&shown.content(Some(3))).unwrap();
    assert_eq!(
        own,
        serde_json::json!({
            "data": {"text/plain": "a", "image/png": "x"}, "odd": [1], "execution_count": 3
        })
    );
    let theirs: serde_json::Value = serde_json::from_str(&shown.content(None)).unwrap();
    assert_eq!(theirs["execution_count"], 7);
}

#[test]
fn long_data_comes_back_from_its_buffers() {
    let mut long = message(r#"{"data":{"text/plain":"a"},"metadata":{}}"#);
    long.metadata = Bytes::from_static(br#"{"warmcell":{"shown":4,"buffers":["text/html"]}}"#);
    assert_eq!(awaited_display(&long.metadata), Some(4));
    long.buffers = vec![
        Bytes::from_static(b"\"<b>\""),
        Bytes::from_static(b"unnamed"),
    ];
    let shown = Published::read(PublishedKind::Display, long.clone()).unwrap();
    assert_eq!(shown.data.text("text/html").as_deref(), Some("<b>"));
    assert!(shown.buffers.is_empty());
    long.buffers = vec![Bytes::from_static(b"no json")];
    assert!(Published::read(PublishedKind::Display, long).is_err());
}

#[test]
fn what_is_odd_shows_something_all_the_same() {
    for content in ["{}", r#"{"data":null}"#, r#"{"data":7,"transient":[]}"#] {
        let shown = read(PublishedKind::Display, content);
        assert_eq!(shown.text().as_deref(), Some("[]"), "{content}");
        assert_eq!(shown.display_id(), None, "{content}");
    }
    let shown = read(
        PublishedKind::Update,
        r#"{"data":{"image/png":"x"},"transient":{"display_id":"d"}}"#,
    );
    assert_eq!(
        (shown.text(), shown.display_id()),
        (None, Some("d".to_owned()))
    );
    assert!(read(PublishedKind::Clear, r#"{"wait":true}"#).waits());
    assert!(!read(PublishedKind::Clear, r#"{"wait":"x"}"#).waits());
    assert!(Published::read(PublishedKind::Display, message("[]")).is_err());
}

#[test]
fn the_data_of_a_comm_is_its_own() {
    let mut open = message(r#"{"comm_id":"c","target_name":"t","data":{"text/plain":1}}"#);
    open.metadata = Bytes::from_static(br#"{"version":"2"}"#);
    open.buffers = vec![Bytes::from_static(b"\x00\x01")];
    let shown = Published::read(PublishedKind::CommOpen, open.clone()).unwrap();
    assert_eq!(shown.text(), None);
    assert_eq!(shown.buffers, open.buffers);
    assert_eq!(shown.metadata, open.metadata);
    let content: serde_json::Value = serde_json::from_str(&shown.content(None)).unwrap();
    assert_eq!(content["data"], serde_json::json!({"text/plain": 1}));
}

#[test]
fn a_question_is_read_and_answered_by_its_number() {
    let mut asked = message(r#"{"prompt":"name? ","password":true}"#);
    asked.metadata = Bytes::from_static(br#"{"warmcell":{"number":9}}"#);
    let request = InputRequest::read(&asked).unwrap();
    let expected = InputRequest {
        prompt: "name? ".to_owned(),
        password: true,
        number: 9,
    };
    assert_eq!(request, expected);
    assert_eq!(
        InputRequest::reply(9, Some("a\"b")),
        r#"{"value":"a\"b","warmcell":{"number":9}}"#
    );
    assert_eq!(
        InputRequest::reply(9, None),
        r#"{"value":null,"warmcell":{"number":9}}"#
    );
}
