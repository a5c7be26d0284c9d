//! That what is printed arrives, in order, and with what has caused it.

use std::time::Duration;

use tokio::time::Instant;

use super::cells::{LATE, PRINT, PRINT_LATER, PRINTED, PRINTED_AS_ERROR};
use super::client::Asked;
use super::figures::{Figure, limit, shown};
use super::report::Judgement;
use super::subject::{Life, Subject};

/// How long what a thread prints after its cell may take.
const LATE_LIMIT: Duration = Duration::from_secs(3);

/// What is expected of what a cell prints.
pub(super) fn expected_order() -> String {
    "what print, os.write and a child print stands in order before the cell's idle".to_owned()
}

/// Prints in every way.
pub(super) async fn order(subject: &Subject, life: &mut Life) -> (Judgement, Vec<Figure>) {
    let asked = life.client.run(PRINT, subject.terms.patience).await;
    let figures = asked.took().map(|took| Figure::ms("cell", took));
    (judge_order(&asked), figures.into_iter().collect())
}

fn judge_order(asked: &Asked) -> Judgement {
    if !asked.is_ok() {
        return Err(asked.told());
    }
    let [stdout, stderr] = &asked.printed;
    let told = |text: &str| format!("{:?}", super::client::shown(text));
    if stdout != PRINTED {
        return Err(format!("before idle came {}", told(stdout)));
    }
    if stderr != PRINTED_AS_ERROR {
        return Err(format!("on stderr came {}", told(stderr)));
    }
    Ok("print, os.write, a child: all before idle, in order".to_owned())
}

/// What is expected of what comes later.
pub(super) fn expected_late(subject: &Subject) -> String {
    let within = limit(subject.terms.within(LATE_LIMIT));
    format!(
        "what a thread prints after its cell's end comes within {within}, as caused by that cell"
    )
}

/// Has a thread print after the cell.
pub(super) async fn late(subject: &Subject, life: &mut Life) -> (Judgement, Vec<Figure>) {
    let client = &mut life.client;
    client.strays.clear();
    let id = client.execute(PRINT_LATER);
    let is_done = client.done(&id, subject.terms.patience).await;
    let ended = Instant::now();
    let deadline = ended + subject.terms.within(LATE_LIMIT);
    let came = is_done
        && client
            .until(&id, deadline, |asked| asked.late.contains(LATE))
            .await;
    let took = ended.elapsed();
    let figures = if came {
        vec![Figure::ms("after_end", took)]
    } else {
        Vec::new()
    };
    let asked = client.forget(&id);
    (judge_late(&asked, &client.strays, took), figures)
}

fn judge_late(asked: &Asked, strays: &[(Option<String>, String)], took: Duration) -> Judgement {
    if !asked.is_ok() {
        return Err(asked.told());
    }
    if asked.late.contains(LATE) {
        let took = shown(took);
        return Ok(format!(
            "it came {took} after the cell's end, as caused by it"
        ));
    }
    if asked.printed[0].contains(LATE) {
        return Err("the cell's end waited for the thread".to_owned());
    }
    match strays.iter().find(|(_, text)| text.contains(LATE)) {
        Some((Some(_), _)) => Err("it came as caused by another request".to_owned()),
        Some((None, _)) => Err("it came as caused by nothing".to_owned()),
        None => Err("it did not come".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::client::asked_for_tests as asked;

    const OK: Option<&str> = Some(r#"{"status":"ok"}"#);

    #[test]
    fn order_is_right_or_what_came_is_told() {
        let mut good = asked(OK, true, PRINTED);
        assert_eq!(
            judge_order(&good).unwrap_err(),
            "on stderr came \"\"",
            "the rest is missing"
        );
        PRINTED_AS_ERROR.clone_into(&mut good.printed[1]);
        assert!(judge_order(&good).is_ok());
        let other = asked(OK, true, "one\nfour\n");
        assert_eq!(
            judge_order(&other).unwrap_err(),
            "before idle came \"one four\""
        );
        assert!(judge_order(&asked(None, false, PRINTED)).is_err());
    }

    #[test]
    fn what_comes_late_is_that_of_its_cell_or_it_is_told_whose() {
        let took = Duration::from_millis(200);
        let judge = |late: &str, printed: &str, strays: &[(Option<String>, String)]| {
            let mut asked = asked(OK, true, printed);
            asked.late = late.to_owned();
            judge_late(&asked, strays, took)
        };
        let good = "it came 200 ms after the cell's end, as caused by it";
        assert_eq!(judge("late\n", "", &[]).unwrap(), good);
        let stray = |parent: Option<&str>| [(parent.map(str::to_owned), "late".to_owned())];
        for (found, told) in [
            (
                judge("", "late\n", &[]),
                "the cell's end waited for the thread",
            ),
            (judge("", "", &[]), "it did not come"),
            (judge("", "", &stray(None)), "it came as caused by nothing"),
            (
                judge("", "", &stray(Some("x"))),
                "it came as caused by another request",
            ),
        ] {
            assert_eq!(found.unwrap_err(), told);
        }
        assert!(judge_late(&asked(None, false, ""), &[], took).is_err());
    }
}
