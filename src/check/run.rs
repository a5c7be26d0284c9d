//! The checks in their order.

use std::time::Instant;

use super::interrupts::Where;
use super::report::{Finding, Judgement, Report};
use super::subject::{Life, Subject};
use super::terms::{CheckError, Terms};
use super::{balance, client, endings, interrupts, output, restart, starting, timeout};
use crate::config::ForeignKernel;
use crate::jupyter::KernelInfo;

/// A check that begins with a kernel that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Reuse,
    Output,
    LateOutput,
    InterruptIdle,
    Interrupt(Where),
    Timeout,
    Descriptors,
    Restart,
    DeathInside,
    DeathKilled,
    OrphansKilled,
    OrphansShutdown,
}

impl Check {
    /// All of them, in an order in which few of them need a kernel of their own.
    const ALL: [Self; 15] = [
        Self::Reuse,
        Self::Output,
        Self::LateOutput,
        Self::InterruptIdle,
        Self::Interrupt(Where::Sleep),
        Self::Interrupt(Where::Await),
        Self::Interrupt(Where::Child),
        Self::Interrupt(Where::C),
        Self::Timeout,
        Self::Descriptors,
        Self::Restart,
        Self::DeathInside,
        Self::DeathKilled,
        Self::OrphansKilled,
        Self::OrphansShutdown,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Reuse => "reuse",
            Self::Output => "output",
            Self::LateOutput => "late-output",
            Self::InterruptIdle => "interrupt-idle",
            Self::Interrupt(Where::Sleep) => "interrupt-sleep",
            Self::Interrupt(Where::Await) => "interrupt-await",
            Self::Interrupt(Where::Child) => "interrupt-child",
            Self::Interrupt(Where::C) => "interrupt-c",
            Self::Timeout => "timeout",
            Self::Descriptors => "descriptors",
            Self::Restart => "restart",
            Self::DeathInside => "death-inside",
            Self::DeathKilled => "death-killed",
            Self::OrphansKilled => "orphans-killed",
            Self::OrphansShutdown => "orphans-shutdown",
        }
    }

    fn expected(self, subject: &Subject) -> String {
        match self {
            Self::Reuse => starting::expected_reuse(),
            Self::Output => output::expected_order(),
            Self::LateOutput => output::expected_late(subject),
            Self::InterruptIdle => interrupts::expected_idle(),
            Self::Interrupt(at) => at.expected(subject),
            Self::Timeout => timeout::expected(subject),
            Self::Descriptors => balance::expected(),
            Self::Restart => restart::expected(subject),
            Self::DeathInside => endings::expected_inside(subject),
            Self::DeathKilled => endings::expected_killed(subject),
            Self::OrphansKilled => endings::expected_orphans(subject, true),
            Self::OrphansShutdown => endings::expected_orphans(subject, false),
        }
    }

    /// Whether it is made of Python cells.
    const fn needs_python(self) -> bool {
        !matches!(
            self,
            Self::InterruptIdle
                | Self::Descriptors
                | Self::Restart
                | Self::DeathKilled
                | Self::OrphansKilled
                | Self::OrphansShutdown
        )
    }
}

/// The names of all checks, in their order.
pub fn names() -> Vec<&'static str> {
    let others = Check::ALL.iter().map(|it| it.name());
    std::iter::once(START).chain(others).collect()
}

/// The check that is made in any case.
const START: &str = "start";

