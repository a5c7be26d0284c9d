//! What is wrong with a configuration.

use std::fmt;

/// What becomes of something that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It is told, and what is used instead.
    Warning,
    /// Nothing is run: it may protect something, and would be replaced by what protects less.
    Refusal,
}

/// Something in a configuration that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What becomes of it.
    pub severity: Severity,
    /// Where it stands: `PATH:LINE`, or the name of a variable.
    pub place: String,
    /// The line in the file, from 1.
    pub line: Option<usize>,
    /// The key, with its section; empty if it is the file as a whole.
    pub key: String,
    /// The value as it was written, cut; empty if it is not about one.
    pub value: String,
    /// What is wrong, and what is used or to be done instead.
    pub sentence: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place, sentence, ..
        } = self;
        write!(f, "{place}: {sentence}")
    }
}
