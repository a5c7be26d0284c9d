//! Looks behind programs that run other programs, and collects the scripts given to shells.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use super::hard_floor::{FloorRule, MALFORMED};
use super::rules::forbidden;
use super::words::{Command, Script, UNKNOWN_WORD, Word};
use super::wrappers::{
    WRAPPERS, Wrapper, asks_on_stdin, asks_what, env_split, joined, option_value, program_name,
};

/// One command may run another through so many programs.
const DEEPEST: usize = 64;

const SUDO_STDIN: FloorRule = FloorRule {
    name: "sudo-stdin",
    sentence: "sudo -S is never run: it takes a password from the command's input; a person must \
               run it",
};

/// A text that a command would have run.
#[derive(Debug)]
pub(super) enum Payload {
    /// By a shell.
    Script(String),
    /// The substitutions in it, while a shell expands it.
    Heredoc(String),
}

const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "fish"];

/// Looks at the commands of one script.
#[derive(Debug)]
pub(super) struct Inspection<'a> {
    script: &'a Script,
    user_home: Option<&'a Path>,
    /// For each pipeline, what its commands so far print that can be known.
    printed: HashMap<usize, String>,
    payloads: Vec<Payload>,
}

impl<'a> Inspection<'a> {
    pub(super) fn new(script: &'a Script, user_home: Option<&'a Path>) -> Self {
        Self {
            script,
            user_home,
            printed: HashMap::new(),
            payloads: Vec::new(),
        }
    }

    pub(super) fn into_payloads(self) -> Vec<Payload> {
        self.payloads
    }

    /// The rule that forbids the command; what it would have run is added to the payloads.
    pub(super) fn inspect(&mut self, command: &Command) -> Option<FloorRule> {
        let heredocs = command
            .heredocs
            .iter()
            .filter_map(|&at| self.script.heredocs.get(at));
        self.payloads.extend(
            heredocs
                .filter(|heredoc| heredoc.expanded && heredoc.body.contains(['$', '`']))
                .map(|heredoc| Payload::Heredoc(heredoc.body.clone())),
        );
        let mut open = vec![Cow::Borrowed(command.words.as_slice())];
        let mut seen = 0;
        while let Some(words) = open.pop() {
            seen += 1;
            if seen > DEEPEST {
                return Some(MALFORMED);
            }
            match words {
                Cow::Borrowed(words) => {
                    if let Some(rule) = self.program(command, words, &mut open) {
                        return Some(rule);
                    }
                }
                // Made by `xargs`: what it wraps is to outlive it.
                Cow::Owned(words) => {
                    let mut inner = Vec::new();
                    if let Some(rule) = self.program(command, &words, &mut inner) {
                        return Some(rule);
                    }
                    open.extend(
                        inner
                            .into_iter()
                            .map(|words| Cow::Owned(words.into_owned())),
                    );
                }
            }
        }
        None
    }