/// Checks a kernel: starts it, as often as it is needed, and asks of it what the contract promises. Each
/// finding is told as soon as it is there. Everything that was started is gone at the end, also if it is
/// stopped.
///
/// # Errors
///
/// If there is no place for it, or `stop` came.
///
/// # Cancel safety
///
/// None: if dropped, the kernel that runs is left alone. Use `stop`.
pub async fn check(
    kernel: ForeignKernel,
    terms: Terms,
    stop: impl Future<Output = ()>,
    tell: impl FnMut(&Finding),
) -> Result<Report, CheckError> {
    let subject = Subject::new(kernel, terms).await?;
    let kernel = &subject.kernel;
    let report = Report {
        kernel: kernel.name.clone(),
        argv: kernel.argv.clone(),
        implementation: String::new(),
        protocol_version: String::new(),
        language: String::new(),
        passed: 0,
        failed: 0,
        skipped: 0,
        seconds: 0.0,
        checks: Vec::new(),
    };
    let began = Instant::now();
    let mut round = Round {
        subject,
        report,
        tell,
        life: None,
        no_cells: None,
        gone: None,
    };
    let is_stopped = tokio::select! {
        biased;
        () = stop => true,
        () = round.all() => false,
    };
    let Round {
        subject,
        mut report,
        life,
        ..
    } = round;
    drop(life);
    subject.close().await;
    if is_stopped {
        return Err(CheckError::Stopped);
    }
    report.seconds = (began.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0;
    Ok(report)
}

struct Round<T> {
    subject: Subject,
    report: Report,
    tell: T,
    /// The kernel of the last check, if it still answers.
    life: Option<Life>,
    /// Why no Python cells are run.
    no_cells: Option<String>,
    /// Why there is no kernel any more.
    gone: Option<String>,
}

impl<T: FnMut(&Finding)> Round<T> {
    async fn all(&mut self) {
        self.start().await;
        let mut orphans = None;
        for check in Check::ALL {
            if !self.subject.terms.wants(check.name()) {
                continue;
            }
            let known = orphans.take().filter(|_| check == Check::OrphansKilled);
            let finding = if let Some(finding) = known {
                finding
            } else {
                let (finding, next) = Box::pin(self.make(check)).await;
                orphans = next;
                finding
            };
            self.enter(finding);
        }
    }

    async fn start(&mut self) {
        let finding = match self.subject.first_start().await {
            Ok(life) => {
                self.note(&life.info);
                let finding = starting::start(&self.subject, &life).await;
                self.life = Some(life);
                finding
            }
            Err(what) => {
                self.gone = Some("the kernel did not start".to_owned());
                let expected = starting::expected_start(&self.subject);
                Finding::judged(START, expected, Err(what), Vec::new())
            }
        };
        self.enter(finding);
    }

    /// What the kernel says of itself.
    fn note(&mut self, info: &KernelInfo) {
        let language = &info.language_info.name;
        let kernel = &self.subject.kernel;
        let is_python = kernel.is_python() || language.eq_ignore_ascii_case("python");
        let language = if language.is_empty() {
            &kernel.language
        } else {
            language
        };
        self.report.language = client::shown(language);
        self.no_cells = (!is_python).then(|| {
            let language = &self.report.language;
            format!("it is made of Python cells, and the kernel speaks {language:?}")
        });
        self.report.implementation = client::shown(&info.implementation);
        self.report.protocol_version = client::shown(&info.protocol_version);
    }

    fn enter(&mut self, finding: Finding) {
        (self.tell)(&finding);
        self.report.enter(finding);
    }

    /// Makes a check; the killing of a kernel gives the finding of the next one too.
    async fn make(&mut self, check: Check) -> (Finding, Option<Finding>) {
        let expected = check.expected(&self.subject);
        let skipped = |reason: &str| {
            (
                Finding::skipped(check.name(), expected.clone(), reason),
                None,
            )
        };
        if let Some(reason) = &self.gone {
            return skipped(reason);
        }
        if let Some(reason) = self.no_cells.as_ref().filter(|_| check.needs_python()) {
            return skipped(reason);
        }
        if check == Check::OrphansKilled && self.subject.terms.wants(Check::DeathKilled.name()) {
            // That check has not come so far.
            return skipped("the kernel was not killed");
        }
        let life = match self.living().await {
            Ok(life) => life,
            Err(what) => {
                self.gone = Some("the kernel does not start any more".to_owned());
                let what = Err(format!("it does not start any more: {what}"));
                return (
                    Finding::judged(check.name(), expected, what, Vec::new()),
                    None,
                );
            }
        };
        let ((judgement, figures), second) = self.look(check, life).await;
        let second = second.map(|(judgement, figures)| {
            let next = Check::OrphansKilled;
            let expected = next.expected(&self.subject);
            Finding::judged(next.name(), expected, judgement, figures)
        });
        let finding = Finding::judged(check.name(), expected, judgement, figures);
        (finding, second)
    }

    /// A kernel that answers: that of the check before, or a new one in a new place.
    async fn living(&mut self) -> Result<Life, String> {
        if let Some(mut life) = self.life.take() {
            // What came of the check before may still be on its way, or be the end of it.
            let patience = self.subject.terms.patience;
            if life.client.is_open() && life.client.ping(patience).await.is_done() {
                return Ok(life);
            }
            self.subject.end(life.process).await;
        }
        let place = self.subject.place()?;
        self.subject.start(place).await
    }

    async fn look(&mut self, check: Check, mut life: Life) -> (Found, Option<Found>) {
        let (subject, is_python) = (&mut self.subject, self.no_cells.is_none());
        let found = match check {
            Check::Reuse => starting::reuse(subject, &mut life).await,
            Check::Output => output::order(subject, &mut life).await,
            Check::LateOutput => output::late(subject, &mut life).await,
            Check::InterruptIdle => interrupts::idle(subject, &mut life, is_python).await,
            Check::Interrupt(at) => interrupts::interrupt(subject, &mut life, at).await,
            Check::Descriptors => balance::look(subject, &mut life, is_python).await,
            Check::Timeout => {
                let (judgement, figures, next) = timeout::look(subject, life).await;
                self.life = next;
                return ((judgement, figures), None);
            }
            Check::Restart => {
                let (judgement, figures, next) = restart::look(subject, life, is_python).await;
                self.life = next;
                return ((judgement, figures), None);
            }
            Check::DeathInside => {
                let (judgement, figures, next) = endings::inside(subject, life).await;
                self.life = next;
                return ((judgement, figures), None);
            }
            Check::DeathKilled => {
                let (death, orphans) = endings::killed(subject, life, is_python).await;
                return (death, Some(orphans));
            }
            // Wanted without the other.
            Check::OrphansKilled => {
                return (endings::killed(subject, life, is_python).await.1, None);
            }
            Check::OrphansShutdown => {
                let found = endings::orphans_of_shutdown(subject, life, is_python).await;
                return (found, None);
            }
        };
        let (judgement, figures) = found;
        let judgement = match judgement {
            Ok(observed) => {
                self.life = Some(life);
                Ok(observed)
            }
            Err(observed) => {
                let told = life.client.end_told();
                if check == Check::Reuse && starting::is_of_the_first(&observed) {
                    self.no_cells = Some("not even a simple cell ran".to_owned());
                }
                // A cell of it may still run.
                self.subject.end(life.process).await;
                Err(observed + &told)
            }
        };
        ((judgement, figures), None)
    }
}

/// What comes of a check: the judgement, and figures.
type Found = (Judgement, Vec<super::Figure>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_nobody_has_two() {
        let names = names();
        for (place, name) in names.iter().enumerate() {
            assert!(name.bytes().all(|it| it.is_ascii_lowercase() || it == b'-'));
            assert!(name.len() < 20, "{name} does not fit into its column");
            assert_eq!(names.iter().position(|it| it == name), Some(place));
        }
        // The second is found with the first.
        let killed = names.iter().position(|it| *it == "death-killed").unwrap();
        assert_eq!(names[killed + 1], "orphans-killed");
    }
}
