//! What a front end asks of a session's kernel between cells: completion, help, history, comms.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::session::{CLOSED, Session};
use super::slot::Next;
use super::worker::{Job, Worker};
use crate::execution::{Interrupt, LiveSender, live_output, shutdown_sink};
use crate::jupyter::FrameError;
use crate::kernel::{AskRequest, CellEnd, Death, Ending, Kernel};
use crate::output::redact::{Redactor, Rules};

/// Questions that may wait for a session.
pub(super) const WAITING_QUESTIONS: usize = 64;
/// The numbers of questions begin here: no session has so many cells.
const FIRST_NUMBER: u64 = 1 << 63;
/// How long one may take to end once its time is up and it was interrupted.
const END_PATIENCE: Duration = Duration::from_millis(200);
/// A question that goes on is interrupted again and again, and never costs the kernel.
const NO_KILL: Duration = Duration::from_secs(86_400);
/// How long one may take if nothing else is said.
const DEADLINE: Duration = Duration::from_secs(5);

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionKind {
    /// `complete_request`.
    Complete,
    /// `inspect_request`.
    Inspect,
    /// `is_complete_request`.
    IsComplete,
    /// `history_request`: of the present kernel alone.
    History,
    /// `comm_info_request`.
    CommInfo,
    /// `comm_open`.
    CommOpen,
    /// `comm_msg`.
    CommMessage,
    /// `comm_close`.
    CommClose,
}

impl QuestionKind {
    const ALL: [Self; 8] = [
        Self::Complete,
        Self::Inspect,
        Self::IsComplete,
        Self::History,
        Self::CommInfo,
        Self::CommOpen,
        Self::CommMessage,
        Self::CommClose,
    ];

    /// The types of the request and of the reply. A comm has no reply in Jupyter; that one only says
    /// that its code has ended.
    const fn types(self) -> (&'static str, &'static str) {
        match self {
            Self::Complete => ("complete_request", "complete_reply"),
            Self::Inspect => ("inspect_request", "inspect_reply"),
            Self::IsComplete => ("is_complete_request", "is_complete_reply"),
            Self::History => ("history_request", "history_reply"),
            Self::CommInfo => ("comm_info_request", "comm_info_reply"),
            Self::CommOpen => ("comm_open", "warmcell_comm_reply"),
            Self::CommMessage => ("comm_msg", "warmcell_comm_reply"),
            Self::CommClose => ("comm_close", "warmcell_comm_reply"),
        }
    }

    /// The type of the message, as in `complete_request`.
    pub const fn msg_type(self) -> &'static str {
        self.types().0
    }

    /// The type of the reply, as in `complete_reply`; none for comms.
    pub fn reply_type(self) -> Option<&'static str> {
        let (_, reply) = self.types();
        (reply != "warmcell_comm_reply").then_some(reply)
    }

    /// What a message of that type asks.
    pub fn parse(msg_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.msg_type() == msg_type)
    }
}

/// A question of a front end's.
#[derive(Debug)]
pub struct Question {
    /// What is asked.
    pub kind: QuestionKind,
    /// The content of the message, a JSON object in the shape of Jupyter.
    pub content: Bytes,
    /// Its metadata, a JSON object.
    pub metadata: Bytes,
    /// Its binary attachments.
    pub buffers: Vec<Bytes>,
    /// How long the kernel may take, from when it is asked; 5 s unless something else is said. Then it
    /// is interrupted in place, which costs no state.
    pub deadline: Duration,
    /// Whether to wait while a cell runs, or to be answered with [`AskError::Busy`] at once.
    pub waits: bool,
    /// The id of the message with which a front end has asked, as its widgets know it.
    pub origin: Option<String>,
    /// Takes what is printed and shown meanwhile.
    pub live: Option<LiveSender>,
}

impl Question {
    /// A question that waits its turn, with a content in the shape of Jupyter.
    pub fn new(kind: QuestionKind, content: impl Into<Bytes>) -> Self {
        Self {
            kind,
            content: content.into(),
            metadata: Bytes::from_static(b"{}"),
            buffers: Vec::new(),
            deadline: DEADLINE,
            waits: true,
            origin: None,
            live: None,
        }
    }
}

