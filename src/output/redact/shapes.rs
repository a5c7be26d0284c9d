//! The shapes that secrets have: whether one begins at a place, and how far it goes.

use super::body::{Class, LOOKED_AT, before, begins_word, is_mixed, is_opaque};
use super::rules::{Found, Verdict};
use super::tokens::Token;

/// A user and a password in an address are no longer than this.
const USER_INFO: usize = 1_024;
/// The first part of a JWT is no longer.
const JWT_HEAD: usize = 2_048;
/// A label of a PEM block.
const LABEL: usize = 64;
/// Bytes between a name and its value.
const GAP: usize = 12;

/// What is looked for.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// These bytes.
    Value(Vec<u8>),
    Token(&'static Token),
    /// `Authorization: Bearer ...` and keys in headers.
    Header,
    /// `NAME=value` with an upper-case name, one word of which speaks of a secret.
    Assignment,
    /// A password in the address of a database.
    Database,
    /// A token in another address.
    Address,
    Pem,
    Jwt,
    /// Of a Telegram bot; what stands before is its id.
    Telegram,
}

/// What of a secret is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Nothing,
    /// All bytes of this class.
    Run(Class),
    /// A PEM block, up to its end.
    Pem,
}

/// Where they begin: the bytes, whether in any case, the shape.
pub(super) const ANCHORS: &[(&str, bool, Shape)] = &[
    ("-----BEGIN ", false, Shape::Pem),
    ("eyJ", false, Shape::Jwt),
    (":AA", false, Shape::Telegram),
    ("authorization", true, Shape::Header),
    ("api-key", true, Shape::Header),
    ("apikey", true, Shape::Header),
    ("api-token", true, Shape::Header),
    ("auth-token", true, Shape::Header),
    ("access-token", true, Shape::Header),
    ("KEY", false, Shape::Assignment),
    ("TOKEN", false, Shape::Assignment),
    ("SECRET", false, Shape::Assignment),
    ("PASS", false, Shape::Assignment),
    ("PW", false, Shape::Assignment),
    ("CRED", false, Shape::Assignment),
    ("AUTH", false, Shape::Assignment),
    ("BEARER", false, Shape::Assignment),
    ("APIKEY", false, Shape::Assignment),
    ("postgres", true, Shape::Database),
    ("mysql", true, Shape::Database),
    ("mariadb", true, Shape::Database),
    ("mssql", true, Shape::Database),
    ("mongodb", true, Shape::Database),
    ("redis", true, Shape::Database),
    ("amqp", true, Shape::Database),
    ("clickhouse", true, Shape::Database),
    ("http", true, Shape::Address),
    ("ws://", true, Shape::Address),
    ("wss://", true, Shape::Address),
    ("ssh://", true, Shape::Address),
    ("git://", true, Shape::Address),
    ("ftp://", true, Shape::Address),
    ("ftps://", true, Shape::Address),
    ("sftp://", true, Shape::Address),
];

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

impl Shape {
    /// The length of a known value, else nothing.
    pub(super) fn value_bytes(&self) -> usize {
        match self {
            Self::Value(value) => value.len(),
            _ => 0,
        }
    }

    /// Whether its first bytes are part of what is masked.
    pub(super) fn is_masked_whole(&self) -> bool {
        matches!(self, Self::Value(_) | Self::Token(_) | Self::Jwt)
    }

    /// Whether what stands before allows it to begin here.
    pub(super) fn may_begin(&self, text: &[u8], at: usize) -> bool {
        match self {
            Self::Value(_) | Self::Pem | Self::Assignment => true,
            Self::Token(_) | Self::Jwt | Self::Database | Self::Address => begins_word(text, at),
            Self::Header => !before(text, at)
                .last()
                .is_some_and(u8::is_ascii_alphanumeric),
            Self::Telegram => {
                let digits = before(text, at).iter().rev();
                digits.take_while(|byte| byte.is_ascii_digit()).count() >= 8
            }
        }
    }

