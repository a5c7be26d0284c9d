//! Characters that the border between two pieces of a stream has cut.

/// Puts the characters of a stream together whose bytes come in several pieces.
#[derive(Debug, Clone, Default)]
pub struct Characters {
    /// The beginning of one that is not whole yet: at most three bytes.
    begun: Vec<u8>,
}

impl Characters {
    /// The bytes that came, with what was begun before them, and without a character that is not
    /// whole yet. What is no UTF-8 is not held back.
    pub fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut whole = all.len();
        // At most three bytes at the end can be the beginning of a character.
        for back in 1..=3.min(all.len()) {
            let at = all.len() - back;
            let Some(first) = all.get(at).copied() else {
                break;
            };
            let needed = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                0x80..=0xbf => continue,
                _ => 1,
            };
            if needed > back {
                whole = at;
            }
            break;
        }
        self.begun = all.split_off(whole);
        all
    }

    /// What was begun and never ended.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.begun)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_that_were_cut_are_put_together() {
        let text = "aé漢😀b".repeat(3);
        for size in 1..5 {
            let mut characters = Characters::default();
            let got: Vec<u8> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| {
                    let whole = characters.whole(chunk);
                    assert!(std::str::from_utf8(&whole).is_ok());
                    whole
                })
                .collect();
            assert_eq!(got, text.as_bytes());
            assert!(characters.rest().is_empty());
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9)) {
            let mut characters = Characters::default();
            let mut got: Vec<u8> = pieces.iter().flat_map(|piece| characters.whole(piece)).collect();
            got.extend(characters.rest());
            prop_assert_eq!(got, pieces.concat());
        }
    }
}
