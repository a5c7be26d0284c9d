//! Secrets that are known by their value, without the values: fingerprints of them.
//!
//! A manager must not hold what its kernels may not see: a cell that runs as root can read any memory.
//! So of each value only its length, its first two bytes, 16 bits of a hash of its first eight and a
//! keyed digest (HMAC-SHA256, 128 bits) are kept: enough to know it again, too little to make it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::rules::{Found, Verdict};
use super::shapes::Rest;
use super::values::{LONGEST, SHORTEST, forms};

/// Forms of values that are looked for, at most.
const MOST: usize = 1_024;
/// Bytes of a fingerprint as text has it: length, beginning, hash, digest.
const ENTRY_BYTES: usize = 4 + 2 + 2 + DIGEST_BYTES;
const DIGEST_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
const PAIRS: usize = 1 << 16;

/// Fingerprints of the values that one environment hides.
#[derive(Clone)]
pub struct Hidden {
    key: [u8; KEY_BYTES],
    entries: Vec<Entry>,
    /// Which two bytes any begins with, a bit for each pair.
    pairs: Box<[u64; PAIRS / 64]>,
    firsts: Vec<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    bytes: usize,
    pair: [u8; 2],
    hash: u16,
    digest: [u8; DIGEST_BYTES],
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hidden")
            .field("values", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl Hidden {
    /// Of these variables (name, value), where they look like secrets by themselves, in the forms in which
    /// programs print them: as they are, in quotes, in addresses, as base64 and hexadecimal. The key is
    /// to be random.
    pub fn of<'a>(
        key: [u8; KEY_BYTES],
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let entries = variables
            .into_iter()
            .flat_map(|(name, value)| forms(name, value))
            .take(MOST)
            .filter_map(|form| {
                Some(Entry {
                    bytes: form.len(),
                    pair: *form.first_chunk()?,
                    hash: hash(key, &form)?,
                    digest: digest(key, &form)?,
                })
            })
            .collect();
        Self::with(key, entries)
    }

    fn with(key: [u8; KEY_BYTES], mut entries: Vec<Entry>) -> Self {
        // The longest first: one may begin with another.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.bytes));
        entries.dedup();
        let mut pairs = Box::new([0; PAIRS / 64]);
        let mut firsts = vec![false; 256];
        for entry in &entries {
            let pair = usize::from(u16::from_le_bytes(entry.pair));
            if let Some(word) = pairs.get_mut(pair / 64) {
                *word |= 1_u64 << (pair % 64);
            }
            let [first, _] = entry.pair;
            if let Some(is_first) = firsts.get_mut(usize::from(first)) {
                *is_first = true;
            }
        }
        Self {
            key,
            entries,
            pairs,
            firsts,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As text, for an environment.
    pub fn to_text(&self) -> String {
        let mut bytes = self.key.to_vec();
        for entry in &self.entries {
            let size = u32::try_from(entry.bytes).unwrap_or(u32::MAX);
            bytes.extend(size.to_le_bytes());
            bytes.extend(entry.pair);
            bytes.extend(entry.hash.to_le_bytes());
            bytes.extend(entry.digest);
        }
        STANDARD_NO_PAD.encode(bytes)
    }

    /// Reads what [`Hidden::to_text`] has written; `None` if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD_NO_PAD.decode(text).ok()?;
        let (key, entries) = bytes.split_first_chunk()?;
        if entries.len() % ENTRY_BYTES != 0 || entries.len() / ENTRY_BYTES > MOST {
            return None;
        }
        let entries = entries.chunks_exact(ENTRY_BYTES).map(|entry| {
            let (bytes, entry) = entry.split_first_chunk()?;
            let (pair, entry) = entry.split_first_chunk()?;
            let (hash, entry) = entry.split_first_chunk()?;
            let bytes = usize::try_from(u32::from_le_bytes(*bytes)).ok()?;
            (SHORTEST..=LONGEST * 4).contains(&bytes).then_some(Entry {
                bytes,
                pair: *pair,
                hash: u16::from_le_bytes(*hash),
                digest: *entry.first_chunk()?,
            })
        });
        Some(Self::with(*key, entries.collect::<Option<_>>()?))
    }

    /// The next place from `from` on where a value may begin.
    pub(super) fn next(&self, text: &[u8], from: usize, ended: bool) -> Option<usize> {
        let rest = text.get(from..)?;
        let mut whole = None;
        for (at, pair) in (from..).zip(rest.windows(2)) {
            if let [first, second] = pair
                && self.has_pair(*first, *second)
                && self.may_begin(text.get(at..).unwrap_or_default())
            {
                whole = Some(at);
                break;
            }
        }
        if whole.is_some() || ended {
            return whole;
        }
        let last = *rest.last()?;
        self.firsts
            .get(usize::from(last))
            .is_some_and(|is_first| *is_first)
            .then_some(text.len() - 1)
    }

    fn has_pair(&self, first: u8, second: u8) -> bool {
        let pair = usize::from(u16::from_le_bytes([first, second]));
        self.pairs
            .get(pair / 64)
            .is_some_and(|word| word & (1_u64 << (pair % 64)) != 0)
    }

    /// Whether what begins with a known pair goes on like a value, as far as it can be seen.
    fn may_begin(&self, rest: &[u8]) -> bool {
        let Some(hash) = hash(self.key, rest) else {
            return true;
        };
        self.entries
            .iter()
            .any(|entry| rest.starts_with(&entry.pair) && entry.hash == hash)
    }

    /// Whether a value begins at this place.
    pub(super) fn judge(&self, text: &[u8], at: usize, ended: bool) -> Verdict {
        let rest = text.get(at..).unwrap_or_default();
        let (Some(first), second) = (rest.first(), rest.get(1)) else {
            return Verdict::No;
        };
        let Some(second) = second else {
            let is_first = self.firsts.get(usize::from(*first)) == Some(&true);
            return if is_first && !ended {
                Verdict::More
            } else {
                Verdict::No
            };
        };
        if !self.has_pair(*first, *second) {
            return Verdict::No;
        }
        let Some(hash) = hash(self.key, rest) else {
            return if ended { Verdict::No } else { Verdict::More };
        };
        for entry in &self.entries {
            if entry.hash != hash || !rest.starts_with(&entry.pair) {
                continue;
            }
            let Some(value) = rest.get(..entry.bytes) else {
                if ended {
                    continue;
                }
                return Verdict::More;
            };
            if digest(self.key, value) == Some(entry.digest) {
                return Verdict::Yes(Found {
                    from: at,
                    to: at + entry.bytes,
                    kind: "environment",
                    rest: Rest::Nothing,
                });
            }
        }
        Verdict::No
    }

    /// Where, from `from` on, the text ends with what may be the beginning of a value.
    pub(super) fn begun(&self, text: &[u8], from: usize) -> usize {
        let longest = self.entries.first().map_or(0, |entry| entry.bytes);
        let first = from.max(text.len().saturating_sub(longest));
        (first..text.len())
            .find(|at| self.judge(text, *at, false) != Verdict::No)
            .unwrap_or(text.len())
    }
}

/// 16 bits that the first eight bytes give: what is not a value is nearly always told by them.
fn hash(key: [u8; KEY_BYTES], bytes: &[u8]) -> Option<u16> {
    let beginning = u64::from_le_bytes(*bytes.first_chunk()?);
    let (multiplier, _) = key.split_first_chunk()?;
    let mixed = beginning.wrapping_mul(u64::from_le_bytes(*multiplier) | 1);
    u16::try_from(mixed >> 48).ok()
}

fn digest(key: [u8; KEY_BYTES], value: &[u8]) -> Option<[u8; DIGEST_BYTES]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(value);
    mac.finalize().into_bytes().first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden() -> Hidden {
        Hidden::of(
            [7; KEY_BYTES],
            [("A_TOKEN", "hunter2-hunter2"), ("B", "short")],
        )
    }

    #[test]
    fn a_value_is_known_again_and_does_not_stand_in_memory() {
        let hidden = hidden();
        let text = b"a hunter2-hunter2.";
        assert_eq!(hidden.next(text, 0, true), Some(2));
        let Verdict::Yes(found) = hidden.judge(text, 2, true) else {
            panic!("not found");
        };
        assert_eq!((found.from, found.to), (2, 17));
        assert_eq!(hidden.next(b"hunter3-hunter3-", 0, true), None);
        assert!(!hidden.to_text().contains("hunter2"));
        assert!(!format!("{hidden:?} {:?}", hidden.entries).contains("hunter2"));
    }

    #[test]
    fn fingerprints_travel_as_text() {
        let again = Hidden::parse(&hidden().to_text()).unwrap();
        assert_eq!(again.entries, hidden().entries);
        assert_eq!(again.key, hidden().key);
        let cut: String = hidden().to_text().chars().skip(1).collect();
        for wrong in ["", "x", "AAAA", "not base64!", &cut] {
            assert!(Hidden::parse(wrong).is_none(), "{wrong}");
        }
        // A length that would hold back a stream for ever.
        let mut bytes = vec![0; KEY_BYTES + ENTRY_BYTES];
        for byte in &mut bytes[KEY_BYTES..KEY_BYTES + 4] {
            *byte = 0xff;
        }
        assert!(Hidden::parse(&STANDARD_NO_PAD.encode(bytes)).is_none());
    }

    #[test]
    fn what_may_begin_is_told_byte_by_byte() {
        let hidden = hidden();
        for end in 1.."hunter2-hunter2".len() {
            let text = &b"hunter2-hunter2"[..end];
            assert_eq!(hidden.next(text, 0, false), Some(0), "{end}");
            assert_eq!(hidden.judge(text, 0, false), Verdict::More, "{end}");
            assert_eq!(hidden.begun(text, 0), 0);
            assert_eq!(hidden.judge(text, 0, true), Verdict::No, "{end}");
        }
        assert_eq!(hidden.begun(b"hunting around", 0), 14);
    }
}
