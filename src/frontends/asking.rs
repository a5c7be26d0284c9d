//! What a front end asks of the kernel between cells.

use std::time::Duration;

use serde_json::value::RawValue;

use super::content;
use super::hub::{Hub, Parent};
use super::message::{Request, msg_id_of};
use super::outbox::Outbox;
use crate::execution::{LiveEvent, LiveOutput, live_output};
use crate::jupyter::{Asked, Channel};
use crate::session::{Question, QuestionKind};

/// How long an answer may take once the kernel is asked.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long the code of a comm may: people watch.
const COMM_DEADLINE: Duration = Duration::from_secs(86_400);
/// Bytes that go out in one message.
const TOGETHER_BYTES: usize = 256 << 10;

/// Asks, tells all what is shown meanwhile, and answers; a client that goes away is not answered, and
/// the kernel is interrupted in what it does for it.
pub(super) async fn ask(
    hub: &Hub,
    client: &Outbox,
    parent: &Parent,
    kind: QuestionKind,
    request: &Request,
    asked: &Asked,
) {
    let status = |state: &str| {
        let content = content::status(state);
        hub.answer(client, Channel::Iopub, "status", parent, &content, None);
    };
    status("busy");
    let (sender, live) = live_output();
    let question = Question {
        deadline: if kind.reply_type().is_some() {
            DEADLINE
        } else {
            COMM_DEADLINE
        },
        live: Some(sender),
        metadata: request.metadata.clone(),
        buffers: request.buffers.clone(),
        origin: msg_id_of(&parent.0),
        ..Question::new(kind, request.content.clone())
    };
    let both = async { tokio::join!(hub.session().ask(question), tell(hub, parent, live)).0 };
    let answer = tokio::select! {
        biased;
        answer = both => answer,
        () = client.ended() => return,
    };
    if let Some(reply_type) = kind.reply_type() {
        match answer {
            // What the kernel says is not trusted: it must be an object at least.
            Ok(content) if is_object(&content) => {
                hub.answer_raw(client, request.channel, reply_type, parent, content);
            }
            answer => {
                tracing::debug!(?answer, "a question has no answer");
                if let Some((reply_type, reply)) = content::plain_reply(kind.msg_type(), asked) {
                    let why = match &answer {
                        Ok(_) => "the kernel's reply is no JSON object".to_owned(),
                        Err(error) => error.to_string(),
                    };
                    let reply = content::unanswered(reply, &why);
                    hub.answer(client, request.channel, reply_type, parent, &reply, None);
                }
            }
        }
    }
    status("idle");
}

fn is_object(content: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(content).is_ok_and(|it| it.get().starts_with('{'))
}

/// What the code of comms prints and shows.
async fn tell(hub: &Hub, parent: &Parent, mut live: LiveOutput) {
    while let Some(event) = live.next_together(TOGETHER_BYTES).await {
        let (name, bytes) = match event {
            LiveEvent::Published(shown) => {
                hub.publish_shown(&shown, parent, None).await;
                continue;
            }
            LiveEvent::Stdout(bytes) => ("stdout", bytes),
            LiveEvent::Stderr(bytes) => ("stderr", bytes),
            LiveEvent::Result(_) => continue,
        };
        let content = content::stream(name, &String::from_utf8_lossy(&bytes));
        hub.publish("stream", parent, &content).await;
    }
}
