//! Editors that would wait for a person's keys.
//!
//! A command has no terminal and its input is empty. Most programs see that and end or go on; those
//! of the vi family then take keys from stderr, which is a pipe that nothing ever comes out of, and
//! wait until the limit. It is better to say so at once. No wall: an editor that another program
//! starts is not seen (`EDITOR` and the like name one that ends).

use super::normalise::without_marks;
use super::script::read_script;
use super::words::Word;
use super::wrappers::{WRAPPERS, asks_what, program_name};

const EDITORS: [&str; 8] = [
    "vi", "vim", "view", "vimdiff", "rvim", "rview", "nvim", "vim.tiny",
];
/// Words that a command may follow.
const SYNTAX: [&str; 8] = ["{", "!", "if", "while", "until", "then", "else", "do"];

/// The editor that a command starts without saying what it is to do.
pub(super) fn waiting_editor(command: &str) -> Option<&'static str> {
    // Keys may come from another command or from a file.
    if command.contains(['|', '<']) {
        return None;
    }
    let script = read_script(&without_marks(command));
    script
        .commands
        .iter()
        .find_map(|command| editor(&command.words))
}

fn editor(mut words: &[Word]) -> Option<&'static str> {
    loop {
        let start = words
            .iter()
            .position(|word| !word.is_assignment() && !SYNTAX.contains(&word.text.as_str()))?;
        let (first, arguments) = words.get(start..)?.split_first()?;
        let name = program_name(&first.text);
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            if name == "command" && asks_what(arguments) {
                return None;
            }
            words = wrapper.after_options(arguments);
            continue;
        }
        let editor = EDITORS.iter().find(|editor| **editor == name)?;
        let has_commands = arguments
            .iter()
            .any(|word| word.text.starts_with(['-', '+']));
        return (!has_commands).then_some(*editor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_editor_that_is_given_nothing_to_do_is_named() {
        for (command, name) in [
            ("vim", "vim"),
            ("vi notes.txt", "vi"),
            ("/usr/bin/vim a b", "vim"),
            ("cd x && vim f", "vim"),
            ("EDITOR=x LANG=C view f", "view"),
            ("sudo -u me vim /etc/fstab", "vim"),
            ("env A=b nvim f; echo done", "nvim"),
            ("if true; then vim f; fi", "vim"),
            ("vim f > /dev/null 2>&1 &", "vim"),
            ("timeout 5 vim f", "vim"),
        ] {
            assert_eq!(waiting_editor(command), Some(name), "{command}");
        }
        for command in [
            "vim --version",
            "vim -es -c '%s/a/b/' -c wq f",
            "vim +PlugInstall +qall",
            "vim -c q f",
            "vim f < keys",
            "printf ':q\\n' | vim f",
            "echo vim",
            "which vim",
            "command -v vim",
            "apt-get install vim",
            "grep vim f",
            "./vim f",
            "less f",
            "",
        ] {
            assert_eq!(waiting_editor(command), None, "{command}");
        }
    }
}
