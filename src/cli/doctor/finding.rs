//! What a check has found.

use serde::Serialize;
use serde_json::Value;

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// It is as it should be.
    Ok,
    /// Something is missing that cells can do without.
    Note,
    /// It keeps cells from running, or from what they are promised.
    Failed,
}

/// What a check has found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) name: &'static str,
    /// How it stands.
    pub(super) state: State,
    /// A sentence without its full stop.
    pub(super) says: String,
    /// The command, or what else is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mend: Option<String>,
    /// What belongs to it, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) more: Vec<String>,
    /// The same for programs.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) data: Value,
}

impl Finding {
    fn new(name: &'static str, state: State, says: impl Into<String>) -> Self {
        Self {
            name,
            state,
            says: says.into(),
            mend: None,
            more: Vec::new(),
            data: Value::Null,
        }
    }

    pub(super) fn ok(name: &'static str, says: impl Into<String>) -> Self {
        Self::new(name, State::Ok, says)
    }

    pub(super) fn note(name: &'static str, says: impl Into<String>) -> Self {
        Self::new(name, State::Note, says)
    }

    pub(super) fn failed(
        name: &'static str,
        says: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self::new(name, State::Failed, says).mended_by(mend)
    }

    #[must_use]
    pub(super) fn mended_by(self, mend: impl Into<String>) -> Self {
        Self {
            mend: Some(mend.into()),
            ..self
        }
    }

    #[must_use]
    pub(super) fn with(self, more: Vec<String>, data: Value) -> Self {
        Self { more, data, ..self }
    }

    /// For people: a line, and what belongs to it below.
    pub(super) fn lines(&self) -> String {
        let mark = match self.state {
            State::Ok => "ok    ",
            State::Note => "note  ",
            State::Failed => "FAILED",
        };
        let mut lines = format!("{mark}  {:<10}  {}\n", self.name, self.says);
        let mend = self.mend.iter().map(|mend| format!("mend: {mend}"));
        for line in self.more.iter().cloned().chain(mend) {
            lines.extend(["                    ", line.as_str(), "\n"]);
        }
        lines
    }
}
