//! Names that nobody can guess and nobody else has.

use rustix::rand::{GetRandomFlags, getrandom};

/// So many random bytes, as lower-case hex digits.
pub(crate) fn random_hex(bytes: usize) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut random = vec![0_u8; bytes];
    fill(&mut random);
    random
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| DIGITS.get(usize::from(digit)))
        .map(|digit| char::from(*digit))
        .collect()
}

/// A key for digests.
pub(crate) fn random_key() -> [u8; 16] {
    let mut key = [0; 16];
    fill(&mut key);
    key
}

fn fill(random: &mut [u8]) {
    let mut filled = 0;
    while let Some(rest) = random.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // The system's generator fails only before it is seeded, which this waits for.
        filled += getrandom(rest, GetRandomFlags::empty()).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::random_hex;

    #[test]
    fn has_the_length_and_differs() {
        let (first, second) = (random_hex(16), random_hex(16));
        assert_eq!(first.len(), 32);
        assert!(first.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(first, second);
    }
}
