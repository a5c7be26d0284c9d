//! Signatures of messages on ZeroMQ: HMAC-SHA256 over header, parent header, metadata and content.
//!
//! Buffers are not signed. Both work on the bytes as they are on the wire: what is read out of them is
//! looked at only after the signature was found right.

use std::collections::{HashSet, VecDeque};
use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::wire_error::SignatureError;

/// The one scheme that is known.
pub const SIGNATURE_SCHEME: &str = "hmac-sha256";
/// Signatures that are remembered: as many as Jupyter's own kernels do.
const REMEMBERED: usize = 1 << 16;
const DIGEST_BYTES: usize = 32;

/// The digest that a signature spells.
type Digest = [u8; DIGEST_BYTES];

/// Signs what goes out, and looks at the signatures of what comes in.
#[derive(Clone)]
pub struct Signer {
    /// `None` where nothing is signed.
    keyed: Option<Hmac<Sha256>>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        formatter
            .debug_struct("Signer")
            .field("is_keyed", &self.keyed.is_some())
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// With the key of a connection. An empty key signs nothing: its signatures are empty, and
    /// everything that comes in is let through.
    ///
    /// # Errors
    ///
    /// If the scheme is another than `hmac-sha256`.
    pub fn new(scheme: &str, key: &[u8]) -> Result<Self, SignatureError> {
        if scheme != SIGNATURE_SCHEME {
            return Err(SignatureError::Scheme {
                scheme: scheme.chars().take(64).collect(),
            });
        }
        if key.is_empty() {
            return Ok(Self { keyed: None });
        }
        // A key of any length will do.
        let keyed = Hmac::new_from_slice(key).map_err(|_any| SignatureError::Key)?;
        Ok(Self { keyed: Some(keyed) })
    }

    /// The signature of four parts: 64 lower-case hexadecimal digits, or nothing.
    pub fn sign(&self, parts: [&[u8]; 4]) -> String {
        let Some(mac) = self.over(parts) else {
            return String::new();
        };
        let mut text = String::with_capacity(2 * DIGEST_BYTES);
        for byte in mac.finalize().into_bytes() {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(nibble), 16).unwrap_or_default());
            }
        }
        text
    }

    /// Looks whether a signature is that of the parts, in a time that does not tell how much of it
    /// was right. Its digest; `None` where nothing is signed.
    ///
    /// # Errors
    ///
    /// If it is no 64 lower-case hexadecimal digits, or those of other parts or another key.
    pub fn verify(
        &self,
        signature: &[u8],
        parts: [&[u8]; 4],
    ) -> Result<Option<SeenDigest>, SignatureError> {
        let Some(mac) = self.over(parts) else {
            return Ok(None);
        };
        let digest = digest(signature).ok_or(SignatureError::Form {
            length: signature.len(),
        })?;
        mac.verify_slice(&digest)
            .map_err(|_wrong| SignatureError::Wrong)?;
        Ok(Some(SeenDigest(digest)))
    }

    fn over(&self, parts: [&[u8]; 4]) -> Option<Hmac<Sha256>> {
        let mut mac = self.keyed.clone()?;
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }
}

/// Exactly as it is written by whoever has the key: one message has one signature.
fn digest(signature: &[u8]) -> Option<Digest> {
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut digest = Digest::default();
    let (pairs, rest) = signature.as_chunks::<2>();
    if pairs.len() != DIGEST_BYTES || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(digest)
}

/// The digest of a message whose signature was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeenDigest(Digest);

/// The signatures that have come: the same a second time is a replay.
#[derive(Debug, Default)]
pub struct SeenDigests {
    known: HashSet<SeenDigest>,
    order: VecDeque<SeenDigest>,
}

