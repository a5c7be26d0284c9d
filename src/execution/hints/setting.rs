//! What is known around a cell that has failed.

use crate::execution::LostName;
use crate::tools::{Grant, ToolSpec};

/// The names that were lost with earlier kernels of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    names: Vec<LostName>,
    /// How the latest was lost, as in `timeout 1 s`.
    how: String,
}

/// Names that are remembered.
const REMEMBERED: usize = 1_000;

impl Gone {
    /// A kernel with these variables is gone, as in `timeout 1 s`. One that held nothing makes nothing
    /// forgotten.
    pub fn add(&mut self, names: impl IntoIterator<Item = LostName>, how: &str) {
        let mut added = 0;
        for name in names {
            self.names.retain(|it| it.name != name.name);
            self.names.push(name);
            added += 1;
        }
        if added > 0 {
            how.clone_into(&mut self.how);
        }
        let excess = self.names.len().saturating_sub(REMEMBERED);
        self.names.drain(..excess);
    }

    /// Whether a name is among them; its type, and how it was lost.
    pub(super) fn find(&self, name: &str) -> Option<(&str, &str)> {
        let found = self.names.iter().rev().find(|it| it.name == name)?;
        Some((&found.kind, &self.how))
    }
}

/// What is known around a cell, for a hint.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// Its source.
    pub code: &'a str,
    /// The kernelspec of its kernel, if that is not ours.
    pub foreign: Option<&'a str>,
    /// The tools that there are.
    pub tools: &'a [&'static ToolSpec],
    /// Which of them it may call.
    pub grant: &'a Grant,
    /// Why the kernel does not see a variable of its caller's, if it was taken out: a clause such as
    /// `its name speaks of a secret`.
    pub dropped: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// What earlier kernels of the session have held.
    pub gone: &'a Gone,
    /// Whether the cell is interrupted in place when its time is up.
    pub is_interrupted_in_place: bool,
}

impl std::fmt::Debug for Setting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setting")
            .field("foreign", &self.foreign)
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}

/// Helpers that stand beside the tools.
pub(super) const HELPERS: [&str; 3] = ["json_parse", "retry", "shell_quote"];

/// Tools that other systems of this kind have, or this one will have.
const OTHER_TOOLS: &[&str] = &[
    "patch",
    "read_file",
    "search_files",
    "terminal",
    "web_extract",
    "web_search",
    "write_file",
];

impl<'a> Setting<'a> {
    /// Nothing is known but the code.
    pub fn of(code: &'a str) -> Self {
        static NOTHING: Gone = Gone {
            names: Vec::new(),
            how: String::new(),
        };
        Self {
            code,
            foreign: None,
            tools: &[],
            grant: &Grant::All,
            dropped: &|_| None,
            gone: &NOTHING,
            is_interrupted_in_place: false,
        }
    }

    /// A tool by name.
    pub(super) fn tool(&self, name: &str) -> Option<&'static ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name).copied()
    }

    /// Whether a name is that of a tool or helper, of one that is there.
    pub(super) fn is_ours(&self, name: &str) -> bool {
        HELPERS.contains(&name) || self.tool(name).is_some()
    }

    /// Whether a name is that of a tool that is not there.
    pub(super) fn is_tool_elsewhere(&self, name: &str) -> bool {
        OTHER_TOOLS.contains(&name) && self.tool(name).is_none()
    }

    /// The tools that may be called, and the helpers, in words.
    pub(super) fn callable(&self) -> String {
        let tools = self.tools.iter().map(|tool| tool.name);
        let granted = tools.filter(|name| self.grant.allows(name));
        granted.chain(HELPERS).collect::<Vec<_>>().join(", ")
    }

    /// Where a command can be run: the tool for it, if there is one and the cell may call it.
    pub(super) fn shell(&self) -> &'static str {
        if self.tool("terminal").is_some() && self.grant.allows("terminal") {
            "with terminal()"
        } else {
            "in a shell"
        }
    }

    /// Whether the code calls a tool by name.
    pub(super) fn calls_a_tool(&self) -> bool {
        let calls = |tool: &ToolSpec| {
            let mut rest = self.code;
            while let Some((before, after)) = rest.split_once(tool.name) {
                let is_whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
                if is_whole && after.trim_start().starts_with('(') {
                    return true;
                }
                rest = after;
            }
            false
        };
        self.tools.iter().any(|tool| calls(tool))
    }
}
