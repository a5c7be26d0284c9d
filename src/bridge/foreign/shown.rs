//! What a cell shows, on its way from the kernel to the link.

use bytes::Bytes;
use serde_json::json;

use super::traceback::cut;
use crate::jupyter::{Channel, ExecuteResult, Limits, PublishedKind, RawMessage, encode};

/// What a link takes of one content is 4 MiB; that of a message of ours needs less.
const MOST_CONTENT: usize = 4 << 20;
/// A value that is longer is cut.
const MOST_TEXT: usize = 50_000;

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// It goes on, as a frame of the link.
    Frame(Vec<u8>),
    /// It is too long for the link, and cannot be shortened.
    TooLong,
    /// It is of no kind that is passed on.
    Nothing,
}

/// A message of the kernel's as a frame of the link, with the header of the cell's request as its
/// parent. What is shown and too long for the link becomes a sentence; a comm's message is whole, or
/// is not there.
pub(super) fn frame(msg_type: &str, message: RawMessage, parent: &Bytes) -> Passed {
    let kind = PublishedKind::parse(msg_type);
    if kind.is_none() && msg_type != "error" {
        return Passed::Nothing;
    }
    let mut message = RawMessage {
        channel: Channel::Iopub,
        parent_header: parent.clone(),
        ..message
    };
    let is_whole_or_nothing = kind.is_some_and(PublishedKind::is_comm);
    if !is_whole_or_nothing {
        shorten(msg_type, &mut message);
    }
    match encode(&message, &Limits::from_kernel()) {
        Ok(frame) => Passed::Frame(frame),
        Err(_too_long) if is_whole_or_nothing => Passed::TooLong,
        Err(_too_long) => {
            message.buffers.clear();
            encode(&message, &Limits::from_kernel()).map_or(Passed::TooLong, Passed::Frame)
        }
    }
}

/// Makes something that is shown fit.
fn shorten(msg_type: &str, message: &mut RawMessage) {
    if msg_type == "execute_result" {
        shorten_value(message);
    }
    if message.content.len() > MOST_CONTENT {
        let text = format!(
            "[{msg_type} of {} bytes left out: the limit is 4 MiB; write it to a file]",
            message.content.len()
        );
        let content = json!({
            "data": { "text/plain": text }, "metadata": {}, "transient": {},
            "ename": "", "evalue": text, "traceback": [],
        });
        message.content = content.to_string().into();
        message.buffers.clear();
    }
    if message.metadata.len() > MOST_CONTENT {
        message.metadata = Bytes::from_static(b"{}");
    }
}

/// A value that is too long to be shown whole is shown as text alone, its ends.
fn shorten_value(message: &mut RawMessage) {
    if message.content.len() <= MOST_TEXT {
        return;
    }
    let Ok(result) = ExecuteResult::parse(&message.content) else {
        return;
    };
    let text = result.data.text_plain().unwrap_or_default();
    if text.len() > MOST_TEXT || message.content.len() > MOST_CONTENT {
        let content = json!({
            "execution_count": result.execution_count,
            "data": { "text/plain": cut(&text) },
            "metadata": {},
        });
        message.content = content.to_string().into();
        message.buffers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::{DisplayData, FrameReader, header};

    fn there(msg_type: &str, content: String, buffers: Vec<Bytes>) -> RawMessage {
        let mut message = RawMessage::new(
            Channel::Shell,
            header("1", msg_type, "s", "d"),
            content.into(),
        );
        message.buffers = buffers;
        let parent = Bytes::from_static(br#"{"msg_id":"9"}"#);
        let Passed::Frame(frame) = frame(msg_type, message, &parent) else {
            panic!("{msg_type} is not passed on");
        };
        let mut reader = FrameReader::new(Limits::from_kernel());
        reader.feed(&frame);
        let message = reader.next_message().unwrap().unwrap();
        assert_eq!(message.parent_header, parent);
        assert_eq!(message.channel, Channel::Iopub);
        message
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let content = r#"{"data":{"image/png":"aGk="},"metadata":{},"odd":[NaN]}"#;
        let buffers = vec![Bytes::from_static(b"x")];
        let message = there("display_data", content.to_owned(), buffers.clone());
        assert_eq!(
            (message.content, message.buffers),
            (Bytes::from(content), buffers)
        );
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let long = "x".repeat(5 << 20);
        let content = format!(r#"{{"data":{{"image/png":"{long}"}}}}"#);
        let message = there("display_data", content, Vec::new());
        let shown = DisplayData::parse(&message.content).unwrap().data;
        let text = shown.text_plain().unwrap();
        assert!(text.starts_with("[display_data of 5242"), "{text}");
        let content = format!(r#"{{"data":{{"text/plain":"{long}"}},"execution_count":3}}"#);
        let result = ExecuteResult::parse(&there("execute_result", content, Vec::new()).content);
        let result = result.unwrap();
        assert_eq!(result.execution_count, Some(3));
        assert!(result.data.text_plain().unwrap().len() < 50_200);
        let many = vec![Bytes::from(vec![0; 65 << 20])];
        let message = there("display_data", "{}".to_owned(), many);
        assert!(message.buffers.is_empty());
    }

    #[test]
    fn a_comm_is_passed_on_whole_or_not_at_all() {
        let buffers = vec![Bytes::from(vec![7; 1 << 20]), Bytes::new()];
        let content = r#"{"comm_id":"1","data":{"a":[NaN]}}"#;
        let message = there("comm_msg", content.to_owned(), buffers.clone());
        assert_eq!(
            (message.content, message.buffers),
            (Bytes::from(content), buffers)
        );
        let with = |msg_type: &str, content: String, buffers: Vec<Bytes>| {
            let mut message = RawMessage::new(
                Channel::Iopub,
                header("1", msg_type, "s", "d"),
                content.into(),
            );
            message.buffers = buffers;
            frame(msg_type, message, &Bytes::from_static(b"{}"))
        };
        let long = format!(r#"{{"comm_id":"{}"}}"#, "x".repeat(5 << 20));
        assert_eq!(with("comm_open", long, Vec::new()), Passed::TooLong);
        let many = vec![Bytes::from(vec![0; 65 << 20])];
        assert_eq!(with("comm_msg", "{}".to_owned(), many), Passed::TooLong);
        let other = with("execute_input", "{}".to_owned(), Vec::new());
        assert_eq!(other, Passed::Nothing);
    }
}
