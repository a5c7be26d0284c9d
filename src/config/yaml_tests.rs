use std::fmt::Write as _;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// As JSON would have it, without aliases.
fn plain(node: &Node) -> String {
    match &node.value {
        Value::Scalar { .. } => node.shown(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|item| plain(item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(_) => {
            let entries = node.entries().unwrap().unwrap();
            let entries = entries
                .iter()
                .map(|it| format!("{}: {}", it.name, plain(it.node)));
            let entries: Vec<String> = entries.collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn tree(text: &str) -> String {
    read(text)
        .unwrap()
        .map_or_else(String::new, |it| plain(&it))
}

fn fault(text: &str) -> (usize, String) {
    let fault = read(text).unwrap_err();
    (fault.line, fault.reason)
}

#[test]
fn what_is_written_is_read_as_it_stands() {
    for empty in [
        "",
        "\n\n",
        "# nothing\n",
        "---\n",
        "~",
        "null\n",
        "\u{feff}",
        "---\n...\n",
    ] {
        assert_eq!(tree(empty), "", "{empty:?}");
    }
    assert_eq!(
        tree("a: 1\nb: [x, 'y', \"z\\n\", 1e9]\n\"c\": {d: true, e: }\n"),
        r#"{a: 1, b: [x, "y", "z\n", 1e9], c: {d: true, e: ~}}"#
    );
    assert_eq!(tree("\u{feff}a: 1"), "{a: 1}");
    assert_eq!(tree("a: |\n  x\n  y\n"), "{a: \"x\\ny\\n\"}");
    assert_eq!(tree("{\"a\": [1, null]}"), "{a: [1, null]}");
    assert_eq!(tree("a: 1\r\nb: 2\r\n"), "{a: 1, b: 2}");
    // A key that is no text is nobody's.
    assert_eq!(tree("? [a, b]\n: 1\nc: 2\n"), "{c: 2}");
    assert_eq!(tree("- a\n- b\n"), "[a, b]");
}

#[test]
fn the_last_of_a_key_counts_and_the_first_is_told() {
    let root = read("a: 1\nb: 2\na: 3\n").unwrap().unwrap();
    let entries = root.entries().unwrap().unwrap();
    let told: Vec<_> = entries
        .iter()
        .map(|it| (it.name, it.line, it.node.shown(), it.earlier))
        .collect();
    assert_eq!(
        told,
        [
            ("a", 3, "3".to_owned(), Some(1)),
            ("b", 2, "2".to_owned(), None)
        ]
    );
}

#[test]
fn aliases_and_merges_are_followed() {
    let text = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz:\n  <<: [*x, *y]\n  a: 5\nw: *x\n";
    let root = read(text).unwrap().unwrap();
    let entries = root.entries().unwrap().unwrap();
    let of = |name: &str| entries.iter().find(|it| it.name == name).unwrap();
    assert_eq!(plain(of("z").node), "{a: 5, b: 2, c: 4}");
    assert_eq!(plain(of("w").node), "{a: 1, b: 2}");
    // A value keeps the line on which it stands.
    assert_eq!((of("w").line, of("w").node.line), (6, 1));
    for wrong in ["a: {<<: 3}", "a: {<<: [3]}"] {
        let root = read(wrong).unwrap().unwrap();
        let entries = root.entries().unwrap().unwrap();
        let fault = entries[0].node.entries().unwrap().unwrap_err();
        assert_eq!(fault.line, 1);
        assert!(fault.reason.contains("no mapping"), "{fault:?}");
    }
}

#[test]
fn what_is_no_yaml_is_told_with_its_line() {
    let (line, reason) = fault("a:\n  b: 1\n\tc: 2\n");
    assert_eq!(line, 3, "{reason}");
    assert!(reason.contains("tabs"), "{reason}");
    for (text, at) in [
        ("a: [1, 2\nb: 3\n", 2),
        ("a: 1\n b: 2\n", 2),
        ("a: \"x\n\n\n", 1),
        ("a: *nobody\n", 1),
        ("a: &a [*a]\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: {b: }}\n", 1),
    ] {
        let (line, reason) = fault(text);
        assert!(line >= at && line <= at + 3, "{text:?}: {line} {reason}");
        assert!(!reason.is_empty(), "{text:?}");
    }
}

/// Everything that would be billions of values, or a stack that overflows.
#[test]
fn bombs_cost_nothing() {
    let began = Instant::now();
    let mut laughs = "a0: &a0 [x, x]\n".to_owned();
    let mut merges = "m0: &m0 {x: 1}\n".to_owned();
    for n in 1..25 {
        let before = n - 1;
        writeln!(
            laughs,
            "a{n}: &a{n} [{}]",
            vec![format!("*a{before}"); 9].join(", ")
        )
        .unwrap();
        let list = vec![format!("*m{before}"); 9].join(", ");
        writeln!(merges, "m{n}: &m{n} {{<<: [{list}]}}").unwrap();
    }
    assert!(read(&laughs).is_ok());
    let root = read(&merges).unwrap().unwrap();
    let entries = root.entries().unwrap().unwrap();
    let last = entries.last().unwrap().node;
    assert!(
        last.entries()
            .unwrap()
            .unwrap_err()
            .reason
            .contains("10000")
    );
    let mut chain = "a0: &a0 [x]\n".to_owned();
    for n in 1..50_000 {
        writeln!(chain, "a{n}: &a{n} [*a{}]", n - 1).unwrap();
    }
    assert!(fault(&chain).1.contains("deep"));
    for deep in ["[", "{a: ", "- ", "? ", "!!x [", "&a [", "- - - "] {
        assert!(read(&deep.repeat(100_000)).is_err(), "{deep}");
    }
    let wide = format!("a: [{}]", "1,".repeat(200_000));
    assert!(fault(&wide).1.contains("100000"));
    let flat = "k: v\n".repeat(90_000 / 2);
    assert!(read(&flat).is_ok());
    for long in [
        "a: ".to_owned() + &"x".repeat(1 << 20),
        "x".repeat(1 << 20),
        "#".repeat(1 << 20),
        "# x\n".repeat(1 << 18),
        "\n".repeat(1 << 20),
        "a: |\n".to_owned() + &"  x\n".repeat(1 << 18),
        "a: \"".to_owned() + &"\\n".repeat(1 << 19) + "\"",
        "a: x\n".to_owned() + &"  x\n".repeat(1 << 18),
        ": ".repeat(1 << 19),
        "? ".repeat(1 << 19),
        "%A b\n".repeat(1 << 17),
    ] {
        drop(read(&long));
    }
    // Minutes if any of it were more than linear.
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
}

proptest! {
    #[test]
    fn no_text_is_too_much(text in prop_oneof![
        "\\PC{0,200}",
        "([a-c]: ?|- |\\? |[\\[\\]{},&*!|>'\"%@`#~]|<<: |\n|  |\t|\\*a|&a |---\n|\\.\\.\\.\n|x){0,80}",
    ]) {
        if let Ok(Some(node)) = read(&text) {
            prop_assert!(node.depth <= MOST_DEPTH);
            drop(node.entries());
            prop_assert!(node.shown().len() < 1_000);
        }
    }
}
