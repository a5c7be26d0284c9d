//! One call: whose it is, what it asks for, and its reply.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::sync::SemaphorePermit;

use super::authority::no_active_cell;
use super::frame::{self, Connection, Request};
use super::server::Shared;
use super::{Arguments, Authority, Tool, ToolContext, ToolFailure, ToolResult};

/// A reply that only says what is wrong.
pub(super) fn said(id: Option<u64>, failure: ToolFailure) -> Vec<u8> {
    let mut result = ToolResult::new();
    failure.add_to(&mut result);
    frame::encode(id, &result).unwrap_or_default()
}

/// What a request is answered with.
pub(super) enum Reply<'a> {
    /// A frame that says no.
    Says(Vec<u8>),
    /// A frame with the result of a call.
    Made {
        frame: Vec<u8>,
        authority: Arc<Authority>,
        place: SemaphorePermit<'a>,
    },
    /// The caller is gone.
    Nobody,
}

/// A call that its cell may make, as far as can be seen before it is counted.
pub(super) struct Call {
    id: u64,
    tool: Arc<dyn Tool>,
    authority: Arc<Authority>,
    arguments: Result<Arguments, ToolFailure>,
    cwd: Option<PathBuf>,
}

impl Call {
    /// Reads a request, and finds out whose cell asks for what; otherwise the reply that refuses it.
    ///
    /// Takes as long as it takes to read the request.
    pub(super) fn read(bytes: BytesMut, shared: &Shared) -> Result<Self, Vec<u8>> {
        let request = match Request::read(&bytes) {
            Ok(request) => request,
            Err((id, sentence)) => return Err(said(id, ToolFailure::usage(sentence))),
        };
        let (id, cell) = (request.id, request.cell);
        let table = &shared.settings.table;
        let authority = shared.authority().clone();
        let Some(tool) = table.find(&request.tool) else {
            let grant = authority.map(|authority| authority.terms().grant.clone());
            let callable = grant.unwrap_or_default().in_words(table);
            let name: String = request.tool.chars().take(100).collect();
            let sentence = format!("'{name}' cannot be called from a cell; {callable}");
            return Err(said(Some(id), ToolFailure::refused(sentence)));
        };
        let tool = Arc::clone(tool);
        let spec = tool.spec();
        let refused = |failure: ToolFailure| {
            Err(frame::encode(Some(id), &failure.into_result(spec)).unwrap_or_default())
        };
        let of_this_cell = |authority: &Arc<Authority>| authority.terms().cell == cell;
        let Some(authority) = authority.filter(of_this_cell) else {
            return refused(no_active_cell(cell));
        };
        let cwd = request.directory();
        let at = request.arguments(&bytes);
        let arguments = Arguments::take(spec.name, bytes, at);
        // A keyword that is refused costs nothing, as any refusal.
        if let Ok(arguments) = &arguments
            && let Err(failure) = arguments.check_names(spec)
            && failure.class == "refused"
        {
            return refused(failure);
        }
        Ok(Self {
            id,
            tool,
            authority,
            arguments,
            cwd,
        })
    }

    /// Makes it when there is a place, unless its cell ends or its caller goes away before.
    pub(super) async fn make<'a>(
        self,
        shared: &'a Shared,
        connection: &mut Connection,
    ) -> Reply<'a> {
        let Self {
            id,
            tool,
            authority,
            arguments,
            cwd,
        } = self;
        let spec = tool.spec();
        let reply = |result: ToolResult| frame::encode(Some(id), &result).unwrap_or_default();
        let cancelled = authority.in_flight();
        let place = tokio::select! {
            biased;
            place = shared.calls.acquire() => place.ok(),
            () = cancelled.cancelled() => None,
            () = connection.closed() => return Reply::Nobody,
        };
        let Some(place) = place else {
            let failure = if authority.is_retired() {
                no_active_cell(authority.terms().cell)
            } else {
                authority.stopped()
            };
            return Reply::Says(reply(failure.into_result(spec)));
        };
        let call = match authority.dispatch(spec.name, &shared.settings.table) {
            Ok(call) => call,
            Err(failure) => return Reply::Says(reply(failure.into_result(spec))),
        };
        let terms = authority.terms();
        let context = ToolContext {
            cwd,
            agent_home: shared.settings.agent_home.clone(),
            user_home: shared.settings.user_home.clone(),
            deadline: terms.deadline,
            cancelled: cancelled.clone(),
            jobs: Arc::clone(&terms.jobs),
            environment: Arc::clone(&terms.environment),
            terminal_timeout: terms
                .terminal_timeout
                .unwrap_or(shared.settings.terminal_timeout),
        };
        // Whatever a tool started ends when its future is dropped.
        let checked = arguments.and_then(|it| it.check(spec).map(|()| it));
        let mut result = match checked {
            Err(failure) => failure.into_result(spec),
            Ok(arguments) => tokio::select! {
                biased;
                result = tool.call(arguments, &context) => result,
                () = cancelled.cancelled() => authority.stopped().into_result(spec),
                () = connection.closed() => return Reply::Nobody,
            },
        };
        let frame = frame::encode(Some(id), &result).unwrap_or_else(|| {
            result = frame::too_long(&result);
            reply(result.clone())
        });
        call.finished(!result.contains_key("error"));
        Reply::Made {
            frame,
            authority,
            place,
        }
    }
}
