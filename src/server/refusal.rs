//! Answers that are no results.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::faults::OrderError;
use super::wire::{Refused, VERSION};
use crate::execution::{ErrorClass, KernelReport, Outcome};
use crate::session::SessionError;
use crate::words::counted;

/// Why something is not done.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    refused: Refused,
}

impl Refusal {
    fn new(status: StatusCode, error_class: ErrorClass, error: impl Into<String>) -> Self {
        Self {
            status,
            refused: Refused {
                error: error.into(),
                error_class,
                going: false,
                other_version: None,
            },
        }
    }

    /// The call makes no sense.
    pub(super) fn usage(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorClass::Usage, error)
    }

    /// What is named is not there.
    pub(super) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorClass::Usage, error)
    }

    /// The body is too long.
    pub(super) fn too_long(error: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorClass::Usage, error)
    }

    /// It is written in a way that is not read here.
    pub(super) fn unreadable(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorClass::Usage, error)
    }

    /// What has refused it has found no words of its own.
    pub(super) fn of_status(status: StatusCode, error: impl Into<String>) -> Self {
        let class = if status.is_server_error() {
            ErrorClass::Unavailable
        } else {
            ErrorClass::Usage
        };
        Self::new(status, class, error)
    }

    /// It took too long to come.
    pub(super) fn too_slow(error: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, ErrorClass::Usage, error)
    }

    /// Too much at once.
    pub(super) fn busy(error: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorClass::Busy, error)
    }

    /// It cannot be had.
    pub(super) fn unavailable(error: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorClass::Unavailable,
            error,
        )
    }

    /// The caller is not known.
    pub(super) fn unauthorized(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, ErrorClass::Refused, error)
    }

    /// The caller is known, or tries to be somebody else.
    pub(super) fn forbidden(error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, ErrorClass::Refused, error)
    }

    /// This manager ends; nothing was begun.
    pub(super) fn going() -> Self {
        let mut refusal = Self::unavailable("the server is ending; ask again");
        refusal.refused.going = true;
        refusal
    }

    /// A client of another version.
    pub(super) fn other_version(client: &str, sessions: usize) -> Self {
        let sentence = format!(
            "this is warmcell {client:.40}, the server that runs is {VERSION} and holds {}; \
             `warmcell serve --stop` ends it and them, then the next call starts one of this \
             version",
            counted(sessions as u64, "live session")
        );
        let mut refusal = Self::new(StatusCode::CONFLICT, ErrorClass::Unavailable, sentence);
        refusal.refused.other_version = Some(VERSION.to_owned());
        refusal
    }

    /// The status, and the answer itself.
    pub(super) fn into_parts(self) -> (StatusCode, Refused) {
        (self.status, self.refused)
    }

    /// The same as the result of a cell that did not run, in a session whose kernel is this.
    pub(super) fn into_outcome(self, kernel: KernelReport) -> Response {
        if self.refused.going || self.refused.other_version.is_some() {
            return self.into_response();
        }
        let outcome = Outcome::not_run(self.refused.error_class, self.refused.error, kernel);
        (self.status, Json(outcome)).into_response()
    }
}

impl From<OrderError> for Refusal {
    fn from(error: OrderError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        match error.class() {
            ErrorClass::Usage => Self::usage(error.to_string()),
            _ => Self::unavailable(error.to_string()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self.refused)).into_response()
    }
}
