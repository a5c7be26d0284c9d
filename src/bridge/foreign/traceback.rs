//! Where a cell has failed, out of what its kernel shows to people.

/// Bytes of a traceback that are passed on: the first 40 % and the last 60 %.
const MOST_BYTES: usize = 50_000;

/// The text without what only a terminal understands.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = if let Some(parameters) = sequence.strip_prefix('[') {
            // Parameters, then one letter or sign that ends it.
            let end = parameters.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c));
            end.map_or("", |end| parameters.split_at(end + 1).1)
        } else {
            let mut characters = sequence.chars();
            characters.next();
            characters.as_str()
        };
    }
    plain.push_str(rest);
    plain
}

/// Within so many bytes a secret has its end.
const LONGEST_SECRET: usize = 8_192;

/// The text within a limit: the first 40 % and the last 60 %, a notice between.
pub(super) fn cut(text: &str) -> String {
    if text.len() <= MOST_BYTES {
        return text.to_owned();
    }
    let mut first = MOST_BYTES * 4 / 10;
    while !text.is_char_boundary(first) {
        first -= 1;
    }
    let mut last = text.len() - MOST_BYTES * 6 / 10;
    while !text.is_char_boundary(last) {
        last += 1;
    }
    let head = to_a_word(text.split_at(first).0);
    let tail = from_a_word(text.split_at(last).1);
    let omitted = text.len() - head.len() - tail.len();
    format!(
        "{head}\n... [{omitted} bytes omitted out of {}] ...\n{tail}",
        text.len()
    )
}

/// Without the word, or the key in its armour, at its end: secrets are looked for in both parts, so none is
/// to be cut in two. As our own kernels do (`python/link.py`).
fn to_a_word(head: &str) -> &str {
    let near = head.len().saturating_sub(LONGEST_SECRET);
    let begin = head.rfind("-----BEGIN ").filter(|at| *at >= near);
    if let Some(begin) = begin
        && !head.split_at(begin).1.contains("-----END ")
    {
        return head.split_at(begin).0;
    }
    match head.rfind([' ', '\n']).filter(|at| *at >= near) {
        Some(space) => head.split_at(space + 1).0,
        None => head,
    }
}

/// Without the rest of a word, or of a key, at its beginning.
fn from_a_word(tail: &str) -> &str {
    let end = tail.find("-----END ").filter(|at| *at < LONGEST_SECRET);
    if let Some(end) = end
        && !tail.split_at(end).0.contains("-----BEGIN ")
    {
        let rest = tail.split_at(end + "-----END ".len()).1;
        let close = rest.find("-----").filter(|at| *at < 200);
        return close.map_or(rest, |close| rest.split_at(close + 5).1);
    }
    match tail.find([' ', '\n']).filter(|at| *at < LONGEST_SECRET) {
        Some(space) => tail.split_at(space).1,
        None => tail,
    }
}

/// The innermost line of a cell in a traceback of IPython's, as in `<cell 3>, line 2`.
pub(super) fn place(traceback: &str) -> Option<String> {
    traceback.lines().rev().find_map(|line| {
        let (number, rest) = cell_of(line.trim_start())?;
        let at = rest.split_once("line ")?.1;
        let line: String = at.chars().take_while(char::is_ascii_digit).collect();
        (!line.is_empty()).then(|| format!("<cell {number}>, line {line}"))
    })
}

/// `Cell In[3], line 2`, `Input In [3], in <cell line: 2>()`, `File <ipython-input-3-...>, line 2`.
fn cell_of(line: &str) -> Option<(u64, &str)> {
    for beginning in [
        "Cell In[",
        "Cell In [",
        "Input In [",
        "Input In[",
        "File <ipython-input-",
    ] {
        if let Some(rest) = line.strip_prefix(beginning) {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let (number, rest) = rest.split_at(end);
            return Some((number.parse().ok()?, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_terminal_understands_is_taken_out() {
        for (text, expected) in [
            ("plain é", "plain é"),
            ("\u{1b}[31mNameError\u{1b}[39m: x", "NameError: x"),
            ("\u{1b}[1;38;5;12mé\u{1b}[0m", "é"),
            ("\u{1b}[31", ""),
            ("a\u{1b}", "a"),
            ("a\u{1b}cb", "ab"),
            ("\u{1b}éb", "b"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn the_place_is_the_innermost_line_of_a_cell() {
        for (traceback, expected) in [
            ("Cell In[2], line 1\n----> 1 1/0", Some("<cell 2>, line 1")),
            (
                "Cell In[3], line 1\n----> 1 f()\n\nCell In[1], line 2, in f()\n      1 def f():\n",
                Some("<cell 1>, line 2"),
            ),
            ("  Cell In[4], line 7\n    x =\n", Some("<cell 4>, line 7")),
            ("Input In [5], in <cell line: 12>()", None),
            (
                "  File <ipython-input-6-ab>, line 3",
                Some("<cell 6>, line 3"),
            ),
            ("Cell In[999999999999999999999999], line 1", None),
            ("Cell In[1], line x", None),
            ("File /x.py:3, in f()", None),
            ("", None),
        ] {
            assert_eq!(place(traceback).as_deref(), expected, "{traceback}");
        }
    }

    #[test]
    fn a_long_traceback_keeps_its_ends() {
        assert_eq!(cut("é"), "é");
        let long = format!("begin{}end", "é".repeat(60_000));
        let cut = cut(&long);
        assert!(cut.starts_with("begin") && cut.ends_with("end"));
        assert!(cut.len() < 50_200, "{}", cut.len());
        assert!(cut.contains("bytes omitted out of 120008"), "{}", cut.len());
    }
}
