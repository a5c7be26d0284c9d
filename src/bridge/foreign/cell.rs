//! A cell that the kernel runs: what was asked of it, and what has come of that.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::python;
use super::questions::Interrupts;
use super::told::Told;
use crate::jupyter::{ExecuteReply, Expressions};

/// How long a kernel that has replied may be silent before it is taken for idle, and how long after
/// its idle the reply may be on its way.
const IDLE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a kernel that is idle after an interrupt may take to reply: an interrupt can cost the
/// reply.
const REPLY_PATIENCE: Duration = Duration::from_secs(1);
/// How long a kernel may take to tell what a cell has bound that has failed.
const NAMES_PATIENCE: Duration = Duration::from_secs(2);

/// What the manager asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    pub(super) code: String,
    #[serde(default)]
    silent: bool,
    #[serde(default)]
    store_history: Option<bool>,
    #[serde(default)]
    user_expressions: Map<String, Value>,
    /// Whether somebody is at its keyboard.
    #[serde(default)]
    pub(super) allow_stdin: bool,
    pub(super) warmcell: OrderOfOurs,
}

#[derive(Debug, Deserialize)]
pub(super) struct OrderOfOurs {
    pub(super) cell: u64,
    /// A text, or a list of bytes.
    #[serde(default)]
    cwd: Option<Value>,
}

impl Order {
    /// The directory to go to first, as Python writes it.
    pub(super) fn directory(&self) -> Option<String> {
        self.warmcell.cwd.as_ref().map(|cwd| match cwd {
            Value::String(text) => python::literal(text),
            bytes => format!("bytes({bytes})"),
        })
    }

    /// Whether it is to run elsewhere than in this directory.
    pub(super) fn leaves(&self, place: &Path) -> bool {
        self.warmcell.cwd.as_ref().is_some_and(|cwd| match cwd {
            Value::String(text) => Path::new(text) != place,
            bytes => *bytes != json!(place.as_os_str().as_bytes()),
        })
    }

    /// The content of the request to the kernel.
    pub(super) fn content(&self, is_python: bool) -> Bytes {
        let mut expressions = self.user_expressions.clone();
        if is_python {
            expressions.insert(python::REPORT.to_owned(), json!(python::REPORT_CODE));
        }
        let content = json!({
            "code": self.code, "silent": self.silent,
            "store_history": self.store_history.unwrap_or(true),
            "user_expressions": expressions, "allow_stdin": self.allow_stdin,
            "stop_on_error": false,
        });
        content.to_string().into()
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The kernel goes to another directory first; the code waits.
    Moving,
    /// The code runs.
    Running,
    /// It has failed, and the kernel is asked what it has bound.
    AskingNames,
}

/// A cell.
#[derive(Debug)]
pub(super) struct Running {
    /// Of the manager's request.
    pub(super) header: Bytes,
    pub(super) order: Order,
    pub(super) stage: Stage,
    /// The id of the request that is waited for.
    pub(super) waits_for: String,
    /// The id of the request that runs the code.
    pub(super) id: String,
    pub(super) reply: Option<ExecuteReply>,
    /// What the reply would have a front end show, as frames: after all that was published.
    pub(super) pages: Vec<Vec<u8>>,
    pub(super) is_idle: bool,
    /// A reply has come that is nobody's.
    has_strayed: bool,
    pub(super) interrupts: Interrupts,
    pub(super) names: Option<String>,
    /// The kernel has answered what it was asked about names.
    has_answered: bool,
    pub(super) warnings: Vec<String>,
    /// When the code had ended, where the kernel is asked more after that.
    pub(super) ended: Option<Instant>,
    /// When it goes on without what is waited for.
    pub(super) deadline: Option<Instant>,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To wait.
    Wait,
    /// To ask what the cell has bound.
    AskNames,
    /// To end the kernel: nothing can come of this cell.
    Broken(&'static str),
    /// To tell its end.
    Tell,
}

impl Running {
    pub(super) fn new(header: Bytes, id: String, order: Order) -> Self {
        Self {
            header,
            order,
            stage: Stage::Running,
            waits_for: id.clone(),
            id,
            reply: None,
            pages: Vec::new(),
            is_idle: false,
            has_strayed: false,
            interrupts: Interrupts::default(),
            names: None,
            has_answered: false,
            warnings: Vec::new(),
            ended: None,
            deadline: None,
        }
    }

    /// Whether an interrupt of this number is for its code, and that still runs.
    pub(super) fn is_meant(&self, named: u64) -> bool {
        let is_running = self.stage != Stage::AskingNames && self.reply.is_none();
        self.order.warmcell.cell == named && is_running
    }

    /// The kernel has replied to what runs the code.
    pub(super) fn replied(&mut self, content: &[u8]) -> Result<(), String> {
        let reply = ExecuteReply::parse(content).map_err(|error| error.to_string())?;
        self.names = report(content);
        self.reply = Some(reply);
        self.deadline = Some(Instant::now() + IDLE_PATIENCE);
        Ok(())
    }

    /// Something was published while the end of the cell is waited for.
    pub(super) fn heard(&mut self) {
        if self.stage == Stage::Running && self.reply.is_some() {
            self.deadline = Some(Instant::now() + IDLE_PATIENCE);
        }
    }

