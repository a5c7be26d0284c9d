//! That a kernel which is asked to restart ends, and that another one is reached at the same place.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use super::cells::{FIRST, KEEP, LOOK_FOR_STATE, STATE_IS_GONE};
use super::figures::{Figure, limit, shown};
use super::place::Place;
use super::report::Judgement;
use super::subject::{Life, Subject};
use crate::jupyter::Channel;

/// How long a process that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);
/// How long a kernel may take to end when it is asked to.
pub(super) const ORDERLY: Duration = Duration::from_secs(5);

pub(super) fn expected(subject: &Subject) -> String {
    let within = limit(subject.terms.within(ORDERLY));
    format!(
        "shutdown_request with restart is answered and the process ends within {within}; started with the same \
         connection file it is reached at the same place, without the old state"
    )
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    answered: bool,
    /// How long it took to end.
    ended: Option<Duration>,
    /// How long the next one took to be there, or why it is not.
    again: Option<Result<Duration, String>>,
    /// Whether the state is gone, and what the cell said that looked.
    gone: Option<(bool, String)>,
}

/// Restarts a kernel.
pub(super) async fn look(
    subject: &mut Subject,
    mut life: Life,
    is_python: bool,
) -> (Judgement, Vec<Figure>, Option<Life>) {
    let patience = subject.terms.patience;
    if is_python {
        for code in [KEEP, FIRST] {
            let kept = life.client.run(code, patience).await;
            if !kept.is_ok() {
                let what = format!("a simple cell before: {}", kept.told());
                return (Err(what), Vec::new(), Some(life));
            }
        }
    }
    let mut seen = Seen::default();
    let (answered, ended, place) = shut_down(subject, life, true).await;
    (seen.answered, seen.ended) = (answered, ended);
    let mut figures: Vec<Figure> = ended
        .map(|took| Figure::ms("end", took))
        .into_iter()
        .collect();
    let mut next = None;
    subject.sweep().await;
    if ended.is_some() {
        match subject.start(place).await {
            Ok(mut life) => {
                seen.again = Some(Ok(life.ready));
                figures.push(Figure::ms("again", life.ready));
                if is_python {
                    let asked = life.client.run(LOOK_FOR_STATE, patience).await;
                    let gone = asked.is_ok() && asked.printed[0] == STATE_IS_GONE;
                    seen.gone = Some((gone, asked.told()));
                }
                next = Some(life);
            }
            Err(what) => seen.again = Some(Err(what)),
        }
    }
    let judgement = judge(&seen, is_python, subject.terms.within(ORDERLY));
    (judgement, figures, next)
}

/// Asks a kernel to end: whether it has answered, how long it took to end, and its place. If it does not
/// end it is killed; what it has left is another matter.
pub(super) async fn shut_down(
    subject: &Subject,
    life: Life,
    restart: bool,
) -> (bool, Option<Duration>, Place) {
    let Life {
        mut process,
        mut client,
        place,
        ..
    } = life;
    let within = subject.terms.within(ORDERLY);
    let began = Instant::now();
    let content = format!("{{\"restart\":{restart}}}");
    let id = client.send(
        Channel::Control,
        "shutdown_request",
        Bytes::from(content.into_bytes()),
    );
    // What it says meanwhile is read: nobody waits for a reader.
    let hearing = async {
        while client.hear().await {}
        // The rest of its sockets.
        client.closed(within).await;
    };
    let ended = async {
        let ended = timeout(within, process.ended()).await;
        ended.is_ok().then(|| began.elapsed())
    };
    let ended = tokio::select! {
        ended = ended => ended,
        never = async { hearing.await; std::future::pending::<Option<Duration>>().await } => never,
    };
    // The last that it has said.
    client.closed(Duration::from_millis(200)).await;
    let answered = client.forget(&id).reply.is_some();
    if ended.is_none() {
        process.kill();
        drop(timeout(GONE, process.ended()).await);
    }
    (answered, ended, place)
}

fn judge(seen: &Seen, is_python: bool, within: Duration) -> Judgement {
    if !seen.answered {
        return Err("shutdown_request was not answered".to_owned());
    }
    let Some(ended) = seen.ended else {
        return Err(format!("it did not end within {}", limit(within)));
    };
    let again = match &seen.again {
        Some(Ok(again)) => shown(*again),
        Some(Err(what)) => return Err(format!("it does not start again: {what}")),
        None => return Err("it was not started again".to_owned()),
    };
    let state = match &seen.gone {
        Some((true, _)) => "; the old state is gone",
        Some((false, told)) => return Err(format!("the next one's state: {told}")),
        None if is_python => return Err("nothing ran in the next one".to_owned()),
        None => "",
    };
    let ended = shown(ended);
    Ok(format!(
        "it ended after {ended}; the next one was there after {again} at the same place{state}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_a_restart_is_needed() {
        let second = Duration::from_secs(1);
        let good = || Seen {
            answered: true,
            ended: Some(second),
            again: Some(Ok(second)),
            gone: Some((true, String::new())),
        };
        let judged = |change: fn(&mut Seen)| {
            let mut seen = good();
            change(&mut seen);
            judge(&seen, true, 5 * second)
        };
        assert!(judged(|_| {}).unwrap().ends_with("the old state is gone"));
        for (change, told) in [
            (
                (|seen| seen.answered = false) as fn(&mut Seen),
                "was not answered",
            ),
            (|seen| seen.ended = None, "it did not end within 5 s"),
            (
                |seen| seen.again = Some(Err("why".to_owned())),
                "it does not start again: why",
            ),
            (
                |seen| seen.gone = Some((false, "it is there".to_owned())),
                "it is there",
            ),
            (|seen| seen.gone = None, "nothing ran"),
        ] {
            let error = judged(change).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        let mut other = good();
        other.gone = None;
        assert!(
            judge(&other, false, second)
                .unwrap()
                .ends_with("at the same place")
        );
    }
}
