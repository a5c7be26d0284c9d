//! That the death of a kernel is seen and nothing is made up, and that nothing outlives it.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::cells::{DIE, KEEP, KEPT, LOOK, sleep, start_all};
use super::client::Asked;
use super::figures::{Figure, limit, shown};
use super::files::Sign;
use super::report::Judgement;
use super::restart::{ORDERLY, shut_down};
use super::subject::{Life, Subject, named};
use crate::jupyter::{ExecuteReply, ReplyStatus};
use crate::process::Leftover;
use crate::words::counted;

/// How long the end of a kernel that has died may take to be seen.
const SEEN: Duration = Duration::from_secs(2);
/// How long what it has started may outlive it.
const ORPHANS: Duration = Duration::from_secs(2);

// It kills itself.

pub(super) fn expected_inside(subject: &Subject) -> String {
    let within = limit(subject.terms.within(SEEN));
    format!(
        "code that kills its own process by SIGKILL is told within {within}: by the end of the kernel's process, \
         or by a reply that is an error, and then the loss of state is told and the next cell runs"
    )
}

/// What was seen when a cell killed its own process.
#[derive(Debug)]
struct Inside {
    /// How long it took until something was told.
    took: Option<Duration>,
    /// The kernel's process has ended, in words how.
    ended: Option<String>,
    reply: Option<ExecuteReply>,
    loss_told: bool,
    /// Whether the next cell ran, whether state was there, in words.
    next: Option<(bool, bool, String)>,
}

/// Has a cell kill its own process.
pub(super) async fn inside(
    subject: &Subject,
    mut life: Life,
) -> (Judgement, Vec<Figure>, Option<Life>) {
    let patience = subject.terms.patience;
    let kept = life.client.run(KEEP, patience).await;
    if !kept.is_ok() {
        let what = format!("a simple cell before: {}", kept.told());
        return (Err(what), Vec::new(), Some(life));
    }
    let within = subject.terms.within(SEEN);
    let told_before = life.client.restarts_told;
    let began = Instant::now();
    let id = life.client.execute(DIE);
    let deadline = began + within;
    let mut ended = None;
    let answered = tokio::select! {
        answered = async {
            if life.client.until(&id, deadline, Asked::is_done).await {
                return true;
            }
            // With its sockets closed only its end can be told.
            tokio::time::sleep_until(deadline).await;
            false
        } => answered,
        status = life.process.ended() => {
            let how = status.map_or_else(|| "gone".to_owned(), |it| it.to_string());
            ended = Some(how);
            false
        }
    };
    let took = (answered || ended.is_some()).then(|| began.elapsed());
    if ended.is_some() {
        life.client.closed(within).await;
    }
    let reply = life.client.forget(&id).ended();
    let mut seen = Inside {
        took,
        ended,
        reply,
        loss_told: false,
        next: None,
    };
    if answered {
        let next = life.client.run(LOOK, patience).await;
        let has_run = next.is_done() && next.ended().is_some();
        let has_state = next.is_ok() && next.printed[0] == KEPT;
        seen.next = Some((has_run, has_state, next.told()));
        seen.loss_told = life.client.restarts_told > told_before;
    }
    let figures = took.map(|took| Figure::ms("told", took)).into_iter();
    let is_over = !answered;
    let judgement = judge_inside(&seen, within);
    if is_over {
        subject.end(life.process).await;
        return (judgement, figures.collect(), None);
    }
    (judgement, figures.collect(), Some(life))
}

fn judge_inside(seen: &Inside, within: Duration) -> Judgement {
    let is_error = |reply: &ExecuteReply| reply.status != ReplyStatus::Ok;
    if seen.reply.as_ref().is_some_and(|it| !is_error(it)) {
        return Err("a reply says that the cell succeeded".to_owned());
    }
    let Some(took) = seen.took.map(shown) else {
        return Err(format!("nothing was told within {}", limit(within)));
    };
    if let Some(how) = &seen.ended {
        return Ok(format!("the kernel's process ended after {took} ({how})"));
    }
    match (&seen.reply, &seen.next) {
        (None, _) => Err("the reply makes no sense".to_owned()),
        (Some(_), Some((_, true, _))) => {
            Err("the reply is an error, but the process and its state are there".to_owned())
        }
        (Some(_), Some((true, false, _))) if seen.loss_told => Ok(format!(
            "a reply told it after {took} as an error; the loss of state is told, the next cell runs"
        )),
        (Some(_), Some((_, false, told))) => {
            Err(format!("told after {took}; the next cell: {told}"))
        }
        (Some(_), None) => Err("no next cell".to_owned()),
    }
}

// It is killed.

pub(super) fn expected_killed(subject: &Subject) -> String {
    let within = limit(subject.terms.within(SEEN));
    format!(
        "after SIGKILL in the middle of a cell the end of process and sockets is seen within {within}, and no \
         reply comes"
    )
}

