use super::*;
use crate::environment::HIDDEN;

fn caller(environment: &[(&str, &str)], named: &[(&str, &str)]) -> Caller {
    let owned = |pairs: &[(&str, &str)]| {
        let one = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(one).collect()
    };
    Caller {
        environment: owned(environment),
        cwd: "/".into(),
        umask: 0o022,
        limits: None,
        python: None,
        kernel: None,
        mode: None,
        named: owned(named),
    }
}

#[test]
fn what_is_named_passes_and_counts_before_the_rest() {
    let environment = [
        ("PATH", "/bin"),
        ("LANG", "C"),
        ("FOO", "theirs"),
        ("BAR", "b"),
        ("MY_TOKEN", "from outside"),
    ];
    let named = [
        ("FOO", "mine"),
        ("LANG", "de"),
        ("MY_TOKEN", "t"),
        ("FOO", "last"),
    ];
    let seen = visible(&caller(&environment, &named), &["BAR".to_owned()]);
    let pairs: Vec<(&str, &str)> = seen
        .variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [
        ("PATH", "/bin"),
        ("BAR", "b"),
        ("LANG", "de"),
        ("MY_TOKEN", "t"),
        ("FOO", "last"),
    ];
    assert_eq!(pairs, expected);
    assert!(seen.dropped.is_empty(), "{:?}", seen.dropped);
    // Both values are masked: the one that passes, and the one that does not.
    let secret = |value: &str| ("MY_TOKEN".to_owned(), value.to_owned());
    assert_eq!(seen.secrets, [secret("from outside"), secret("t")]);
}

#[test]
fn credentials_never_pass_and_are_refused_where_they_are_named() {
    for name in ["OPENAI_API_KEY", "auxiliary_x_base_url", "HERMES_RPC_TOKEN"] {
        let asks = caller(&[(name, "s")], &[(name, "s")]);
        let seen = visible(&asks, &[name.to_owned()]);
        assert!(seen.variables.is_empty(), "{name}");
        assert_eq!(seen.dropped.reason(name), Some(Reason::NeverPasses));
        let told = refuse_credentials(&asks).unwrap_err().to_string();
        assert!(
            told.contains(name) && told.contains("`caller.env`"),
            "{told}"
        );
    }
    assert_eq!(
        refuse_credentials(&caller(&[], &[("MY_TOKEN", "t")])),
        Ok(())
    );
}

#[test]
fn what_was_dropped_before_is_known_and_told_of_nobody() {
    let mut earlier = DroppedNames::default();
    earlier.add("FOO", Reason::NotListed, false);
    earlier.add("GONE", Reason::NotListed, false);
    earlier.add("MY_TOKEN", Reason::Secret, true);
    let text = earlier.to_text();
    let environment = [(DROPPED, text.as_str()), (HIDDEN, "x"), ("NEW", "n")];
    let seen = visible(&caller(&environment, &[("FOO", "f")]), &[]);
    assert_eq!(seen.dropped.reason("FOO"), None);
    assert_eq!(seen.dropped.reason("MY_TOKEN"), Some(Reason::Secret));
    assert_eq!(seen.dropped.listed().collect::<Vec<_>>(), ["GONE", "NEW"]);
}
