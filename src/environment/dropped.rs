//! Which variables of a caller a kernel does not see, and why: names, never values.
//!
//! Names that speak of a secret are counted, and known again when somebody asks for one by name, but
//! never listed: only digests of them are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sha2::{Digest, Sha256};

use super::never_passes;

/// Names that are kept, of either kind.
const MOST: usize = 512;
/// The longest name that is kept, in bytes.
const LONGEST: usize = 128;
const DIGEST_BYTES: usize = 8;

/// Why a variable does not reach a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// Its name speaks of a secret.
    Secret,
    /// It is not on the list of those that pass.
    NotListed,
    /// It is a credential of the agent's own: it cannot be let through.
    NeverPasses,
    /// It is a proxy whose value has a user part, and so perhaps a password.
    ProxyWithUser,
    /// No process can have it in its environment.
    NoVariable,
}

impl Reason {
    /// Whether naming it (`terminal.env_passthrough`, `exec --env`) lets it through.
    pub fn can_be_named(self) -> bool {
        !matches!(self, Self::NeverPasses | Self::NoVariable)
    }

    fn sign(self) -> char {
        match self {
            Self::Secret => 's',
            Self::NotListed => 'n',
            Self::NeverPasses => 'c',
            Self::ProxyWithUser => 'p',
            Self::NoVariable => 'x',
        }
    }

    fn of_sign(sign: char) -> Option<Self> {
        const PLAIN: [Reason; 4] = [
            Reason::NotListed,
            Reason::NeverPasses,
            Reason::ProxyWithUser,
            Reason::NoVariable,
        ];
        PLAIN.into_iter().find(|reason| reason.sign() == sign)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "its name speaks of a secret",
            Self::NotListed => "it is not on the list of variables that pass",
            Self::NeverPasses => "it is a credential of the agent's own, which never passes",
            Self::ProxyWithUser => "its value names a user, and perhaps a password",
            Self::NoVariable => "it is not a variable that a process can have",
        })
    }
}

/// The variables that were set for a caller and are not for its kernels.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DroppedNames {
    plain: BTreeMap<String, Reason>,
    secret: BTreeSet<[u8; DIGEST_BYTES]>,
    /// Those that are not kept.
    more: usize,
}

impl fmt::Debug for DroppedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DroppedNames")
            .field("plain", &self.plain)
            .field("secret", &self.secret.len())
            .field("more", &self.more)
            .finish()
    }
}

impl DroppedNames {
    /// Why a variable was dropped; `None` if it was not set for the caller, or passes.
    pub fn reason(&self, name: &str) -> Option<Reason> {
        if let Some(reason) = self.plain.get(name) {
            return Some(*reason);
        }
        let is_secret = self.secret.contains(&digest(name));
        is_secret.then(|| {
            if never_passes(name) {
                Reason::NeverPasses
            } else {
                Reason::Secret
            }
        })
    }

    /// The names that may be listed, in order.
    pub fn listed(&self) -> impl Iterator<Item = &str> {
        self.plain.keys().map(String::as_str)
    }

    /// How many there are whose names speak of secrets.
    pub fn secrets(&self) -> usize {
        self.secret.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.secret.is_empty() && self.more == 0
    }

    /// One more. Of a name that speaks of a secret only that is kept by which it is known again.
    pub(super) fn add(&mut self, name: &str, reason: Reason, is_secret: bool) {
        // Whatever is no name may be anything, a value too.
        let is_odd = name.is_empty()
            || name.len() > LONGEST
            || name.contains(|c: char| c == ',' || c.is_control() || c.is_whitespace());
        if is_odd || self.plain.len() + self.secret.len() == MOST {
            self.more += 1;
        } else if is_secret {
            self.secret.insert(digest(name));
        } else {
            self.plain.insert(name.to_owned(), reason);
        }
    }

    /// Takes out what a kernel does see.
    pub(super) fn remove(&mut self, name: &str) {
        self.plain.remove(name);
        self.secret.remove(&digest(name));
    }