pub(super) fn expected_orphans(subject: &Subject, is_killed: bool) -> String {
    let within = limit(subject.terms.within(ORPHANS));
    let end = if is_killed {
        "SIGKILL of the kernel"
    } else {
        "the end that shutdown_request asks for"
    };
    format!(
        "{within} after {end} nothing is left of what it has started: a child, one in a session of its own, a \
         daemon"
    )
}

/// What was seen of a kernel that was killed.
#[derive(Debug, Default)]
struct Killed {
    ended: Option<Duration>,
    closed: Option<Duration>,
    /// A reply has come all the same.
    replied: bool,
}

/// What was seen of what a kernel has left.
#[derive(Debug)]
struct Orphans {
    /// How long after its end nothing was left; or what was.
    gone: Result<Duration, String>,
    count: usize,
}

/// What comes of a check: the judgement, and figures.
type Found = (Judgement, Vec<Figure>);

/// Kills a kernel in the middle of a cell: what was seen of that, and of what it has left.
pub(super) async fn killed(subject: &Subject, mut life: Life, is_python: bool) -> (Found, Found) {
    if is_python && let Err(what) = with_family(subject, &mut life).await {
        subject.end(life.process).await;
        return ((Err(what.clone()), Vec::new()), (Err(what), Vec::new()));
    }
    let mut cell = None;
    if is_python {
        match asleep(subject, &mut life).await {
            Ok(id) => cell = Some(id),
            Err(what) => {
                subject.end(life.process).await;
                return ((Err(what.clone()), Vec::new()), (Err(what), Vec::new()));
            }
        }
    }
    let within = subject.terms.within(SEEN);
    let Life {
        mut process,
        mut client,
        place,
        ..
    } = life;
    let began = Instant::now();
    process.kill();
    let ended = timeout(within, process.ended()).await;
    let mut seen = Killed {
        ended: ended.is_ok().then(|| began.elapsed()),
        ..Killed::default()
    };
    if client.closed(within).await {
        seen.closed = Some(began.elapsed());
    }
    seen.replied = cell.is_some_and(|id| client.forget(&id).reply.is_some());
    drop(process);
    let orphans = orphans(subject, began).await;
    drop(place);
    let figures = [("process", seen.ended), ("sockets", seen.closed)];
    let figures = figures
        .into_iter()
        .filter_map(|(name, took)| Some(Figure::ms(name, took?)))
        .collect();
    ((judge_killed(&seen, within), figures), orphans)
}

/// Asks a kernel to end: what it has left.
pub(super) async fn orphans_of_shutdown(
    subject: &Subject,
    mut life: Life,
    is_python: bool,
) -> Found {
    if is_python && let Err(what) = with_family(subject, &mut life).await {
        subject.end(life.process).await;
        return (Err(what), Vec::new());
    }
    let (_answered, ended, place) = shut_down(subject, life, false).await;
    let (judgement, figures) = orphans(subject, Instant::now()).await;
    drop(place);
    if ended.is_some() {
        return (judgement, figures);
    }
    let within = limit(subject.terms.within(ORDERLY));
    let (Ok(left) | Err(left)) = judgement;
    let what = format!("it did not end within {within} and was killed; then {left}");
    (Err(what), figures)
}

/// Has a cell start a child, one in a session of its own, and a daemon.
async fn with_family(subject: &Subject, life: &mut Life) -> Result<(), String> {
    let patience = subject.terms.patience;
    let sign = |name| Sign::new(&life.place.folder, name).map_err(|it| it.to_string());
    let signs = [sign("child")?, sign("session")?, sign("daemon")?];
    let [child, session, daemon] = &signs;
    let code = start_all([child, session, daemon]);
    let asked = life.client.run(&code, patience).await;
    if !asked.is_ok() {
        return Err(format!("the cell that starts them: {}", asked.told()));
    }
    let deadline = Instant::now() + patience;
    for sign in &signs {
        // No cell runs whose end would be waited for.
        if !sign.given(&mut life.client, "", deadline).await {
            return Err("what the cell has started did not come up".to_owned());
        }
    }
    Ok(())
}

/// Has a cell sleep; its id.
async fn asleep(subject: &Subject, life: &mut Life) -> Result<String, String> {
    let sign = Sign::new(&life.place.folder, "asleep").map_err(|it| it.to_string())?;
    let id = life.client.execute(&sleep(&sign));
    let deadline = Instant::now() + subject.terms.patience;
    if sign.given(&mut life.client, &id, deadline).await {
        return Ok(id);
    }
    let told = life.client.forget(&id).told();
    Err(format!("the cell did not begin: {told}"))
}