/// A question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// A cell runs, and the question was not to wait.
    #[error("a cell runs; ask again when it has ended")]
    Busy,
    /// Too many wait.
    #[error("{WAITING_QUESTIONS} questions wait for this session already; wait for some of them")]
    Full,
    /// The session is no more.
    #[error("{CLOSED}")]
    Closed,
    /// No kernel can be had.
    #[error("{reason}")]
    NoKernel {
        /// Why, and what to do.
        reason: String,
    },
    /// It took too long, and what the kernel does for it was interrupted.
    #[error("the kernel did not answer within {} s", after.as_secs_f64())]
    NoAnswer {
        /// How long it was waited for.
        after: Duration,
    },
    /// Somebody has interrupted it.
    #[error("the question was interrupted")]
    Interrupted,
    /// The kernel has ended; the next cell tells what is lost.
    #[error("the kernel {death} while it was asked")]
    KernelDied {
        /// How.
        death: Death,
    },
    /// It does not fit into a message.
    #[error("the question cannot be sent")]
    TooLong(#[source] FrameError),
}

/// A question that waits.
#[derive(Debug)]
pub(super) struct AskJob {
    question: Question,
    pub(super) interrupt: Interrupt,
    answer: oneshot::Sender<Result<Bytes, AskError>>,
    _permit: OwnedSemaphorePermit,
}

impl Session {
    /// Asks the kernel something between cells, and waits for the content of the reply, JSON in the
    /// shape of Jupyter and at most 4 MiB. It waits its turn as a cell does, is never counted as one,
    /// and starts a kernel if there is none. At most 64 wait.
    ///
    /// The kernel is not trusted: what it says may be anything.
    ///
    /// # Errors
    ///
    /// If there is no answer; no state is lost by that.
    ///
    /// # Cancel safety
    ///
    /// If dropped while it waits nothing is asked; later the kernel is interrupted in it.
    pub async fn ask(&self, question: Question) -> Result<Bytes, AskError> {
        if !question.waits && self.is_busy() {
            return Err(AskError::Busy);
        }
        let permit = std::sync::Arc::clone(&self.questions)
            .try_acquire_owned()
            .map_err(|_full| AskError::Full)?;
        let (answer, answered) = oneshot::channel();
        let job = AskJob {
            question,
            interrupt: Interrupt::new(),
            answer,
            _permit: permit,
        };
        match self.jobs.try_send(Job::Ask(Box::new(job))) {
            Ok(()) => answered.await.unwrap_or(Err(AskError::Closed)),
            Err(mpsc::error::TrySendError::Full(_)) => Err(AskError::Full),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(AskError::Closed),
        }
    }
}

impl Worker {
    /// Answers a question, unless nobody waits for it any more.
    pub(super) async fn answer(&mut self, job: AskJob) {
        let AskJob {
            question,
            interrupt,
            mut answer,
            _permit,
        } = job;
        if answer.is_closed() {
            return;
        }
        *self.shared.asking() = Some(interrupt.clone());
        let result = self.ask(question, &interrupt, &mut answer).await;
        *self.shared.asking() = None;
        // Whoever asked may be gone.
        drop(answer.send(result));
    }

    async fn ask(
        &mut self,
        question: Question,
        interrupt: &Interrupt,
        answer: &mut oneshot::Sender<Result<Bytes, AskError>>,
    ) -> Result<Bytes, AskError> {
        let live = question.live.unwrap_or_else(|| live_output().0);
        // The second time it is a kernel that was started for it.
        for last in [false, true] {
            let kernel = match self.keeper.kernel(interrupt).await {
                Ok(kernel) => kernel,
                Err(error) => {
                    let outcome = self.without_kernel(error, false);
                    let reason = outcome.error.unwrap_or_default();
                    return Err(AskError::NoKernel { reason });
                }
            };
            self.questions += 1;
            let number = FIRST_NUMBER + self.questions;
            let (msg_type, reply_type) = question.kind.types();
            let msg_id = format!("{}_q{}", self.id, self.questions);
            let date = Timestamp::now().to_string();
            let asking = kernel.ask(AskRequest {
                msg_type,
                reply_type,
                content: question.content.clone(),
                metadata: with_number(&question.metadata, number, question.origin.as_deref()),
                buffers: question.buffers.clone(),
                number,
                msg_id: &msg_id,
                session: &self.id,
                date: &date,
                sink: shutdown_sink(live.clone(), Some(self.keeper.starter.rules())),
            });
            let terms = Patience {
                kernel: &kernel,
                number,
                deadline: question.deadline,
                interrupt,
                interrupt_grace: self.terms.settings.interrupt_grace,
            };
            let end = terms.wait(asking, answer).await?;
            self.keeper.keep_background(end.background);
            match end.ending {
                Ending::Answered(content) => {
                    return Ok(masked(question.kind, content, self.keeper.starter.rules()));
                }
                Ending::NotStarted(death) if !last => {
                    // It died while nobody looked.
                    self.keeper.died(&death, Next::Restart);
                }
                Ending::NotStarted(death) | Ending::Died(death) => {
                    return Err(AskError::KernelDied { death });
                }
                Ending::Killed | Ending::Replied(_) => return Err(AskError::Interrupted),
            }
        }
        Err(AskError::Closed)
    }
}

