//! `/api/kernels/ID/channels`: a WebSocket that carries a session's messages.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, State};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, sleep, timeout};

use super::Peer;
use super::rest::{Fault, kernel};
use super::wire::{self, Form, V1};
use crate::frontends::{Client, Next, Outbox, Why};
use crate::server::Manager;
use crate::server::refusal::Refusal;

/// The longest message: 8 MiB of code, each byte escaped.
const MOST_BYTES: usize = 64 << 20;
/// How long a client that is cut off may take to see why.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long, after that, it may take to close its side.
const GOODBYE: Duration = Duration::from_secs(1);
/// Pings and the like from one client in each window of time.
const MOST_PINGS: u32 = 1_000;
const PING_WINDOW: Duration = Duration::from_secs(10);

/// The longest reason in a close frame.
const MOST_REASON_BYTES: usize = 123;

/// Why a client is cut off, and a sentence.
type Reason = (Why, String);

/// `GET /api/kernels/ID/channels`
pub(super) async fn channels(
    State(manager): State<Arc<Manager>>,
    Path(kernel_id): Path<String>,
    Extension(peer): Extension<Peer>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Fault> {
    manager.takes_work()?;
    let session = kernel(&manager, &kernel_id)?;
    let Some(socket) = manager.kernels().socket() else {
        return Err(Refusal::busy("too many WebSockets; close some of them").into());
    };
    let upgrade = upgrade
        .max_message_size(MOST_BYTES)
        .max_frame_size(MOST_BYTES)
        .protocols([V1]);
    let form = if upgrade.selected_protocol().is_some() {
        Form::V1
    } else {
        Form::Text
    };
    // A watched session is no idle server's.
    let serving = manager.request();
    Ok(upgrade.on_upgrade(move |stream| async move {
        let frontends = manager.kernels().frontends();
        let outbox = frontends.outbox();
        let joined = frontends.join(session, Arc::clone(&outbox));
        let client = Client::start(&joined);
        peer.begin();
        serve(stream, form, &peer, &outbox, &client).await;
        drop((joined, serving, socket));
    }))
}

/// Serves a client until one of the two sides has enough.
async fn serve(stream: WebSocket, form: Form, peer: &Peer, outbox: &Outbox, client: &Arc<Client>) {
    let (sink, mut stream) = stream.split();
    let mut writing = std::pin::pin!(write(sink, form, outbox));
    let read = tokio::select! {
        () = &mut writing => None,
        reason = read(&mut stream, peer, form, client) => Some(reason),
    };
    match read {
        // It was told why; what it still sends is let go by, so that it sees that.
        None => {}
        Some(None) => outbox.gone(),
        Some(Some((why, reason))) => {
            tracing::debug!(?why, reason, "a client was cut off");
            outbox.cut_off(why, &reason);
            writing.await;
        }
    }
    let goodbye = async { while let Some(Ok(_)) = stream.next().await {} };
    drop(timeout(GOODBYE, goodbye).await);
}

/// Reads what the client wants, until it goes or sends what makes no sense: then why it is cut off.
async fn read(
    stream: &mut SplitStream<WebSocket>,
    peer: &Peer,
    form: Form,
    client: &Arc<Client>,
) -> Option<Reason> {
    let mut pings = 0;
    let mut window = Instant::now();
    while let Some(message) = stream.next().await {
        let message = match message {
            Ok(message) => message,
            Err(error) => return Some((Why::Broken, error.to_string())),
        };
        peer.finished();
        let bytes = match &message {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) => bytes.len(),
            Message::Close(_) => return None,
            // They are answered by the stream itself.
            Message::Ping(_) | Message::Pong(_) => {
                if window.elapsed() > PING_WINDOW {
                    (pings, window) = (0, Instant::now());
                }
                pings += 1;
                if pings > MOST_PINGS {
                    return Some((Why::Flooding, "too many pings".to_owned()));
                }
                continue;
            }
        };
        let Some(room) = peer.room(bytes) else {
            let reason = "too much waits at this manager; come again in a moment";
            return Some((Why::Crowded, reason.to_owned()));
        };
        match wire::read(form, message) {
            Ok(Some(request)) => client.take(request, room),
            Ok(None) => tracing::debug!("a message for nobody"),
            Err(fault) => return Some((Why::Senseless, fault.0)),
        }
    }
    None
}

/// Sends what waits, until there is nothing more to be sent or the client takes it no longer.
async fn write(mut sink: SplitSink<WebSocket, Message>, form: Form, outbox: &Outbox) {
    while let Some(next) = outbox.next().await {
        let (message, receipt) = match next {
            Next::Send(item) => (wire::in_form(form, &item.message), item.receipt),
            Next::Close(why, sentence) => (Message::Close(Some(close_frame(why, &sentence))), None),
        };
        let is_last = matches!(message, Message::Close(_));
        let too_late = async {
            outbox.ended().await;
            sleep(LAST_WORDS).await;
        };
        tokio::select! {
            sent = sink.send(message) => if sent.is_err() { return },
            () = too_late => return,
        }
        if let Some(receipt) = receipt {
            receipt.sign();
        }
        if is_last {
            return;
        }
    }
}

fn close_frame(why: Why, sentence: &str) -> CloseFrame {
    let code = match why {
        Why::Closed => close_code::AWAY,
        Why::Behind | Why::Crowded => close_code::AGAIN,
        Why::Flooding => close_code::POLICY,
        Why::Senseless => close_code::INVALID,
        Why::Broken => close_code::PROTOCOL,
    };
    let mut end = sentence.len().min(MOST_REASON_BYTES);
    while !sentence.is_char_boundary(end) {
        end -= 1;
    }
    let (reason, _) = sentence.split_at(end);
    CloseFrame {
        code,
        reason: reason.to_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let frame = close_frame(Why::Closed, &"é".repeat(100));
        assert_eq!((frame.code, frame.reason.len()), (1001, 122));
    }
}
