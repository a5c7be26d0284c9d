//! What the end of a cell means: status, class, and the line that tells it.

use std::time::Duration;

use super::losses::{died, killed, loss_line};
use super::{Cost, ErrorClass, How, Loss, Status, Stop, Successor};
use crate::jupyter::{CellReport, ExecuteReply, ReplyStatus, error_line};

/// What is said of a cell that an interrupt has ended, as it was meant to.
pub(crate) const INTERRUPTED_KEPT: &str = "[interrupted; state is kept]";

/// What to do after a timeout that has cost state.
pub(super) const MORE_TIME: &str = "rebuild what you need, or give the cell more time";

/// What a cell's end means.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: Status,
    pub(super) exit_code: i64,
    pub(super) error: Option<String>,
    pub(super) class: Option<ErrorClass>,
    pub(super) traceback: Option<String>,
    /// The line at the end of the output.
    pub(super) line: Option<String>,
}

impl Ended {
    pub(super) fn of(
        how: &How,
        limit: Duration,
        loss: Option<&Loss>,
        successor: &Successor,
    ) -> Self {
        match how {
            How::Replied(reply) => Self::of_reply(reply),
            How::Stopped(stop, reply) => Self::of_stopped(*stop, reply, limit),
            How::Lost(stop, cost) => Self::of_lost(*stop, cost, limit, loss, successor),
            How::Died(death) | How::NotStarted(death) => {
                let when = match how {
                    How::NotStarted(_) => "before the cell began",
                    _ => "while running the cell",
                };
                let error = format!("the kernel {death} {when}");
                Self {
                    status: Status::Error,
                    exit_code: -1,
                    line: Some(loss_line(
                        &error,
                        &died(successor),
                        loss,
                        "rebuild what you need",
                    )),
                    error: Some(error),
                    class: Some(ErrorClass::KernelDied),
                    traceback: None,
                }
            }
        }
    }

    fn of_reply(reply: &ExecuteReply) -> Self {
        let nothing = CellReport::default();
        let report = reply.warmcell.as_ref().unwrap_or(&nothing);
        if ended_well(reply) {
            return Self {
                status: Status::Success,
                exit_code: 0,
                error: None,
                class: None,
                traceback: None,
                line: None,
            };
        }
        if let Some(call) = exit_call(report) {
            let error = format!("the cell called {call}");
            return Self {
                status: Status::Error,
                exit_code: report.exit.as_ref().map_or(1, |exit| exit.code),
                line: Some(format!("[{error}; state is kept]")),
                error: Some(error),
                class: Some(ErrorClass::Exit),
                traceback: None,
            };
        }
        let (class, line, place) = match &report.error {
            Some(error) => (
                class_of(&error.class),
                error.line.clone(),
                error.place.clone(),
            ),
            None => (ErrorClass::Exception, String::new(), None),
        };
        let mut line = if line.is_empty() {
            error_line(&reply.ename, &reply.evalue)
        } else {
            line
        };
        if let Some(place) = place {
            line = format!("{line} ({place})");
        }
        let traceback = reply.traceback.join("\n");
        Self {
            status: Status::Error,
            exit_code: 1,
            // A failure never goes without a word, whatever became of its traceback.
            traceback: Some(if traceback.is_empty() {
                line.clone()
            } else {
                traceback
            }),
            error: Some(line),
            class: Some(class),
            line: None,
        }
    }

