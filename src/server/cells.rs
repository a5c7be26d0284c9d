//! A cell that comes through the door, and its way back.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use tokio::time::timeout;

use super::Manager;
use super::body;
use super::jupyter::Peer;
use super::manager::Entered;
use super::order::{CellOrder, InterruptOrder};
use super::refusal::Refusal;
use super::stream;
use crate::execution::{ErrorClass, Interrupt, KernelReport, Outcome};
use crate::process::in_a_thread;
use crate::session::{Cell, Execution, Session, SessionName};

/// Bytes of output that are sent where nobody reads along: the cell is not to wait for it.
const QUIET_BYTES: usize = 256 << 10;

/// `POST /sessions/NAME/cells`
pub(super) async fn run(
    State(manager): State<Arc<Manager>>,
    Path(name): Path<String>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Response {
    match ask(Arc::clone(&manager), &name, &peer, body).await {
        Ok(response) => response,
        Err(refusal) => {
            let name = SessionName::parse(&name).ok();
            let session = name.and_then(|name| manager.registry().find(&name));
            let kernel = session.map_or_else(KernelReport::none, |session| session.kernel());
            refusal.into_outcome(kernel)
        }
    }
}

/// `POST /cells/ID/interrupt`
pub(super) async fn interrupt(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, Refusal> {
    let order = body::parsed(&manager, body, InterruptOrder::parse).await?;
    let interrupted = manager.interrupt(&id, order.policy());
    Ok(Json(serde_json::json!({ "interrupted": interrupted })).into_response())
}

async fn ask(
    manager: Arc<Manager>,
    name: &str,
    peer: &Peer,
    body: Body,
) -> Result<Response, Refusal> {
    let name = SessionName::parse(name).map_err(|error| Refusal::usage(error.to_string()))?;
    let order = body::parsed(&manager, body, CellOrder::parse).await?;
    manager.takes_work()?;
    if peer.has_gone() && !order.detach {
        // It has given up, and said so: this server did not run for a while, say.
        return Err(Refusal::unavailable("the client has gone"));
    }
    let warnings = manager.look_at_configuration(order.configured).await?;
    let order = with_kernel(order).await?;
    let cell = Cell {
        warnings,
        ..order.cell()
    };
    let (session, opened) = session_for(&manager, &name, &order, &cell)?;
    if order.stream {
        let mut execution = session.execute_live(cell);
        let live = execution.take_live();
        let entered = manager.enter(&execution);
        return Ok(stream::answer(stream::Cell {
            session,
            manager,
            turn: execution.turn(),
            room: order.quiet.then_some(QUIET_BYTES),
            vanishing: Vanishing::of(&execution, order.detach),
            execution,
            live,
            entered,
            opened,
            patience: order.patience(),
        }));
    }
    let execution = session.execute(cell);
    let entered = manager.enter(&execution);
    let answer = if order.detach {
        detached(&session, execution, entered).await
    } else {
        answer(&session, execution, entered, order.patience()).await
    };
    manager.settle(&session);
    Ok(answer)
}

/// With the kernel found that is asked for by name: its session may be made for it.
async fn with_kernel(mut order: CellOrder) -> Result<CellOrder, Refusal> {
    if let Some(caller) = order.caller.take_if(|caller| caller.kernel.is_some()) {
        let found = in_a_thread(move || caller.with_kernel()).await;
        let found = found.map_err(|error| Refusal::unavailable(error.to_string()))?;
        order.caller = Some(found.map_err(Refusal::usage)?);
    }
    Ok(order)
}

fn session_for(
    manager: &Manager,
    name: &SessionName,
    order: &CellOrder,
    cell: &Cell,
) -> Result<(Session, bool), Refusal> {
    if let Some(session) = manager.registry().find(name) {
        return Ok((session, false));
    }
    // None is opened for a cell that cannot run.
    let checked = manager.registry().check(cell);
    checked.map_err(|error| Refusal::usage(error.to_string()))?;
    let Some(caller) = &order.caller else {
        return Err(Refusal::not_found(format!(
            "there is no session {name}; to open one say in `caller` with which environment and \
             directory"
        )));
    };
    let made = manager
        .registry()
        .session_or_new(name.as_str(), &caller.caller())
        .map_err(Refusal::from)?;
    if made.1 {
        manager.try_out(&made.0);
    }
    Ok(made)
}

/// Answers with the result alone. If the client vanishes the cell is interrupted.
async fn answer(
    session: &Session,
    mut execution: Execution,
    entered: Entered,
    patience: Option<Duration>,
) -> Response {
    let vanishing = Vanishing::of(&execution, false);
    let Some(patience) = patience else {
        let (outcome, receipt) = execution.outcome_for_another().await;
        vanishing.disarm();
        receipt.sign();
        return told(outcome);
    };
    let waited = timeout(patience, execution.outcome_for_another()).await;
    vanishing.disarm();
    match waited {
        Ok((outcome, receipt)) => {
            receipt.sign();
            told(outcome)
        }
        Err(_elapsed) => {
            execution.known_as(entered.id());
            let outcome = execution.so_far();
            goes_on(session, execution, entered);
            told(outcome)
        }
    }
}

/// Answers at once, and the cell goes on: its result is for whoever waits for it, also if it is there
/// already. A cell that does not run is told as what it is.
async fn detached(session: &Session, mut execution: Execution, entered: Entered) -> Response {
    if execution.is_refused() {
        let (outcome, receipt) = execution.outcome_for_another().await;
        receipt.sign();
        return told(outcome);
    }
    execution.known_as(entered.id());
    let outcome = execution.so_far();
    goes_on(session, execution, entered);
    told(outcome)
}

/// Lets a cell go on without its client; by its id it can be interrupted as long as it runs.
pub(super) fn goes_on(session: &Session, mut execution: Execution, entered: Entered) {
    execution.known_as(entered.id());
    entered.until(execution.ended());
    session.keep(execution);
}

/// A result as an answer: that of a cell which did not run is none that a client may take for done.
fn told(outcome: Outcome) -> Response {
    let status = match outcome.error_class {
        Some(ErrorClass::Usage) => StatusCode::BAD_REQUEST,
        Some(ErrorClass::Busy | ErrorClass::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    (status, Json(outcome)).into_response()
}

/// Interrupts a cell when it is dropped: its client has gone.
pub(super) struct Vanishing(Option<Interrupt>);

impl Vanishing {
    /// Of a client whose cell does not go on without it.
    pub(super) fn of(execution: &Execution, goes_on: bool) -> Self {
        Self((!goes_on).then(|| execution.interrupt_token()))
    }

    /// Whether the cell goes on.
    pub(super) fn is_harmless(&self) -> bool {
        self.0.is_none()
    }

    /// The cell has its result, or goes on without its client.
    pub(super) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Vanishing {
    fn drop(&mut self) {
        if let Some(interrupt) = &self.0 {
            interrupt.cancel();
        }
    }
}
