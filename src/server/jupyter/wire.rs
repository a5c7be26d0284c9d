//! The two forms of a message on a WebSocket: frames of `v1.kernel.websocket.jupyter.org`, and the
//! older JSON text.

use axum::extract::ws::{Message, Utf8Bytes};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::frontends::{Outgoing, Request};
use crate::jupyter::{Channel, FrameError, Limits, RawMessage, decode_body, encode};

/// The subprotocol of frames.
pub(super) const V1: &str = "v1.kernel.websocket.jupyter.org";
/// The length before the body of a frame, which a WebSocket does without.
const LENGTH_BYTES: usize = 4;

/// Parts of a message with buffers in the older form.
const MOST_PARTS: usize = 1_000;

/// Which form a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Binary frames.
    V1,
    /// JSON text.
    Text,
}

/// What a client has sent that cannot be a message: its connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) String);

/// Reads a message. `None` if it is for nobody: an unknown channel.
pub(super) fn read(form: Form, message: Message) -> Result<Option<Request>, Fault> {
    match (form, message) {
        (Form::V1, Message::Binary(body)) => read_frame(&body),
        (Form::V1, Message::Text(_)) => {
            Err(Fault(format!("{V1} has binary messages, this was text")))
        }
        (Form::Text, Message::Text(text)) => read_text(&text, Vec::new()),
        (Form::Text, Message::Binary(body)) => read_with_buffers(&body),
        (_, _) => Ok(None),
    }
}

fn read_frame(body: &Bytes) -> Result<Option<Request>, Fault> {
    let message = match decode_body(body, &Limits::to_kernel()) {
        Ok(message) => message,
        // As in the other form.
        Err(FrameError::UnknownChannel { .. }) => return Ok(None),
        Err(error) => return Err(Fault(error.to_string())),
    };
    let request = received(message.channel, message.header, message.content)?;
    Ok(Some(request.with(message.metadata, message.buffers)))
}

#[derive(Deserialize)]
struct TextMessage<'a> {
    #[serde(borrow)]
    header: &'a RawValue,
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    channel: Option<String>,
}

/// JSON with buffers behind it, in the older form: how many parts there are and where each begins, as
/// u32 in big-endian order, then the parts, the JSON first.
fn read_with_buffers(body: &Bytes) -> Result<Option<Request>, Fault> {
    let cut = || Fault("a message with buffers that is cut off".to_owned());
    let number = |at: usize| {
        let bytes = body.get(at..)?.first_chunk::<4>()?;
        usize::try_from(u32::from_be_bytes(*bytes)).ok()
    };
    let count = number(0).ok_or_else(cut)?;
    if !(1..=MOST_PARTS).contains(&count) {
        return Err(Fault(format!("a message of {count} parts")));
    }
    let mut parts = Vec::with_capacity(count);
    for part in 1..=count {
        let begin = number(4 * part).ok_or_else(cut)?;
        let end = if part == count {
            body.len()
        } else {
            number(4 * part + 4).ok_or_else(cut)?
        };
        if begin > end || end > body.len() {
            return Err(cut());
        }
        parts.push(body.slice(begin..end));
    }
    let text = parts.remove(0);
    let text = std::str::from_utf8(&text).map_err(|error| Fault(error.to_string()))?;
    read_text(text, parts)
}

fn read_text(text: &str, buffers: Vec<Bytes>) -> Result<Option<Request>, Fault> {
    let message: TextMessage<'_> =
        serde_json::from_str(text).map_err(|error| Fault(error.to_string()))?;
    // As Jupyter Server has it.
    let channel = message.channel.as_deref().unwrap_or("shell");
    let Some(channel) = Channel::parse(channel) else {
        return Ok(None);
    };
    let bytes = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
    let request = received(channel, bytes(message.header), bytes(message.content))?;
    let metadata = message.metadata.map_or_else(Bytes::new, bytes);
    Ok(Some(request.with(metadata, buffers)))
}

fn received(channel: Channel, header: Bytes, content: Bytes) -> Result<Request, Fault> {
    Request::new(channel, header, content).map_err(|error| Fault(error.to_string()))
}

#[derive(Serialize)]
struct OutgoingText<'a> {
    header: &'a RawValue,
    msg_id: &'a str,
    msg_type: &'a str,
    parent_header: &'a RawValue,
    metadata: &'a RawValue,
    content: &'a RawValue,
    channel: &'a str,
    buffers: [(); 0],
}

/// A message in a client's form.
pub(super) fn in_form(form: Form, outgoing: &Outgoing) -> Message {
    match form {
        Form::V1 => Message::Binary(frame(&outgoing.message)),
        Form::Text if outgoing.message.buffers.is_empty() => Message::Text(text(outgoing)),
        Form::Text => with_buffers(&text(outgoing), &outgoing.message.buffers),
    }
}

fn frame(message: &RawMessage) -> Bytes {
    // Everything we make is far within the limits.
    let frame = encode(message, &Limits::to_kernel()).unwrap_or_default();
    let frame = Bytes::from(frame);
    if frame.len() < LENGTH_BYTES {
        return frame;
    }
    frame.slice(LENGTH_BYTES..)
}

