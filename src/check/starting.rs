//! That a kernel comes up, and that its state stays.

use std::time::{Duration, Instant};

use super::cells::{COUNT, FAIL, FIRST, ROUND, ROUNDS};
use super::client::Asked;
use super::figures::{Figure, limit, median_and_worst, shown};
use super::report::{Finding, Judgement};
use super::subject::{Life, Subject};
use crate::jupyter::ReplyStatus;
use crate::process::{Usage, usage};
use crate::words::counted;

/// As a failure begins that is of the first cell.
const FIRST_CELL: &str = "a first cell";
/// How long it may take to look at a kernel's processes.
const LOOK: Duration = Duration::from_secs(5);

/// What is expected of a start.
pub(super) fn expected_start(subject: &Subject) -> String {
    let within = limit(subject.terms.start);
    format!("an answer to kernel_info_request, and what is published with it, within {within}")
}

/// A kernel has come up.
pub(super) async fn start(subject: &Subject, life: &Life) -> Finding {
    let used = usage(life.process.pid(), LOOK).await;
    let welcome = if life.client.is_welcomed {
        "subscribers are welcomed"
    } else {
        "subscribers are not welcomed"
    };
    let processes = used.as_ref().map_or(0, |it| it.processes);
    let info = &life.info;
    let observed = format!(
        "it answered after {} over {}; {welcome}; protocol {}; {}",
        shown(life.replied),
        subject.transport(),
        super::client::shown(&info.protocol_version),
        counted(processes, "process"),
    );
    let mut figures = vec![
        Figure::ms("reply", life.replied),
        Figure::ms("ready", life.ready),
        Figure::count("processes", processes),
    ];
    figures.extend(used.map(|Usage { rss_bytes, .. }| Figure::mb("rss", rss_bytes)));
    Finding::judged("start", expected_start(subject), Ok(observed), figures)
}

/// What is expected of cells in a row.
pub(super) fn expected_reuse() -> String {
    format!("variables and imports stay over {ROUNDS} cells, and over one that fails")
}

/// Runs cells in a row.
pub(super) async fn reuse(subject: &Subject, life: &mut Life) -> (Judgement, Vec<Figure>) {
    let patience = subject.terms.patience;
    let client = &mut life.client;
    let began = Instant::now();
    let mut times = Vec::new();
    for code in [FIRST, FAIL] {
        let asked = client.run(code, patience).await;
        if let Err(what) = good_start(code, &asked) {
            return (Err(what), Vec::new());
        }
    }
    for round in 1..=ROUNDS {
        let asked = client.run(ROUND, patience).await;
        match asked.took().filter(|_| asked.is_ok()) {
            Some(took) => times.push(took),
            None => return (Err(format!("cell {round}: {}", asked.told())), Vec::new()),
        }
    }
    let asked = client.run(COUNT, patience).await;
    let figures = median_and_worst(times).map_or_else(Vec::new, |(median, worst)| {
        let cells = ROUNDS as u64 + 3;
        let all = Figure::ms("all", began.elapsed());
        let median = Figure::ms("median", median);
        vec![
            median,
            Figure::ms("worst", worst),
            all,
            Figure::count("cells", cells),
        ]
    });
    (state(&asked), figures)
}

/// The first cells: one that succeeds, one that fails.
fn good_start(code: &str, asked: &Asked) -> Result<(), String> {
    let is_good = if code == FAIL {
        let error = asked.ended().filter(|_| asked.is_done());
        error.is_some_and(|it| it.status == ReplyStatus::Error && it.ename == "ZeroDivisionError")
    } else {
        asked.is_ok()
    };
    if is_good {
        return Ok(());
    }
    let what = if code == FAIL { "1/0" } else { FIRST_CELL };
    Err(format!("{what}: {}", asked.told()))
}

/// Whether it was the first cell that has failed.
pub(super) fn is_of_the_first(observed: &str) -> bool {
    observed.starts_with(FIRST_CELL)
}

/// The state after all of them.
fn state(asked: &Asked) -> Judgement {
    let expected = format!("{} [1]\n", ROUNDS + 1);
    if asked.is_ok() && asked.printed[0] == expected {
        Ok("variables and imports stay, also after an exception".to_owned())
    } else {
        Err(format!("at the end {}", asked.told()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::client::asked_for_tests as asked;

    #[test]
    fn state_is_right_or_it_is_not() {
        let ok = r#"{"status":"ok"}"#;
        let zero = r#"{"status":"error","ename":"ZeroDivisionError"}"#;
        let name = r#"{"status":"error","ename":"NameError"}"#;
        assert!(state(&asked(Some(ok), true, "51 [1]\n")).is_ok());
        for bad in [
            asked(Some(ok), true, "50 [1]\n"),
            asked(Some(ok), false, "51 [1]\n"),
            asked(Some(name), true, ""),
            asked(None, true, "51 [1]\n"),
        ] {
            assert!(state(&bad).unwrap_err().starts_with("at the end "));
        }
        assert!(good_start(FAIL, &asked(Some(zero), true, "")).is_ok());
        assert!(good_start(FAIL, &asked(Some(name), true, "")).is_err());
        assert!(good_start(FAIL, &asked(Some(ok), true, "")).is_err());
        assert!(good_start(FIRST, &asked(Some(ok), true, "")).is_ok());
        let error = good_start(FIRST, &asked(None, false, "")).unwrap_err();
        assert_eq!(error, "a first cell: no reply came");
        assert!(is_of_the_first(&error));
    }
}
