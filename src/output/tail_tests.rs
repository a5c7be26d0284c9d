use proptest::prelude::*;

use super::*;

#[test]
fn nothing_comes_of_nothing() {
    let mut tail = Tail::new(10);
    assert_eq!(tail.take(), None);
    tail.push(b"");
    assert_eq!(tail.take(), None);
}

#[test]
fn the_end_is_kept_and_all_is_counted() {
    let mut tail = Tail::new(10);
    tail.push(b"0123");
    tail.push(b"456789");
    assert_eq!(tail.take(), Some(("0123456789".to_owned(), 10)));
    assert_eq!(tail.take(), None);
    tail.push(b"0123456789abc");
    tail.push(b"d");
    assert_eq!(tail.total(), 14);
    assert_eq!(tail.take(), Some(("456789abcd".to_owned(), 14)));
}

#[test]
fn the_text_begins_at_a_character() {
    let mut tail = Tail::new(4);
    tail.push("\u{1f600}abc".as_bytes());
    assert_eq!(tail.take(), Some(("abc".to_owned(), 7)));
    tail.push("a\u{1f600}".as_bytes());
    assert_eq!(tail.take(), Some(("\u{1f600}".to_owned(), 5)));
    // Bytes that came first are no rest of something left out.
    tail.push(b"\x80a");
    assert_eq!(tail.take(), Some(("\u{fffd}a".to_owned(), 2)));
    tail.push(&[0x80; 9]);
    assert_eq!(tail.take(), Some(("\u{fffd}".to_owned(), 9)));
}

#[test]
fn a_cap_of_nothing_counts_only() {
    let mut tail = Tail::new(0);
    tail.push(b"abc");
    assert_eq!(tail.take(), Some((String::new(), 3)));
}

proptest! {
    #[test]
    fn any_pushes_leave_the_last_bytes(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
        cap in 0..60_usize,
    ) {
        let mut tail = Tail::new(cap);
        for chunk in &chunks {
            tail.push(chunk);
            prop_assert!(tail.kept.capacity() <= cap);
        }
        let all = chunks.concat();
        prop_assert_eq!(tail.total(), wide(all.len()));
        let last = all.len().saturating_sub(cap);
        prop_assert_eq!(tail.into_bytes(), &all[last..]);
    }
}
