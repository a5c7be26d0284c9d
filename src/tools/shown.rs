//! Names and paths in sentences: as they were given, and never longer than a reader wants.

use std::borrow::Cow;
use std::path::Path;

/// What is longer is cut.
const LONGEST: usize = 200;
/// So many characters of each end are kept then: the end of a path tells more than its beginning.
const HEAD: usize = 60;
const TAIL: usize = 100;

/// A text for a sentence; of a long one the head and the tail.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= LONGEST {
        return Cow::Borrowed(text);
    }
    let head: String = text.chars().take(HEAD).collect();
    let tail: String = text.chars().skip(count - TAIL).collect();
    let left_out = count - HEAD - TAIL;
    Cow::Owned(format!("{head}[... {left_out} characters ...]{tail}"))
}

/// A path for a sentence.
pub(super) fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy()).into_owned()
}

/// A path as the caller wrote it, with the file it stands for where that is not the same. A long one
/// is named once.
pub(super) fn named(given: &str, path: &Path) -> String {
    match other_name(given, path) {
        Some(other) => format!("'{}' ({other})", shown(given)),
        None => format!("'{}'", shown(given)),
    }
}

/// The name of the file that a path stands for, where it says more than the path.
pub(super) fn other_name(given: &str, path: &Path) -> Option<String> {
    (!is_long(given) && Path::new(given) != path).then(|| shown_path(path))
}

/// Whether a text is cut in sentences.
pub(super) fn is_long(text: &str) -> bool {
    text.chars().count() > LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends_and_says_how_much_is_left_out() {
        assert_eq!(shown("short"), "short");
        let most = "é".repeat(LONGEST);
        assert_eq!(shown(&most), most);
        let long = format!("/start/{}/end.txt", "é".repeat(6_000));
        let cut = shown(&long);
        assert!(
            cut.starts_with("/start/é") && cut.ends_with("é/end.txt"),
            "{cut}"
        );
        assert!(cut.contains("[... 5855 characters ...]"), "{cut}");
        assert!(cut.chars().count() < LONGEST);
    }

    #[test]
    fn a_file_is_named_by_both_names_only_where_that_helps() {
        assert_eq!(named("a", Path::new("/w/a")), "'a' (/w/a)");
        assert_eq!(named("/w/a", Path::new("/w/a")), "'/w/a'");
        let long = "a".repeat(6_000);
        let both = named(&long, &Path::new("/w").join(&long));
        assert_eq!(both.matches("[...").count(), 1, "{both}");
        let target = named("a", &Path::new("/w").join(&long));
        assert!(target.len() < 300, "{target}");
    }
}