/// A reply as a reader sees it: in help and completions stand values. History gives back what was
/// typed, to be typed again, and comms are the data of widgets: those are passed on as they are.
fn masked(kind: QuestionKind, content: Bytes, rules: &Rules) -> Bytes {
    if !matches!(kind, QuestionKind::Inspect | QuestionKind::Complete) {
        return content;
    }
    let Ok(text) = std::str::from_utf8(&content) else {
        return content;
    };
    if Redactor::once(rules, text).1 == 0 {
        return content;
    }
    let Ok(mut reply) = serde_json::from_slice::<Value>(&content) else {
        // Nobody could read it.
        return Bytes::from_static(b"{}");
    };
    mask_texts(&mut reply, rules);
    reply.to_string().into()
}

/// Masks all texts of a JSON value, not its keys. It is as deep as it was read: 128 levels at most.
fn mask_texts(value: &mut Value, rules: &Rules) {
    match value {
        Value::String(text) => *text = Redactor::once(rules, text).0,
        Value::Array(items) => items.iter_mut().for_each(|it| mask_texts(it, rules)),
        Value::Object(entries) => entries.values_mut().for_each(|it| mask_texts(it, rules)),
        _ => {}
    }
}

/// How long a question is waited for, and what is done then.
struct Patience<'a> {
    kernel: &'a Kernel,
    number: u64,
    deadline: Duration,
    interrupt: &'a Interrupt,
    interrupt_grace: Duration,
}

impl Patience<'_> {
    async fn wait(
        &self,
        asking: impl Future<Output = Result<Option<CellEnd>, FrameError>>,
        answer: &mut oneshot::Sender<Result<Bytes, AskError>>,
    ) -> Result<CellEnd, AskError> {
        let too_late = || AskError::NoAnswer {
            after: self.deadline,
        };
        let mut asking = std::pin::pin!(asking);
        let (failure, patience) = tokio::select! {
            biased;
            end = &mut asking => {
                return end.map_err(AskError::TooLong)?.ok_or_else(too_late);
            }
            () = self.interrupt.cancelled() => (AskError::Interrupted, self.interrupt_grace),
            () = answer.closed() => (AskError::Interrupted, END_PATIENCE),
            () = sleep(self.deadline) => (too_late(), END_PATIENCE),
        };
        let ending = async {
            self.kernel.interrupt(self.number, NO_KILL).await;
            timeout(patience, &mut asking).await.ok()
        };
        let ended = tokio::select! {
            biased;
            () = self.interrupt.forced() => None,
            ended = ending => ended,
        };
        match ended {
            // A kernel that has ended by that is noticed by those who watch it.
            Some(_) => {}
            None => self.kernel.give_up(self.number).await,
        }
        Err(failure)
    }
}

/// The metadata, and in it the number with which the kernel's part of it can be interrupted.
fn with_number(metadata: &[u8], number: u64, origin: Option<&str>) -> Bytes {
    let origin = origin
        .and_then(|origin| serde_json::to_string(origin).ok())
        .map_or_else(String::new, |origin| format!(",\"origin\":{origin}"));
    let own = format!("\"warmcell\":{{\"question\":{number}{origin}}}");
    let text = std::str::from_utf8(metadata).unwrap_or_default().trim();
    let object = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    // Ours comes last: of two keys of the same name that one counts.
    Bytes::from(match object.map(str::trim) {
        None | Some("") => format!("{{{own}}}"),
        Some(rest) => format!("{{{rest},{own}}}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_behind_what_else_is_there() {
        let with =
            |text: &str| String::from_utf8(with_number(text.as_bytes(), 7, None).to_vec()).unwrap();
        assert_eq!(with("{}"), r#"{"warmcell":{"question":7}}"#);
        let named = with_number(b"{}", 7, Some("a\"b"));
        assert_eq!(named, r#"{"warmcell":{"question":7,"origin":"a\"b"}}"#);
        assert_eq!(with(" { } "), r#"{"warmcell":{"question":7}}"#);
        assert_eq!(with(r#"{"a":1}"#), r#"{"a":1,"warmcell":{"question":7}}"#);
        assert_eq!(with("no object"), r#"{"warmcell":{"question":7}}"#);
    }

    #[test]
    fn comms_have_no_reply() {
        assert_eq!(
            QuestionKind::parse("comm_msg"),
            Some(QuestionKind::CommMessage)
        );
        assert_eq!(QuestionKind::CommMessage.reply_type(), None);
        assert_eq!(QuestionKind::Inspect.reply_type(), Some("inspect_reply"));
        assert_eq!(QuestionKind::parse("execute_request"), None);
    }
}
