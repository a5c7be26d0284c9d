//! Sentences that speak of a caller's keys, as they stand at a door and in the library, in the words of
//! the command line.

use crate::execution::Outcome;

/// What stands for what, longer ones first.
const FLAGS: [(&str, &str); 7] = [
    ("`caller.cwd` or `caller.directory`", "--cwd"),
    ("with `caller.python`", "with --python PATH"),
    ("`caller.python`", "--python"),
    ("`caller.kernel`", "--kernel"),
    ("`caller.directory`", "--cwd"),
    ("`caller.mode`", "--mode"),
    ("`caller.env`", "--env"),
];

/// A sentence of ours.
pub(super) fn in_flags(sentence: &str) -> String {
    FLAGS.iter().fold(sentence.to_owned(), |text, (key, flag)| {
        text.replace(key, flag)
    })
}

/// The result of a cell; of one that ran, what it says is its own.
pub(super) fn outcome_in_flags(mut outcome: Outcome) -> Outcome {
    if outcome.kernel.execution_count == 0 {
        outcome.output = in_flags(&outcome.output);
        let beside = &mut outcome.beside_streams;
        let sentences = beside.notices.iter_mut().chain(&mut beside.end);
        for sentence in sentences.chain(&mut outcome.error) {
            *sentence = in_flags(sentence);
        }
    }
    outcome.warning = outcome.warning.as_deref().map(in_flags);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::{ErrorClass, KernelReport};

    #[test]
    fn keys_of_a_caller_are_flags_of_the_command() {
        for (sentence, flags) in [
            ("(`caller.cwd` or `caller.directory`)", "(--cwd)"),
            (
                "name one with `caller.python`",
                "name one with --python PATH",
            ),
            ("(from `caller.python`)", "(from --python)"),
            ("(`caller.directory`)", "(--cwd)"),
            ("(`caller.mode`)", "(--mode)"),
            ("(`caller.env`)", "(--env)"),
        ] {
            assert_eq!(in_flags(sentence), flags);
        }
        let refused = |ran| {
            let kernel = KernelReport {
                execution_count: ran,
                ..KernelReport::none()
            };
            outcome_in_flags(Outcome::not_run(
                ErrorClass::Usage,
                "`caller.kernel`",
                kernel,
            ))
        };
        assert_eq!(refused(0).output, "[--kernel]");
        assert_eq!(refused(0).error.as_deref(), Some("--kernel"));
        assert_eq!(refused(0).beside_streams.notices, ["[--kernel]"]);
        // What a cell has printed stays as it is.
        assert_eq!(refused(1).output, "[`caller.kernel`]");
    }
}