    /// The kernel is idle again.
    pub(super) fn idle(&mut self) {
        self.is_idle = true;
        if self.reply.is_none() {
            let patience = if self.interrupts.any() {
                REPLY_PATIENCE
            } else {
                IDLE_PATIENCE
            };
            self.deadline = Some(Instant::now() + patience);
        }
    }

    /// The kernel has replied to what nobody has asked. If nothing more is said of this cell for a while
    /// that was meant for it.
    pub(super) fn strayed(&mut self) {
        if self.stage == Stage::Running && self.reply.is_none() {
            self.deadline = Some(Instant::now() + IDLE_PATIENCE);
            self.has_strayed = true;
        }
    }

    /// Something of the cell itself has come: it may have been said before that reply.
    pub(super) fn goes_on(&mut self) {
        if self.has_strayed && self.reply.is_none() {
            self.deadline = Some(Instant::now() + IDLE_PATIENCE);
        }
    }

    /// The kernel was asked what the cell has bound.
    pub(super) fn asked_names(&mut self, id: String) {
        self.stage = Stage::AskingNames;
        self.waits_for = id;
        let now = Instant::now();
        self.ended = Some(now);
        self.deadline = Some(now + NAMES_PATIENCE);
    }

    /// The kernel has told that, or has answered without: then it will not tell.
    pub(super) fn told_names(&mut self, content: &[u8]) {
        self.names = report(content);
        self.has_answered = true;
    }

    /// What is next; `is_due` if the deadline has passed.
    pub(super) fn next(&mut self, tells_names: bool, is_due: bool) -> Next {
        if self.stage == Stage::Moving {
            return Next::Wait;
        }
        if self.stage == Stage::AskingNames {
            return if self.has_answered || is_due {
                Next::Tell
            } else {
                Next::Wait
            };
        }
        if !is_due && (self.reply.is_none() || !self.is_idle) {
            return Next::Wait;
        }
        if self.reply.is_none() && !self.interrupts.any() {
            return Next::Broken(if self.is_idle {
                "it was idle again and had not replied to the cell"
            } else {
                "it replied to what it was not asked, and not to the cell"
            });
        }
        if self.reply.is_some() && !self.is_idle {
            self.warnings.push(
                "the kernel did not say that it is idle again: output may be missing".to_owned(),
            );
        }
        if tells_names && self.names.is_none() {
            return Next::AskNames;
        }
        Next::Tell
    }

    /// What is to be told beside the kernel's reply.
    pub(super) fn told(&mut self, is_python: bool) -> Told {
        Told {
            cell: self.order.warmcell.cell,
            is_python,
            interrupted: self.interrupts.any(),
            names: self.names.take(),
            warnings: std::mem::take(&mut self.warnings),
            after_its_end: self.ended.map(|at| at.elapsed()).unwrap_or_default(),
        }
    }
}

/// What a Python kernel has told of its names.
fn report(content: &[u8]) -> Option<String> {
    Expressions::parse(content).ok()?.text(python::REPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Running {
        let order: Order = serde_json::from_str(
            r#"{"code":"1","warmcell":{"cell":3,"cwd":[47,255]},"silent":false}"#,
        )
        .unwrap();
        assert_eq!(order.directory().as_deref(), Some("bytes([47,255])"));
        Running::new(Bytes::from_static(b"{}"), "id".to_owned(), order)
    }

    const OK: &[u8] =
        br#"{"status":"ok","user_expressions":{"warmcell":{"data":{"text/plain":"{}"}}}}"#;
    const ERROR: &[u8] = br#"{"status":"error","ename":"E"}"#;

    #[tokio::test]
    async fn the_end_is_told_after_reply_and_idle_in_either_order() {
        let mut cell = running();
        cell.replied(OK).unwrap();
        assert_eq!(cell.next(true, false), Next::Wait);
        cell.idle();
        assert_eq!(cell.next(true, false), Next::Tell);
        let mut cell = running();
        cell.idle();
        assert_eq!(cell.next(true, false), Next::Wait);
        cell.replied(OK).unwrap();
        assert_eq!(cell.next(true, false), Next::Tell);
        assert!(cell.told(true).warnings.is_empty());
        assert!(running().replied(b"[]").is_err());
    }

    #[tokio::test]
    async fn after_a_failure_a_python_kernel_is_asked_for_names_but_not_for_ever() {
        let mut cell = running();
        cell.replied(ERROR).unwrap();
        cell.idle();
        assert_eq!(cell.next(false, false), Next::Tell);
        assert_eq!(cell.next(true, false), Next::AskNames);
        cell.asked_names("names".to_owned());
        assert_eq!(cell.next(true, false), Next::Wait);
        assert_eq!(cell.next(true, true), Next::Tell);
        cell.told_names(OK);
        assert_eq!(cell.next(true, false), Next::Tell);
        assert_eq!(cell.told(true).names.as_deref(), Some("{}"));
    }

    #[tokio::test]
    async fn a_kernel_that_never_says_that_it_is_idle_is_not_waited_for_for_ever() {
        let mut cell = running();
        assert_eq!(cell.deadline, None);
        cell.replied(OK).unwrap();
        assert!(cell.deadline.is_some());
        assert_eq!(cell.next(true, true), Next::Tell);
        assert_eq!(cell.told(true).warnings.len(), 1);
    }
}
