//! The shapes that secrets have: whether one begins at a place, and how far it goes.

use super::addresses::{address, database};
use super::ahead::{Ahead, Judged, Unknown};
use super::body::{Class, LOOKED_AT, before, begins_word, is_opaque};
use super::named::{assignment, header};
use super::rules::{Found, Verdict};
use super::tokens::Token;

/// The first part of a JWT is no longer.
const JWT_HEAD: usize = 2_048;
/// A label of a PEM block.
const LABEL: usize = 64;
/// Bytes between a label and what follows.
const GAP: usize = 12;

/// What is looked for.
#[derive(Debug, Clone)]
pub(super) enum Shape {
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

impl Shape {
    /// Whether its first bytes are part of what is masked.
    pub(super) fn is_masked_whole(&self) -> bool {
        matches!(self, Self::Token(_) | Self::Jwt)
    }

    /// Whether what stands before allows it to begin here.
    pub(super) fn may_begin(&self, text: &[u8], at: usize) -> bool {
        match self {
            Self::Pem | Self::Assignment => true,
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