    fn program<'w>(
        &mut self,
        command: &Command,
        words: &'w [Word],
        open: &mut Vec<Cow<'w, [Word]>>,
    ) -> Option<FloorRule> {
        let syntax = ["{", "!", "if", "while", "until", "then", "do"];
        let start = words
            .iter()
            .position(|word| !word.is_assignment() && !syntax.contains(&word.text.as_str()))?;
        let (first, arguments) = words.get(start..)?.split_first()?;
        let name = program_name(&first.text);
        if name == "sudo" && asks_on_stdin(arguments) {
            return Some(SUDO_STDIN);
        }
        if SHELLS.contains(&name.as_str()) {
            self.shell(command, arguments);
        } else if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            self.wrapped(command, wrapper, arguments, open);
        } else {
            self.known(command, &name, arguments, open);
        }
        forbidden(&name, arguments, self.user_home)
    }

    fn known<'w>(
        &mut self,
        command: &Command,
        name: &str,
        arguments: &'w [Word],
        open: &mut Vec<Cow<'w, [Word]>>,
    ) {
        match name {
            "eval" => self.payloads.push(Payload::Script(joined(arguments))),
            "trap" => {
                if let Some(action) = arguments.iter().find(|word| word.text != "--")
                    && arguments.len() > 1
                {
                    self.payloads.push(Payload::Script(action.plain()));
                }
            }
            "su" => {
                let script = option_value(arguments, 'c', "--command");
                self.payloads.extend(script.map(Payload::Script));
            }
            "echo" | "printf" => self.print(command.pipeline, &printed_text(arguments)),
            "cat" | "tee" => {
                // What the pipe brings is there already and goes on.
                let text = self.given(command);
                self.print(command.pipeline, &text);
            }
            "find" => {
                for part in arguments.split(|word| matches!(word.text.as_str(), ";" | "+")) {
                    let action = |word: &Word| {
                        matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir")
                    };
                    if let Some(at) = part.iter().position(action) {
                        open.push(Cow::Borrowed(part.get(at + 1..).unwrap_or_default()));
                    }
                }
            }
            _ => {}
        }
    }

    fn wrapped<'w>(
        &mut self,
        command: &Command,
        wrapper: &Wrapper,
        arguments: &'w [Word],
        open: &mut Vec<Cow<'w, [Word]>>,
    ) {
        let rest = wrapper.after_options(arguments);
        match wrapper.name {
            // Only says what the name stands for.
            "command" if asks_what(arguments) => return,
            "env" => {
                if let Some(payload) = env_split(arguments) {
                    self.payloads.push(Payload::Script(payload));
                }
                // It takes names that the shell would not.
                let names = rest
                    .iter()
                    .take_while(|word| word.text.contains('='))
                    .count();
                open.push(Cow::Borrowed(rest.get(names..).unwrap_or_default()));
                return;
            }
            "xargs" => {
                let mut words = rest.to_vec();
                match self.printed.remove(&command.pipeline) {
                    Some(printed) => {
                        words.extend(printed.split_ascii_whitespace().map(Word::bare));
                    }
                    None => words.push(Word::bare(UNKNOWN_WORD)),
                }
                open.push(Cow::Owned(words));
                return;
            }
            _ => {}
        }
        open.push(Cow::Borrowed(rest));
    }

    /// A shell: its command string, or what it reads.
    fn shell(&mut self, command: &Command, arguments: &[Word]) {
        let mut commands = false;
        let mut operand = None;
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            match text.strip_prefix(['-', '+']) {
                Some("-") => {
                    operand = rest.next();
                    break;
                }
                Some("-rcfile" | "-init-file") => {
                    rest.next();
                }
                Some(long) if long.starts_with('-') => {}
                Some(letters) if !letters.is_empty() => {
                    commands |= text.starts_with('-') && letters.contains('c');
                    if letters.ends_with(['o', 'O']) {
                        rest.next();
                    }
                    if letters.contains('s') && !commands {
                        // What it reads is the script; operands are its arguments.
                        rest = [].iter();
                    }
                }
                _ => {
                    operand = Some(word);
                    break;
                }
            }
        }
        match operand {
            Some(script) if commands => self.payloads.push(Payload::Script(script.plain())),
            Some(file) if !matches!(file.text.as_str(), "-" | "/dev/stdin") => {}
            _ => {
                let text = self.input(command);
                self.payloads.push(Payload::Script(text));
            }
        }
    }

    /// What the command reads, as far as it is known: its heredocs, or what the pipe brings.
    fn input(&mut self, command: &Command) -> String {
        let mut text = self.printed.remove(&command.pipeline).unwrap_or_default();
        text.push_str(&self.given(command));
        text
    }

    /// The text that the command line itself gives the command to read.
    fn given(&self, command: &Command) -> String {
        let mut text = String::new();
        for heredoc in command
            .heredocs
            .iter()
            .filter_map(|&at| self.script.heredocs.get(at))
        {
            text.push_str(&heredoc.body);
        }
        for word in &command.here_strings {
            text.push_str(&word.plain());
            text.push('\n');
        }
        text
    }

    fn print(&mut self, pipeline: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        let printed = self.printed.entry(pipeline).or_default();
        printed.push_str(text);
        printed.push('\n');
    }
}

/// What `echo` or `printf` prints, about.
fn printed_text(arguments: &[Word]) -> String {
    let is_option = |word: &&Word| matches!(word.text.as_str(), "-n" | "-e" | "-E" | "-ne" | "-en");
    let words = arguments.iter().skip_while(is_option);
    let text: Vec<String> = words.map(Word::plain).collect();
    text.join(" ").replace("\\n", "\n").replace("\\t", "\t")
}
