//! Reads a text as a shell would, as far as is needed to know which programs it runs.
//!
//! One pass with a stack of its own: neither the time nor the call stack grows with what the text
//! nests.

use std::mem;

use super::redirects::{PendingHeredoc, Redirect};
use super::words::{Command, Heredoc, Script, UNKNOWN, Word, is_name};

/// Nesting beyond this is not read.
const DEEPEST: usize = 200;
/// Words that are followed by a command.
const BEFORE_COMMANDS: [&str; 12] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "coproc", "fi", "done", "}",
];

/// Reads the text.
pub(super) fn read_script(text: &str) -> Script {
    Reader::new(text, Kind::Top).read()
}

/// Reads the text of a heredoc that the shell expands: only substitutions run.
pub(super) fn read_heredoc(text: &str) -> Script {
    Reader::new(text, Kind::HeredocText).read()
}

/// What a part of the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Top,
    HeredocText,
    /// `( )`
    Subshell,
    /// `$( )`
    Substitution,
    /// `<( )`, `>( )`
    Process,
    /// `NAME=( )`, and patterns such as `@( )`: words, no commands.
    List,
    /// Backquotes; inside other backquotes they are escaped.
    Backquote {
        escaped: bool,
    },
    /// `${ }`, perhaps in double quotes.
    Parameter {
        quoted: bool,
    },
}