    /// It was interrupted in place and has ended: by that, or as it liked.
    fn of_stopped(stop: Stop, reply: &ExecuteReply, limit: Duration) -> Self {
        let nothing = CellReport::default();
        let report = reply.warmcell.as_ref().unwrap_or(&nothing);
        let was_raised = report
            .error
            .as_ref()
            .is_some_and(|error| error.class == INTERRUPTED);
        let by_itself = if ended_well(reply) {
            Some("after that the cell ended by itself".to_owned())
        } else if let Some(call) = exit_call(report) {
            Some(format!("after that the cell called {call}"))
        } else if was_raised {
            None
        } else {
            // Of kernels that are not ours some give their errors no name.
            let kind: String = reply.ename.trim().chars().take(100).collect();
            Some(if kind.is_empty() {
                "after that the cell failed".to_owned()
            } else {
                format!("after that the cell raised {kind}")
            })
        };
        let own = Self::of_reply(reply);
        let line = match (stop, by_itself) {
            (Stop::Interrupt, None) => None,
            (Stop::Timeout, None) => Some(format!("{} and was interrupted", timed_out(limit))),
            (Stop::Timeout, Some(end)) => {
                Some(format!("{} and was interrupted; {end}", timed_out(limit)))
            }
            (Stop::Interrupt, Some(end)) => Some(format!("interrupted; {end}")),
        };
        let error = match (stop, own.error.filter(|_| was_raised)) {
            // With the place where it was.
            (Stop::Interrupt, Some(error)) => error,
            (Stop::Interrupt, None) => "interrupted".to_owned(),
            (Stop::Timeout, _) => timed_out(limit),
        };
        Self {
            status: status_of(stop),
            exit_code: -1,
            error: Some(error),
            class: Some(class_of_stop(stop)),
            traceback: own.traceback,
            line: Some(line.map_or_else(
                || INTERRUPTED_KEPT.to_owned(),
                |line| format!("[{line}; state is kept]"),
            )),
        }
    }

    /// It was not to go on, and its kernel is gone.
    fn of_lost(
        stop: Stop,
        cost: &Cost,
        limit: Duration,
        loss: Option<&Loss>,
        successor: &Successor,
    ) -> Self {
        let (first, again, advice) = match stop {
            Stop::Timeout => (
                timed_out(limit),
                format!("{}, was interrupted", timed_out(limit)),
                MORE_TIME,
            ),
            Stop::Interrupt => (
                "interrupted".to_owned(),
                "interrupted".to_owned(),
                "rebuild what you need",
            ),
        };
        let (error, verb) = match cost {
            Cost::Killed => (first, killed(successor)),
            Cost::Deaf(grace) => (
                format!("{again} and did not end within {}", seconds(*grace)),
                killed(successor),
            ),
            Cost::CutShort => (
                format!("{again} and then ended by force"),
                killed(successor),
            ),
            Cost::Died(death) => (format!("{again}, and the kernel {death}"), died(successor)),
        };
        Self {
            status: status_of(stop),
            exit_code: -1,
            line: Some(loss_line(&error, &verb, loss, advice)),
            error: Some(error),
            class: Some(class_of_stop(stop)),
            traceback: None,
        }
    }
}

/// The class that the kernel gives a `KeyboardInterrupt` that the manager has asked for.
const INTERRUPTED: &str = "interrupted";

/// The class that the kernel gives, as one of those that it may give.
fn class_of(word: &str) -> ErrorClass {
    match word {
        "syntax" => ErrorClass::Syntax,
        "missing_module" => ErrorClass::MissingModule,
        "limit" => ErrorClass::Limit,
        _ => ErrorClass::Exception,
    }
}

fn class_of_stop(stop: Stop) -> ErrorClass {
    match stop {
        Stop::Timeout => ErrorClass::Timeout,
        Stop::Interrupt => ErrorClass::Interrupted,
    }
}

fn status_of(stop: Stop) -> Status {
    match stop {
        Stop::Timeout => Status::Timeout,
        Stop::Interrupt => Status::Interrupted,
    }
}

/// Whether it is a success for whoever has asked for a result: `sys.exit(0)` is, and only front ends of
/// notebooks are told of it as of an error.
fn ended_well(reply: &ExecuteReply) -> bool {
    let exit = reply.warmcell.as_ref().and_then(|own| own.exit.as_ref());
    let is_good = exit.is_some_and(|it| it.code == 0 && it.text.is_none() && it.number.is_none());
    reply.status == ReplyStatus::Ok || is_good
}

/// `sys.exit(3)`, if that is how the cell has ended.
fn exit_call(report: &CellReport) -> Option<String> {
    let exit = report.exit.as_ref()?;
    let number = exit.number.as_ref();
    let argument = exit.text.as_ref().map_or_else(
        || number.map_or_else(|| exit.code.to_string(), Clone::clone),
        |text| format!("{:?}", text.chars().take(200).collect::<String>()),
    );
    Some(format!("sys.exit({argument})"))
}

fn timed_out(limit: Duration) -> String {
    format!("timed out after {}", seconds(limit))
}

/// A time in words: `1 s`, `0.25 s`.
fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
