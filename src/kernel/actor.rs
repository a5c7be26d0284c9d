//! The task that owns one kernel: its link, its pipes, its process.
//!
//! One loop waits for everything at once: commands, messages, output, the end of the process, the
//! kill, the next step of an interrupt. A cell has ended when its reply was read and what was in
//! the pipes at that moment was read too.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::handle::Command;
use super::link::{Incoming, Link};
use super::{CellEnd, Death, Ending, Escalation, FrameBudget, Pressure, SharedSink, Step};
use crate::jupyter::{Channel, ExecuteReply, Header, RawMessage};
use crate::output::Tail;
use crate::process::{InterruptPage, PipeReader, ReadOutcome};
use crate::provisioner::{KernelProcess, ProvisionedKernel};

/// Bytes read from a pipe at a time: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;
/// How long a killed process is waited for before its cell is told to have ended: a big one needs
/// 30 ms a GB to go, and is past running code.
const KILL_WAIT: Duration = Duration::from_millis(20);

/// The cell that runs.
#[derive(Debug)]
struct Running {
    header: Bytes,
    cell: u64,
    sink: SharedSink,
    pressure: Option<Arc<Pressure>>,
    done: oneshot::Sender<CellEnd>,
    dropped: u64,
    /// The reply was read; so many bytes of stdout and stderr belong to the cell yet.
    reply: Option<Box<ExecuteReply>>,
    rest: [usize; 2],
}

#[derive(Debug)]
pub(super) struct Actor {
    link: Link,
    pipes: [PipeReader; 2],
    open: [bool; 2],
    page: InterruptPage,
    process: Arc<dyn KernelProcess>,
    commands: mpsc::Receiver<Command>,
    kill: CancellationToken,
    background: Arc<Mutex<Tail>>,
    death: watch::Sender<Option<Death>>,
    cleared: watch::Sender<Option<usize>>,
    running: Option<Running>,
    interrupt: Option<(Instant, Escalation)>,
    /// The end is asked for; by then it must have come.
    shutdown: Option<(Instant, Option<SharedSink>)>,
    buffer: Box<[u8]>,
}

/// Why the loop ends.
enum Stop {
    /// The process has ended.
    Ended,
    /// Somebody wants it killed, or nobody wants it any more.
    Killed,
    /// It must be killed.
    Fault(Death),
}

