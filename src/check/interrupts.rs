//! That an interrupt ends what runs, wherever it is, and nothing else.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::cells::{KEEP, KEPT, LOOK, compute, run_a_child, sleep, wait};
use super::client::Asked;
use super::figures::{Figure, limit, shown};
use super::files::Sign;
use super::report::Judgement;
use super::subject::{Life, Subject};
use crate::jupyter::{ExecuteReply, ReplyStatus};
use crate::process::Pidfd;

/// How long a cell may take to end that can be interrupted in place.
const IN_PLACE: Duration = Duration::from_secs(3);
/// How long one may take that cannot: by then somebody has ended its process.
const BY_FORCE: Duration = Duration::from_secs(6);
/// How often a kernel is interrupted that does nothing.
const IDLE_ROUNDS: usize = 100;

/// Where a cell is when it is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Sleep,
    Await,
    Child,
    C,
}

impl Where {
    fn code(self, sign: &Sign) -> String {
        match self {
            Self::Sleep => sleep(sign),
            Self::Await => wait(sign),
            Self::Child => run_a_child(sign),
            Self::C => compute(sign),
        }
    }

    fn limit(self, subject: &Subject) -> Duration {
        let limit = if self == Self::C { BY_FORCE } else { IN_PLACE };
        subject.terms.within(limit)
    }

    pub(super) fn expected(self, subject: &Subject) -> String {
        let within = limit(self.limit(subject));
        let what = match self {
            Self::Sleep => "a sleep ends",
            Self::Await => "a top-level await ends",
            Self::Child => "the wait for a child ends, and the child,",
            Self::C => {
                return format!(
                    "C code that looks for no signals ends within {within}, with its process if need be; the \
                     state is kept, or its loss is told; the next cell runs"
                );
            }
        };
        format!("{what} by KeyboardInterrupt within {within}; state is kept; the next cell runs")
    }
}

/// What was seen of an interrupt.
#[derive(Debug, Default)]
struct Seen {
    /// The cell came to where it was to be interrupted.
    reached: bool,
    /// There was an answer to the message that interrupts; true if there is none to be had.
    answered: bool,
    /// How long the cell took to end.
    ended: Option<Duration>,
    reply: Option<ExecuteReply>,
    /// What came of the cell, in words.
    told: String,
    /// The kernel has said that it is another one now.
    loss_told: bool,
    /// What came of the next cell: whether it ran at all, whether its state was there, in words.
    next: Option<(bool, bool, String)>,
    /// The child is still there.
    child_runs: bool,
}

/// Interrupts a cell.
pub(super) async fn interrupt(
    subject: &Subject,
    life: &mut Life,
    at: Where,
) -> (Judgement, Vec<Figure>) {
    match see(subject, life, at).await {
        Ok(seen) => {
            let figures = seen.ended.map(|took| Figure::ms("end", took));
            let judgement = judge(at, &seen, at.limit(subject));
            (judgement, figures.into_iter().collect())
        }
        Err(what) => (Err(what), Vec::new()),
    }
}

async fn see(subject: &Subject, life: &mut Life, at: Where) -> Result<Seen, String> {
    let patience = subject.terms.patience;
    let kept = life.client.run(KEEP, patience).await;
    if !kept.is_ok() {
        return Err(format!("a simple cell before: {}", kept.told()));
    }
    let sign = Sign::new(&life.place.folder, "reached").map_err(|it| it.to_string())?;
    let id = life.client.execute(&at.code(&sign));
    let mut seen = Seen {
        reached: sign
            .given(&mut life.client, &id, Instant::now() + patience)
            .await,
        ..Seen::default()
    };
    if !seen.reached {
        seen.told = life.client.forget(&id).told();
        return Ok(seen);
    }
    let child = sign.number().and_then(|pid| Pidfd::open(pid).ok());
    let told_before = life.client.restarts_told;
    let began = Instant::now();
    let message = subject.interrupt(life);
    if life
        .client
        .until(&id, began + at.limit(subject), Asked::is_done)
        .await
    {
        seen.ended = Some(began.elapsed());
    }
    seen.answered = match message {
        None => true,
        Some(message) => {
            let deadline = Instant::now() + patience.min(IN_PLACE);
            let is_answered = |asked: &Asked| asked.reply.is_some();
            let answered = life.client.until(&message, deadline, is_answered).await;
            life.client.forget(&message);
            answered
        }
    };
    let asked = life.client.forget(&id);
    seen.reply = asked.ended();
    seen.told = asked.told();
    if seen.ended.is_none() {
        return Ok(seen);
    }
    if let Some(child) = child {
        let gone = timeout(subject.terms.within(IN_PLACE), child.ended()).await;
        seen.child_runs = gone.is_err();
    }
    let next = life.client.run(LOOK, patience).await;
    seen.loss_told = life.client.restarts_told > told_before;
    let has_run = next.is_done() && next.ended().is_some();
    let has_state = next.is_ok() && next.printed[0] == KEPT;
    seen.next = Some((has_run, has_state, next.told()));
    Ok(seen)
}