    /// Whether it begins at a place where its anchor of so many bytes stands.
    pub(super) fn judge(&self, text: &[u8], at: usize, anchor: usize, ended: bool) -> Verdict {
        if !self.may_begin(text, at) {
            return Verdict::No;
        }
        let ahead = Ahead {
            text,
            at: at + anchor,
            ended,
        };
        let verdict = match self {
            Self::Value(value) => return value_at(text, at, value, ended),
            Self::Token(kind) => token(kind, ahead, at),
            Self::Header => header(ahead),
            Self::Assignment => assignment(ahead, at),
            Self::Database => database(ahead),
            Self::Address => address(ahead),
            Self::Pem => pem(ahead),
            Self::Jwt => jwt(ahead, at),
            Self::Telegram => telegram(ahead, at),
        };
        match verdict {
            Ok(Some(found)) => Verdict::Yes(found),
            Ok(None) => Verdict::No,
            Err(Unknown) => Verdict::More,
        }
    }
}

/// Bytes that are to come must tell.
struct Unknown;

type Judged = Result<Option<Found>, Unknown>;

/// The text from a place on.
#[derive(Clone, Copy)]
struct Ahead<'a> {
    text: &'a [u8],
    at: usize,
    ended: bool,
}

impl<'a> Ahead<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte; `None` at the end.
    fn peek(&self) -> Result<Option<u8>, Unknown> {
        match self.rest().first() {
            None if !self.ended => Err(Unknown),
            byte => Ok(byte.copied()),
        }
    }

    /// Takes up to so many bytes that are like this.
    fn take(&mut self, most: usize, is: impl Fn(u8) -> bool) -> Result<&'a [u8], Unknown> {
        let from = self.at;
        while self.at - from < most {
            match self.peek()? {
                Some(byte) if is(byte) => self.at += 1,
                _ => break,
            }
        }
        Ok(self.text.get(from..self.at).unwrap_or_default())
    }

    /// Takes one byte if it is like this.
    fn skip(&mut self, is: impl Fn(u8) -> bool) -> Result<bool, Unknown> {
        Ok(!self.take(1, is)?.is_empty())
    }

    fn run(&self, class: Class, most: usize) -> Result<&'a [u8], Unknown> {
        let rest = self.rest();
        let size = class.run(rest, most, self.ended).ok_or(Unknown)?;
        Ok(rest.get(..size).unwrap_or_default())
    }
}

fn value_at(text: &[u8], at: usize, value: &[u8], ended: bool) -> Verdict {
    let rest = text.get(at..).unwrap_or_default();
    if rest.starts_with(value) {
        return Verdict::Yes(Found {
            from: at,
            to: at + value.len(),
            kind: "environment",
            rest: Rest::Nothing,
        });
    }
    if !ended && value.starts_with(rest) {
        return Verdict::More;
    }
    Verdict::No
}

