//! How an interrupt that is meant to keep the kernel goes on: again and again, then the kill.

use std::time::Duration;

/// Python swallows a `KeyboardInterrupt` that is raised in a destructor or a callback, so the signal
/// is sent again this often.
const RESEND: Duration = Duration::from_millis(75);

/// An interrupt under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escalation {
    /// How long the cell may take to end by itself.
    pub grace: Duration,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the signal again, then.
    Resend {
        /// When, counted from the first signal.
        at: Duration,
    },
    /// Kill the kernel, then.
    Kill {
        /// When, counted from the first signal.
        at: Duration,
    },
}

impl Escalation {
    /// The step after so much time since the first signal.
    pub fn after(&self, elapsed: Duration) -> Step {
        let resend = (elapsed.as_millis() / RESEND.as_millis() + 1) * RESEND.as_millis();
        let at = Duration::from_millis(u64::try_from(resend).unwrap_or(u64::MAX));
        if at >= self.grace {
            Step::Kill { at: self.grace }
        } else {
            Step::Resend { at }
        }
    }
}

impl Step {
    /// When it is due, counted from the first signal.
    pub fn at(self) -> Duration {
        match self {
            Self::Resend { at } | Self::Kill { at } => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_come_between_50_and_100_ms_apart_until_the_grace_ends() {
        let plan = Escalation {
            grace: Duration::from_secs(3),
        };
        let mut elapsed = Duration::ZERO;
        let mut resends = 0;
        loop {
            let step = plan.after(elapsed);
            let gap = step.at().checked_sub(elapsed).unwrap();
            assert!(
                gap > Duration::ZERO && gap <= Duration::from_millis(100),
                "{gap:?}"
            );
            elapsed = step.at();
            match step {
                Step::Resend { .. } => resends += 1,
                Step::Kill { at } => {
                    assert_eq!(at, plan.grace);
                    break;
                }
            }
        }
        assert_eq!(resends, 39);
    }

    #[test]
    fn a_late_look_skips_what_is_past() {
        let plan = Escalation {
            grace: Duration::from_secs(3),
        };
        let late = plan.after(Duration::from_millis(400));
        assert_eq!(
            late,
            Step::Resend {
                at: Duration::from_millis(450)
            }
        );
        let over = plan.after(Duration::from_secs(9));
        assert_eq!(over, Step::Kill { at: plan.grace });
        let none = Escalation {
            grace: Duration::ZERO,
        };
        assert_eq!(
            none.after(Duration::ZERO),
            Step::Kill { at: Duration::ZERO }
        );
    }
}
