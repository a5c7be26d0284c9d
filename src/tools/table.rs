//! The one table of tools: dispatch, stubs, schema and help come from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ReadFile, Terminal, Tool, WriteFile};

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

    /// The tools, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }
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