impl SeenDigests {
    /// Enters a message.
    ///
    /// # Errors
    ///
    /// If it was entered before; the latest 65,536 are known.
    pub fn enter(&mut self, digest: SeenDigest) -> Result<(), SignatureError> {
        if !self.known.insert(digest) {
            return Err(SignatureError::Replayed);
        }
        self.order.push_back(digest);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: [&[u8]; 4] = [b"{}", b"{\"a\":1}", b"{}", b"content"];

    fn signer() -> Signer {
        Signer::new(SIGNATURE_SCHEME, b"secret").unwrap()
    }

    #[test]
    fn it_signs_as_jupyter_does() {
        // From jupyter_client's Session(key=b"secret").sign([b"{}", b'{"a":1}', b"{}", b"content"]).
        assert_eq!(
            signer().sign(PARTS),
            "cdace17615f48d69d32eb7db076cd6a2b3a7125507e8f04af9bcbcafef71a2a6"
        );
    }

    #[test]
    fn only_the_signature_itself_is_right() {
        let signer = signer();
        let right = signer.sign(PARTS);
        assert!(signer.verify(right.as_bytes(), PARTS).unwrap().is_some());
        let mut changed = PARTS;
        changed[3] = b"contenT";
        assert_eq!(
            signer.verify(right.as_bytes(), changed),
            Err(SignatureError::Wrong)
        );
        let other = Signer::new(SIGNATURE_SCHEME, b"other").unwrap();
        assert_eq!(
            other.verify(right.as_bytes(), PARTS),
            Err(SignatureError::Wrong)
        );
        let short: String = right.chars().take(63).collect();
        let long = format!("{right}0");
        let spaced = format!(" {short}");
        for wrong in [
            "",
            "0",
            &short,
            &long,
            &spaced,
            &right.to_uppercase(),
            &"g".repeat(64),
            &"é".repeat(32),
        ] {
            let found = signer.verify(wrong.as_bytes(), PARTS);
            assert_eq!(
                found,
                Err(SignatureError::Form {
                    length: wrong.len()
                }),
                "{wrong}"
            );
        }
        let found = signer.verify("0".repeat(64).as_bytes(), PARTS);
        assert_eq!(found, Err(SignatureError::Wrong));
    }

    #[test]
    fn without_a_key_nothing_is_signed_and_everything_is_let_through() {
        let signer = Signer::new(SIGNATURE_SCHEME, b"").unwrap();
        assert_eq!(signer.sign(PARTS), "");
        assert_eq!(signer.verify(b"anything", PARTS), Ok(None));
    }

    #[test]
    fn another_scheme_is_refused_by_name_and_the_key_is_not_shown() {
        for scheme in ["hmac-md5", "hmac-sha512", "sha256", "", "HMAC-SHA256"] {
            let error = Signer::new(scheme, b"secret").unwrap_err();
            let sentence = error.to_string();
            assert!(sentence.contains(&format!("{scheme:?}")), "{sentence}");
            assert!(sentence.contains("hmac-sha256"), "{sentence}");
        }
        assert!(!format!("{:?}", signer()).contains("secret"));
    }

    #[test]
    fn a_message_that_comes_again_is_a_replay_as_long_as_it_is_known() {
        let mut seen = SeenDigests::default();
        let digest = |number: usize| {
            let mut digest = Digest::default();
            digest[..8].copy_from_slice(&number.to_le_bytes());
            SeenDigest(digest)
        };
        for number in 0..=REMEMBERED {
            seen.enter(digest(number)).unwrap();
            assert_eq!(seen.enter(digest(number)), Err(SignatureError::Replayed));
        }
        assert_eq!(seen.known.len(), REMEMBERED);
        assert_eq!(seen.enter(digest(1)), Err(SignatureError::Replayed));
        assert_eq!(seen.enter(digest(0)), Ok(()));
    }

    proptest! {
        #[test]
        fn what_was_signed_verifies_and_no_other_bytes_do(
            key in prop::collection::vec(any::<u8>(), 1..200),
            parts in prop::array::uniform4(prop::collection::vec(any::<u8>(), 0..64)),
            forged in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let signer = Signer::new(SIGNATURE_SCHEME, &key).unwrap();
            let parts = [&parts[0][..], &parts[1], &parts[2], &parts[3]];
            let signature = signer.sign(parts);
            prop_assert!(signer.verify(signature.as_bytes(), parts).is_ok());
            prop_assert!(signer.verify(&forged, parts).is_err());
        }
    }
}
