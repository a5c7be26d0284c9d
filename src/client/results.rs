//! What a manager tells as it comes.

use bytes::Bytes;

use super::ClientError;
use super::cell::JsonLines;
use crate::execution::Outcome;
use crate::server::Line;

/// A stream of lines.
#[derive(Debug)]
pub struct Results {
    lines: JsonLines,
}

impl Results {
    pub(super) fn new(lines: JsonLines) -> Self {
        Self { lines }
    }

    /// The next line as it is, with its end; `None` at the end of the stream.
    ///
    /// # Errors
    ///
    /// If the connection ends early.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn next_text(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.lines.next_text().await
    }

    /// The next result; `None` at the end of the stream.
    ///
    /// # Errors
    ///
    /// If the connection ends early.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn next_outcome(&mut self) -> Result<Option<Outcome>, ClientError> {
        loop {
            match self.lines.next().await? {
                Some(Line::Finished(finished)) => return Ok(Some(finished.into_outcome())),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}
