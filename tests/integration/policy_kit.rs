//! What the tests of policy `interrupt` share.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use warmcell::config::Settings;
use warmcell::execution::Outcome;
use warmcell::session::{Cell, Policy, Registry, Session};

use crate::lifecycle_support::{json, result, until};
use crate::support::{Manager, Place};

/// A cell that is interrupted in place, by whomever or whatever.
pub fn gentle(code: impl Into<String>) -> Cell {
    Cell {
        on_timeout: Some(Policy::Interrupt),
        on_interrupt: Some(Policy::Interrupt),
        ..Cell::new(code)
    }
}

/// Runs a cell and interrupts it after a while.
pub async fn interrupted(session: &Session, code: &str, delay: Duration) -> Outcome {
    let mut execution = session.execute(gentle(code));
    let interrupt = execution.interrupt_token();
    let interrupting = async {
        tokio::time::sleep(delay).await;
        interrupt.cancel();
    };
    tokio::join!(result(&mut execution), interrupting).0
}

/// Runs a cell and interrupts it when it has made a file of the name `mark` in its directory.
pub async fn interrupted_at_mark(session: &Session, place: &Place, code: &str) -> Outcome {
    interrupted_after_mark(session, place, code, Duration::ZERO).await
}

/// The same, a while after that.
pub async fn interrupted_after_mark(
    session: &Session,
    place: &Place,
    code: &str,
    delay: Duration,
) -> Outcome {
    let mark = place.work().join("mark");
    fs::remove_file(&mark).ok();
    let mut execution = session.execute(gentle(code));
    let interrupt = execution.interrupt_token();
    let interrupting = async {
        until("the mark", || mark.exists()).await;
        tokio::time::sleep(delay).await;
        interrupt.cancel();
    };
    tokio::join!(result(&mut execution), interrupting).0
}

/// A manager whose cells have so long to end.
pub async fn with_grace(grace: Duration) -> Manager {
    let place = Place::new();
    let settings = Settings {
        interrupt_grace: grace,
        ..place.settings()
    };
    let registry = Registry::start(settings).await.unwrap();
    Manager { place, registry }
}

/// A text without the marks below the lines of a traceback, which not every Python has.
pub fn without_marks(text: &str) -> String {
    let is_mark = |line: &&str| {
        line.chars().any(|it| it == '^') && line.trim_matches([' ', '^', '~']).is_empty()
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_mark(line)).collect();
    lines.join("\n")
}

#[track_caller]
pub fn assert_kept(outcome: &Outcome, what: &str) -> Value {
    let told = json(outcome);
    assert_eq!(told["status"], "interrupted", "{what}: {told}");
    assert_eq!(told["kernel"]["state"], "kept", "{what}: {told}");
    assert_eq!(told["exit_code"], -1, "{what}");
    assert_eq!(told["error_class"], "interrupted", "{what}");
    told
}