fn judge(at: Where, seen: &Seen, within: Duration) -> Judgement {
    if !seen.reached {
        return Err(format!(
            "the cell did not come to where it is interrupted: {}",
            seen.told
        ));
    }
    let Some(ended) = seen.ended else {
        let within = limit(within);
        return Err(match at {
            Where::C => format!(
                "it still ran {within} after the interrupt: in one process only the end of the C code, or of \
                 the process, ends it"
            ),
            _ => format!("it still ran {within} after the interrupt"),
        });
    };
    if !seen.answered {
        return Err("interrupt_request was not answered".to_owned());
    }
    let Some(reply) = &seen.reply else {
        return Err(seen.told.clone());
    };
    if reply.status == ReplyStatus::Ok {
        return Err(format!(
            "the cell ended as if nothing had been: {}",
            seen.told
        ));
    }
    if at != Where::C && reply.ename != "KeyboardInterrupt" {
        return Err(seen.told.clone());
    }
    if seen.child_runs {
        return Err("the child that it waited for still runs".to_owned());
    }
    let ended = shown(ended);
    match &seen.next {
        Some((_, true, _)) => Ok(format!("it ended after {ended}, state is kept")),
        Some((true, false, _)) if at == Where::C && seen.loss_told => Ok(format!(
            "it ended after {ended} with its process; the loss of state is told, the next cell runs"
        )),
        Some((_, false, told)) => Err(format!("it ended after {ended}; the next cell: {told}")),
        None => Err("no next cell".to_owned()),
    }
}

/// What is expected of a kernel that does nothing.
pub(super) fn expected_idle() -> String {
    format!("{IDLE_ROUNDS} interrupts while nothing runs hit nothing, and no later cell")
}

/// Interrupts a kernel that does nothing.
pub(super) async fn idle(
    subject: &Subject,
    life: &mut Life,
    is_python: bool,
) -> (Judgement, Vec<Figure>) {
    let patience = subject.terms.patience;
    if is_python {
        let kept = life.client.run(KEEP, patience).await;
        if !kept.is_ok() {
            return (
                Err(format!("a simple cell before: {}", kept.told())),
                Vec::new(),
            );
        }
    }
    let began = Instant::now();
    for round in 1..=IDLE_ROUNDS {
        let message = subject.interrupt(life);
        if let Some(message) = message {
            let answered = life.client.done(&message, patience).await;
            life.client.forget(&message);
            if !answered {
                let what = format!("interrupt {round}: interrupt_request was not answered");
                return (Err(what), Vec::new());
            }
        }
        // A signal that has not arrived yet may hit what comes next: it has when this is answered.
        let asked = life.client.ping(patience).await;
        if !asked.is_done() {
            let what = format!("interrupt {round}: the kernel does not answer any more");
            return (Err(what), Vec::new());
        }
    }
    let figures = vec![
        Figure::count("interrupts", IDLE_ROUNDS as u64),
        Figure::ms("all", began.elapsed()),
    ];
    let judgement = if is_python {
        let asked = life.client.run(LOOK, patience).await;
        if asked.is_ok() && asked.printed[0] == KEPT {
            Ok("nothing was hit; state is kept".to_owned())
        } else {
            Err(format!("the next cell: {}", asked.told()))
        }
    } else {
        Ok("it still answers".to_owned())
    };
    (judgement, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Option<ExecuteReply> {
        ExecuteReply::parse(text.as_bytes()).ok()
    }

    fn good() -> Seen {
        Seen {
            reached: true,
            answered: true,
            ended: Some(Duration::from_millis(5)),
            reply: reply(r#"{"status":"error","ename":"KeyboardInterrupt"}"#),
            told: "told".to_owned(),
            loss_told: false,
            next: Some((true, true, String::new())),
            child_runs: false,
        }
    }

    fn judged(at: Where, change: impl FnOnce(&mut Seen)) -> Judgement {
        let mut seen = good();
        change(&mut seen);
        judge(at, &seen, Duration::from_secs(3))
    }

    #[test]
    fn an_interrupt_in_place_keeps_state_and_says_keyboard_interrupt() {
        assert_eq!(
            judged(Where::Sleep, |_| {}).unwrap(),
            "it ended after 5.0 ms, state is kept"
        );
        let gone = || Some((true, false, "it failed: NameError".to_owned()));
        type Change = fn(&mut Seen);
        let cases: [(Change, &str); 7] = [
            (|seen| seen.reached = false, "did not come to where"),
            (
                |seen| seen.ended = None,
                "it still ran 3 s after the interrupt",
            ),
            (
                |seen| seen.answered = false,
                "interrupt_request was not answered",
            ),
            (
                |seen| seen.reply = reply(r#"{"status":"ok"}"#),
                "as if nothing had been",
            ),
            (
                |seen| seen.reply = reply(r#"{"status":"error","ename":"Other"}"#),
                "told",
            ),
            (|seen| seen.reply = None, "told"),
            (|seen| seen.child_runs = true, "still runs"),
        ];
        for (change, told) in cases {
            let error = judged(Where::Child, change).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        // Told or not: in place it is not to be lost.
        let lost = judged(Where::Await, |seen| {
            seen.next = gone();
            seen.loss_told = true;
        });
        assert!(lost.unwrap_err().contains("NameError"));
    }

    #[test]
    fn c_code_may_cost_the_state_if_that_is_told() {
        let lost = |is_told| {
            judged(Where::C, |seen| {
                seen.reply = reply(r#"{"status":"error","ename":"KernelLost"}"#);
                seen.next = Some((true, false, "it failed: NameError".to_owned()));
                seen.loss_told = is_told;
            })
        };
        assert!(lost(true).unwrap().contains("the loss of state is told"));
        assert!(lost(false).unwrap_err().contains("NameError"));
        let stuck = judged(Where::C, |seen| seen.ended = None).unwrap_err();
        assert!(stuck.contains("in one process"), "{stuck}");
        // Nothing is told of a next cell that did not run.
        let dead = judged(Where::C, |seen| {
            seen.next = Some((false, false, "no reply came".to_owned()));
            seen.loss_told = true;
        });
        assert!(dead.unwrap_err().contains("no reply came"));
    }
}
