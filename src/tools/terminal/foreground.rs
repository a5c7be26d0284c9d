//! Runs one job to its end and keeps what it prints.

use std::io;
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::output::{Window, Windowed};
use crate::provisioner::{JobExit, JobSpec};
use crate::tools::{ToolContext, ToolFailure};

/// So much of the output is kept: the head and the tail.
const WINDOW: usize = 50_000;
/// So much is read at once; a pipe seldom holds more.
const CHUNK: usize = 64 * 1024;

/// A limit of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// When it is reached; `None` if that is too far away to tell.
    pub(super) at: Option<Instant>,
    /// How long that is from the start of the call.
    pub(super) length: Duration,
    /// What set it.
    pub(super) name: &'static str,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The command ended.
    Exited(JobExit),
    /// The time was over; everything was ended.
    TimedOut,
    /// The caller's work was called off; everything was ended.
    Interrupted,
}

/// Starts the job and waits for its end, at most until `end` and until the context is cancelled.
///
/// # Errors
///
/// If no job can be started or its output cannot be read.
///
/// # Cancel safety
///
/// When the future is dropped, so is the job, which ends it.
pub(super) async fn run_in_foreground(
    spec: JobSpec,
    end: Option<Instant>,
    context: &ToolContext,
) -> Result<(Ending, Windowed), ToolFailure> {
    let mut window = Window::new(WINDOW);
    // Timers have a grain; no time at all is to mean that nothing is started.
    if end.is_some_and(|end| end <= Instant::now()) {
        return Ok((Ending::TimedOut, window.finish()));
    }
    let started = tokio::select! {
        biased;
        early = called_off(end, &context.cancelled) => Err(early),
        started = context.jobs.start_job(spec) => Ok(started),
    };
    let mut job = match started {
        Err(early) => return Ok((early, window.finish())),
        Ok(Err(error)) => {
            let message = format!("terminal: the command could not be started: {error}");
            return Err(ToolFailure::failed(message));
        }
        Ok(Ok(job)) => job,
    };
    let mut output = match job.take_output().map(Receiver::from_owned_fd).transpose() {
        Ok(output) => output,
        Err(error) => return Err(unreadable(&error)),
    };
    let mut buffer = vec![0; CHUNK];

    let ending = loop {
        tokio::select! {
            biased;
            early = called_off(end, &context.cancelled) => break early,
            exit = job.exited() => break Ending::Exited(exit),
            more = read_some(&mut output, &mut buffer) => match more {
                Ok([]) => output = None,
                Ok(bytes) => window.push(bytes),
                Err(error) => {
                    job.end().await;
                    return Err(unreadable(&error));
                }
            },
        }
    };
    if let Some(output) = &output {
        drain(output, &mut buffer, &mut window);
    }
    match ending {
        Ending::Exited(JobExit::Code(_) | JobExit::Signal(_)) => job.release(),
        Ending::Exited(JobExit::NotStarted(_) | JobExit::Ended) => {}
        Ending::TimedOut | Ending::Interrupted => {
            job.end().await;
            // What it said while it ended.
            if let Some(output) = &output {
                drain(output, &mut buffer, &mut window);
            }
        }
    }
    Ok((ending, window.finish()))
}

/// Waits until the work has to stop, and says why.
async fn called_off(end: Option<Instant>, cancelled: &CancellationToken) -> Ending {
    let time = async {
        match end {
            Some(end) => sleep_until(end).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancelled.cancelled() => Ending::Interrupted,
        () = time => Ending::TimedOut,
    }
}

/// Waits for output; empty at its end.
async fn read_some<'b>(
    output: &mut Option<Receiver>,
    buffer: &'b mut [u8],
) -> io::Result<&'b [u8]> {
    let Some(output) = output else {
        return std::future::pending().await;
    };
    loop {
        output.readable().await?;
        match output.try_read(buffer) {
            Ok(count) => return Ok(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes what is in the pipe now, and not what leftovers add meanwhile.
fn drain(output: &Receiver, buffer: &mut [u8], window: &mut Window) {
    let mut left = rustix::io::ioctl_fionread(output).unwrap_or(0);
    while left > 0 {
        let most = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let Some(part) = buffer.get_mut(..most) else {
            return;
        };
        // Past the runtime, which may not have noticed yet that there is something to read.
        match rustix::io::read(output, &mut *part) {
            Ok(0) => return,
            Ok(count) => {
                window.push(part.get(..count).unwrap_or_default());
                left = left.saturating_sub(count as u64);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn unreadable(error: &io::Error) -> ToolFailure {
    ToolFailure::failed(format!(
        "terminal: the command's output cannot be read: {error}"
    ))
}