impl Actor {
    pub(super) fn new(
        started: ProvisionedKernel,
        budget: Arc<FrameBudget>,
        commands: mpsc::Receiver<Command>,
        kill: CancellationToken,
        background: Arc<Mutex<Tail>>,
        death: watch::Sender<Option<Death>>,
        cleared: watch::Sender<Option<usize>>,
    ) -> io::Result<Self> {
        Ok(Self {
            link: Link::new(started.link, budget)?,
            pipes: [started.stdout, started.stderr],
            open: [true; 2],
            page: started.page,
            process: started.process,
            commands,
            kill,
            background,
            death,
            cleared,
            running: None,
            interrupt: None,
            shutdown: None,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }

    pub(super) async fn run(mut self) {
        let stop = self.serve().await;
        let death = self.finish(stop).await;
        self.death.send_replace(Some(death));
        // Those whose command comes too late see the death.
        self.commands.close();
        let survivors = self.process.cleared().await;
        if survivors > 0 {
            tracing::warn!(
                pid = self.process.pid(),
                survivors,
                "a kernel left processes behind"
            );
        }
        self.cleared.send_replace(Some(survivors));
    }

    async fn serve(&mut self) -> Stop {
        let process = Arc::clone(&self.process);
        let kill = self.kill.clone();
        let mut ended = pin!(process.ended());
        let mut killed = pin!(kill.cancelled());
        loop {
            let pressure = self
                .running
                .as_ref()
                .and_then(|running| running.pressure.clone());
            let full = pressure.as_ref().is_some_and(|pressure| pressure.is_full());
            let alarm = self.alarm();
            let [stdout, stderr] = &self.pipes;
            tokio::select! {
                biased;
                () = &mut killed => return Stop::Killed,
                () = &mut ended => return Stop::Ended,
                command = self.commands.recv() => match command {
                    Some(command) => {
                        if let Some(stop) = self.obey(command) {
                            return stop;
                        }
                    }
                    None => return Stop::Killed,
                },
                () = self.link.ready(), if !full => {
                    if let Err(death) = self.read_link() {
                        return Stop::Fault(death);
                    }
                }
                () = stdout.readable(), if self.open[0] && !full => self.read_pipe(0),
                () = stderr.readable(), if self.open[1] && !full => self.read_pipe(1),
                () = relieved(pressure.as_ref()), if full => {}
                () = sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => {
                    if self.alarm_rings() {
                        return Stop::Killed;
                    }
                }
            }
            self.settle();
        }
    }

    // Commands.

    fn obey(&mut self, command: Command) -> Option<Stop> {
        match command {
            Command::Execute {
                frame,
                header,
                cell,
                sink,
                done,
            } => {
                // What is in the pipes now was written before this cell.
                self.read_waiting();
                let pressure = sink
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pressure();
                self.running = Some(Running {
                    header,
                    cell,
                    sink,
                    pressure,
                    done,
                    dropped: 0,
                    reply: None,
                    rest: [0; 2],
                });
                self.link.send(frame);
            }
            Command::Interrupt { cell, plan } => {
                if self
                    .running
                    .as_ref()
                    .is_some_and(|running| running.cell == cell)
                {
                    self.page.name(cell);
                    self.process.interrupt();
                    self.interrupt = Some((Instant::now(), plan));
                }
            }
            Command::Shutdown { frame, grace, sink } => {
                if self.running.is_some() {
                    return Some(Stop::Killed);
                }
                self.shutdown = Some((Instant::now() + grace, sink));
                self.link.send(frame);
            }
        }
        None
    }

    /// When something is due.
    fn alarm(&self) -> Option<Instant> {
        let interrupt = self
            .interrupt
            .as_ref()
            .map(|(began, plan)| *began + plan.after(began.elapsed()).at());
        let shutdown = self.shutdown.as_ref().map(|(deadline, _)| *deadline);
        interrupt.into_iter().chain(shutdown).min()
    }

    /// Does what is due; true if the kernel's time is up.
    fn alarm_rings(&mut self) -> bool {
        if self
            .shutdown
            .as_ref()
            .is_some_and(|(deadline, _)| Instant::now() >= *deadline)
        {
            return true;
        }
        let Some((began, plan)) = &self.interrupt else {
            return false;
        };
        let elapsed = began.elapsed();
        if elapsed >= plan.grace {
            return true;
        }
        if matches!(plan.after(elapsed), Step::Resend { .. }) {
            self.process.interrupt();
        }
        false
    }

    // Messages.

    fn read_link(&mut self) -> Result<(), Death> {
        loop {
            match self.link.receive() {
                Incoming::Message(message) => self.take(message)?,
                Incoming::Nothing => return Ok(()),
                Incoming::Closed => return Err(Death::ClosedLink),
                Incoming::Fault(what) => return Err(Death::BrokeProtocol(what)),
            }
        }
    }

    fn take(&mut self, message: RawMessage) -> Result<(), Death> {
        let header: Header = message
            .parsed_header()
            .map_err(|error| Death::BrokeProtocol(error.to_string()))?;
        let Some(running) = &mut self.running else {
            tracing::debug!(msg_type = %header.msg_type, "a message between cells was dropped");
            return Ok(());
        };
        let ours = message.is_child_of(&running.header);
        match (message.channel, header.msg_type.as_str()) {
            (Channel::Shell, "execute_reply") if ours && running.reply.is_none() => {
                let reply = ExecuteReply::parse(&message.content)
                    .map_err(|error| Death::BrokeProtocol(error.to_string()))?;
                // The kernel has flushed before it replied: what is in the pipes now is the cell's.
                running.rest = [self.pipes[0].waiting(), self.pipes[1].waiting()];
                running.reply = Some(Box::new(reply));
                self.interrupt = None;
            }
            (
                Channel::Iopub,
                "execute_result"
                | "display_data"
                | "update_display_data"
                | "clear_output"
                | "error",
            ) if ours => {
                let sink = Arc::clone(&running.sink);
                // The kernel has flushed before it sent this: what is in the pipes comes first.
                self.read_waiting();
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                sink.message(&header.msg_type, message);
            }
            _ => {
                running.dropped += 1;
                tracing::debug!(msg_type = %header.msg_type, "an unknown message was dropped");
            }
        }
        Ok(())
    }

    // Output.

    fn read_pipe(&mut self, which: usize) {
        let (Some(pipe), Some(buffer)) = (self.pipes.get(which), self.buffer.get_mut(..)) else {
            return;
        };
        match pipe.read(buffer) {
            ReadOutcome::Bytes(count) => self.hand_on(which, count),
            ReadOutcome::Empty => {}
            ReadOutcome::End => {
                if let Some(open) = self.open.get_mut(which) {
                    *open = false;
                }
            }
        }
    }

    /// Gives the first bytes of the buffer to whom they belong.
    fn hand_on(&mut self, which: usize, count: usize) {
        let chunk = self.buffer.get(..count).unwrap_or_default();
        let sink = match (&self.running, &self.shutdown) {
            (Some(running), _) => Some(&running.sink),
            (None, Some((_, sink))) => sink.as_ref(),
            (None, None) => None,
        };
        match sink {
            Some(sink) => {
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                if which == 0 {
                    sink.stdout(chunk);
                } else {
                    sink.stderr(chunk);
                }
            }
            None => {
                self.background
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(chunk);
            }
        }
    }

    /// Reads what is in the pipes now, and not what is written meanwhile.
    fn read_waiting(&mut self) {
        for which in [0, 1] {
            let mut rest = self.pipes.get(which).map_or(0, PipeReader::waiting);
            while rest > 0 {
                let read = self.read_at_most(which, rest);
                rest = rest.saturating_sub(read);
                if read == 0 {
                    break;
                }
            }
        }
    }

    fn read_at_most(&mut self, which: usize, limit: usize) -> usize {
        let limit = limit.min(self.buffer.len());
        let (Some(pipe), Some(buffer)) = (self.pipes.get(which), self.buffer.get_mut(..limit))
        else {
            return 0;
        };
        match pipe.read(buffer) {
            ReadOutcome::Bytes(count) => {
                self.hand_on(which, count);
                count
            }
            ReadOutcome::Empty | ReadOutcome::End => 0,
        }
    }

    /// Ends the cell if its reply was read and its output too.
    fn settle(&mut self) {
        if self
            .running
            .as_ref()
            .is_none_or(|running| running.reply.is_none())
        {
            return;
        }
        for which in [0, 1] {
            loop {
                let Some(running) = &self.running else { return };
                let rest = running.rest.get(which).copied().unwrap_or(0);
                if rest == 0 {
                    break;
                }
                if running
                    .pressure
                    .as_ref()
                    .is_some_and(|pressure| pressure.is_full())
                {
                    return;
                }
                let read = self.read_at_most(which, rest);
                let Some(running) = &mut self.running else {
                    return;
                };
                if let Some(rest) = running.rest.get_mut(which) {
                    *rest = if read == 0 {
                        0
                    } else {
                        rest.saturating_sub(read)
                    };
                }
            }
        }
        self.end_cell();
    }

    fn end_cell(&mut self) {
        if let Some(running) = self.running.take()
            && let Some(reply) = running.reply
        {
            let end = CellEnd {
                ending: Ending::Replied(reply),
                dropped_messages: running.dropped,
            };
            // Whoever ran the cell may be gone.
            drop(running.done.send(end));
        }
    }

    // The end.

    async fn finish(&mut self, stop: Stop) -> Death {
        let death = match stop {
            Stop::Ended => {
                // A reply may have come in the same moment; then the cell has ended in good order.
                let fault = self.read_link();
                self.read_waiting();
                match fault {
                    Err(Death::BrokeProtocol(what)) => Death::BrokeProtocol(what),
                    _ => Death::Exited(self.process.exit().await),
                }
            }
            Stop::Killed => {
                self.end_process().await;
                Death::Ended
            }
            Stop::Fault(Death::ClosedLink) => {
                // Usually the process has ended, and the end of the link was seen first.
                if timeout(KILL_WAIT, self.process.ended()).await.is_ok() {
                    self.read_waiting();
                    Death::Exited(self.process.exit().await)
                } else {
                    self.end_process().await;
                    Death::ClosedLink
                }
            }
            Stop::Fault(fault) => {
                self.end_process().await;
                fault
            }
        };
        // Has everything ended that it leaves behind; a process that is gone is not hit.
        self.process.kill();
        if let Some(running) = self.running.take() {
            let ending = match (running.reply, &death) {
                (Some(reply), Death::Exited(_)) => Ending::Replied(reply),
                (_, Death::Ended) => Ending::Killed,
                (_, death) => Ending::Died(death.clone()),
            };
            let end = CellEnd {
                ending,
                dropped_messages: running.dropped,
            };
            drop(running.done.send(end));
        }
        death
    }

    async fn end_process(&mut self) {
        self.process.kill();
        // A process that takes longer is past running code.
        drop(timeout(KILL_WAIT, self.process.ended()).await);
        self.read_waiting();
    }
}

async fn relieved(pressure: Option<&Arc<Pressure>>) {
    if let Some(pressure) = pressure {
        pressure.relieved().await;
    }
}
