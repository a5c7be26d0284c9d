//! What is told: a finding a check, and all of them together.

use std::fmt;

use serde::Serialize;

use super::figures::{self, Figure};
use crate::words::counted;

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It was as expected.
    Pass,
    /// It was not.
    Fail,
    /// It could not be looked at; the finding says why.
    Skipped,
}

impl Verdict {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skipped => "skipped",
        }
    }
}

/// What came of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the check; it does not change.
    pub name: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// What the contract promises.
    pub expected: String,
    /// What was seen, or why nothing was.
    pub observed: String,
    /// Measured meanwhile.
    #[serde(serialize_with = "figures::as_object")]
    pub figures: Vec<Figure>,
}

impl Finding {
    /// Of a check that was not made.
    pub(super) fn skipped(name: &'static str, expected: String, reason: &str) -> Self {
        Self {
            name,
            verdict: Verdict::Skipped,
            expected,
            observed: reason.to_owned(),
            figures: Vec::new(),
        }
    }

    /// Of a check that was made.
    pub(super) fn judged(
        name: &'static str,
        expected: String,
        judgement: Judgement,
        figures: Vec<Figure>,
    ) -> Self {
        let (verdict, observed) = match judgement {
            Ok(observed) => (Verdict::Pass, observed),
            Err(observed) => (Verdict::Fail, observed),
        };
        Self {
            name,
            verdict,
            expected,
            observed,
            figures,
        }
    }
}

/// What was observed: as it is to be, or not.
pub(super) type Judgement = Result<String, String>;

impl fmt::Display for Finding {
    /// A line for people; of a failure a second one that says what was expected.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.verdict.word();
        write!(formatter, "{word:<8}{:<20}{}", self.name, self.observed)?;
        if !self.figures.is_empty() {
            let figures: Vec<String> = self.figures.iter().map(Figure::to_string).collect();
            write!(formatter, " [{}]", figures.join(", "))?;
        }
        if self.verdict == Verdict::Fail {
            write!(formatter, "\n{:<28}expected: {}", "", self.expected)?;
        }
        Ok(())
    }
}

/// What came of all checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The name of the kernelspec.
    pub kernel: String,
    /// How it is started.
    pub argv: Vec<String>,
    /// What the kernel says that it is; left out if it said nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub implementation: String,
    /// The version of the messaging protocol that it says it speaks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol_version: String,
    /// The language of its cells.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub language: String,
    /// How many checks passed.
    pub passed: usize,
    /// How many failed.
    pub failed: usize,
    /// How many were not made.
    pub skipped: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What came of each, in order.
    pub checks: Vec<Finding>,
}

impl Report {
    /// Enters a finding.
    pub(super) fn enter(&mut self, finding: Finding) {
        match finding.verdict {
            Verdict::Pass => self.passed += 1,
            Verdict::Fail => self.failed += 1,
            Verdict::Skipped => self.skipped += 1,
        }
        self.checks.push(finding);
    }

    /// Whether no check failed.
    pub fn is_good(&self) -> bool {
        self.failed == 0
    }

    /// The last line: how many of each, and how long it took.
    pub fn summary(&self) -> String {
        let (passed, failed, skipped) = (self.passed, self.failed, self.skipped);
        let total = counted((passed + failed + skipped) as u64, "check");
        let seconds = self.seconds;
        format!("{total}: {passed} passed, {failed} failed, {skipped} skipped, in {seconds:.1} s")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn report() -> Report {
        let mut report = Report {
            kernel: "mine".to_owned(),
            argv: vec!["k".to_owned()],
            implementation: String::new(),
            protocol_version: "5.5".to_owned(),
            language: "python".to_owned(),
            passed: 0,
            failed: 0,
            skipped: 0,
            seconds: 2.345,
            checks: Vec::new(),
        };
        let figures = vec![Figure::ms("reply", Duration::from_millis(12))];
        let good = Ok("it answered".to_owned());
        report.enter(Finding::judged(
            "start",
            "an answer".to_owned(),
            good,
            figures,
        ));
        report
    }

    #[test]
    fn a_report_is_lines_for_people_and_one_object_for_programs() {
        let mut report = report();
        assert!(report.is_good());
        let bad = Err("it did not".to_owned());
        report.enter(Finding::judged(
            "restart",
            "another answer".to_owned(),
            bad,
            Vec::new(),
        ));
        report.enter(Finding::skipped("reuse", "state".to_owned(), "it is gone"));
        assert!(!report.is_good());
        let lines: Vec<String> = report.checks.iter().map(Finding::to_string).collect();
        assert_eq!(
            lines,
            [
                "pass    start               it answered [reply 12 ms]",
                "fail    restart             it did not\n                            expected: another answer",
                "skipped reuse               it is gone",
            ]
        );
        assert_eq!(
            report.summary(),
            "3 checks: 1 passed, 1 failed, 1 skipped, in 2.3 s"
        );
        assert_eq!(
            serde_json::to_value(&report).unwrap(),
            json!({
                "kernel": "mine", "argv": ["k"], "protocol_version": "5.5", "language": "python",
                "passed": 1, "failed": 1, "skipped": 1, "seconds": 2.345,
                "checks": [
                    { "name": "start", "verdict": "pass", "expected": "an answer",
                      "observed": "it answered", "figures": { "reply_ms": 12.0 } },
                    { "name": "restart", "verdict": "fail", "expected": "another answer",
                      "observed": "it did not", "figures": {} },
                    { "name": "reuse", "verdict": "skipped", "expected": "state",
                      "observed": "it is gone", "figures": {} },
                ],
            })
        );
    }
}
