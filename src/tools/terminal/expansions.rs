//! Quotes, variables and substitutions, as part of reading a script.

use super::script::{Kind, Reader};
use super::words::{HOME, UNKNOWN, is_mark};

impl Reader<'_> {
    pub(super) fn in_double_quotes(&mut self, c: char) {
        match c {
            '"' if self.frame.kind != Kind::HeredocText => self.frame.in_quotes = false,
            '$' => self.dollar(true),
            '`' => self.backquote(),
            '\\' => match self.rest.chars().next() {
                Some('\n') => {
                    self.take();
                }
                Some('`') if self.backquotes > 0 => {
                    self.take();
                    self.inner_backquote();
                }
                Some(next @ ('$' | '"' | '\\' | '`')) => {
                    self.take();
                    self.word().push_quoted(next);
                }
                _ => self.word().push_quoted('\\'),
            },
            _ => self.word().push_quoted(c),
        }
    }

    pub(super) fn in_parameter(&mut self, c: char, quoted: bool) {
        match c {
            '}' => self.close(),
            '\\' => self.escaped(),
            '\'' if !quoted => self.single_quoted(),
            '"' => self.frame.in_quotes = true,
            '$' => self.dollar(quoted),
            '`' => self.backquote(),
            _ if quoted => self.word().push_quoted(c),
            _ => self.word().text.push(c),
        }
    }

    pub(super) fn escaped(&mut self) {
        match self.take() {
            Some('\n') => {}
            Some('`') if self.backquotes > 0 => self.inner_backquote(),
            Some(c) => self.word().push_quoted(c),
            None => self.word().push_quoted('\\'),
        }
    }

    pub(super) fn single_quoted(&mut self) {
        // Backquotes end at the next one, whatever quotes are open in between.
        let end = if self.backquotes > 0 {
            self.rest.find(['\'', '`'])
        } else {
            self.rest.find('\'')
        };
        let (text, rest) = end
            .and_then(|end| self.rest.split_at_checked(end))
            .unwrap_or((self.rest, ""));
        let word = self.word();
        word.quoted = true;
        text.chars().for_each(|c| word.push_quoted(c));
        self.rest = rest;
        if !self.skip("'") {
            self.script.unclosed = true;
        }
    }

    pub(super) fn dollar(&mut self, quoted: bool) {
        if self
            .frame
            .redirect
            .as_ref()
            .is_some_and(|redirect| redirect.is_heredoc())
        {
            // A delimiter is not expanded.
            self.word().text.push('$');
            return;
        }
        if self.skip("(") {
            self.open(Kind::Substitution);
            self.frame.arithmetic = self.rest.starts_with('(');
        } else if self.skip("{") {
            self.open(Kind::Parameter { quoted });
        } else if !quoted && self.skip("'") {
            self.ansi_c_quoted();
        } else if !quoted && self.rest.starts_with('"') {
            // A translated string: the same as one without the dollar here.
        } else if self
            .rest
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            let end = self
                .rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let (name, rest) = end
                .and_then(|end| self.rest.split_at_checked(end))
                .unwrap_or((self.rest, ""));
            self.rest = rest;
            self.expand(name, "", quoted);
        } else if self
            .rest
            .starts_with(|c: char| c.is_ascii_digit() || "@*#?$!-".contains(c))
        {
            self.take();
            if !(self.after_separator && self.frame.word.is_none()) {
                self.word().text.push(UNKNOWN);
            }
        } else {
            self.word().push_quoted('$');
        }
    }

    /// Adds the value of a variable, as far as it is known; `operation` is what follows its name
    /// in braces.
    pub(super) fn expand(&mut self, name: &str, operation: &str, quoted: bool) {
        let inside = matches!(self.frame.kind, Kind::Parameter { .. });
        if name == "IFS" && !quoted {
            if inside {
                self.word().text.push(' ');
            } else {
                self.end_word();
                self.after_separator = true;
            }
            return;
        }
        let default = operation
            .strip_prefix(':')
            .unwrap_or(operation)
            .strip_prefix(['-', '=', '+']);
        let same = operation.is_empty()
            || (operation.starts_with([':', '-', '=', '?']) && !operation.starts_with(":+"));
        if name == "HOME" && (same || operation == "%/" || operation == "%%/") {
            self.word().text.push(HOME);
        } else if let Some(default) = default {
            for c in default.chars() {
                if c.is_ascii_whitespace() && !quoted && !inside {
                    self.end_word();
                } else {
                    self.word().text.push(c);
                }
            }
        } else {
            self.word().text.push(UNKNOWN);
        }
    }

    fn ansi_c_quoted(&mut self) {
        self.word().quoted = true;
        loop {
            let c = match self.take() {
                None => {
                    self.script.unclosed = true;
                    return;
                }
                Some('\'') => return,
                Some('\\') => match self.take() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('x') => self.code(16, 2),
                    Some('u') => self.code(16, 4),
                    Some('U') => self.code(16, 8),
                    Some(c) if c.is_digit(8) => {
                        // The digit is part of the number.
                        let first = c.to_digit(8).unwrap_or_default();
                        self.code_from(first, 8, 2)
                    }
                    Some(c) => c,
                    None => '\\',
                },
                Some(c) => c,
            };
            self.word().push_quoted(c);
        }
    }

    fn code(&mut self, radix: u32, digits: usize) -> char {
        self.code_from(0, radix, digits)
    }

    fn code_from(&mut self, first: u32, radix: u32, digits: usize) -> char {
        let mut code = first;
        for _ in 0..digits {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(radix)) else {
                break;
            };
            self.take();
            code = code.saturating_mul(radix).saturating_add(digit);
        }
        char::from_u32(code)
            .filter(|&c| !is_mark(c))
            .unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    pub(super) fn backquote(&mut self) {
        if self
            .frame
            .redirect
            .as_ref()
            .is_some_and(|redirect| redirect.is_heredoc())
        {
            self.word().text.push('`');
        } else {
            self.toggle_backquote(false);
        }
    }

    fn inner_backquote(&mut self) {
        self.toggle_backquote(true);
    }

    /// Opens backquotes, or closes them with all that is open inside.
    fn toggle_backquote(&mut self, escaped: bool) {
        let kind = Kind::Backquote { escaped };
        let is_open = self.backquotes > 0
            && (self.frame.kind == kind || self.outer.iter().any(|frame| frame.kind == kind));
        if !is_open {
            self.open(kind);
            return;
        }
        loop {
            let found = self.frame.kind == kind;
            self.close();
            if found {
                return;
            }
        }
    }
}
