//! Code that is no Python for a reason that everybody meets.

use super::rules::Case;

/// The one piece of advice for text that breaks the code around it.
const PAYLOAD: &str =
    "text that holds quotes goes into a triple-quoted string (r'''...''') or a file";

/// Signs that are typed by word processors and keyboards of other scripts: what they are called, and what
/// Python has instead.
const TYPOGRAPHIC: &[(&str, &str, &str)] = &[
    (
        "\u{201c}\u{201d}\u{201e}\u{201f}\u{ab}\u{bb}\u{2033}\u{ff02}",
        "a typographic quote",
        "write \"",
    ),
    (
        "\u{2018}\u{2019}\u{201a}\u{201b}\u{2032}\u{b4}\u{ff07}",
        "a typographic quote",
        "write '",
    ),
    (
        "\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2212}\u{ff0d}",
        "no minus sign of Python's",
        "write -",
    ),
    ("\u{d7}\u{2217}\u{ff0a}", "no sign of Python's", "write *"),
    ("\u{f7}\u{2215}\u{ff0f}", "no sign of Python's", "write /"),
    ("\u{2026}", "one sign", "write ..."),
    ("\u{2264}", "no sign of Python's", "write <="),
    ("\u{2265}", "no sign of Python's", "write >="),
    ("\u{2260}", "no sign of Python's", "write !="),
    ("\u{2192}", "no sign of Python's", "write ->"),
    ("\u{ff08}", "a wide bracket", "write ("),
    ("\u{ff09}", "a wide bracket", "write )"),
    ("\u{3010}\u{ff3b}", "a wide bracket", "write ["),
    ("\u{3011}\u{ff3d}", "a wide bracket", "write ]"),
    ("\u{ff0c}\u{3001}", "a wide comma", "write ,"),
    ("\u{ff1a}", "a wide colon", "write :"),
    ("\u{ff1b}", "a wide semicolon", "write ;"),
    ("\u{ff1d}", "a wide sign", "write ="),
    (
        "\u{a0}\u{2002}\u{2003}\u{2007}\u{2009}\u{202f}\u{3000}",
        "a space that is none of Python's",
        "write a plain space",
    ),
    (
        "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}",
        "not visible",
        "take it out",
    ),
];

fn text<'a>(case: &Case<'a>) -> Option<&'a str> {
    let exception = case.exception;
    exception.is(&["SyntaxError"]).then_some(exception.text)
}

/// A typographic sign where one of Python's was meant.
pub(super) fn typographic(case: &Case<'_>) -> Option<String> {
    let text = text(case)?;
    let sign = if let Some((_, code)) = text.split_once("U+") {
        // 3.9 and newer say which it is.
        if !text.starts_with("invalid character") && !text.starts_with("invalid non-printable") {
            return None;
        }
        let digits: String = code.chars().take_while(char::is_ascii_hexdigit).collect();
        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
    } else if text.starts_with("invalid character in identifier")
        || text.starts_with("invalid decimal literal")
    {
        case.setting
            .code
            .chars()
            .find(|sign| instead_of(*sign).is_some())?
    } else {
        return None;
    };
    let (what, instead) = instead_of(sign)?;
    let shown = if sign.is_whitespace()
        || "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}".contains(sign)
    {
        String::new()
    } else {
        format!("{sign} ")
    };
    let more = if what.ends_with("quote") {
        format!("; {PAYLOAD}")
    } else {
        String::new()
    };
    Some(format!(
        "{shown}(U+{:04X}) is {what}: {instead} instead{more}",
        u32::from(sign)
    ))
}

fn instead_of(sign: char) -> Option<(&'static str, &'static str)> {
    let found = TYPOGRAPHIC
        .iter()
        .find(|(signs, ..)| signs.contains(sign))?;
    Some((found.1, found.2))
}

/// A string that does not end where it was to.
pub(super) fn unterminated(case: &Case<'_>) -> Option<String> {
    let text = text(case)?;
    // 3.8 and 3.9; then newer ones, strings of every kind.
    let is_one = text.starts_with("EOL while scanning string literal")
        || text.starts_with("EOF while scanning triple-quoted string literal")
        || (text.starts_with("unterminated ") && text.contains("string literal"))
        // 3.8 and 3.9 may see the rest of the line first.
        || (text == "invalid syntax" && has_apostrophe(source_line(case.exception.above)));
    if !is_one {
        return None;
    }
    Some(if text.contains("triple-quoted") {
        format!(
            "a triple-quoted string has no end: the text may hold the same three quotes, or the code was \
             cut off; {PAYLOAD}"
        )
    } else {
        format!(
            "a string ends before its closing quote, at a line end or a quote inside it; {PAYLOAD}"
        )
    })
}

/// The line of the code that is shown above where the error is told.
fn source_line(traceback: &str) -> &str {
    let is_source = |line: &&str| {
        let is_caret = line.chars().all(|sign| matches!(sign, ' ' | '^' | '~'));
        !is_caret && !line.starts_with("SyntaxError")
    };
    traceback.lines().rev().find(is_source).unwrap_or_default()
}

/// Whether a quote stands within a word, as in `it's`: not one that begins a string of a kind (`f'x'`).
fn has_apostrophe(line: &str) -> bool {
    const KINDS: &[&str] = &["b", "br", "f", "fr", "r", "rb", "rf", "u"];
    line.match_indices('\'').any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let begins = before
            .rfind(|sign: char| !sign.is_alphanumeric())
            .map_or(0, |at| at + 1);
        let word = before
            .get(begins..)
            .unwrap_or_default()
            .to_ascii_lowercase();
        let goes_on = rest.chars().nth(1).is_some_and(char::is_alphabetic);
        goes_on && !word.is_empty() && !KINDS.contains(&word.as_str())
    })
}

/// Line ends that came as backslash and n.
pub(super) fn escaped_twice(case: &Case<'_>) -> Option<String> {
    let is_one = text(case)?.starts_with("unexpected character after line continuation character");
    let code = case.setting.code;
    (is_one && (code.contains("\\n") || code.contains("\\t") || code.contains("\\\""))).then(|| {
        "the code holds \\n, \\t or \\\" as two characters outside of strings: it was escaped once too \
         often on its way; hand it over with real line ends and quotes"
            .to_owned()
    })
}

/// A path of Windows, or a regular expression, in an ordinary string.
pub(super) fn backslashes(case: &Case<'_>) -> Option<String> {
    text(case)?.starts_with("(unicode error) 'unicodeescape' codec").then(|| {
        "a backslash in a string begins an escape: write r'...' for paths and patterns, or use / in \
         paths"
            .to_owned()
    })
}
