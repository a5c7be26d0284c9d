//! Words of a shell command, after quotes and expansions.

/// What `$HOME` and `${HOME}` become.
pub(super) const HOME: char = '\u{F0100}';
/// What an expansion becomes whose value cannot be known here.
pub(super) const UNKNOWN: char = '\u{F0101}';
/// [`UNKNOWN`] as a word.
pub(super) const UNKNOWN_WORD: &str = "\u{F0101}";
/// Added to a character that means something to the shell, when it was quoted and means itself.
const QUOTED: u32 = 0xF_0000;
/// Longer words are not brace-expanded.
const EXPANDABLE_LENGTH: usize = 4096;
/// At most so many words come from one.
const EXPANSIONS: usize = 64;

/// One word. Quotes are gone; what they protected is marked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// The text, with [`HOME`], [`UNKNOWN`] and quoted characters as marks.
    pub(super) text: String,
    /// Whether any part was quoted: then it is neither a reserved word nor a number of a stream.
    pub(super) quoted: bool,
}

impl Word {
    /// A word without quotes.
    pub(super) fn bare(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            quoted: false,
        }
    }

    /// Adds a character that means itself.
    pub(super) fn push_quoted(&mut self, c: char) {
        self.quoted = true;
        self.text.push(match c {
            '~' | '*' | '?' | '[' | ']' | '{' | '}' | ',' => {
                char::from_u32(QUOTED + u32::from(c)).unwrap_or(c)
            }
            _ => c,
        });
    }

    /// The text as the program gets it; expansions stay marks.
    pub(super) fn plain(&self) -> String {
        self.text
            .chars()
            .map(|c| match u32::from(c).checked_sub(QUOTED) {
                Some(code) if code < 0x80 => char::from_u32(code).unwrap_or(c),
                _ => c,
            })
            .collect()
    }

    /// Whether this is `NAME=value`, `NAME+=value` or `NAME[index]=value`.
    pub(super) fn is_assignment(&self) -> bool {
        let Some((name, _)) = self.text.split_once('=') else {
            return false;
        };
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = match name.split_once('[') {
            Some((name, index)) if index.ends_with(']') => name,
            Some(_) => return false,
            None => name,
        };
        is_name(name)
    }

    /// The words that `{a,b}` in this one stands for.
    pub(super) fn brace_expanded(self) -> Vec<Self> {
        if self.text.len() > EXPANDABLE_LENGTH || !self.text.contains('{') {
            return vec![self];
        }
        let mut open = vec![self.text];
        let mut done = Vec::new();
        while let Some(text) = open.pop() {
            let Some((before, choices, after)) = first_brace(&text) else {
                done.push(Self {
                    text,
                    quoted: self.quoted,
                });
                continue;
            };
            if open.len() + done.len() + choices.len() > EXPANSIONS {
                done.push(Self {
                    text,
                    quoted: self.quoted,
                });
                continue;
            }
            // The last is taken first, so that the order stays.
            open.extend(
                choices
                    .iter()
                    .rev()
                    .map(|choice| format!("{before}{choice}{after}")),
            );
        }
        done
    }
}

/// Splits at the first innermost `{a,b}`.
fn first_brace(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let mut searched = 0;
    while let Some(end) = text.get(searched..)?.find('}').map(|at| at + searched) {
        if let Some((before, inside)) = text.get(..end)?.rsplit_once('{')
            && inside.contains(',')
        {
            return Some((before, inside.split(',').collect(), text.get(end + 1..)?));
        }
        searched = end + 1;
    }
    None
}

/// Whether the character is one of the marks.
pub(super) fn is_mark(c: char) -> bool {
    (QUOTED..=u32::from(UNKNOWN)).contains(&u32::from(c))
}

/// Whether the text is a name of a shell variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A simple command and what it reads and writes.
#[derive(Debug, Clone, Default)]
pub(super) struct Command {
    /// Program and arguments, assignments first.
    pub(super) words: Vec<Word>,
    /// Files that its output is redirected to.
    pub(super) outputs: Vec<Word>,
    /// Text given with `<<<`.
    pub(super) here_strings: Vec<Word>,
    /// Heredocs, as positions in [`Script::heredocs`].
    pub(super) heredocs: Vec<usize>,
    /// Commands with the same number are one pipeline, in order.
    pub(super) pipeline: usize,
}

impl Command {
    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
            && self.outputs.is_empty()
            && self.here_strings.is_empty()
            && self.heredocs.is_empty()
    }
}

/// The text of a heredoc.
#[derive(Debug, Clone, Default)]
pub(super) struct Heredoc {
    /// The lines, without the delimiter.
    pub(super) body: String,
    /// Whether the shell expands it: its delimiter was not quoted.
    pub(super) expanded: bool,
}

/// A text that was read as shell commands.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// All simple commands, also those of substitutions and functions.
    pub(super) commands: Vec<Command>,
    /// Their heredocs.
    pub(super) heredocs: Vec<Heredoc>,
    /// A function starts itself twice over.
    pub(super) fork_bomb: bool,
    /// A quote, a substitution or a parenthesis is not closed.
    pub(super) unclosed: bool,
    /// Nested deeper than this reads.
    pub(super) too_deep: bool,
}
