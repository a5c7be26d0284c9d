//! `/api/kernels/ID/channels`: a WebSocket that carries a session's messages.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, State};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, sleep, timeout};

use super::Peer;
use super::outbox::Outbox;
use super::requests::Client;
use super::rest::{Fault, kernel};
use super::wire::{self, Form, V1};
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

/// Why a client is cut off: a close code, and a reason.
type Reason = (u16, String);

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
        let outbox = Arc::new(Outbox::new(form));
        let joined = manager.kernels().join(session, Arc::clone(&outbox));
        let client = Client::start(&joined);
        peer.begin();
        serve(stream, &peer, &outbox, &client).await;
        drop((joined, serving, socket));
    }))
}

/// Serves a client until one of the two sides has enough.
async fn serve(stream: WebSocket, peer: &Peer, outbox: &Outbox, client: &Arc<Client>) {
    let (sink, mut stream) = stream.split();
    let mut writing = std::pin::pin!(write(sink, outbox));
    let read = tokio::select! {
        () = &mut writing => None,
        reason = read(&mut stream, peer, outbox.form(), client) => Some(reason),
    };
    match read {
        // It was told why; what it still sends is let go by, so that it sees that.
        None => {}
        Some(None) => outbox.gone(),
        Some(Some((code, reason))) => {
            tracing::debug!(code, reason, "a client was cut off");
            outbox.cut_off(code, &reason);
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
            Err(error) => return Some((close_code::PROTOCOL, error.to_string())),
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
                    return Some((close_code::POLICY, "too many pings".to_owned()));
                }
                continue;
            }
        };
        let Some(room) = peer.room(bytes) else {
            let reason = "too much waits at this manager; come again in a moment";
            return Some((close_code::AGAIN, reason.to_owned()));
        };
        match wire::read(form, message) {
            Ok(Some(request)) => client.take(request, room),
            Ok(None) => tracing::debug!("a message for nobody"),
            Err(fault) => return Some((close_code::INVALID, fault.0)),
        }
    }
    None
}

/// Sends what waits, until there is nothing more to be sent or the client takes it no longer.
async fn write(mut sink: SplitSink<WebSocket, Message>, outbox: &Outbox) {
    while let Some(item) = outbox.next().await {
        let is_last = matches!(item.message, Message::Close(_));
        let too_late = async {
            outbox.ended().await;
            sleep(LAST_WORDS).await;
        };
        tokio::select! {
            sent = sink.send(item.message) => if sent.is_err() { return },
            () = too_late => return,
        }
        if let Some(receipt) = item.receipt {
            receipt.sign();
        }
        if is_last {
            return;
        }
    }
}
