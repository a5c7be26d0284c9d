//! `--env NAME[=VALUE]`: variables that are let through on purpose. No sentence here shows a value.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::environment::never_passes;

/// What was named.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NamedVariables {
    /// Those that have a value, in the order in which they were given.
    pub(super) set: Vec<(String, String)>,
    /// Names of those that were to have the value that they have here, and have none.
    pub(super) unset: Vec<String>,
}

/// Names that are to have the value that they have here: what is kept when this process starts anew.
pub(super) fn names_alone(words: &[OsString]) -> Vec<String> {
    let alone = words.iter().filter_map(|word| word.to_str());
    alone
        .filter(|word| !word.contains('='))
        .map(str::to_owned)
        .collect()
}

/// Reads the options; `value` gives a variable of this process.
pub(super) fn named_variables(
    words: &[OsString],
    value: impl Fn(&str) -> Option<OsString>,
) -> Result<NamedVariables, String> {
    let mut named = NamedVariables::default();
    for word in words {
        let mut parts = word.as_bytes().splitn(2, |byte| *byte == b'=');
        let name = parts.next().unwrap_or_default();
        let name = checked(name)?;
        let given = match parts.next() {
            Some(given) => Some(OsStr::from_bytes(given).to_owned()),
            None => value(&name),
        };
        match given.map(OsString::into_string) {
            Some(Ok(given)) => named.set.push((name, given)),
            Some(Err(_no_text)) => {
                return Err(format!("--env: the value of {name} is not UTF-8"));
            }
            None => named.unset.push(name),
        }
    }
    Ok(named)
}

fn checked(name: &[u8]) -> Result<String, String> {
    let letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let is_name = name.first().is_some_and(letter)
        && name
            .iter()
            .all(|byte| letter(byte) || byte.is_ascii_digit());
    let name = String::from_utf8_lossy(name);
    if !is_name {
        // What is no name may be a value.
        let shown: String = name.chars().take(3).collect();
        return Err(format!(
            "--env takes NAME or NAME=VALUE, and a name is letters, digits and underscores: what begins \
             with {shown:?} is none"
        ));
    }
    if never_passes(&name) {
        return Err(format!(
            "--env: {name} cannot be let through: it is a credential or setting of the agent's own; give \
             what the code needs under a name of its own"
        ));
    }
    Ok(name.into_owned())
}

/// What is told of those that have no value.
pub(super) fn unset_notice(unset: &[String]) -> Option<String> {
    let list = unset.join(", ");
    (!unset.is_empty()).then(|| {
        let is_or_are = crate::words::agreeing(unset.len() as u64, "is", "are");
        format!("--env: {list} {is_or_are} not set here, so cells do not see it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<NamedVariables, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        named_variables(&words, |name| (name == "HERE").then(|| "value".into()))
    }

    #[test]
    fn names_alone_have_the_value_that_they_have_here() {
        let named = read(&["A=1", "HERE", "GONE", "B=", "C=x=y", "_=z"]).unwrap();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [
            set("A", "1"),
            set("HERE", "value"),
            set("B", ""),
            set("C", "x=y"),
            set("_", "z"),
        ];
        assert_eq!(named.set, expected);
        assert_eq!(named.unset, ["GONE"]);
        assert!(
            unset_notice(&named.unset)
                .unwrap()
                .contains("GONE is not set")
        );
        assert_eq!(unset_notice(&[]), None);
        let words = ["A=1", "HERE", "GONE"].map(OsString::from);
        assert_eq!(names_alone(&words), ["HERE", "GONE"]);
    }

    #[test]
    fn what_is_refused_is_told_without_its_value() {
        for word in [
            "",
            "=secret",
            "A B=secret",
            "1A=secret",
            "A-B=secret",
            "\u{e9}=secret",
            "a\nb",
            "OPENAI_API_KEY=secret",
            "openai_api_key",
            "AUXILIARY_FOO_BASE_URL=secret",
            "HERMES_RPC_TOKEN=secret",
        ] {
            let told = read(&[word]).unwrap_err();
            assert!(told.starts_with("--env"), "{told}");
            assert!(!told.contains("secret") && !told.contains('\n'), "{told}");
        }
        let words = [
            OsString::from("A=1"),
            OsStr::from_bytes(b"B=\xff").to_owned(),
        ];
        let told = named_variables(&words, |_| None).unwrap_err();
        assert_eq!(told, "--env: the value of B is not UTF-8");
        let told = read(&["sk-0123456789abcdef"]).unwrap_err();
        assert!(told.contains("\"sk-\"") && !told.contains("0123"), "{told}");
    }
}
