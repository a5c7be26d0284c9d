//! Redirections and heredocs, as part of reading a script.

use super::script::Reader;
use super::words::Word;

/// What the next word is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirect {
    /// A file to read, or a stream: of no interest.
    Input,
    /// A file to write.
    Output,
    /// `<<<`
    HereString,
    /// `<<` and `<<-`: the delimiter.
    Heredoc { tabs: bool },
}

impl Redirect {
    pub(super) fn is_heredoc(self) -> bool {
        matches!(self, Self::Heredoc { .. })
    }
}

/// A heredoc whose lines come after the present one.
#[derive(Debug)]
pub(super) struct PendingHeredoc {
    position: usize,
    delimiter: String,
    /// Leading tabs are not part of it.
    tabs: bool,
}

impl Reader<'_> {
    /// Reads the operator that starts with `<` or `>`.
    pub(super) fn redirection(&mut self, first: char) {
        if first == '>' {
            if !self.skip(">") && !self.skip("|") {
                self.skip("&");
            }
            self.redirect(Redirect::Output);
        } else if self.skip("<<") {
            self.redirect(Redirect::HereString);
        } else if self.frame.arithmetic && self.skip("<") {
            self.end_word();
        } else if self.skip("<-") {
            self.redirect(Redirect::Heredoc { tabs: true });
        } else if self.skip("<") {
            self.redirect(Redirect::Heredoc { tabs: false });
        } else if self.skip(">") {
            self.redirect(Redirect::Output);
        } else {
            self.skip("&");
            self.redirect(Redirect::Input);
        }
    }

    /// The next word is the target.
    pub(super) fn redirect(&mut self, redirect: Redirect) {
        let is_stream = |word: &Word| {
            !word.quoted && !word.text.is_empty() && word.text.bytes().all(|b| b.is_ascii_digit())
        };
        if self.frame.word.as_ref().is_some_and(is_stream) {
            self.frame.word = None;
        }
        self.end_word();
        self.frame.redirect = Some(redirect);
    }

    /// The target of a redirection was read.
    pub(super) fn redirected(&mut self, redirect: Redirect, word: Word) {
        match redirect {
            Redirect::Input => {}
            Redirect::Output => self.frame.command.outputs.push(word),
            Redirect::HereString => self.frame.command.here_strings.push(word),
            Redirect::Heredoc { tabs } => {
                let position = self.add_heredoc(!word.quoted);
                let delimiter = word.plain();
                self.pending_heredocs.push(PendingHeredoc {
                    position,
                    delimiter,
                    tabs,
                });
            }
        }
    }

    /// Takes the lines of the heredocs that were announced on the line that just ended.
    pub(super) fn read_heredoc_bodies(&mut self) {
        for pending in std::mem::take(&mut self.pending_heredocs) {
            self.read_heredoc_body(&pending);
        }
    }

    fn read_heredoc_body(&mut self, pending: &PendingHeredoc) {
        let Some(heredoc) = self.script.heredocs.get_mut(pending.position) else {
            return;
        };
        let mut continued = false;
        while !self.rest.is_empty() {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            let text = if pending.tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if !continued && text == pending.delimiter {
                return;
            }
            heredoc.body.push_str(text);
            heredoc.body.push('\n');
            // A line that goes on with the next one does not end the text, unless it is verbatim.
            let backslashes = line.bytes().rev().take_while(|&byte| byte == b'\\').count();
            continued = heredoc.expanded && backslashes % 2 == 1;
        }
    }
}
