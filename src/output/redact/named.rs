//! Secrets that stand behind a name: in headers, and in assignments of variables.

use super::ahead::{Ahead, Judged, Unknown};
use super::body::{BEFORE, Class, LOOKED_AT, before, is_mixed, is_opaque};
use super::rules::Found;
use super::shapes::Rest;

/// Bytes between a name and its value.
const GAP: usize = 12;

/// Words of an upper-case name that make it the name of a secret.
const WORDS: &[&str] = &[
    "KEY",
    "KEYS",
    "APIKEY",
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PW",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "AUTH",
    "BEARER",
];

/// `Authorization: Bearer ...`, behind the name of the header.
pub(super) fn header(mut ahead: Ahead<'_>) -> Judged {
    ahead.take(2, is_quote)?;
    ahead.take(GAP, is_space)?;
    if !ahead.skip(|byte| byte == b':')? {
        return Ok(None);
    }
    ahead.take(GAP, is_space)?;
    ahead.skip(|byte| matches!(byte, b'b' | b'f'))?;
    let begins = ahead.at;
    ahead.take(2, is_quote)?;
    if ahead.at == begins
        && ahead
            .text
            .get(begins - 1)
            .is_some_and(|it| matches!(it, b'b' | b'f'))
    {
        // No prefix of a string, but the first letter of a word.
        ahead.at -= 1;
    }
    let word = ahead.run(Class::Alnum, LOOKED_AT)?;
    let mut scheme = ahead;
    scheme.at += word.len();
    let mut has_scheme = false;
    if (3..=16).contains(&word.len()) && !scheme.take(2, is_space)?.is_empty() {
        ahead = scheme;
        has_scheme = true;
    }
    let value = ahead.run(Class::Token68, LOOKED_AT)?;
    let is_secret = is_opaque(value) || (has_scheme && is_mixed(value));
    found(ahead, value, is_secret, "authorization")
}

/// The value that stands here, if it is a secret and stands by itself.
fn found(ahead: Ahead<'_>, value: &[u8], is_secret: bool, kind: &'static str) -> Judged {
    let mut after = ahead;
    after.at += value.len();
    if !is_secret || !stands_alone(after)? {
        return Ok(None);
    }
    Ok(Some(Found {
        from: ahead.at,
        to: after.at,
        kind,
        rest: Rest::Run(Class::Token68),
    }))
}

/// `NAME=value`, behind the word that makes it the name of a secret and begins at `at`.
pub(super) fn assignment(mut ahead: Ahead<'_>, at: usize) -> Judged {
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let before = before(ahead.text, at);
    let head = before
        .iter()
        .rev()
        .take_while(|byte| is_name(**byte))
        .count();
    let (outside, head) = before.split_at(before.len() - head);
    if outside.last().is_some_and(u8::is_ascii_alphanumeric) {
        return Ok(None);
    }
    ahead.take(BEFORE, is_name)?;
    // The word in which the anchor stands, and its ends.
    let word_from = head.iter().rev().take_while(|byte| **byte != b'_').count();
    let tail = ahead.text.get(at..ahead.at).unwrap_or_default();
    let word_to = tail.iter().take_while(|byte| **byte != b'_').count();
    let word = ahead
        .text
        .get(at - word_from..at + word_to)
        .unwrap_or_default();
    if !WORDS.iter().any(|known| known.as_bytes() == word) {
        return Ok(None);
    }
    ahead.take(2, is_space)?;
    if !ahead.skip(|byte| byte == b'=')? {
        return Ok(None);
    }
    ahead.take(2, is_space)?;
    ahead.take(2, is_quote)?;
    let value = ahead.run(Class::Token68, LOOKED_AT)?;
    let is_password = word.starts_with(b"PASS") || word == b"PW" || word == b"PWD";
    let is_secret = is_opaque(value) || (is_password && is_mixed(value) && !value.contains(&b'/'));
    found(ahead, value, is_secret, "credential")
}

fn is_space(byte: u8) -> bool {
    byte == b' '
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'\\')
}

/// A value that stands by itself: what is called, looked up or filled in later is code.
fn stands_alone(mut ahead: Ahead<'_>) -> Result<bool, Unknown> {
    Ok(!matches!(
        {
            ahead.take(2, is_space)?;
            ahead.peek()?
        },
        Some(b'(' | b'[' | b'{')
    ))
}
