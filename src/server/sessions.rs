//! What can be asked of sessions that live: the list, one of them, its events, its end.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Manager;
use super::body;
use super::lines::{Lines, lines};
use super::order::{self, InterruptOrder, WaitOrder};
use super::refusal::Refusal;
use super::wire::{Finished, InterruptAnswer, Line};
use crate::execution::{KernelReport, LossReason, Successor, Unreceived};
use crate::session::{Kept, Session, SessionName};

/// So long after its grace a cell that was interrupted may take until it has its result.
const KILLING: Duration = Duration::from_secs(3);
/// So long a stop waits for the end of the sessions: who asks waits for 3 s.
const STOPPING: Duration = Duration::from_secs(2);
/// The longest that an interrupt waits for what comes of it: those who ask wait no longer.
const LONGEST_LOOK: Duration = Duration::from_secs(8);

/// `GET /`
pub(super) async fn manager(State(manager): State<Arc<Manager>>) -> Response {
    Json(manager.info()).into_response()
}

/// `POST /stop`
pub(super) async fn stop(
    State(manager): State<Arc<Manager>>,
    body: Body,
) -> Result<Response, Refusal> {
    body::parsed(&manager, body, order::nothing).await?;
    let sessions = manager.registry().sessions_in_order();
    manager.stop().cancel();
    // What became of the cells that run is known once they have ended.
    let ended = timeout(STOPPING, manager.registry().ended()).await;
    let unreceived =
        ended.unwrap_or_else(|_elapsed| sessions.iter().flat_map(unreceived).collect());
    let unreceived: Vec<Value> = unreceived.iter().map(shown).collect();
    let answer = json!({ "stopping": true, "sessions": sessions.len(), "unreceived": unreceived });
    Ok(Json(answer).into_response())
}

fn unreceived(session: &Session) -> Vec<(SessionName, Unreceived)> {
    let unreceived = session.unreceived().into_iter();
    unreceived.map(|it| (session.name().clone(), it)).collect()
}

/// A result that nobody has received, with the name of its session.
fn shown((session, unreceived): &(SessionName, Unreceived)) -> Value {
    let mut shown = json!(unreceived);
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("session".to_owned(), json!(session.as_str()));
    }
    shown
}

/// `GET /sessions`
pub(super) async fn list(State(manager): State<Arc<Manager>>) -> Response {
    let sessions: Vec<_> = manager
        .registry()
        .sessions_in_order()
        .iter()
        .map(Session::status)
        .collect();
    Json(json!({ "manager": manager.info(), "sessions": sessions })).into_response()
}

/// `GET /sessions/NAME`
pub(super) async fn show(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    let session = manager.existing(&name)?;
    let (variables, usage) = tokio::join!(session.variables(), session.usage());
    let mut shown = json!(session.status());
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("usage".to_owned(), json!(usage));
        shown.insert("variables".to_owned(), json!(variables));
        shown.insert("manager".to_owned(), json!(manager.info()));
    }
    Ok(Json(shown).into_response())
}

/// `POST /sessions/NAME/interrupt`: answers when the cell has ended, or does not end.
pub(super) async fn interrupt(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, Refusal> {
    let order = body::parsed(&manager, body, InterruptOrder::parse).await?;
    let session = manager.existing(&name)?;
    let grace = manager.registry().settings().interrupt_grace;
    let patience = grace.saturating_add(KILLING).min(LONGEST_LOOK);
    let seen = session.interrupt_and_see(order.policy(), patience).await;
    let answer = InterruptAnswer {
        interrupted: seen.is_some(),
        end: seen.flatten(),
    };
    Ok(Json(answer).into_response())
}

/// `POST /sessions/NAME/reset`
pub(super) async fn reset(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, Refusal> {
    body::parsed(&manager, body, order::nothing).await?;
    let session = manager.existing(&name)?;
    let reset = session.reset().await;
    let (next, error) = match reset.successor {
        None | Some(Successor::Unwanted) => ("none", None),
        Some(Successor::Started) => ("started", None),
        Some(Successor::Starting) => ("starting", None),
        Some(Successor::Failed(reason)) => ("none", Some(reason)),
    };
    let kernel = KernelReport {
        reason: reset.lost.is_some().then_some(LossReason::Reset),
        lost: reset.lost,
        ..session.kernel()
    };
    let mut answer = json!({ "reset": true, "kernel": kernel, "next_kernel": next });
    if let Some(answer) = answer.as_object_mut() {
        answer.extend(error.map(|error| ("error".to_owned(), json!(error))));
    }
    Ok(Json(answer).into_response())
}

/// `DELETE /sessions/NAME`
pub(super) async fn close(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, Refusal> {
    body::parsed(&manager, body, order::nothing).await?;
    let ended = manager.existing(&name)?.close().await;
    let answer = json!({
        "closed": true,
        "was_cut_off": ended.was_cut_off,
        "failed": ended.failed,
        "unreceived": ended.unreceived,
    });
    Ok(Json(answer).into_response())
}

/// `GET /sessions/NAME/events`
pub(super) async fn events(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    let session = manager.existing(&name)?;
    let mut events = session.events();
    // Its end ends the stream: no handle is kept.
    drop(session);
    let (mut lines, response) = lines();
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                biased;
                () = lines.gone() => return,
                event = events.next() => event,
            };
            let Some(event) = event else { return };
            // Whoever reads slowly lags behind, and is told so by the stream of events itself.
            if !lines.must(&event, None).await {
                return;
            }
        }
    });
    Ok(response)
}

/// `POST /sessions/NAME/wait`: the results that nobody has received, a JSON object a line; ends when
/// no cell runs or waits any more.
pub(super) async fn wait(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, Refusal> {
    let order = body::parsed(&manager, body, WaitOrder::parse).await?;
    let session = manager.existing(&name)?;
    let (lines, response) = lines();
    tokio::spawn(async move {
        hand_out(&session, order.timeout, lines).await;
        manager.settle(&session);
    });
    Ok(response)
}

async fn hand_out(session: &Session, patience: Option<Duration>, mut lines: Lines) {
    let forever = Duration::from_secs(10 * 366 * 86_400);
    let deadline = tokio::time::Instant::now() + patience.unwrap_or(forever);
    while let Some(mut kept) = session.kept() {
        let waited = tokio::select! {
            biased;
            () = lines.gone() => return,
            waited = tokio::time::timeout_at(deadline, kept.outcome()) => waited,
        };
        match waited {
            Ok(Some((outcome, receipt))) => {
                let line = Line::Finished(Finished::new(outcome));
                let then: Box<dyn FnOnce() + Send> = Box::new(move || {
                    receipt.sign();
                    Kept::done(kept);
                });
                if !lines.must(&line, Some(then)).await {
                    return;
                }
            }
            Ok(None) => {}
            Err(_elapsed) => {
                if let Some(outcome) = kept.so_far() {
                    let line = Line::Finished(Finished::new(outcome));
                    lines.must(&line, None).await;
                }
                return;
            }
        }
    }
    // Cells of other callers.
    tokio::select! {
        () = lines.gone() => {}
        _ = timeout(deadline - tokio::time::Instant::now(), session.settled()) => {}
    }
}