/// As [`read_with_buffers`] takes it.
fn with_buffers(text: &str, buffers: &[Bytes]) -> Message {
    let parts = || std::iter::once(text.as_bytes()).chain(buffers.iter().map(AsRef::as_ref));
    let count = buffers.len() + 1;
    let head = 4 * (count + 1);
    // What is passed on has far less than four gigabytes.
    let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX).to_be_bytes();
    let mut body = Vec::with_capacity(parts().map(<[u8]>::len).fold(head, usize::saturating_add));
    body.extend_from_slice(&number(count));
    let mut begin = head;
    for part in parts() {
        body.extend_from_slice(&number(begin));
        begin += part.len();
    }
    parts().for_each(|part| body.extend_from_slice(part));
    Message::Binary(body.into())
}

fn text(outgoing: &Outgoing) -> Utf8Bytes {
    let message = &outgoing.message;
    let (Some(header), Some(parent_header), Some(metadata), Some(content)) = (
        raw(&message.header),
        raw(&message.parent_header),
        raw(&message.metadata),
        raw(&message.content),
    ) else {
        tracing::warn!(outgoing.msg_type, "a message that is no JSON");
        return Utf8Bytes::from_static("{}");
    };
    let text = serde_json::to_string(&OutgoingText {
        header,
        msg_id: &outgoing.msg_id,
        msg_type: outgoing.msg_type,
        parent_header,
        metadata,
        content,
        channel: message.channel.as_str(),
        buffers: [],
    });
    text.unwrap_or_default().into()
}

fn raw(bytes: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{ "msg_id":"é", "msg_type":"x", "odd": [1.50, "\ud800"]}"#;

    fn outgoing(header: &str, content: &str) -> Outgoing {
        let message = RawMessage::new(
            Channel::Shell,
            Bytes::copy_from_slice(header.as_bytes()),
            Bytes::copy_from_slice(content.as_bytes()),
        );
        Outgoing {
            msg_type: "x",
            msg_id: "id".to_owned(),
            message,
        }
    }

    fn frame(header: &str, content: &str) -> Message {
        in_form(Form::V1, &outgoing(header, content))
    }

    #[test]
    fn a_parent_is_kept_byte_for_byte_in_both_forms() {
        let mut message = outgoing(r#"{"msg_id":"id"}"#, "{ }");
        message.message.parent_header = Bytes::from_static(HEADER.as_bytes());
        let Message::Text(text) = in_form(Form::Text, &message) else {
            panic!("no text");
        };
        assert!(
            text.contains(&format!(r#""parent_header":{HEADER}"#)),
            "{text}"
        );
        let Message::Binary(frame) = in_form(Form::V1, &message) else {
            panic!("no frame");
        };
        let decoded = decode_body(&frame, &Limits::to_kernel()).unwrap();
        assert_eq!(decoded, message.message);
    }

    #[test]
    fn what_is_no_message_is_a_fault_and_what_is_for_nobody_is_none() {
        assert!(read(Form::V1, frame(HEADER, "{}")).unwrap().is_some());
        let text = format!(r#"{{"header":{HEADER},"content":{{ }},"channel":"control"}}"#);
        assert!(read(Form::Text, Message::text(text)).unwrap().is_some());
        assert!(read(Form::V1, frame("[]", "{}")).is_err());
        assert!(read(Form::V1, Message::binary(vec![0xff; 300])).is_err());
        assert!(read(Form::V1, Message::text("{}")).is_err());
        for text in [
            "",
            "{}",
            "[]",
            r#"{"header":{},"content":{},"channel":"shell"}"#,
        ] {
            assert!(read(Form::Text, Message::text(text)).is_err(), "{text}");
        }
        let unknown = format!(r#"{{"header":{HEADER},"content":{{}},"channel":"sh"}}"#);
        assert!(read(Form::Text, Message::text(unknown)).unwrap().is_none());
        assert!(read(Form::Text, Message::binary("x")).is_err());
    }

    #[test]
    fn buffers_and_metadata_go_through_both_forms() {
        let buffers = vec![
            Bytes::from_static(b"\xff\0"),
            Bytes::new(),
            Bytes::from(vec![7; 300]),
        ];
        let mut sent = outgoing(HEADER, r#"{"comm_id":"1"}"#);
        sent.message.metadata = Bytes::from_static(br#"{"a":[1]}"#);
        sent.message.buffers.clone_from(&buffers);
        for form in [Form::V1, Form::Text] {
            let message = in_form(form, &sent);
            let request = read(form, message.clone()).unwrap().unwrap();
            let again = format!("{request:?}");
            assert!(again.contains(r#"metadata: b"{\"a\":[1]}""#), "{again}");
            assert!(again.contains(&format!("buffers: {buffers:?}")), "{again}");
            // However it is cut off, it is a fault or another message, never a panic.
            let whole = message.into_data();
            for end in 0..whole.len() {
                drop(read(form, Message::Binary(whole.slice(..end))));
            }
        }
        let senseless: [&[u8]; 5] = [
            &[],
            &[0, 0, 0, 0],
            &[255; 12],
            &[0, 0, 0, 1, 0, 0, 0, 99],
            &[0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 4],
        ];
        for body in senseless {
            let message = Message::binary(body.to_vec());
            assert!(read(Form::Text, message).is_err(), "{body:?}");
        }
    }
}