fn token(token: &Token, ahead: Ahead<'_>, at: usize) -> Judged {
    let looked_at = if token.exact {
        token.least + 1
    } else {
        LOOKED_AT
    };
    let body = ahead.run(token.class, looked_at)?;
    if body.len() < token.least || (token.exact && body.len() != token.least) {
        return Ok(None);
    }
    if token.exact {
        let mut next = ahead;
        next.at += body.len();
        let goes_on = next.peek()?.is_some_and(|byte| Class::Dashed.has(byte));
        let is_key = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        if goes_on || !body.iter().all(is_key) {
            return Ok(None);
        }
    }
    if token.opaque && !is_opaque(body) {
        return Ok(None);
    }
    Ok(Some(Found {
        from: at,
        to: ahead.at + body.len(),
        kind: token.kind,
        rest: if token.exact {
            Rest::Nothing
        } else {
            Rest::Run(token.class)
        },
    }))
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

fn header(mut ahead: Ahead<'_>) -> Judged {
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
    let mut after = ahead;
    after.at += value.len();
    if !is_secret || !stands_alone(after)? {
        return Ok(None);
    }
    Ok(Some(Found {
        from: ahead.at,
        to: ahead.at + value.len(),
        kind: "authorization",
        rest: Rest::Run(Class::Token68),
    }))
}

fn assignment(mut ahead: Ahead<'_>, at: usize) -> Judged {
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let before = before(ahead.text, at);
    let head = before
        .iter()
        .rev()
        .take_while(|byte| is_name(**byte))
        .count();
    let (outside, head) = before.split_at(before.len() - head);
    if outside
        .last()
        .is_some_and(|byte| byte.is_ascii_alphanumeric())
    {
        return Ok(None);
    }
    ahead.take(super::body::BEFORE, is_name)?;
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
    let mut after = ahead;
    after.at += value.len();
    if !is_secret || !stands_alone(after)? {
        return Ok(None);
    }
    Ok(Some(Found {
        from: ahead.at,
        to: ahead.at + value.len(),
        kind: "credential",
        rest: Rest::Run(Class::Token68),
    }))
}

/// The rest of a scheme and its `://`.
fn scheme(ahead: &mut Ahead<'_>) -> Result<bool, Unknown> {
    if ahead.text.get(ahead.at - 1) == Some(&b'/') {
        return Ok(true);
    }
    ahead.take(32, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
    })?;
    for expected in *b"://" {
        if !ahead.skip(|byte| byte == expected)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_user_info(byte: u8) -> bool {
    !byte.is_ascii_whitespace()
        && !matches!(
            byte,
            b'/' | b'?' | b'#' | b'@' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\'
        )
}

fn database(mut ahead: Ahead<'_>) -> Judged {
    if !scheme(&mut ahead)? {
        return Ok(None);
    }
    let from = ahead.at;
    let info = ahead.take(USER_INFO, is_user_info)?;
    if ahead.peek()? != Some(b'@') {
        return Ok(None);
    }
    let Some(colon) = info.iter().position(|byte| *byte == b':') else {
        return Ok(None);
    };
    let password = info.get(colon + 1..).unwrap_or_default();
    // What is filled in later is no password.
    let is_filled_in = matches!(
        password.first(),
        None | Some(b'{' | b'$' | b'%' | b'<' | b'[')
    );
    let is_masked = password.iter().all(|byte| matches!(byte, b'*' | b'.'));
    if is_filled_in || is_masked {
        return Ok(None);
    }
    Ok(Some(Found {
        from: from + colon + 1,
        to: ahead.at,
        kind: "password",
        rest: Rest::Nothing,
    }))
}

fn address(mut ahead: Ahead<'_>) -> Judged {
    if !scheme(&mut ahead)? {
        return Ok(None);
    }
    let from = ahead.at;
    let info = ahead.take(USER_INFO, |byte| is_user_info(byte) && byte != b':')?;
    if ahead.peek()? != Some(b'@') || info.len() < 8 || !is_opaque(info) {
        return Ok(None);
    }
    Ok(Some(Found {
        from,
        to: ahead.at,
        kind: "url-token",
        rest: Rest::Nothing,
    }))
}

fn pem(mut ahead: Ahead<'_>) -> Judged {
    let label = ahead.take(LABEL, |byte| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
    })?;
    if !label.ends_with(b"PRIVATE KEY") && !label.ends_with(b"PRIVATE KEY BLOCK") {
        return Ok(None);
    }
    if ahead.take(5, |byte| byte == b'-')?.len() < 5 {
        return Ok(None);
    }
    // A line ends here, as it is or as it is written in a string.
    let is_end = |byte: u8| matches!(byte, b'\r' | b'\n' | b'\\' | b'r' | b'n' | b' ' | b'\t');
    let end = ahead.take(GAP, |byte| byte.is_ascii_whitespace() || byte == b'\\')?;
    if end.is_empty() {
        return Ok(None);
    }
    if end.last() == Some(&b'\\') {
        ahead.take(GAP, is_end)?;
    }
    let body = ahead.run(Class::Token68, 16)?;
    if body.len() < 16 && !body.starts_with(b"Proc-Type") && !body.starts_with(b"Version") {
        return Ok(None);
    }
    Ok(Some(Found {
        from: ahead.at,
        to: ahead.at + body.len(),
        kind: "private-key",
        rest: Rest::Pem,
    }))
}

fn jwt(ahead: Ahead<'_>, at: usize) -> Judged {
    let head = ahead.run(Class::Dashed, JWT_HEAD)?;
    let mut next = ahead;
    next.at += head.len();
    if head.len() < 10 || !next.skip(|byte| byte == b'.')? {
        return Ok(None);
    }
    let body = next.run(Class::Dashed, 4)?;
    if body.len() < 4 {
        return Ok(None);
    }
    Ok(Some(Found {
        from: at,
        to: next.at + body.len(),
        kind: "jwt",
        rest: Rest::Run(Class::Dotted),
    }))
}

fn telegram(ahead: Ahead<'_>, at: usize) -> Judged {
    let body = ahead.run(Class::Dashed, LOOKED_AT)?;
    if body.len() < 30 {
        return Ok(None);
    }
    Ok(Some(Found {
        from: at + 1,
        to: ahead.at + body.len(),
        kind: "telegram-token",
        rest: Rest::Run(Class::Dashed),
    }))
}