    /// With those of an earlier start.
    pub fn join(&mut self, other: &Self) {
        for (name, reason) in &other.plain {
            self.add(name, *reason, false);
        }
        self.secret.extend(other.secret.iter().take(MOST));
        self.more += other.more;
    }

    /// As text, for an environment: what a process has dropped from its own is not there any more when
    /// somebody asks.
    pub fn to_text(&self) -> String {
        let plain = self.plain.iter();
        let plain = plain.map(|(name, reason)| format!("{}{name}", reason.sign()));
        let secret = self.secret.iter().map(|digest| {
            digest
                .iter()
                .fold("s".to_owned(), |text, byte| text + &format!("{byte:02x}"))
        });
        let more = (self.more > 0).then(|| format!("+{}", self.more));
        plain
            .chain(secret)
            .chain(more)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Reads what [`DroppedNames::to_text`] has written; what is something else is passed over.
    pub fn parse(text: &str) -> Self {
        let mut names = Self::default();
        for entry in text.split(',').take(MOST + 1) {
            let mut letters = entry.chars();
            let (sign, rest) = (letters.next(), letters.as_str());
            match sign {
                Some('s') => names.secret.extend(digest_of_text(rest)),
                Some('+') => {
                    let more = rest.parse().unwrap_or(0);
                    names.more = names.more.saturating_add(more);
                }
                Some(sign) if !rest.is_empty() => {
                    if let Some(reason) = Reason::of_sign(sign) {
                        names.add(rest, reason, false);
                    }
                }
                Some(_) | None => {}
            }
        }
        names
    }
}

fn digest(name: &str) -> [u8; DIGEST_BYTES] {
    let whole = Sha256::digest(name.as_bytes());
    let mut digest = [0; DIGEST_BYTES];
    for (kept, byte) in digest.iter_mut().zip(whole) {
        *kept = byte;
    }
    digest
}

fn digest_of_text(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    let is_digest =
        text.len() == DIGEST_BYTES * 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(text, 16).ok().filter(|_| is_digest);
    number.map(u64::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_are_known_again_and_never_listed() {
        let mut names = DroppedNames::default();
        names.add("FOO", Reason::NotListed, false);
        names.add("LLM_MODEL", Reason::NeverPasses, false);
        names.add("MY_TOKEN", Reason::Secret, true);
        names.add("OPENAI_API_KEY", Reason::NeverPasses, true);
        names.add("an odd one", Reason::NoVariable, false);
        for names in [names.clone(), DroppedNames::parse(&names.to_text())] {
            assert_eq!(names.reason("FOO"), Some(Reason::NotListed));
            assert_eq!(names.reason("LLM_MODEL"), Some(Reason::NeverPasses));
            assert_eq!(names.reason("MY_TOKEN"), Some(Reason::Secret));
            assert_eq!(names.reason("OPENAI_API_KEY"), Some(Reason::NeverPasses));
            assert_eq!(names.reason("OTHER_TOKEN"), None);
            assert_eq!(names.listed().collect::<Vec<_>>(), ["FOO", "LLM_MODEL"]);
            assert_eq!(names.secrets(), 2);
            let text = format!("{names:?} {}", names.to_text());
            assert!(!text.contains("TOKEN") && !text.contains("KEY"), "{text}");
            assert!(text.contains("+1"), "{text}");
        }
    }

    #[test]
    fn what_is_no_record_is_passed_over_and_many_are_counted() {
        for text in [
            "",
            ",",
            "s12",
            "sxyz",
            "zFOO",
            "n",
            "+x",
            "s+123456789abcdef",
        ] {
            assert!(DroppedNames::parse(text).is_empty(), "{text}");
        }
        let mut names = DroppedNames::default();
        for number in 0..2_000 {
            names.add(&format!("N{number}"), Reason::NotListed, number % 2 == 0);
        }
        assert_eq!(names.listed().count() + names.secrets(), MOST);
        assert_eq!(names.more, 2_000 - MOST);
        assert_eq!(DroppedNames::parse(&names.to_text()), names);
    }
}
