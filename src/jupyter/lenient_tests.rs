use super::*;

#[test]
fn sound_json_is_left_alone() {
    for text in [
        r#"{"a":[1,-2.5e-3,true,null,"N","-","Infinity"]}"#,
        r#"{"NaN":"\\","x":"\"NaN\"","y":"\\\"-Infinity"}"#,
        r#""\ud83d\ude00 \u00e9 \n""#,
        r#""\\ud800""#,
        "\"\u{e9}\u{1f600}\"",
    ] {
        assert_eq!(repair(text.as_bytes()), text);
    }
}

#[test]
fn lone_surrogates_become_the_replacement_character() {
    for (text, repaired) in [
        (r#""\ud800""#, r#""\ufffd""#),
        (r#""\uDFFF x""#, r#""\ufffd x""#),
        (r#""\ud800\ud800\udc00""#, r#""\ufffd\ud800\udc00""#),
        (r#""\udc00\ud800""#, r#""\ufffd\ufffd""#),
        (r#""\ud800\n""#, r#""\ufffd\n""#),
        (r#""\\\ud800""#, r#""\\\ufffd""#),
        (r#"{"\ud83d":"\ud83d"}"#, r#"{"\ufffd":"\ufffd"}"#),
    ] {
        assert_eq!(repair(text.as_bytes()), repaired);
    }
}

#[test]
fn bare_words_become_null_outside_strings_only() {
    for (text, repaired) in [
        ("NaN", "null"),
        ("[NaN,-Infinity,Infinity]", "[null,null,null]"),
        (
            r#"{"NaN":NaN,"-Infinity":"NaN"}"#,
            r#"{"NaN":null,"-Infinity":"NaN"}"#,
        ),
        ("[-1,-Inf]", "[-1,-Inf]"),
    ] {
        assert_eq!(repair(text.as_bytes()), repaired);
    }
}

#[test]
fn invalid_utf8_becomes_the_replacement_character() {
    assert_eq!(repair(b"\"a\xffb\xc3\""), "\"a\u{fffd}b\u{fffd}\"");
}

#[test]
fn broken_json_stays_broken_and_whole() {
    for text in [
        "\"\\",
        "\"\\u",
        "\"\\ud8",
        "\"\\\u{e9}\\ud80",
        "\"\\u\u{e9}123",
        "\"",
        "{",
        "N",
        "-",
    ] {
        assert_eq!(repair(text.as_bytes()), text);
    }
}
