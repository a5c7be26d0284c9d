//! Runs one cell on a kernel, under its time limit.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::kept::Keeping;
use super::live::LiveSender;
use super::output::{CellOutput, Watcher};
use super::stopping::Stopping;
use super::{Caps, CellAuthority, Files, Interrupt, Kept, LossReason, Progress, Store, Wishes};
use crate::jupyter::{ExecuteReply, FrameError};
use crate::kernel::{CellRequest, Death, Ending, InputSource, Kernel};
use crate::output::Windowed;
use crate::output::redact::{Redactor, Rules};
use crate::tools::ToolUse;

/// The disk has so long for what a cell has printed last.
const KEEPING: Duration = Duration::from_secs(2);
/// The same where the result is late already.
const KEEPING_A_LOST_CELLS: Duration = Duration::from_millis(500);

/// A cell and its circumstances.
pub struct CellTask<'a> {
    /// The kernel that runs it.
    pub kernel: &'a Kernel,
    /// The Python source.
    pub code: &'a str,
    /// Its number in the session.
    pub cell: u64,
    /// The directory to which the kernel is to change before it runs.
    pub cwd: Option<&'a Path>,
    /// The id of its request message.
    pub msg_id: &'a str,
    /// The id of the session.
    pub session: &'a str,
    /// Now, as in a message header.
    pub date: &'a str,
    /// Its time limit.
    pub timeout: Duration,
    /// How long it may take to end by itself when its time is up, interrupted in place; if none its
    /// kernel is killed at once.
    pub timeout_grace: Option<Duration>,
    /// The same when somebody interrupts it.
    pub interrupt_grace: Option<Duration>,
    /// The same when somebody wants it interrupted in place, whatever its policy says.
    pub in_place_grace: Duration,
    /// With which somebody interrupts it.
    pub interrupt: &'a Interrupt,
    /// Told when it is interrupted in place.
    pub interrupting: &'a mut (dyn FnMut(Stop) + Send),
    /// Its authority to call tools.
    pub authority: &'a Arc<dyn CellAuthority>,
    /// Is told what can be asked while it runs.
    pub progress: &'a Progress,
    /// How much output its result shows.
    pub caps: Caps,
    /// Where files are made of what it prints and shows.
    pub store: &'a Arc<Store>,
    /// Which.
    pub files: Files,
    /// So many bytes of its stdout at most; none if it is 0.
    pub spill_bytes: u64,
    /// What is masked in all that comes of it; nothing if there are none.
    pub rules: Option<Rules>,
    /// Somebody who reads along.
    pub live: Option<LiveSender>,
    /// Watches the output.
    pub watcher: Option<Box<dyn Watcher>>,
    /// What a front end wants of it beyond its code.
    pub wishes: &'a Wishes,
}

impl std::fmt::Debug for CellTask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellTask")
            .field("cell", &self.cell)
            .finish_non_exhaustive()
    }
}

/// Why a cell was not to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its time was up.
    Timeout,
    /// Somebody has interrupted it.
    Interrupt,
}

impl Stop {
    /// Why a kernel is lost that is killed for it.
    pub fn reason(self) -> LossReason {
        match self {
            Self::Timeout => LossReason::Timeout,
            Self::Interrupt => LossReason::Interrupt,
        }
    }
}

/// How a cell that was not to go on cost its kernel.
#[derive(Debug)]
pub enum Cost {
    /// It was killed at once.
    Killed,
    /// The cell was interrupted in place, did not end within this time, and the kernel was killed.
    Deaf(Duration),
    /// The cell was interrupted in place, and the kernel was killed before the cell's time to end
    /// was over: it was interrupted again, or its session was closed or reset.
    CutShort,
    /// The cell was interrupted in place, and the kernel has died of it.
    Died(Death),
}

/// How a cell ended.
#[derive(Debug)]
pub enum How {
    /// It ran to its end; the kernel lives.
    Replied(Box<ExecuteReply>),
    /// It was interrupted in place before its code had ended, and has ended; the kernel lives.
    Stopped(Stop, Box<ExecuteReply>),
    /// It was not to go on, and the kernel is gone.
    Lost(Stop, Cost),
    /// The kernel ended.
    Died(Death),
    /// The kernel was gone before; the cell did not run.
    NotStarted(Death),
}

/// A cell that has ended.
#[derive(Debug)]
pub struct CellRun {
    /// How.
    pub how: How,
    /// What it wrote to stdout.
    pub stdout: Windowed,
    /// What it wrote to stderr.
    pub stderr: Windowed,
    /// The repr of its last expression.
    pub result: Option<String>,
    /// From its start to its end.
    pub duration: Duration,
    /// Its tool calls.
    pub tool_use: ToolUse,
    /// Messages of the kernel that made no sense.
    pub dropped_messages: u64,
    /// Secrets that were masked.
    pub redacted: u64,
    /// What was printed between the previous cell and this one, and how many bytes it was.
    pub background: Option<(String, u64)>,
    /// What of it is in files.
    pub kept: Kept,
}

impl CellRun {
    /// A cell that was ended before it began.
    pub fn without_output(how: How) -> Self {
        Self {
            how,
            stdout: Windowed::default(),
            stderr: Windowed::default(),
            result: None,
            duration: Duration::ZERO,
            tool_use: ToolUse::default(),
            dropped_messages: 0,
            redacted: 0,
            background: None,
            kept: Kept::default(),
        }
    }
}

