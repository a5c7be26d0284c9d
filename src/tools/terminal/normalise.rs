//! Undoes what makes a command look different from what it is, before it is read.

use std::iter::Peekable;
use std::str::Chars;

use super::words::is_mark;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// The text with the characters that this module uses as marks made harmless; nothing else.
pub(super) fn without_marks(text: &str) -> String {
    text.chars()
        .map(|c| {
            if is_mark(c) {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

/// The text without terminal control sequences and NUL, with wide forms of ASCII folded.
///
/// This can hide text as well as uncover it, so it is looked at beside the original, not instead.
pub(super) fn normalised(text: &str) -> String {
    without_control_sequences(text)
        .chars()
        .filter(|&c| c != '\0')
        .map(|c| {
            if is_mark(c) {
                char::REPLACEMENT_CHARACTER
            } else {
                fold(c)
            }
        })
        .collect()
}

fn without_control_sequences(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    // The number of terminators that are left says whether a string sequence ends at all, so that
    // many unterminated ones do not each search the rest of the text.
    let mut terminators = text.matches(BELL).count() + text.matches("\u{1b}\\").count();
    while let Some(c) = rest.next() {
        match c {
            ESCAPE => match rest.next() {
                Some('[') => skip_control_sequence(&mut rest),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut rest, &mut terminators),
                Some('\\') => terminators = terminators.saturating_sub(1),
                Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
                    rest.next();
                }
                // Any other sequence is two characters long.
                Some(_) | None => {}
            },
            '\u{9b}' => skip_control_sequence(&mut rest),
            BELL => {
                terminators = terminators.saturating_sub(1);
                kept.push(c);
            }
            _ => kept.push(c),
        }
    }
    kept
}

/// Parameters and intermediates, then one final character.
fn skip_control_sequence(rest: &mut Peekable<Chars<'_>>) {
    while rest
        .next_if(|c| ('\u{20}'..='\u{3f}').contains(c))
        .is_some()
    {}
    rest.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
}

/// A string up to BEL or ESC `\`; kept if neither comes.
fn skip_string(rest: &mut Peekable<Chars<'_>>, terminators: &mut usize) {
    if *terminators == 0 {
        return;
    }
    while let Some(c) = rest.next() {
        if c == BELL || (c == ESCAPE && rest.next_if_eq(&'\\').is_some()) {
            *terminators -= 1;
            return;
        }
    }
}

/// The ASCII character that a wide or spacing variant stands for.
fn fold(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => u32::from(c)
            .checked_sub(0xfee0)
            .and_then(char::from_u32)
            .unwrap_or(c),
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            ' '
        }
        // Division and fraction slash; small forms of the characters that rules go by.
        '\u{2044}' | '\u{2215}' => '/',
        '\u{fe52}' => '.',
        '\u{fe54}' => ';',
        '\u{fe59}' => '(',
        '\u{fe5a}' => ')',
        '\u{fe60}' => '&',
        '\u{fe61}' => '*',
        '\u{fe63}' | '\u{2010}' | '\u{2011}' | '\u{2212}' => '-',
        '\u{fe69}' => '$',
        _ => c,
    }
}
