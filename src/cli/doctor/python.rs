//! Which Python, and whether kernels run on it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::finding::Finding;
use crate::cli::surroundings;
use crate::config::{Caller, Settings};
use crate::environment::{TriedRung, Verdict, taken};
use crate::execution::Status;
use crate::session::{Cell, Registry};

/// How long a Python that does not answer is waited for; a start has a deadline of its own.
const DEADLINE: Duration = Duration::from_secs(30);
/// A kernel that was started has to answer within this.
const CELL: Duration = Duration::from_secs(5);

pub(super) async fn check(settings: &Settings) -> Vec<Finding> {
    let caller = surroundings::any_caller();
    let tried = timeout(DEADLINE, try_out(settings.clone(), &caller)).await;
    let (rungs, kernel) = match tried {
        Ok(Ok(tried)) => tried,
        Ok(Err(error)) => (Vec::new(), Err(error)),
        Err(_elapsed) => {
            let error = format!("no kernel answered within {} s", DEADLINE.as_secs());
            (Vec::new(), Err(error))
        }
    };
    let lines = rungs.iter().map(line).collect();
    let data = json!({
        "python": taken(&rungs).map(|(rung, python)| json!({
            "executable": python.executable.display().to_string(), "version": python.version,
            "prefix": python.prefix.display().to_string(), "source": rung.source.to_string(),
        })),
        "rungs": rungs.iter().map(data_of).collect::<Vec<_>>(),
    });
    let python = match taken(&rungs) {
        Some((rung, python)) => {
            let executable = python.executable.display();
            Finding::ok(
                "python",
                format!("{executable} ({}), from {}", python.version, rung.source),
            )
        }
        None => Finding::failed(
            "python",
            "no Python will do",
            "install Python 3.8 or newer, put it on PATH as python3 or set VIRTUAL_ENV, or name it (exec \
             --python PATH)",
        ),
    };
    let kernel = match kernel {
        Ok(told) => Finding::ok("kernel", told),
        Err(error) => Finding::failed(
            "kernel",
            error,
            "mend what it says of Python, or name another one",
        ),
    };
    vec![python.with(lines, data), kernel]
}

fn line(rung: &TriedRung) -> String {
    let path = rung.path.as_ref();
    let path = path.map_or_else(|| "nothing".to_owned(), |it| it.display().to_string());
    match &rung.verdict {
        Verdict::Empty => format!("{}: nothing there", rung.source),
        Verdict::Usable(python) => format!("{}: {path} (Python {})", rung.source, python.version),
        Verdict::Unusable(why) => format!("{}: {path} {why}", rung.source),
    }
}

fn data_of(rung: &TriedRung) -> Value {
    let (verdict, why) = match &rung.verdict {
        Verdict::Empty => ("empty", None),
        Verdict::Usable(_) => ("usable", None),
        Verdict::Unusable(why) => (why.word(), Some(why.to_string())),
    };
    json!({
        "source": rung.source.to_string(), "verdict": verdict, "why": why,
        "path": rung.path.as_ref().map(|it| it.display().to_string()),
    })
}

type Tried = (Vec<TriedRung>, Result<String, String>);

/// Tries each Python, starts a kernel, has it run a cell, and ends all.
async fn try_out(settings: Settings, caller: &Caller) -> Result<Tried, String> {
    let settings = Settings {
        kernel_idle_timeout: None,
        restarts: false,
        ..settings
    };
    let registry = Registry::start(settings).await;
    let registry = registry.map_err(|error| error.to_string())?;
    let rungs = registry
        .pythons(caller)
        .await
        .map_err(|error| error.to_string());
    let kernel = run(&registry, caller).await;
    registry.shut_down().await;
    Ok((rungs?, kernel))
}

async fn run(registry: &Registry, caller: &Caller) -> Result<String, String> {
    let session = registry.session("doctor", caller);
    let session = session.map_err(|error| error.to_string())?;
    let began = Instant::now();
    let started = session.start().await;
    started.map_err(|outcome| outcome.error.unwrap_or_default())?;
    let start = began.elapsed();
    let outcome = session
        .execute(Cell::new("6 * 7").timeout(CELL))
        .outcome()
        .await;
    if outcome.status != Status::Success {
        return Err(format!(
            "a kernel did not do what it was asked: {}",
            outcome.output
        ));
    }
    let cell = began.elapsed().saturating_sub(start);
    Ok(format!(
        "a kernel was started and has answered ({} ms and {} ms)",
        start.as_millis(),
        cell.as_millis()
    ))
}
