//! `<home>/.env`: the keys of providers. What stands there is a secret, whatever its name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The most bytes of it that are read.
const MOST_BYTES: u64 = 1 << 20;

/// The variables (name, value) of a home's `.env`, those that can be read; none where there is no such
/// file. Nothing is expanded and nothing is looked up elsewhere: values are as they were written,
/// without their quotes.
///
/// Blocks on the file system.
pub fn secrets_file(home: &Path) -> Vec<(String, String)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Ok(file) = rustix::fs::open(home.join(".env"), flags, Mode::empty()) else {
        return Vec::new();
    };
    let file = File::from(file);
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Vec::new();
    }
    let mut text = Vec::new();
    // Half of it is better than nothing.
    file.take(MOST_BYTES).read_to_end(&mut text).ok();
    parse(&String::from_utf8_lossy(&text))
}

fn parse(text: &str) -> Vec<(String, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (name, value) = (name.trim().to_owned(), value.trim());
        let quote = value.chars().next().filter(|it| matches!(it, '"' | '\''));
        let value = match quote {
            // It may go on over lines, as keys in PEM do.
            Some(quote) if !value.get(1..).is_some_and(|it| it.contains(quote)) => {
                match after.split_once(quote) {
                    Some((lines, after)) => {
                        rest = after.split_once('\n').map_or("", |(_, after)| after);
                        format!("{}\n{lines}", value.get(1..).unwrap_or_default())
                    }
                    None => value.to_owned(),
                }
            }
            Some(quote) => {
                let inside = value.get(1..).unwrap_or_default();
                inside.split(quote).next().unwrap_or_default().to_owned()
            }
            None => {
                let value = value.split(" #").next().unwrap_or_default();
                value.trim_end().to_owned()
            }
        };
        if !name.is_empty() && !value.is_empty() {
            variables.push((name, value));
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_found_however_they_are_written() {
        let text = "\u{feff}# A=1\nA=one\n export B = \"two # 2\" # two\r\nC='three'\nD=four # 4\nE=\nno\n=x\n\
            F=\"first\nsecond\"\nG=a=b\nH=\"open\n";
        let expected = [
            ("A", "one"),
            ("B", "two # 2"),
            ("C", "three"),
            ("D", "four"),
            ("F", "first\nsecond"),
            ("G", "a=b"),
            ("H", "\"open"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse(text), expected);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(secrets_file(folder.path()), []);
        std::fs::write(folder.path().join(".env"), b"K=\xff\n").unwrap();
        assert_eq!(secrets_file(folder.path()).len(), 1);
    }

    proptest! {
        #[test]
        fn nothing_is_too_much(text in "([A-Z]=|['\"#= \r]|\n|export |é|x){0,60}") {
            drop(parse(&text));
        }
    }
}
