//! Which request goes where.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::refusal::Refusal;
use super::wire::{ROOT, VERSION, VERSION_HEADER};
use super::words::in_our_words;
use super::{Manager, cells, jupyter, sessions};

/// Everything that a door answers.
pub(super) fn routes(manager: Arc<Manager>) -> Router {
    // A session's name may hold one `/`: as `%2F` it is one part of the path.
    let ours = Router::new()
        .route("/sessions", get(sessions::list))
        .route(
            "/sessions/{name}",
            get(sessions::show).delete(sessions::close),
        )
        .route("/sessions/{name}/cells", post(cells::run))
        .route("/sessions/{name}/events", get(sessions::events))
        .route("/sessions/{name}/wait", post(sessions::wait))
        .route("/sessions/{name}/interrupt", post(sessions::interrupt))
        .route("/sessions/{name}/reset", post(sessions::reset))
        .route("/cells/{id}/interrupt", post(cells::interrupt))
        .layer(from_fn_with_state(Arc::clone(&manager), same_version));
    // What any version understands of any other.
    let stable = Router::new()
        .route("/", get(sessions::manager))
        .route("/stop", post(sessions::stop));
    let all = Router::new()
        .nest(ROOT, ours.merge(stable))
        .nest("/api", jupyter::api())
        .fallback(unknown)
        // Bodies are read by `body`, with limits of its own.
        .layer(DefaultBodyLimit::disable())
        .with_state(manager);
    // Around all of it: a layer of its own would not see what is answered beside its routes.
    Router::new()
        .fallback_service(all)
        .layer(from_fn(in_our_words))
}

async fn unknown(request: Request) -> Response {
    let path: String = request.uri().path().chars().take(100).collect();
    let what = format!("there is nothing at {} {path:?}", request.method());
    Refusal::not_found(what).into_response()
}

/// A client of another version may mean something else by the same words.
async fn same_version(
    State(manager): State<Arc<Manager>>,
    request: Request,
    next: Next,
) -> Response {
    let version = request.headers().get(VERSION_HEADER);
    match version.map(|version| version.to_str().unwrap_or("unknown")) {
        Some(version) if version != VERSION => {
            Refusal::other_version(version, manager.registry().names().len()).into_response()
        }
        _ => next.run(request).await,
    }
}
