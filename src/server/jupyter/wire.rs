//! The two forms of a message on a WebSocket: frames of `v1.kernel.websocket.jupyter.org`, and the
//! older JSON text.

use std::sync::OnceLock;

use axum::extract::ws::{Message, Utf8Bytes};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::jupyter::{Channel, Header, Limits, RawMessage, decode_body, encode};

/// The subprotocol of frames.
pub(super) const V1: &str = "v1.kernel.websocket.jupyter.org";
/// The longest header: it comes back in every message that it causes.
const MOST_HEADER_BYTES: usize = 16 << 10;
/// The length before the body of a frame, which a WebSocket does without.
const LENGTH_BYTES: usize = 4;

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

/// A message that a client has sent.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) channel: Channel,
    /// As it was sent, byte for byte.
    pub(super) header: Bytes,
    pub(super) msg_type: String,
    pub(super) content: Bytes,
}

/// Reads a message. `None` if it is for nobody: an unknown channel, or buffers, which nothing here
/// takes.
pub(super) fn read(form: Form, message: Message) -> Result<Option<Received>, Fault> {
    match (form, message) {
        (Form::V1, Message::Binary(body)) => read_frame(&body),
        (Form::V1, Message::Text(_)) => {
            Err(Fault(format!("{V1} has binary messages, this was text")))
        }
        (Form::Text, Message::Text(text)) => read_text(&text),
        (_, _) => Ok(None),
    }
}

fn read_frame(body: &Bytes) -> Result<Option<Received>, Fault> {
    let message =
        decode_body(body, &Limits::to_kernel()).map_err(|error| Fault(error.to_string()))?;
    received(message.channel, message.header, message.content)
}

#[derive(Deserialize)]
struct TextMessage<'a> {
    #[serde(borrow)]
    header: &'a RawValue,
    #[serde(borrow)]
    content: &'a RawValue,
    channel: Option<String>,
}

fn read_text(text: &Utf8Bytes) -> Result<Option<Received>, Fault> {
    let message: TextMessage<'_> =
        serde_json::from_str(text).map_err(|error| Fault(error.to_string()))?;
    // As Jupyter Server has it.
    let channel = message.channel.as_deref().unwrap_or("shell");
    let Some(channel) = Channel::parse(channel) else {
        return Ok(None);
    };
    let bytes = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
    received(channel, bytes(message.header), bytes(message.content))
}

fn received(channel: Channel, header: Bytes, content: Bytes) -> Result<Option<Received>, Fault> {
    if header.len() > MOST_HEADER_BYTES {
        return Err(Fault("a header of more than 16 KiB".to_owned()));
    }
    // It goes back into the JSON of others: what only a tolerant reader takes will not do.
    let is_json = serde_json::from_slice::<&RawValue>(&header).is_ok();
    let parsed = Header::parse(&header).map_err(|error| Fault(error.to_string()))?;
    if !is_json {
        return Err(Fault("a header that is no JSON object".to_owned()));
    }
    Ok(Some(Received {
        channel,
        header,
        msg_type: parsed.msg_type,
        content,
    }))
}

/// A message that goes to one client or to many; each form is made once.
#[derive(Debug)]
pub(super) struct Outgoing {
    msg_type: &'static str,
    msg_id: String,
    message: RawMessage,
    v1: OnceLock<Bytes>,
    text: OnceLock<Utf8Bytes>,
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

impl Outgoing {
    pub(super) fn new(msg_type: &'static str, msg_id: String, message: RawMessage) -> Self {
        Self {
            msg_type,
            msg_id,
            message,
            v1: OnceLock::new(),
            text: OnceLock::new(),
        }
    }

    /// The message in a client's form.
    pub(super) fn in_form(&self, form: Form) -> Message {
        match form {
            Form::V1 => Message::Binary(self.v1.get_or_init(|| self.frame()).clone()),
            Form::Text => Message::Text(self.text.get_or_init(|| self.text()).clone()),
        }
    }

    fn frame(&self) -> Bytes {
        // Everything we make is far within the limits.
        let frame = encode(&self.message, &Limits::to_kernel()).unwrap_or_default();
        let frame = Bytes::from(frame);
        if frame.len() < LENGTH_BYTES {
            return frame;
        }
        frame.slice(LENGTH_BYTES..)
    }

    fn text(&self) -> Utf8Bytes {
        let message = &self.message;
        let (Some(header), Some(parent_header), Some(metadata), Some(content)) = (
            raw(&message.header),
            raw(&message.parent_header),
            raw(&message.metadata),
            raw(&message.content),
        ) else {
            tracing::warn!(self.msg_type, "a message that is no JSON");
            return Utf8Bytes::from_static("{}");
        };
        let text = serde_json::to_string(&OutgoingText {
            header,
            msg_id: &self.msg_id,
            msg_type: self.msg_type,
            parent_header,
            metadata,
            content,
            channel: message.channel.as_str(),
            buffers: [],
        });
        text.unwrap_or_default().into()
    }
}

fn raw(bytes: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{ "msg_id":"é", "msg_type":"x", "odd": [1.50, "\ud800"]}"#;

    fn frame(header: &str, content: &str) -> Message {
        let message = RawMessage::new(
            Channel::Shell,
            Bytes::copy_from_slice(header.as_bytes()),
            Bytes::copy_from_slice(content.as_bytes()),
        );
        Outgoing::new("x", String::new(), message).in_form(Form::V1)
    }

    #[test]
    fn a_header_is_kept_byte_for_byte_in_both_forms() {
        let v1 = read(Form::V1, frame(HEADER, "{}")).unwrap().unwrap();
        assert_eq!(v1.header, HEADER);
        let text = format!(r#"{{"header":{HEADER},"content":{{ }},"channel":"control"}}"#);
        let text = read(Form::Text, Message::text(text)).unwrap().unwrap();
        assert_eq!(
            (text.header.as_ref(), text.content.as_ref()),
            (HEADER.as_bytes(), &b"{ }"[..])
        );
        assert_eq!(
            (text.channel, text.msg_type.as_str()),
            (Channel::Control, "x")
        );

        let mut message = RawMessage::new(Channel::Iopub, text.header.clone(), text.content);
        message.parent_header = text.header;
        let Message::Text(out) = Outgoing::new("x", "id".into(), message).in_form(Form::Text)
        else {
            panic!("no text");
        };
        assert!(
            out.contains(&format!(r#""parent_header":{HEADER}"#)),
            "{out}"
        );
    }

    #[test]
    fn what_is_no_message_is_a_fault_and_what_is_for_nobody_is_none() {
        let long = format!(r#"{{"msg_id":"{}","msg_type":"x"}}"#, "a".repeat(20_000));
        for header in [
            "",
            "[]",
            "{}",
            "nonsense",
            r#"{"msg_id":NaN}"#,
            &long,
            r#"{"msg_id":"a","msg_type":"b","c":NaN}"#,
        ] {
            assert!(read(Form::V1, frame(header, "{}")).is_err(), "{header:.80}");
        }
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
        assert!(read(Form::Text, Message::binary("x")).unwrap().is_none());
    }
}
