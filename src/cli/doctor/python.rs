//! Which Python, and whether kernels run on it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::finding::Finding;
use crate::cli::surroundings;
use crate::config::{Caller, Settings};
use crate::environment::{Candidate, candidates};
use crate::execution::Status;
use crate::session::{Cell, PythonInfo, Registry};

/// How long a Python that does not answer is waited for; a start has a deadline of its own.
const DEADLINE: Duration = Duration::from_secs(15);
/// A kernel that was started has to answer within this.
const CELL: Duration = Duration::from_secs(5);

/// What a kernel that was tried out has shown.
struct Tried {
    python: PythonInfo,
    /// Which Python was passed over.
    notice: Option<String>,
    took: Duration,
}

pub(super) async fn check(settings: &Settings) -> Vec<Finding> {
    let caller = surroundings::any_caller();
    let rungs = candidates(&caller);
    let began = Instant::now();
    let tried = timeout(DEADLINE, try_out(settings.clone(), &caller));
    let tried = match tried.await {
        Ok(tried) => tried,
        Err(_elapsed) => Err(format!(
            "no kernel answered within {} s",
            DEADLINE.as_secs()
        )),
    };
    let took = began.elapsed();
    match tried {
        Ok(tried) => found(&rungs, &tried, took),
        Err(error) => vec![
            Finding::failed(
                "python",
                error,
                "install Python 3.8 or newer, put it on PATH as python3 or set VIRTUAL_ENV, or name it \
                 (exec --python PATH)",
            )
            .with(lines(&rungs, None), data(&rungs, None)),
        ],
    }
}

fn found(rungs: &[Candidate], tried: &Tried, took: Duration) -> Vec<Finding> {
    let python = &tried.python;
    let says = format!(
        "{} ({}), from {}",
        python.executable.display(),
        python.version,
        taken(rungs, python).map_or("this process", |rung| rung.source)
    );
    let finding = match &tried.notice {
        None => Finding::ok("python", says),
        Some(notice) => Finding::note("python", format!("{says}; {notice}")),
    };
    let kernel = format!(
        "a kernel was started and has answered ({} ms and {} ms)",
        took.saturating_sub(tried.took).as_millis(),
        tried.took.as_millis()
    );
    vec![
        finding.with(lines(rungs, Some(python)), data(rungs, Some(python))),
        Finding::ok("kernel", kernel),
    ]
}

/// The rung whose Python was taken: a path to it, by whatever links.
fn taken<'a>(rungs: &'a [Candidate], python: &PythonInfo) -> Option<&'a Candidate> {
    let same = |rung: &&Candidate| rung.path == python.executable;
    let file = |path| std::fs::canonicalize(path).ok();
    rungs.iter().find(same).or_else(|| {
        let own = file(&python.executable)?;
        rungs
            .iter()
            .find(|rung| file(&rung.path).as_ref() == Some(&own))
    })
}

/// Each rung, and what became of it.
fn verdicts<'a>(
    rungs: &'a [Candidate],
    python: Option<&'a PythonInfo>,
) -> impl Iterator<Item = (&'a Candidate, &'static str)> {
    let at = python.and_then(|python| {
        let taken = taken(rungs, python)?;
        rungs.iter().position(|rung| rung == taken)
    });
    rungs.iter().enumerate().map(move |(number, rung)| {
        let verdict = match at {
            Some(at) if number == at => "taken",
            Some(at) if number > at => "not needed",
            _ => "passed over",
        };
        (rung, verdict)
    })
}

fn lines(rungs: &[Candidate], python: Option<&PythonInfo>) -> Vec<String> {
    let line = |(rung, verdict): (&Candidate, &str)| {
        format!("{}: {} ({verdict})", rung.source, rung.path.display())
    };
    let lines: Vec<String> = verdicts(rungs, python).map(line).collect();
    if lines.is_empty() {
        return vec!["neither VIRTUAL_ENV nor PATH names a Python".to_owned()];
    }
    lines
}

fn data(rungs: &[Candidate], python: Option<&PythonInfo>) -> Value {
    let rungs: Vec<Value> = verdicts(rungs, python)
        .map(|(rung, verdict)| {
            json!({ "source": rung.source, "path": rung.path.display().to_string(), "verdict": verdict })
        })
        .collect();
    json!({ "python": python, "rungs": rungs })
}

/// Starts a kernel, has it run a cell, and ends it.
async fn try_out(settings: Settings, caller: &Caller) -> Result<Tried, String> {
    let settings = Settings {
        kernel_idle_timeout: None,
        restarts: false,
        ..settings
    };
    let registry = Registry::start(settings).await;
    let registry = registry.map_err(|error| error.to_string())?;
    let tried = match registry.session("doctor", caller) {
        Ok(session) => match session.start().await {
            Ok(()) => {
                let began = Instant::now();
                let outcome = session
                    .execute(Cell::new("6 * 7").timeout(CELL))
                    .outcome()
                    .await;
                let python = session.status().python;
                match (outcome.status, python) {
                    (Status::Success, Some(python)) => Ok(Tried {
                        python,
                        notice: outcome.warning,
                        took: began.elapsed(),
                    }),
                    _ => Err(format!(
                        "a kernel did not do what it was asked: {}",
                        outcome.output
                    )),
                }
            }
            Err(outcome) => Err(outcome.error.unwrap_or_default()),
        },
        Err(error) => Err(error.to_string()),
    };
    registry.shut_down().await;
    tried
}
