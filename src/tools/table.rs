//! The one table of tools: dispatch, stubs, schema and help come from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ReadFile, Terminal, Tool, WriteFile};

/// Names that a refusal shows.
const SHOWN_NAMES: usize = 5;

/// The tools of a manager, in the order in which they are listed.
#[derive(Debug, Clone)]
pub struct ToolTable {
    tools: Arc<[Arc<dyn Tool>]>,
}

impl ToolTable {
    /// The tools that come with Warmcell.
    pub fn standard() -> Self {
        Self::of(vec![
            Arc::new(ReadFile) as Arc<dyn Tool>,
            Arc::new(WriteFile),
            Arc::new(Terminal),
        ])
    }

    /// No tool but these; for programs that bring their own.
    pub fn of(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self {
            tools: tools.into(),
        }
    }

    /// A tool by name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.iter().find(|tool| tool.spec().name == name)
    }

    /// Whether a grant names no tools but these.
    ///
    /// # Errors
    ///
    /// If it names others.
    pub fn check(&self, grant: &Grant) -> Result<(), UnknownTools> {
        let Grant::Only(names) = grant else {
            return Ok(());
        };
        let unknown: Vec<&String> = names
            .iter()
            .filter(|name| self.find(name).is_none())
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(UnknownTools {
            more: unknown.len().saturating_sub(SHOWN_NAMES),
            unknown: unknown.into_iter().take(SHOWN_NAMES).cloned().collect(),
            known: self.iter().map(|tool| tool.spec().name).collect(),
        })
    }

    /// The tools, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }
}

/// A grant names tools that do not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no tool {}{}; there {}",
    unknown.iter().map(|name| format!("{:.60}", format!("{name:?}"))).collect::<Vec<_>>().join(" or "),
    if *more > 0 { format!(" (and {more} more)") } else { String::new() },
    if known.is_empty() { "are none".to_owned() } else { format!("are {}", known.join(", ")) }
)]
pub struct UnknownTools {
    /// The first of those that do not exist.
    pub unknown: Vec<String>,
    /// How many more there are.
    pub more: usize,
    /// All that exist.
    pub known: Vec<&'static str>,
}

/// Which tools a cell may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Grant {
    /// All of them: nobody has said otherwise.
    #[default]
    All,
    /// These; none if the list is empty.
    Only(BTreeSet<String>),
}

impl Grant {
    /// Whether a tool may be called.
    pub fn allows(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(tool),
        }
    }

    /// Whether tools are named that may be called.
    pub fn names_some(&self) -> bool {
        matches!(self, Self::Only(names) if !names.is_empty())
    }

    /// What may be called, in words for a refusal.
    pub(super) fn in_words(&self, table: &ToolTable) -> String {
        let names: Vec<&str> = table
            .iter()
            .map(|tool| tool.spec().name)
            .filter(|name| self.allows(name))
            .collect();
        if names.is_empty() {
            "no tool may be called".into()
        } else {
            format!("callable: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_names_tools_that_exist() {
        let table = ToolTable::standard();
        let only = |names: &[&str]| Grant::Only(names.iter().map(|it| (*it).to_owned()).collect());
        for good in [Grant::All, only(&[]), only(&["terminal", "read_file"])] {
            assert_eq!(table.check(&good), Ok(()));
        }
        let told = |grant| table.check(&grant).unwrap_err().to_string();
        let there = "there are read_file, write_file, terminal";
        assert_eq!(
            told(only(&["read_file", "x\n", "Terminal"])),
            format!("there is no tool \"Terminal\" or \"x\\n\"; {there}")
        );
        let many: Vec<String> = (10..1_000).map(|n| n.to_string().repeat(1_000)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let sentence = told(only(&many));
        assert!(sentence.ends_with(&format!(" (and 985 more); {there}")));
        assert!(sentence.len() < 500, "{sentence}");
        let none = ToolTable::of(Vec::new()).check(&only(&["a"])).unwrap_err();
        assert_eq!(none.to_string(), "there is no tool \"a\"; there are none");
    }
}
