//! Secrets that are known by their value, in the forms in which a program may print them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Values longer than this are no secrets but files.
pub(super) const LONGEST: usize = 64 * 1_024;
/// Shorter ones are words and numbers that stand everywhere.
pub(super) const SHORTEST: usize = 8;
/// Names that end like this hold places, although they speak of secrets.
const PLACES: &[&str] = &["_SOCK", "_FILE", "_PATH", "_DIR", "_HOME", "_URL_FILE"];

/// The forms in which the value of a variable is looked for; none if it is no secret by itself.
pub(super) fn forms(name: &str, value: &str) -> Vec<Vec<u8>> {
    let value = value.trim();
    if !is_secret(name, value) {
        return Vec::new();
    }
    let mut forms = vec![
        value.to_owned(),
        value.escape_debug().to_string(),
        escaped(value),
        percent_encoded(value),
        hexadecimal(value),
        STANDARD_NO_PAD.encode(value),
        URL_SAFE_NO_PAD.encode(value),
    ];
    // The longest first: the value may begin like one of its forms.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.dedup();
    forms.into_iter().map(String::into_bytes).collect()
}

fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if !(SHORTEST..=LONGEST).contains(&value.len())
        || PLACES.iter().any(|end| name.ends_with(end))
        || (value.starts_with(['/', '~', '.']) && value.matches('/').count() > 1)
    {
        return false;
    }
    let has = |is: fn(&char) -> bool| value.chars().any(|it| is(&it));
    let kinds = [
        has(char::is_ascii_lowercase),
        has(char::is_ascii_uppercase),
        has(char::is_ascii_digit),
        has(|it| !it.is_ascii_alphanumeric()),
    ];
    let kinds = kinds.iter().filter(|it| **it).count();
    // `password`, `disabled`, `20240131`: what one kind of characters makes may be a word.
    kinds > 1 || value.len() >= 20
}

/// As JSON and Python's `repr` write it, where quotes are no matter.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t")
}

fn percent_encoded(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&hexadecimal_byte(byte).to_ascii_uppercase());
        }
    }
    encoded
}

fn hexadecimal(value: &str) -> String {
    value.bytes().map(hexadecimal_byte).collect()
}

fn hexadecimal_byte(byte: u8) -> String {
    format!("{byte:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_places_are_no_secrets() {
        for (name, value) in [
            ("A_KEY", ""),
            ("A_KEY", "short1"),
            ("DB_PASSWORD", "password"),
            ("MAX_TOKENS", "20240131"),
            ("SSH_AUTH_SOCK", "/run/user/1000/ssh-agent.sock"),
            ("GOOGLE_CREDENTIALS", "/home/me/keys/google.json"),
            ("TOKEN_FILE", "C:\\secrets\\token"),
        ] {
            assert!(forms(name, value).is_empty(), "{name}={value}");
        }
    }

    #[test]
    fn a_value_is_looked_for_as_programs_print_it() {
        let forms = forms("A_SECRET", " p\"w\n1 23 ");
        for form in [
            "p\"w\n1 23",
            "p\\\"w\\n1 23",
            "p\"w\\n1 23",
            "p%22w%0A1%2023",
            "7022770a31203233",
            "cCJ3CjEgMjM",
        ] {
            assert!(
                forms.contains(&form.as_bytes().to_vec()),
                "{form}: {forms:?}"
            );
        }
    }
}
