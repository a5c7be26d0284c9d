//! Numbers with their nouns, as sentences have them.

/// `1 cell`, `2 cells`, `0 processes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match (count, noun.ends_with('s')) {
        (1, _) => format!("1 {noun}"),
        (_, true) => format!("{count} {noun}es"),
        (_, false) => format!("{count} {noun}s"),
    }
}

/// The form of a verb that goes with a number: `is` or `are`, `was` or `were`.
pub(crate) fn agreeing(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_agree_with_their_number() {
        let said = [0, 1, 2].map(|count| {
            let verb = agreeing(count, "is", "are");
            format!("{} {verb}", counted(count, "process"))
        });
        assert_eq!(said, ["0 processes are", "1 process is", "2 processes are"]);
        assert_eq!(counted(1, "tool call"), "1 tool call");
        assert_eq!(counted(11, "tool call"), "11 tool calls");
    }
}
