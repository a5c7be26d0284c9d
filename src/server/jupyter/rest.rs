//! `/api`: kernels that are asked for, listed, interrupted, restarted and ended.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use super::create::{Wanted, create};
use super::kernels::{SPEC_NAME, all_kernelspecs, find, kernel_id};
use super::socket;
use crate::process::in_a_thread;
use crate::server::body;
use crate::server::refusal::Refusal;
use crate::server::{Manager, VERSION};
use crate::session::{Policy, Session};

/// What Jupyter Server answers for kernels, below `/api`.
pub(in crate::server) fn api() -> Router<Arc<Manager>> {
    Router::new()
        .route("/", get(version))
        .route("/kernelspecs", get(kernelspecs))
        .route("/kernelspecs/{name}", get(one_kernelspec))
        .route("/kernels", get(list).post(start))
        .route("/kernels/{id}", get(show).delete(end))
        .route("/kernels/{id}/interrupt", post(interrupt))
        .route("/kernels/{id}/restart", post(restart))
        .route("/kernels/{id}/channels", get(socket::channels))
}

/// A refusal, with the keys that front ends of Jupyter show as well.
#[derive(Debug)]
pub(super) struct Fault(Refusal);

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (status, refused) = self.0.into_parts();
        let body = json!({
            "message": refused.error,
            "reason": status.canonical_reason(),
            "error": refused.error,
            "error_class": refused.error_class,
            "going": refused.going,
        });
        (status, Json(body)).into_response()
    }
}

/// The session that a path means.
pub(super) fn kernel(manager: &Manager, id: &str) -> Result<Session, Refusal> {
    find(manager, id).ok_or_else(|| {
        let id: String = id.chars().take(64).collect();
        Refusal::not_found(format!("there is no kernel {id}"))
    })
}

async fn version() -> Json<Value> {
    Json(json!({ "version": VERSION }))
}

/// Those that are installed can come and go, so they are looked for each time.
async fn installed(manager: Arc<Manager>) -> Result<Map<String, Value>, Fault> {
    let found = in_a_thread(move || all_kernelspecs(&manager)).await;
    found.map_err(|error| Refusal::unavailable(error.to_string()).into())
}

async fn kernelspecs(State(manager): State<Arc<Manager>>) -> Result<Json<Value>, Fault> {
    let specs = installed(manager).await?;
    Ok(Json(json!({ "default": SPEC_NAME, "kernelspecs": specs })))
}

async fn one_kernelspec(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Fault> {
    let mut specs = installed(manager).await?;
    if let Some(spec) = specs.remove(&name.to_ascii_lowercase()) {
        return Ok(Json(spec));
    }
    let known: Vec<&str> = specs.keys().map(String::as_str).collect();
    let known = known.join(", ");
    let sentence = format!("there is no kernelspec of that name; there are {known}");
    Err(Refusal::not_found(sentence).into())
}

async fn list(State(manager): State<Arc<Manager>>) -> Json<Value> {
    let sessions = manager.registry().sessions_in_order();
    let models = sessions.iter().map(|session| model(&manager, session));
    Json(Value::Array(models.collect()))
}

async fn start(State(manager): State<Arc<Manager>>, body: Body) -> Result<Response, Fault> {
    let wanted: Wanted = body::json(&manager, body).await?;
    manager.takes_work()?;
    let session = create(&manager, &wanted).await?;
    let location = format!("/api/kernels/{}", kernel_id(&session));
    let model = Json(model(&manager, &session));
    Ok((StatusCode::CREATED, [(LOCATION, location)], model).into_response())
}

async fn show(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Fault> {
    let session = kernel(&manager, &id)?;
    Ok(Json(model(&manager, &session)))
}

async fn end(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Fault> {
    drop(kernel(&manager, &id)?.close().await);
    Ok(StatusCode::NO_CONTENT)
}

async fn interrupt(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Fault> {
    // If nothing runs there is nothing to be done.
    kernel(&manager, &id)?.interrupt_by(Policy::Interrupt);
    Ok(StatusCode::NO_CONTENT)
}

async fn restart(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Fault> {
    let session = kernel(&manager, &id)?;
    session.reset().await;
    Ok(Json(model(&manager, &session)))
}

fn model(manager: &Manager, session: &Session) -> Value {
    manager.kernels().model(session)
}
