//! Reads what a client sends: capped, on time, and all clients together within bounds.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Manager;
use super::refusal::Refusal;

/// The longest body: 8 MiB of code, each byte escaped, and an environment.
const MOST_BYTES: usize = 64 << 20;
/// What each request may send without asking for room.
const FREE_BYTES: usize = 64 << 10;
/// How long a body may take to come.
const DEADLINE: Duration = Duration::from_secs(30);

/// Reads a body as JSON; an empty one as `{}`.
///
/// # Cancel safety
///
/// May be dropped; what was read is lost.
pub(super) async fn json<T: DeserializeOwned>(manager: &Manager, body: Body) -> Result<T, Refusal> {
    let read = timeout(DEADLINE, read(body, &manager.bodies));
    let (bytes, _room) = read
        .await
        .map_err(|_elapsed| Refusal::too_slow("the body did not come within 30 s"))??;
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(text)
        .map_err(|error| Refusal::usage(format!("the body makes no sense: {error}")))
}

async fn read(
    mut body: Body,
    bodies: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Refusal> {
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
            return Err(Refusal::too_long("the body has more than 64 MiB"));
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
