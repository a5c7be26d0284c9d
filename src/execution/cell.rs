//! Runs one cell on a kernel, under its time limit.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::live::LiveSender;
use super::output::{CellOutput, Observer};
use super::{Caps, CellAuthority, Progress};
use crate::jupyter::{ExecuteReply, FrameError};
use crate::kernel::{CellEnd, CellRequest, Death, Ending, Kernel};
use crate::output::Windowed;
use crate::tools::ToolUse;

/// How long the end of a killed kernel's cell is waited for; the kernel's task answers in 20 ms.
const END_DEADLINE: Duration = Duration::from_secs(5);

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
    /// Fires when somebody interrupts it.
    pub interrupt: &'a CancellationToken,
    /// Its authority to call tools.
    pub authority: &'a Arc<dyn CellAuthority>,
    /// Is told what can be asked while it runs.
    pub progress: &'a Progress,
    /// How much output is kept.
    pub caps: Caps,
    /// Somebody who reads along.
    pub live: Option<LiveSender>,
    /// Watches the output.
    pub observer: Option<Observer>,
}

impl std::fmt::Debug for CellTask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellTask")
            .field("cell", &self.cell)
            .finish_non_exhaustive()
    }
}

/// How a cell ended.
#[derive(Debug)]
pub enum How {
    /// It ran to its end; the kernel lives.
    Replied(Box<ExecuteReply>),
    /// Its time was up; the kernel was killed.
    TimedOut,
    /// It was interrupted; the kernel was killed.
    Interrupted,
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
    /// What was printed between the previous cell and this one, and how many bytes it was.
    pub background: Option<(String, u64)>,
}

impl CellRun {
    /// A cell that was ended before it began.
    pub fn without_output(how: How) -> Self {
        let nothing = || Windowed {
            text: String::new(),
            total: 0,
            captured: 0,
            omitted: 0,
        };
        Self {
            how,
            stdout: nothing(),
            stderr: nothing(),
            result: None,
            duration: Duration::ZERO,
            tool_use: ToolUse::default(),
            dropped_messages: 0,
            background: None,
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
    let sink = Arc::new(Mutex::new(CellOutput::new(
        task.caps,
        task.live,
        task.observer,
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
    }));
    let stopped = tokio::select! {
        biased;
        end = &mut executing => Err(end?),
        () = task.interrupt.cancelled() => Ok(How::Interrupted),
        () = sleep_until(began + task.timeout) => Ok(How::TimedOut),
    };
    let (how, dropped_messages, background) = match stopped {
        Err(end) => (how_of(end.ending), end.dropped_messages, end.background),
        Ok(how) => {
            task.kernel.kill();
            let end: Option<CellEnd> = timeout(END_DEADLINE, executing).await.ok().transpose()?;
            let (dropped, background) =
                end.map_or((0, None), |end| (end.dropped_messages, end.background));
            (how, dropped, background)
        }
    };
    let duration = began.elapsed();
    let tool_use = task.authority.retire();
    let collected = sink.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(CellRun {
        how,
        stdout: collected.stdout,
        stderr: collected.stderr,
        result: collected.result,
        duration,
        tool_use,
        dropped_messages: dropped_messages + collected.unreadable,
        background,
    })
}

fn how_of(ending: Ending) -> How {
    match ending {
        Ending::Replied(reply) => How::Replied(reply),
        Ending::NotStarted(death) => How::NotStarted(death),
        Ending::Died(death) => How::Died(death),
        // Somebody else has killed it: the session was closed or reset.
        Ending::Killed => How::Interrupted,
    }
}
