//! The variables of a session, for those who look at it.

use serde::{Deserialize, Serialize};

use super::record::shown;
use crate::execution::LostName;
use crate::jupyter::{Extent, VariableEntry, VariablesReply};

/// Variables that are shown, of any number; the latest.
pub(super) const SHOWN: usize = 200;

/// The variables of a session's kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables {
    /// Whether the kernel has listed them just now, with sizes; else they are what is known since
    /// the last cell ended: while a cell runs, and if the kernel did not answer within a second.
    pub taken_live: bool,
    /// How many there are.
    pub total: u64,
    /// The latest 200, the latest bound last.
    pub variables: Vec<Variable>,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name, at most 100 characters, control characters replaced.
    pub name: String,
    /// The name of its type, the same.
    #[serde(rename = "type")]
    pub kind: String,
    /// Bytes that it takes by itself: of a list without its items, of an array or table with its
    /// data. Left out where no C code says it, and where the kernel was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The length of a built-in container (`3`), the shape of an array or table (`(2, 3)`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
}

impl From<VariablesReply> for Variables {
    fn from(reply: VariablesReply) -> Self {
        let variables: Vec<Variable> = reply.variables.into_iter().map(Variable::from).collect();
        Self {
            taken_live: true,
            total: reply.total.max(variables.len() as u64),
            variables,
        }
    }
}

impl From<VariableEntry> for Variable {
    fn from(entry: VariableEntry) -> Self {
        Self {
            name: shown(&entry.name),
            kind: shown(&entry.kind),
            size: entry.size,
            shape: entry.extent.as_ref().map(in_words),
        }
    }
}

impl From<&LostName> for Variable {
    fn from(known: &LostName) -> Self {
        Self {
            name: known.name.clone(),
            kind: known.kind.clone(),
            size: None,
            shape: None,
        }
    }
}

/// As Python writes it.
fn in_words(extent: &Extent) -> String {
    match extent {
        Extent::Length(length) => length.to_string(),
        Extent::Shape(shape) => {
            let numbers: Vec<String> = shape.iter().map(u64::to_string).collect();
            let comma = if numbers.len() == 1 { "," } else { "" };
            format!("({}{comma})", numbers.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_written_as_python_does() {
        let shape = |numbers: &[u64]| in_words(&Extent::Shape(numbers.to_vec()));
        assert_eq!(shape(&[]), "()");
        assert_eq!(shape(&[3]), "(3,)");
        assert_eq!(shape(&[3, 4]), "(3, 4)");
        assert_eq!(in_words(&Extent::Length(7)), "7");
    }

    #[test]
    fn hostile_texts_are_cut_and_cleaned() {
        let entry = VariableEntry {
            name: "\u{1b}[2J".repeat(100),
            kind: "x\n".repeat(100),
            size: Some(1),
            extent: None,
        };
        let variable = Variable::from(entry);
        assert_eq!(variable.name.chars().count(), 100);
        assert!(!variable.name.chars().any(char::is_control));
        assert!(!variable.kind.chars().any(char::is_control));
    }
}