/// Runs the cell to its end, its limit, or its interrupt.
///
/// # Errors
///
/// If the code does not fit into a frame.
///
/// # Cancel safety
///
/// Not to be dropped: the kernel would go on with the cell. Interrupt it instead.
pub async fn run(task: CellTask<'_>) -> Result<CellRun, FrameError> {
    let pressure = task.live.as_ref().map(LiveSender::pressure);
    let keeping = Keeping::new(
        task.store,
        task.files,
        task.caps.stdout,
        task.spill_bytes,
        pressure,
    );
    let sink = Arc::new(Mutex::new(CellOutput::new(
        task.caps,
        task.rules.as_ref(),
        keeping,
        task.live,
        task.watcher,
    )));
    let began = Instant::now();
    task.progress
        .begin(began, Arc::clone(&sink), Arc::clone(task.authority));
    let mut executing = std::pin::pin!(task.kernel.execute(CellRequest {
        code: task.code,
        cell: task.cell,
        cwd: task.cwd,
        msg_id: task.msg_id,
        session: task.session,
        date: task.date,
        sink: Arc::clone(&sink) as _,
        silent: task.wishes.silent,
        store_history: task.wishes.stores_history(),
        user_expressions: task.wishes.user_expressions.as_deref(),
        origin: task.wishes.origin.as_deref(),
        input: masked_input(task.wishes.input.as_ref(), task.rules.as_ref()),
    }));
    let stop = tokio::select! {
        biased;
        end = &mut executing => Err(end?),
        () = task.interrupt.cancelled() => Ok(Stop::Interrupt),
        () = sleep_until(began + task.timeout) => Ok(Stop::Timeout),
    };
    let (how, dropped_messages, background) = match stop {
        Err(end) => (how_of(end.ending), end.dropped_messages, end.background),
        Ok(stop) => {
            let grace = match stop {
                Stop::Timeout => task.timeout_grace,
                Stop::Interrupt if task.interrupt.is_in_place() => Some(task.in_place_grace),
                Stop::Interrupt => task.interrupt_grace,
            };
            let grace = grace.filter(|_| !task.interrupt.is_forced());
            if grace.is_some() {
                (task.interrupting)(stop);
            }
            let stopping = Stopping {
                kernel: task.kernel,
                cell: task.cell,
                interrupt: task.interrupt,
                authority: task.authority.as_ref(),
            };
            let (how, end) = stopping.end(stop, grace, executing).await?;
            let (dropped, background) =
                end.map_or((0, None), |end| (end.dropped_messages, end.background));
            (how, dropped, background)
        }
    };
    let duration = began.elapsed().saturating_sub(after_its_end(&how));
    let tool_use = task.authority.retire();
    let (collected, keeping) = {
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        (sink.take(), sink.take_keeping())
    };
    let mut kept = match keeping {
        Some(keeping) if matches!(how, How::Lost(..)) => keeping.finish(KEEPING_A_LOST_CELLS).await,
        Some(keeping) => keeping.finish(KEEPING).await,
        None => Kept::default(),
    };
    // What was drawn over nobody misses.
    kept.lost = kept.lost.filter(|_| collected.stdout.is_cut);
    let mut redacted = collected.redacted;
    let how = masked(how, task.rules.as_ref(), &mut redacted);
    Ok(CellRun {
        how,
        stdout: collected.stdout,
        stderr: collected.stderr,
        result: collected.result,
        duration,
        tool_use,
        dropped_messages: dropped_messages + collected.unreadable,
        redacted,
        background,
        kept,
    })
}

/// Whoever answers reads the prompt, and everything that is read is masked.
fn masked_input(input: Option<&InputSource>, rules: Option<&Rules>) -> Option<InputSource> {
    let input = input?.clone();
    let Some(rules) = rules.cloned() else {
        return Some(input);
    };
    Some(input.showing(move |prompt| Redactor::once(&rules, prompt).0))
}

/// How long its kernel was asked about the cell when that had ended.
fn after_its_end(how: &How) -> Duration {
    let (How::Replied(reply) | How::Stopped(_, reply)) = how else {
        return Duration::ZERO;
    };
    let report = reply.warmcell.as_ref();
    report.map_or(Duration::ZERO, |it| Duration::from_millis(it.after_end_ms))
}

/// The reply as a reader sees it.
fn masked(mut how: How, rules: Option<&Rules>, redacted: &mut u64) -> How {
    if let (How::Replied(reply) | How::Stopped(_, reply), Some(rules)) = (&mut how, rules) {
        reply.change_texts(&mut |text| {
            let (masked, count) = Redactor::once(rules, text);
            *redacted += count;
            (count > 0).then_some(masked)
        });
    }
    how
}

fn how_of(ending: Ending) -> How {
    match ending {
        Ending::Replied(reply) => How::Replied(reply),
        Ending::NotStarted(death) => How::NotStarted(death),
        Ending::Died(death) => How::Died(death),
        // A cell is not answered by anything but its own reply; the kernel's task sees to that.
        Ending::Answered(_) => How::Died(Death::answered_no_question()),
        // Somebody else has killed it: the session was closed or reset.
        Ending::Killed => How::Lost(Stop::Interrupt, Cost::Killed),
    }
}
