//! The task that owns one kernel: its link, its pipes, its process.
//!
//! One loop waits for everything at once: commands, messages, output, the end of the process, the
//! kill, the next step of an interrupt. A cell has ended when its reply was read and what was in
//! the pipes at that moment was read too.

use std::io;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::handle::Command;
use super::link::Link;
use super::question::Question;
use super::running::{EXECUTE_REPLY, Running, answered};
use super::sink::BetweenCells;
use super::{Death, Ending, Escalation, FrameBudget, Pressure, SharedSink};
use crate::folders::ScratchFolder;
use crate::jupyter::{Channel, InputRequest};
use crate::process::{Foreground, InterruptPage, PipeReader, StartTick, in_a_thread};
use crate::provisioner::{KernelExit, KernelProcess, ProvisionedKernel};

/// Questions that may be given up before a kernel is asked no more until it has answered something.
const MOST_GIVEN_UP: usize = 8;
/// Bytes read from a pipe at a time: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;
/// How long a killed process is waited for before its cell is told to have ended: a big one needs
/// 30 ms a GB to go, and is past running code.
const KILL_WAIT: Duration = Duration::from_millis(20);

/// The exit code of a kernel that cannot use its link any more.
const LINK_LOST: i32 = 72;

/// An interrupt under way.
#[derive(Debug)]
pub(super) struct Interrupting {
    began: Instant,
    plan: Escalation,
    /// When the latest signal was sent, counted from the first.
    sent: Duration,
    /// What the cell has started and waits for.
    foreground: Foreground,
}

