//! Names of kept files. They bear a check, so that we know which are ours.

use sha2::{Digest, Sha256};

use crate::ids::random_hex;

/// Hex digits that tell files apart.
const ID_DIGITS: usize = 8;
/// Hex digits that say that the others are ours.
const CHECK_DIGITS: usize = 4;
/// The longest extension.
const EXTENSION: usize = 5;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptKind {
    /// All of a cell's stdout.
    Stdout,
    /// Something that a cell has shown; with the extension of its format, without the dot.
    Artifact(&'static str),
}

impl KeptKind {
    fn beginning(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Artifact(_) => "artifact",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Stdout => "txt",
            Self::Artifact(extension) => extension,
        }
    }
}

/// The name of a kept file: `stdout-` or `artifact-`, 12 hex digits, and an extension.
///
/// The last four digits follow from the others. Another program that writes files of such names, and
/// lets chance choose the digits, hits that once in 65,536 times; together with the mode that makes it
/// sure enough whose file it is, on any file system and after a manager that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptName(String);

impl KeptName {
    /// A name that nobody has.
    pub fn random(kind: KeptKind) -> Self {
        Self::with(kind, &random_hex(ID_DIGITS / 2))
    }

    /// The name of what has this digest: the same for the same.
    pub fn of_digest(kind: KeptKind, digest: &[u8]) -> Self {
        let digits: String = hexadecimal(digest).chars().take(ID_DIGITS).collect();
        Self::with(kind, &digits)
    }

    fn with(kind: KeptKind, id: &str) -> Self {
        let (beginning, extension) = (kind.beginning(), kind.extension());
        let check = check(beginning, id);
        Self(format!("{beginning}-{id}{check}.{extension}"))
    }

    /// Reads the name of a file; `None` if it is none of ours.
    pub fn parse(name: &str) -> Option<Self> {
        let (beginning, rest) = name.split_once('-')?;
        let (digits, extension) = rest.split_once('.')?;
        let is_known = match beginning {
            "stdout" => extension == "txt",
            "artifact" => {
                (1..=EXTENSION).contains(&extension.len())
                    && extension
                        .bytes()
                        .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
            }
            _ => false,
        };
        let (id, its_check) = digits.split_at_checked(ID_DIGITS)?;
        (is_known && its_check == check(beginning, id)).then(|| Self(name.to_owned()))
    }

    /// As the file is called.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(beginning: &str, id: &str) -> String {
    let digest = Sha256::digest(format!("kept by warmcell: {beginning} {id}"));
    hexadecimal(&digest).chars().take(CHECK_DIGITS).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _never_fails = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_known_again_and_others_are_not() {
        for kind in [
            KeptKind::Stdout,
            KeptKind::Artifact("png"),
            KeptKind::Artifact("mp4"),
        ] {
            let name = KeptName::random(kind);
            assert_eq!(KeptName::parse(name.as_str()), Some(name.clone()));
            assert_ne!(name, KeptName::random(kind));
            let digits = name.as_str().split(['-', '.']).nth(1).unwrap();
            assert_eq!(digits.len(), 12);
        }
        let one = KeptName::of_digest(KeptKind::Stdout, &[0x12, 0x34, 0x56, 0x78, 0x9a]);
        assert!(one.as_str().starts_with("stdout-12345678"), "{one:?}");
        for other in [
            "",
            "stdout-",
            "stdout-.txt",
            "stdout-000000000000.txt",
            "stdout-0123456789ab.txt",
            "stdout-é00000000000.txt",
            "stdout-1234567é0000.txt",
            "../stdout-12345678.txt",
        ] {
            assert_eq!(KeptName::parse(other), None, "{other}");
        }
        let name = one.as_str();
        for other in [
            name.replace(".txt", ".png"),
            name.replace("stdout", "artifact"),
            name.replace(".txt", ""),
            name.to_uppercase(),
            format!("{name}.bak"),
            format!("./{name}"),
        ] {
            assert_eq!(KeptName::parse(&other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_asked_for(text in "(stdout|artifact)?-?[0-9a-fé]{0,14}\\.?[a-z]{0,6}|.{0,40}") {
            if let Some(name) = KeptName::parse(&text) {
                prop_assert_eq!(name.as_str(), text);
            }
        }
    }
}
