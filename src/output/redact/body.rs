//! Of which characters a secret is made, and whether a word looks like one.

/// Bytes of a word that are looked at to tell whether it is a secret.
pub(super) const LOOKED_AT: usize = 96;
/// Bytes before a place that are looked at.
pub(super) const BEFORE: usize = 64;

/// The characters of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Letters and digits.
    Alnum,
    /// And `_`.
    Word,
    /// And `-`.
    Dashed,
    /// And single dots between others.
    Dotted,
    /// Those of base64 in both alphabets, dots and `~`.
    Token68,
}

impl Class {
    /// Whether the byte belongs to it; dots of [`Class::Dotted`] are looked at apart.
    pub(super) fn has(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || match self {
                Self::Alnum => false,
                Self::Word => byte == b'_',
                Self::Dashed | Self::Dotted => matches!(byte, b'_' | b'-'),
                Self::Token68 => matches!(byte, b'_' | b'-' | b'.' | b'~' | b'+' | b'/' | b'='),
            }
    }

    /// How many bytes at the start belong to it; `None` if bytes that are to come must tell.
    pub(super) fn run(self, bytes: &[u8], most: usize, ended: bool) -> Option<usize> {
        self.run_on(bytes, most, ended, false)
    }

    /// As [`Class::run`], of bytes of which some that belong to it stand before.
    pub(super) fn run_on(
        self,
        bytes: &[u8],
        most: usize,
        ended: bool,
        goes_on: bool,
    ) -> Option<usize> {
        let mut at = 0;
        while at < most {
            match bytes.get(at) {
                Some(byte) if self.has(*byte) => at += 1,
                Some(b'.') if self == Self::Dotted && (at > 0 || goes_on) => {
                    match bytes.get(at + 1) {
                        Some(next) if self.has(*next) => at += 1,
                        Some(_) => return Some(at),
                        None if ended => return Some(at),
                        None => return None,
                    }
                }
                Some(_) => return Some(at),
                None if ended => return Some(at),
                None => return None,
            }
        }
        Some(most)
    }
}

/// Whether a word looks made by a machine: no name, no number, no path, no words of a language.
pub(super) fn is_opaque(word: &[u8]) -> bool {
    let runs = word.split(|byte| !byte.is_ascii_alphanumeric());
    let is_made = |run: &[u8]| {
        let digits = run.iter().filter(|byte| byte.is_ascii_digit()).count();
        let mixed = digits > 0 && digits < run.len();
        (mixed && run.len() >= 10) || (run.len() >= 20 && digits < run.len())
    };
    runs.into_iter().any(is_made) || is_uuid(word)
}

/// Whether a word is what a person or a machine would choose for a password: of two kinds of characters.
pub(super) fn is_mixed(word: &[u8]) -> bool {
    let kinds = [
        u8::is_ascii_lowercase as fn(&u8) -> bool,
        u8::is_ascii_uppercase,
        u8::is_ascii_digit,
    ];
    let has = kinds.iter().filter(|is| word.iter().any(is)).count();
    word.len() >= 8 && has >= 2
}

fn is_uuid(word: &[u8]) -> bool {
    let mut parts = word.split(|byte| *byte == b'-');
    word.len() == 36
        && [8, 4, 4, 4, 12].iter().all(|size| {
            parts
                .next()
                .is_some_and(|part| part.len() == *size && part.iter().all(u8::is_ascii_hexdigit))
        })
}

/// The bytes before a place that may be looked at: always as many, however the stream is cut.
pub(super) fn before(text: &[u8], at: usize) -> &[u8] {
    text.get(at.saturating_sub(BEFORE)..at).unwrap_or_default()
}

/// Whether a token may begin here: not within a word, unless an escape like `\n` is written before it.
pub(super) fn begins_word(text: &[u8], at: usize) -> bool {
    let before = before(text, at);
    let Some(last) = before.last() else {
        return true;
    };
    if !Class::Dashed.has(*last) {
        return true;
    }
    let escaped = |back: usize, letter: &[u8]| {
        let from = before.len().checked_sub(back);
        from.and_then(|from| before.get(from..)).is_some_and(|end| {
            end.first() == Some(&b'\\')
                && end.get(1).is_some_and(|byte| letter.contains(byte))
                && end.iter().skip(2).all(u8::is_ascii_hexdigit)
        })
    };
    escaped(2, b"nrtabfv0") || escaped(4, b"x") || escaped(6, b"u")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_machines_make_is_told_from_what_people_write() {
        for made in [
            "abc123def456",
            "AQ.Ab8RN6JXyz01",
            "550e8400-e29b-41d4-a716-446655440000",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "d41d8cd98f00b204e9800998ecf8427e",
        ] {
            assert!(is_opaque(made.as_bytes()), "{made}");
        }
        for written in [
            "",
            "100",
            "1000000000000000000000000",
            "2024-01-31",
            "customer_order_identifier_2024",
            "config.authentication.token_provider",
            "/usr/lib/python3/dist-packages",
            "bert-base-uncased-v2",
            "toggleable__content",
        ] {
            assert!(!is_opaque(written.as_bytes()), "{written}");
        }
    }

    #[test]
    fn a_token_begins_at_a_word() {
        for (text, at, right) in [
            ("x", 0, true),
            ("=x", 1, true),
            ("ax", 1, false),
            ("-x", 1, false),
            ("\\nx", 2, true),
            ("\\x1bx", 4, true),
            ("\\u001bx", 6, true),
            ("nx", 1, false),
        ] {
            assert_eq!(begins_word(text.as_bytes(), at), right, "{text:?}");
        }
    }
}