#[derive(Debug)]
pub(super) struct Actor {
    pub(super) link: Link,
    /// The other end of the link is there.
    linked: bool,
    pub(super) pipes: [PipeReader; 2],
    pub(super) open: [bool; 2],
    page: InterruptPage,
    process: Arc<dyn KernelProcess>,
    commands: mpsc::Receiver<Command>,
    kill: CancellationToken,
    pub(super) between: BetweenCells,
    death: watch::Sender<Option<Death>>,
    cleared: watch::Sender<Option<usize>>,
    pub(super) running: Option<Running>,
    pub(super) question: Option<Question>,
    /// Questions that were given up: what comes for them is dropped.
    pub(super) given_up: Vec<Bytes>,
    pub(super) interrupt: Option<Interrupting>,
    /// How a kernel behind a bridge has ended.
    pub(super) told_end: Option<KernelExit>,
    /// The end is asked for; by then it must have come.
    pub(super) shutdown: Option<(Instant, Option<SharedSink>)>,
    pub(super) buffer: Box<[u8]>,
    /// Its own working directory: goes when all is gone that may be in it.
    scratch: Option<ScratchFolder>,
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
        between: BetweenCells,
        death: watch::Sender<Option<Death>>,
        cleared: watch::Sender<Option<usize>>,
    ) -> io::Result<Self> {
        Ok(Self {
            link: Link::new(started.link, budget)?,
            linked: true,
            pipes: [started.stdout, started.stderr],
            open: [true; 2],
            page: started.page,
            process: started.process,
            commands,
            kill,
            between,
            death,
            cleared,
            running: None,
            question: None,
            given_up: Vec::new(),
            interrupt: None,
            told_end: None,
            shutdown: None,
            scratch: started.scratch,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }

    pub(super) async fn run(mut self) {
        let stop = self.serve().await;
        let death = self.finish(stop).await;
        self.death.send_replace(Some(death));
        // Those whose command comes too late see the death, at once.
        self.commands.close();
        while self.commands.try_recv().is_ok() {}
        self.shutdown = None;
        self.question = None;
        let survivors = self.process.cleared().await;
        if survivors > 0 {
            tracing::warn!(
                pid = self.process.pid(),
                survivors,
                "a kernel left processes behind"
            );
        }
        if let Some(folder) = self.scratch.take() {
            // Where there is no thread to be had it goes with the manager.
            drop(in_a_thread(move || drop(folder)).await);
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
            // A cell that has replied waits for its reader alone: what is written now is not its own.
            let replied = self.running.as_ref().is_some_and(|it| it.reply.is_some());
            let full = replied || pressure.as_ref().is_some_and(|it| self.is_full(it));
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
                // Before what is read: a flood would keep it from ever being due.
                () = sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => {
                    if self.alarm_rings() {
                        return Stop::Killed;
                    }
                }
                // Nobody reads while the cell waits for it.
                text = answered(self.running.as_mut()) => self.answer_input(text.as_deref()),
                () = self.link.ready(), if !full && self.linked => match self.read_link(false) {
                    Ok(()) => {}
                    // It has said goodbye, and takes the time that it was given.
                    Err(Death::ClosedLink) if self.shutdown.is_some() => self.linked = false,
                    Err(death) => return Stop::Fault(death),
                },
                () = stdout.readable(), if self.open[0] && !full => self.read_pipe(0),
                () = stderr.readable(), if self.open[1] && !full => self.read_pipe(1),
                () = relieved(pressure.as_ref()), if full => {}
            }
            self.settle();
        }
    }

    // Commands.

    fn obey(&mut self, command: Command) -> Option<Stop> {
        match command {
            // It has answered none of so many: this one would not be either.
            Command::Execute { expects, .. }
                if expects != EXECUTE_REPLY && self.given_up.len() >= MOST_GIVEN_UP => {}
            Command::Execute {
                frame,
                header,
                cell,
                sink,
                input,
                expects,
                done,
            } => {
                // What is in the pipes now was written before this cell.
                self.read_waiting();
                let earlier = self.between.tail().take();
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
                    began: StartTick::now(),
                    earlier,
                    expects,
                    reply: None,
                    rest: [0; 2],
                    input,
                    asked: None,
                });
                self.link.send(frame);
            }
            Command::Variables {
                frame,
                header,
                answer,
            } => match &mut self.question {
                // Whoever asks during a cell, or at the end, is told at once that there is no answer.
                _ if self.running.is_some() || self.shutdown.is_some() => {}
                Some(question) => question.join(answer),
                None => {
                    self.question = Some(Question::new(header, answer));
                    self.link.send(frame);
                }
            },
            Command::Interrupt { cell, plan, sent } => {
                self.interrupt_cell(cell, plan);
                // Whoever asked may be gone.
                sent.send(()).ok();
            }
            Command::GiveUp { cell } => {
                if let Some(asked) = self
                    .running
                    .take_if(|it| it.cell == cell && it.is_question() && it.reply.is_none())
                {
                    self.given_up.push(asked.header);
                    self.interrupt = None;
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

    /// The answer to what the cell has asked is there, or nobody will answer.
    fn answer_input(&mut self, text: Option<&str>) {
        let asked = self.running.as_mut().and_then(|it| it.asked.take());
        if let Some((number, _)) = asked {
            let content = InputRequest::reply(number, text);
            self.tell(Channel::Stdin, "input_reply", content);
        }
    }

    fn interrupt_cell(&mut self, cell: u64, plan: Escalation) {
        let Some(running) = self.running.as_mut().filter(|it| it.cell == cell) else {
            return;
        };
        if running.reply.is_some() {
            // It is over, and no longer waits for somebody who reads its output slowly.
            running.pressure = None;
            return;
        }
        let began = running.began;
        self.page.name(cell);
        // A second interrupt does not lengthen the grace of the first.
        self.interrupt.get_or_insert_with(|| Interrupting {
            began: Instant::now(),
            plan,
            sent: Duration::ZERO,
            foreground: Foreground::since(began),
        });
        self.signal();
    }

    /// Sends the signal of an interrupt, again or for the first time. What the cell waits for gets
    /// it once, so that it can clean up.
    fn signal(&mut self) {
        if let Some(interrupt) = &mut self.interrupt {
            self.process.interrupt(&mut interrupt.foreground);
        }
    }

    /// Whether nothing more is to be read before the reader has taken some. The end of a cell that
    /// is interrupted is not to wait for a reader.
    pub(super) fn is_full(&self, pressure: &Pressure) -> bool {
        if self.interrupt.is_some() {
            pressure.is_overfull()
        } else {
            pressure.is_full()
        }
    }

    /// When something is due.
    fn alarm(&self) -> Option<Instant> {
        let interrupt = self
            .interrupt
            .as_ref()
            .map(|it| it.began + it.plan.after(it.sent).at());
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
        let Some(interrupt) = &mut self.interrupt else {
            return false;
        };
        let elapsed = interrupt.began.elapsed();
        if elapsed >= interrupt.plan.grace {
            return true;
        }
        // It may be the end that is due.
        if elapsed >= interrupt.plan.after(interrupt.sent).at() {
            interrupt.sent = elapsed;
            self.signal();
        }
        false
    }

    // The end.

    async fn finish(&mut self, stop: Stop) -> Death {
        let death = match stop {
            Stop::Ended => {
                // A reply may have come in the same moment; then the cell has ended in good order.
                let fault = self.read_link(true);
                self.read_waiting();
                match fault {
                    Err(Death::BrokeProtocol(what)) => Death::BrokeProtocol(what),
                    _ => self.exited().await,
                }
            }
            Stop::Killed => {
                self.end_process().await;
                Death::Ended
            }
            Stop::Fault(Death::ClosedLink) => {
                // Usually the process has ended, and the end of the link was seen first.
                let ended = timeout(KILL_WAIT, self.process.ended()).await;
                if ended.is_ok() || self.told_end.is_some() {
                    self.read_waiting();
                    self.exited().await
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
        if let Some(mut running) = self.running.take() {
            let ending = match (running.reply.take(), &death) {
                (Some(reply), Death::Exited(_) | Death::ClosedLink) => reply.into(),
                (_, Death::Ended) => Ending::Killed,
                (_, death) => Ending::Died(death.clone()),
            };
            running.end(ending);
        }
        death
    }

    async fn exited(&mut self) -> Death {
        if let Some(exit) = self.told_end.take() {
            return Death::Exited(exit);
        }
        match self.process.exit().await {
            KernelExit::Code(LINK_LOST) => Death::ClosedLink,
            exit => Death::Exited(exit),
        }
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
