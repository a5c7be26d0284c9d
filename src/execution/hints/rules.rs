//! The table of known mistakes, in the order in which it is tried.

use super::failure::{End, Exception};
use super::setting::Setting;
use super::{modules, names, running, syntax, values};
use crate::execution::ended::MORE_TIME;
use crate::execution::{CellRun, ErrorClass, How, Status, Stop};
use crate::jupyter::{MissingModule, ReplyStatus};
use crate::tools::ToolUse;

/// The longest hint, in characters: what a cell names goes into it.
const MOST_CHARS: usize = 600;
/// How the advice begins that a kernel gives to who has written IPython.
const MAGICS: &str = "[this is IPython, not Python: ";

/// What to do about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::execution) struct Hint {
    /// A sentence without its full stop.
    pub(in crate::execution) text: String,
    /// Whether `output` says it already.
    pub(in crate::execution) told: Told,
}

/// What `output` says of a hint without its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::execution) enum Told {
    /// Nothing.
    No,
    /// The beginning of it, which is enough the first time.
    InShort,
    /// All.
    Whole,
}

/// One exception of a failure, with what is known around it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) exception: Exception<'a>,
    pub(super) setting: &'a Setting<'a>,
    /// What the kernel knows of a module that is missing.
    pub(super) missing: Option<&'a MissingModule>,
    /// The calls of the cell.
    pub(super) tools: &'a ToolUse,
    pub(super) class: Option<ErrorClass>,
}

impl Case<'_> {
    /// Whether results of tools may be what it is about.
    pub(super) fn has_to_do_with_tools(&self) -> bool {
        self.tools.made > 0 || self.setting.calls_a_tool()
    }
}

/// A known mistake: the hint, if this is one.
type Rule = fn(&Case<'_>) -> Option<String>;

/// The first that matches wins.
const RULES: &[Rule] = &[
    modules::missing,
    modules::wrong_tool,
    names::lost,
    names::ours,
    names::not_imported,
    names::not_python,
    names::dropped_variable,
    syntax::typographic,
    syntax::unterminated,
    syntax::escaped_twice,
    syntax::backslashes,
    values::failed_call,
    values::already_parsed,
    values::dict_for_text,
    values::text_for_dict,
    running::loop_runs,
    running::cannot_be_sent,
    running::too_many,
    running::memory,
    running::keyboard,
];

/// What to do about how a cell has ended, if that is a known mistake; `status`, `class` and the line of
/// its end as its result has them.
pub(in crate::execution) fn hint(
    run: &CellRun,
    status: Status,
    class: Option<ErrorClass>,
    line: Option<&str>,
    setting: &Setting<'_>,
) -> Option<Hint> {
    let new = |text: String| Hint {
        text: cut(&text),
        told: Told::No,
    };
    match &run.how {
        How::Stopped(Stop::Timeout, _) => Some(new(running::out_of_time(true, setting))),
        How::Lost(Stop::Timeout, _) => {
            // Where something is lost, the line that tells it says in short what to do.
            let is_told = line.is_some_and(|line| line.contains(MORE_TIME));
            Some(Hint {
                told: if is_told { Told::InShort } else { Told::No },
                ..new(running::out_of_time(false, setting))
            })
        }
        How::Replied(reply) if status == Status::Error && reply.status != ReplyStatus::Ok => {
            if class == Some(ErrorClass::Exit) {
                return None;
            }
            let end = End::of(reply);
            if let Some(told) = told_already(end.traceback()) {
                return Some(told);
            }
            let own = reply.warmcell.as_ref().and_then(|own| own.error.as_ref());
            let chain = end.chain();
            let found = chain.into_iter().find_map(|exception| {
                let case = Case {
                    exception,
                    setting,
                    missing: own.and_then(|error| error.missing.as_ref()),
                    tools: &run.tool_use,
                    class,
                };
                RULES.iter().find_map(|rule| rule(&case))
            })?;
            Some(new(found))
        }
        How::Died(death) => running::died(death, setting).map(new),
        _ => None,
    }
}

/// The advice that the kernel itself has put below the traceback.
fn told_already(traceback: &str) -> Option<Hint> {
    let last = traceback.lines().next_back()?;
    let advice = last.strip_prefix(MAGICS)?.strip_suffix(']')?;
    Some(Hint {
        text: cut(advice),
        told: Told::Whole,
    })
}

fn cut(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut kept: String = text.chars().take(MOST_CHARS).map(clean).collect();
    if kept.len() < text.len() && text.chars().count() > MOST_CHARS {
        kept.push_str("...");
    }
    kept
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
