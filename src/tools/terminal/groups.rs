//! Parentheses, braces and the functions that they are bodies of, as part of reading a script.

use std::mem;

use super::script::{End, Kind, Reader};
use super::words::Command;

/// So many enclosing groups are remembered when a function is looked for.
const REMEMBERED_GROUPS: usize = 64;
impl Reader<'_> {
    pub(super) fn open_parenthesis(&mut self) {
        if self.frame.case_pattern {
            // The optional one before a pattern.
            return;
        }
        if self.rest.trim_start_matches([' ', '\t']).starts_with(')') && self.is_function_name() {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            self.skip(")");
            let word = self.frame.word.take();
            let command = mem::take(&mut self.frame.command);
            if let Some(name) = word.or_else(|| command.words.into_iter().next()) {
                self.function = Some(name.text);
            }
            return;
        }
        let at_start = self.frame.command.words.is_empty();
        if let Some(word) = &self.frame.word
            && (word.text.ends_with('=') && word.is_assignment()
                || word.text.ends_with(['@', '?', '*', '+'])
                || (word.text.ends_with('!') && !(at_start && word.text == "!")))
        {
            self.open(Kind::List);
            return;
        }
        self.end_command(End::Other);
        let arithmetic = self.frame.arithmetic || self.rest.starts_with('(');
        self.open(Kind::Subshell);
        self.frame.arithmetic = arithmetic;
    }

    /// Whether what stands before `()` can be the name of a function, or was one already.
    fn is_function_name(&self) -> bool {
        match (self.frame.command.words.len(), &self.frame.word) {
            (0, Some(word)) => !word.quoted && !word.text.ends_with('='),
            (1, None) => true,
            (1, Some(_)) => self
                .frame
                .command
                .words
                .first()
                .is_some_and(|word| word.text == "function"),
            (0, None) => self.function.is_some(),
            _ => false,
        }
    }

    pub(super) fn close_parenthesis(&mut self) {
        if self.frame.case_pattern {
            self.frame.case_pattern = false;
            self.frame.word = None;
            self.frame.command = Command::default();
            return;
        }
        match self.frame.kind {
            Kind::Subshell | Kind::Substitution | Kind::Process | Kind::List => self.close(),
            _ => self.end_command(End::Other),
        }
    }

    pub(super) fn open_group(&mut self) {
        let name = self.function.take();
        if self.groups.len() < REMEMBERED_GROUPS {
            self.groups.push(name);
        } else {
            self.more_groups += 1;
        }
    }

    pub(super) fn close_group(&mut self) {
        if self.more_groups > 0 {
            self.more_groups -= 1;
        } else {
            self.groups.pop();
        }
    }
}