/// A part of the text while it is read.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) command: Command,
    pub(super) word: Option<Word>,
    pipeline: usize,
    pub(super) redirect: Option<Redirect>,
    pub(super) in_quotes: bool,
    /// Inside `(( ))`: `<<` shifts.
    pub(super) arithmetic: bool,
    /// How many `case` are open, and whether a pattern comes next.
    pub(super) cases: usize,
    pub(super) case_pattern: bool,
    /// The program of the command before, if this one runs beside it.
    beside: Option<String>,
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Pipe,
    Background,
    Other,
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) rest: &'a str,
    pub(super) frame: Frame,
    pub(super) outer: Vec<Frame>,
    pub(super) backquotes: usize,
    pub(super) pending_heredocs: Vec<PendingHeredoc>,
    /// A function's name was read, its body comes next.
    pub(super) function: Option<String>,
    /// Open groups, with their names where they are bodies of functions.
    pub(super) groups: Vec<Option<String>>,
    pub(super) more_groups: usize,
    pipelines: usize,
    /// The word before was `$IFS`, and an empty `$9` or so may follow.
    pub(super) after_separator: bool,
    pub(super) script: Script,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, kind: Kind) -> Self {
        Self {
            rest: text,
            frame: Frame::new(kind, 0),
            outer: Vec::new(),
            backquotes: 0,
            pending_heredocs: Vec::new(),
            function: None,
            groups: Vec::new(),
            more_groups: 0,
            pipelines: 0,
            after_separator: false,
            script: Script::default(),
        }
    }

    fn read(mut self) -> Script {
        while !self.script.too_deep {
            let Some(c) = self.take() else { break };
            if self.frame.in_quotes {
                self.in_double_quotes(c);
            } else if let Kind::Parameter { quoted } = self.frame.kind {
                self.in_parameter(c, quoted);
            } else {
                self.in_commands(c);
            }
        }
        loop {
            let whole = matches!(self.frame.kind, Kind::Top | Kind::HeredocText);
            let quotes = self.frame.in_quotes && self.frame.kind != Kind::HeredocText;
            self.script.unclosed |= quotes || !whole;
            self.end_command(End::Other);
            if self.outer.is_empty() {
                return self.script;
            }
            self.close();
        }
    }

    pub(super) fn take(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let c = rest.next();
        self.rest = rest.as_str();
        c
    }

    /// Goes past the text if it comes next.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(super) fn word(&mut self) -> &mut Word {
        self.frame.word.get_or_insert_default()
    }

    fn in_commands(&mut self, c: char) {
        match c {
            '\\' => self.escaped(),
            '\'' => self.single_quoted(),
            '"' => {
                self.word().quoted = true;
                self.frame.in_quotes = true;
            }
            '$' => self.dollar(false),
            '`' => self.backquote(),
            '#' if self.frame.word.is_none() => self.comment(),
            ' ' | '\t' => self.end_word(),
            '\n' => {
                self.end_command(End::Other);
                self.read_heredoc_bodies();
            }
            ';' => {
                let next_case = self.skip(";&") || self.skip(";") || self.skip("&");
                self.end_command(End::Other);
                self.frame.case_pattern = next_case && self.frame.cases > 0;
            }
            '(' | ')' | '|' | '&' | '<' | '>' if self.in_test() => self.word().text.push(c),
            '|' if self.frame.case_pattern => self.end_word(),
            '|' if self.skip("|") => self.end_command(End::Other),
            '|' => {
                self.skip("&");
                self.end_command(End::Pipe);
            }
            '&' if self.skip("&") => self.end_command(End::Other),
            '&' if self.skip(">>") || self.skip(">") => self.redirect(Redirect::Output),
            '&' => self.end_command(End::Background),
            '(' => self.open_parenthesis(),
            ')' => self.close_parenthesis(),
            '<' | '>' if self.skip("(") => self.open(Kind::Process),
            '<' | '>' => self.redirection(c),
            _ => self.word().text.push(c),
        }
    }

    /// Inside `[[ ]]`, where operators compare and group.
    fn in_test(&self) -> bool {
        let command = &self.frame.command;
        let ends = |word: Option<&Word>| word.is_some_and(|word| word.text == "]]");
        command.words.first().is_some_and(|word| word.text == "[[")
            && !ends(command.words.last())
            && !ends(self.frame.word.as_ref())
    }

    fn comment(&mut self) {
        let in_backquotes = matches!(self.frame.kind, Kind::Backquote { .. });
        let end = self.rest.find(|c| c == '\n' || (in_backquotes && c == '`'));
        self.rest = end.and_then(|end| self.rest.get(end..)).unwrap_or_default();
    }

    pub(super) fn open(&mut self, kind: Kind) {
        if self.outer.len() >= DEEPEST {
            self.script.too_deep = true;
            return;
        }
        match kind {
            Kind::Subshell => self.open_group(),
            Kind::Backquote { .. } => self.backquotes += 1,
            _ => {}
        }
        self.pipelines += 1;
        let frame = Frame::new(kind, self.pipelines);
        self.outer.push(mem::replace(&mut self.frame, frame));
    }

    pub(super) fn close(&mut self) {
        let parameter = match self.frame.kind {
            Kind::Parameter { quoted } => Some((quoted, self.frame.word.take())),
            _ => None,
        };
        self.end_command(End::Other);
        let Some(outer) = self.outer.pop() else {
            return;
        };
        let inner = mem::replace(&mut self.frame, outer);
        match inner.kind {
            Kind::Subshell => self.close_group(),
            Kind::Backquote { .. } => self.backquotes = self.backquotes.saturating_sub(1),
            _ => {}
        }
        if let Some((quoted, word)) = parameter {
            let word = word.unwrap_or_default().text;
            let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let (name, operation) = end
                .and_then(|end| word.split_at_checked(end))
                .unwrap_or((&word, ""));
            let name = if is_name(name) { name } else { "" };
            self.expand(name, if name.is_empty() { "" } else { operation }, quoted);
        } else if inner.kind != Kind::Subshell {
            self.word().text.push(UNKNOWN);
        }
    }

    /// Ends the word that is being read, if any.
    pub(super) fn end_word(&mut self) {
        let Some(word) = self.frame.word.take() else {
            return;
        };
        self.after_separator = false;
        if let Some(redirect) = self.frame.redirect.take() {
            self.redirected(redirect, word);
            return;
        }
        if self.frame.kind == Kind::List {
            return;
        }
        for word in word.brace_expanded() {
            if self.frame.command.words.is_empty() && !word.quoted && self.reserved(&word.text) {
                continue;
            }
            self.frame.command.words.push(word);
        }
        let words = &self.frame.command.words;
        let starts_with = |name: &str| words.first().is_some_and(|first| first.text == name);
        if words.len() == 3 && starts_with("case") && words.last().is_some_and(|w| w.text == "in") {
            self.frame.command = Command::default();
            self.frame.cases += 1;
            self.frame.case_pattern = true;
        } else if words.len() == 2 && starts_with("function") {
            let command = mem::take(&mut self.frame.command);
            self.function = command.words.into_iter().nth(1).map(|name| name.text);
        }
    }

    /// Whether the word belongs to the syntax when a command could start; acts on it.
    fn reserved(&mut self, word: &str) -> bool {
        match word {
            "{" => self.open_group(),
            "esac" if self.frame.cases > 0 => {
                self.frame.cases -= 1;
                self.frame.case_pattern = false;
            }
            "}" => self.close_group(),
            _ => return BEFORE_COMMANDS.contains(&word),
        }
        true
    }

    /// Ends the command that is being read, if any.
    pub(super) fn end_command(&mut self, end: End) {
        self.end_word();
        self.frame.redirect = None;
        let mut command = mem::take(&mut self.frame.command);
        if command.is_empty() {
            // A line may end after `|`, and before a pattern.
            return;
        }
        let program = command.words.first().map(|word| word.text.as_str());
        if let Some(program) = program
            && self.frame.beside.as_deref() == Some(program)
            && self.groups.iter().flatten().any(|name| name == program)
        {
            self.script.fork_bomb = true;
        }
        self.frame.beside = program.filter(|_| end != End::Other).map(str::to_owned);
        self.frame.case_pattern = false;
        command.pipeline = self.frame.pipeline;
        if end != End::Pipe {
            self.pipelines += 1;
            self.frame.pipeline = self.pipelines;
        }
        if !matches!(
            self.frame.kind,
            Kind::List | Kind::HeredocText | Kind::Parameter { .. }
        ) {
            self.script.commands.push(command);
        }
    }

    /// Registers a heredoc of the present command and returns its position.
    pub(super) fn add_heredoc(&mut self, expanded: bool) -> usize {
        let position = self.script.heredocs.len();
        self.script.heredocs.push(Heredoc {
            body: String::new(),
            expanded,
        });
        self.frame.command.heredocs.push(position);
        position
    }
}

impl Frame {
    fn new(kind: Kind, pipeline: usize) -> Self {
        Self {
            kind,
            command: Command::default(),
            pipeline,
            word: None,
            redirect: None,
            in_quotes: kind == Kind::HeredocText,
            arithmetic: false,
            cases: 0,
            case_pattern: false,
            beside: None,
        }
    }
}