/// Waits until nothing is left, and ends what is.
async fn orphans(subject: &Subject, ended: Instant) -> Found {
    let within = subject.terms.within(ORPHANS);
    let left = subject.left(within).await;
    let seen = Orphans {
        gone: if left.is_empty() {
            Ok(ended.elapsed())
        } else {
            Err(named(&left))
        },
        count: left.len(),
    };
    let stuck = if left.is_empty() {
        0
    } else {
        subject.sweep().await
    };
    drop::<Vec<Leftover>>(left);
    let mut figures = vec![Figure::count("survivors", seen.count as u64)];
    figures.extend(
        seen.gone
            .as_ref()
            .ok()
            .map(|took| Figure::ms("gone", *took)),
    );
    (judge_orphans(&seen, stuck, within), figures)
}

fn judge_killed(seen: &Killed, within: Duration) -> Judgement {
    let within = limit(within);
    if seen.replied {
        return Err("a reply came of a kernel that was killed".to_owned());
    }
    match (seen.ended.map(shown), seen.closed.map(shown)) {
        (None, _) => Err(format!("its process did not end within {within}")),
        (Some(_), None) => Err(format!(
            "its process ended, but its sockets were open {within} later: somebody else serves them"
        )),
        (Some(ended), Some(closed)) => Ok(format!(
            "the end of its process was seen after {ended}, that of its sockets after {closed}; no reply"
        )),
    }
}

fn judge_orphans(seen: &Orphans, stuck: usize, within: Duration) -> Judgement {
    match &seen.gone {
        Ok(took) => Ok(format!("all were gone after {}", shown(*took))),
        Err(names) => {
            let count = counted(seen.count as u64, "process");
            let end = if stuck == 0 {
                "ended by this check".to_owned()
            } else {
                format!("{stuck} could not be ended")
            };
            let within = limit(within);
            Err(format!("{count} left after {within}: {names}; {end}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn reply(text: &str) -> Option<ExecuteReply> {
        ExecuteReply::parse(text.as_bytes()).ok()
    }

    #[test]
    fn a_death_from_inside_is_told_by_the_end_or_by_an_error() {
        let judged = |ended: bool, status: Option<&str>, next: Option<(bool, bool)>, loss_told| {
            let seen = Inside {
                took: (ended || status.is_some()).then_some(MS),
                ended: ended.then(|| "signal: 9 (SIGKILL)".to_owned()),
                reply: status.and_then(|it| reply(&format!(r#"{{"status":"{it}"}}"#))),
                loss_told,
                next: next.map(|(run, state)| (run, state, "told".to_owned())),
            };
            judge_inside(&seen, 2_000 * MS)
        };
        assert!(judged(true, None, None, false).unwrap().contains("SIGKILL"));
        assert!(judged(true, Some("error"), None, false).is_ok());
        let replied = judged(false, Some("error"), Some((true, false)), true);
        assert!(replied.unwrap().contains("the loss of state is told"));
        for (found, told) in [
            (judged(true, Some("ok"), None, false), "succeeded"),
            (
                judged(false, None, None, false),
                "nothing was told within 2 s",
            ),
            (
                judged(false, Some("error"), Some((true, true)), true),
                "state are there",
            ),
            (
                judged(false, Some("error"), Some((true, false)), false),
                "the next cell: told",
            ),
            (
                judged(false, Some("error"), Some((false, false)), true),
                "the next cell: told",
            ),
        ] {
            let error = found.unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_killed_kernel_is_gone_with_its_sockets_and_says_nothing() {
        let judged = |ended: bool, closed: bool, replied| {
            let seen = Killed {
                ended: ended.then_some(MS),
                closed: closed.then_some(2 * MS),
                replied,
            };
            judge_killed(&seen, 2_000 * MS)
        };
        assert_eq!(
            judged(true, true, false).unwrap(),
            "the end of its process was seen after 1.0 ms, that of its sockets after 2.0 ms; no reply"
        );
        for (found, told) in [
            (judged(false, true, false), "did not end within 2 s"),
            (judged(true, false, false), "somebody else serves them"),
            (judged(true, true, true), "a reply came"),
        ] {
            let error = found.unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn survivors_are_counted_and_named() {
        let within = 2_000 * MS;
        let gone = Orphans {
            gone: Ok(5 * MS),
            count: 0,
        };
        assert_eq!(
            judge_orphans(&gone, 0, within).unwrap(),
            "all were gone after 5.0 ms"
        );
        let left = Orphans {
            gone: Err("7 (sleep 300)".to_owned()),
            count: 1,
        };
        assert_eq!(
            judge_orphans(&left, 0, within).unwrap_err(),
            "1 process left after 2 s: 7 (sleep 300); ended by this check"
        );
        let stuck = judge_orphans(&left, 1, within).unwrap_err();
        assert!(stuck.ends_with("1 could not be ended"), "{stuck}");
    }
}
