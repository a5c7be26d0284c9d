//! Reads what a client sends: capped, on time, and all clients together within bounds.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Manager;
use super::faults::OrderError;
use super::keys::{must_be_an_object, no_json};
use super::refusal::Refusal;

/// The longest body: 8 MiB of code, each byte escaped, and an environment.
const MOST_BYTES: usize = 64 << 20;
/// What each request may send without asking for room.
const FREE_BYTES: usize = 64 << 10;
const TOO_LONG: &str = "the body has more than 64 MiB";
/// What is read, in sentences.
const BODY: &str = "the body";
/// How long a body may take to come.
const DEADLINE: Duration = Duration::from_secs(30);

/// Reads a body as a JSON object; an empty one as `{}`.
///
/// # Cancel safety
///
/// May be dropped; what was read is lost.
pub(super) async fn json<T: DeserializeOwned>(manager: &Manager, body: Body) -> Result<T, Refusal> {
    let parse = |text: &[u8]| {
        must_be_an_object(text, BODY)?;
        serde_json::from_slice(text).map_err(|error| no_json(text, BODY, error))
    };
    parsed(manager, body, parse).await
}

/// Reads a body as what its reader makes of it; an empty one as `{}`.
///
/// # Cancel safety
///
/// May be dropped; what was read is lost.
pub(super) async fn parsed<T>(
    manager: &Manager,
    body: Body,
    parse: impl FnOnce(&[u8]) -> Result<T, OrderError>,
) -> Result<T, Refusal> {
    let read = timeout(DEADLINE, read(body, &manager.bodies));
    let (bytes, _room) = read
        .await
        .map_err(|_elapsed| Refusal::too_slow("the body did not come within 30 s"))??;
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    Ok(parse(text)?)
}

async fn read(
    mut body: Body,
    bodies: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Refusal> {
    // What is only announced is not waited for.
    if body.size_hint().lower() > MOST_BYTES as u64 {
        return Err(Refusal::too_long(TOO_LONG));
    }
    let mut bytes = Vec::new();
    let mut room: Option<OwnedSemaphorePermit> = None;
    let mut granted = FREE_BYTES;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Refusal::usage(format!("the body is cut off: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let needed = bytes.len() + data.len();
        if needed > MOST_BYTES {
            return Err(Refusal::too_long(TOO_LONG));
        }
        if needed > granted {
            // It may double at once, so that it need not ask for each piece.
            let more = (needed - granted).max(granted);
            let kilobytes = u32::try_from(more.div_ceil(1024)).unwrap_or(u32::MAX);
            let permit = Arc::clone(bodies)
                .try_acquire_many_owned(kilobytes)
                .map_err(|_full| {
                    Refusal::busy("too many long requests at once; ask again in a moment")
                })?;
            match &mut room {
                Some(room) => room.merge(permit),
                None => room = Some(permit),
            }
            granted += more;
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, room))
}
