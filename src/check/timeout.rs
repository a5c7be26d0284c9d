//! That a client which limits the time of a cell gets its kernel back: by an interrupt, by a second one, or
//! by the end of its process and another one in the same place.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::cells::{KEEP, KEPT, LOOK, deaf};
use super::client::Asked;
use super::figures::{Figure, limit, shown};
use super::files::Sign;
use super::report::Judgement;
use super::subject::{Life, Subject};

/// How long the cell has after its sign.
const CELL: Duration = Duration::from_millis(300);
/// How long an interrupt has to end it.
const GRACE: Duration = Duration::from_secs(1);
/// How long a process that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);

/// What ends the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    Interrupt,
    SecondInterrupt,
    Kill,
}

/// What was seen.
#[derive(Debug)]
struct Seen {
    means: Means,
    /// From the end of the cell's time until the next cell had run.
    back: Duration,
    /// Whether the next cell ran, whether state was there, in words.
    next: (bool, bool, String),
    /// The kernel has said that it is another one now.
    loss_told: bool,
}

pub(super) fn expected(subject: &Subject) -> String {
    let kill = limit(2 * GRACE);
    let within = limit(2 * GRACE + subject.terms.start);
    format!(
        "a cell that takes no notice of interrupts is over its time: two interrupts, after {kill} a kill and \
         a start at the same place; a cell runs again within {within}; no state is lost without a word"
    )
}

/// Limits a cell. Whoever is killed has another in its place.
pub(super) async fn look(
    subject: &mut Subject,
    life: Life,
) -> (Judgement, Vec<Figure>, Option<Life>) {
    match see(subject, life).await {
        Ok((seen, life)) => {
            let figures = vec![Figure::ms("back", seen.back)];
            (judge(&seen), figures, Some(life))
        }
        Err((what, life)) => (Err(what), Vec::new(), life),
    }
}

async fn see(
    subject: &mut Subject,
    mut life: Life,
) -> Result<(Seen, Life), (String, Option<Life>)> {
    let patience = subject.terms.patience;
    let kept = life.client.run(KEEP, patience).await;
    if !kept.is_ok() {
        let what = format!("a simple cell before: {}", kept.told());
        return Err((what, Some(life)));
    }
    let sign = match Sign::new(&life.place.folder, "deaf") {
        Ok(sign) => sign,
        Err(error) => return Err((error.to_string(), Some(life))),
    };
    let id = life.client.execute(&deaf(&sign));
    let reached = sign
        .given(&mut life.client, &id, Instant::now() + patience)
        .await;
    if !reached {
        let told = life.client.forget(&id).told();
        return Err((format!("the cell did not begin: {told}"), Some(life)));
    }
    if life.client.done(&id, CELL).await {
        let told = life.client.forget(&id).told();
        return Err((
            format!("it ended before its time was over: {told}"),
            Some(life),
        ));
    }
    let began = Instant::now();
    let told_before = life.client.restarts_told;
    let mut means = None;
    for (round, by) in (1..).zip([Means::Interrupt, Means::SecondInterrupt]) {
        if let Some(message) = subject.interrupt(&mut life) {
            life.client.forget(&message);
        }
        let until = began + GRACE * round;
        if life.client.until(&id, until, Asked::is_done).await {
            means = Some(by);
            break;
        }
    }
    life.client.forget(&id);
    if means.is_none() {
        life = again(subject, life).await.map_err(|what| (what, None))?;
    }
    let next = life.client.run(LOOK, patience).await;
    let seen = Seen {
        means: means.unwrap_or(Means::Kill),
        back: began.elapsed(),
        next: (
            next.is_done() && next.ended().is_some(),
            next.is_ok() && next.printed[0] == KEPT,
            next.told(),
        ),
        loss_told: life.client.restarts_told > told_before,
    };
    Ok((seen, life))
}

/// Kills a kernel and starts another in its place.
async fn again(subject: &mut Subject, life: Life) -> Result<Life, String> {
    let Life {
        mut process, place, ..
    } = life;
    process.kill();
    if timeout(GONE, process.ended()).await.is_err() {
        return Err("it was killed and does not end".to_owned());
    }
    subject.end(process).await;
    let started = subject.start(place).await;
    started.map_err(|what| format!("killed, it does not start at the same place: {what}"))
}

fn judge(seen: &Seen) -> Judgement {
    let back = shown(seen.back);
    let (has_run, has_state, told) = &seen.next;
    let by = match seen.means {
        Means::Interrupt => "by the first interrupt",
        Means::SecondInterrupt => "by the second interrupt",
        Means::Kill => "by a kill and a start at the same place",
    };
    if !has_run {
        return Err(format!("it was ended {by}; the next cell: {told}"));
    }
    if !has_state && seen.means != Means::Kill && !seen.loss_told {
        return Err(format!(
            "it was ended {by}; the state is gone without a word: {told}"
        ));
    }
    let state = if *has_state { "kept" } else { "lost, and told" };
    Ok(match seen.means {
        Means::Kill => format!("it was ended {by}; a cell ran {back} after the limit"),
        _ => format!("it was ended {by}; a cell ran {back} after the limit; state {state}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_back_and_no_state_is_lost_without_a_word() {
        let judged = |means, next: (bool, bool), loss_told| {
            judge(&Seen {
                means,
                back: Duration::from_millis(1_200),
                next: (next.0, next.1, "told".to_owned()),
                loss_told,
            })
        };
        for (means, next, loss_told, told) in [
            (
                Means::Interrupt,
                (true, true),
                false,
                "it was ended by the first interrupt; a cell ran 1.20 s after the limit; state kept",
            ),
            (
                Means::SecondInterrupt,
                (true, false),
                true,
                "it was ended by the second interrupt; a cell ran 1.20 s after the limit; state lost, and told",
            ),
            (
                Means::Kill,
                (true, false),
                false,
                "it was ended by a kill and a start at the same place; a cell ran 1.20 s after the limit",
            ),
        ] {
            assert_eq!(judged(means, next, loss_told).unwrap(), told);
        }
        let silent = judged(Means::SecondInterrupt, (true, false), false).unwrap_err();
        assert!(silent.contains("without a word"), "{silent}");
        for means in [Means::Interrupt, Means::Kill] {
            let dead = judged(means, (false, false), true).unwrap_err();
            assert!(dead.ends_with("the next cell: told"), "{dead}");
        }
    }
}
