//! The kernel that is checked: its process, where it is, and whoever it leaves behind.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::client::{Client, shown};
use super::figures::limit;
use super::place::Place;
use super::terms::{CheckError, Terms};
use crate::bridge::foreign::{Connections, launch, reach};
use crate::config::{ForeignKernel, KernelTransport};
use crate::folders::{OwnFolder, socket_folder};
use crate::ids::random_hex;
use crate::jupyter::{Channel, KernelInfo};
use crate::output::Tail;
use crate::output::redact::{Redactor, Rules};
use crate::process::{
    Leftover, Marker, Pidfd, PipeReader, ReadOutcome, Signal, Spawned, Stdio, end_orphans,
    in_a_thread, left_by, output_pipe,
};

/// By which everything is known again that a kernel starts. Kernels of ours drop variables that they do not
/// know, but for those of this family.
const MARK: &str = "XDG_WARMCELL_CHECK";
/// How long what a killed kernel has left may take to end by itself: a forkserver removes its folder.
const OWN_END: Duration = Duration::from_millis(300);
/// How long a kernel that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);
/// How long an answer is waited for before it is asked again: what is published before a subscription
/// has arrived is lost.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Bytes of what a kernel prints by itself that are kept.
const SAID_BYTES: usize = 2_000;

/// A kernel that answers.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) process: Spawned,
    pub(super) client: Client,
    pub(super) place: Place,
    pub(super) info: KernelInfo,
    /// How long it took to its first reply.
    pub(super) replied: Duration,
    /// How long it took until something was published because of that.
    pub(super) ready: Duration,
}

/// What is checked.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) kernel: ForeignKernel,
    pub(super) terms: Terms,
    markers: [Marker; 1],
    /// With the mark.
    environment: Vec<(OsString, OsString)>,
    sockets: OwnFolder,
    work: TempDir,
    /// It is reached over TCP, not by Unix sockets.
    over_tcp: bool,
    /// Kernels that were started.
    started: Vec<Pidfd>,
    /// Takes what they print by themselves.
    readers: JoinSet<()>,
    said: Arc<Mutex<Tail>>,
}

impl Subject {
    pub(super) async fn new(kernel: ForeignKernel, terms: Terms) -> Result<Self, CheckError> {
        let (bases, temp_dir) = (terms.bases.clone(), terms.temp_dir.clone());
        let (sockets, work) = in_a_thread(move || {
            let sockets = socket_folder(&bases)?;
            let work = tempfile::Builder::new()
                .prefix("warmcell-check-")
                .tempdir_in(&temp_dir);
            let work = work.map_err(|source| CheckError::Work {
                folder: temp_dir,
                source,
            })?;
            Ok::<_, CheckError>((sockets, work))
        })
        .await??;
        let mark = random_hex(16);
        let over_tcp = kernel.transport == KernelTransport::Tcp;
        let mut environment = terms.environment.clone();
        environment.retain(|(name, _)| name != MARK);
        environment.push((MARK.into(), mark.as_str().into()));
        Ok(Self {
            kernel,
            terms,
            markers: [Marker {
                entry: format!("{MARK}={mark}"),
            }],
            environment,
            sockets,
            work,
            over_tcp,
            started: Vec::new(),
            readers: JoinSet::new(),
            said: Arc::new(Mutex::new(Tail::new(SAID_BYTES))),
        })
    }

    /// A fresh place.
    pub(super) fn place(&self) -> Result<Place, String> {
        Place::new(
            self.sockets.path(),
            self.work.path(),
            &self.kernel.name,
            self.over_tcp,
        )
    }

    /// Starts the kernel for the first time. If it knows no Unix sockets it is reached over TCP from then
    /// on, where its kernelspec does not say otherwise.
    pub(super) async fn first_start(&mut self) -> Result<Life, String> {
        let mut has_any = true;
        let place = self.place()?;
        match self.start_and_look(place, &mut has_any).await {
            Err(_) if !has_any && self.kernel.transport == KernelTransport::Any => {
                self.sweep().await;
                self.over_tcp = true;
                let place = self.place()?;
                self.start(place).await
            }
            started => started,
        }
    }

    /// How it is reached.
    pub(super) fn transport(&self) -> &'static str {
        if self.over_tcp { "TCP" } else { "Unix sockets" }
    }

    /// Starts the kernel in a place and waits until it answers.
    pub(super) async fn start(&mut self, place: Place) -> Result<Life, String> {
        self.start_and_look(place, &mut false).await
    }

    /// The same, and whether one of its sockets was there.
    async fn start_and_look(&mut self, place: Place, has_any: &mut bool) -> Result<Life, String> {
        let began = Instant::now();
        let mut process = self.launch(&place)?;
        let signer = place.connection().signer().map_err(|it| it.to_string())?;
        let name = Client::name();
        let deadline = began + self.terms.start;
        let answered = async {
            let streams = reach(place.connection()).await;
            let mut client = Client::new(Connections::new(streams, &name, &signer), name.clone());
            first_answer(&mut client, began)
                .await
                .map(|it| (client, it))
        };
        let answer = tokio::select! {
            answer = timeout_at(deadline, answered) => answer,
            status = process.ended() => {
                let how = status.map_or_else(|| "is gone".to_owned(), |it| it.to_string());
                *has_any = place.has_any();
                return Err(self.with_last_words(format!("it ended ({how}) before it answered")));
            }
        };
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(what)) => {
                self.end(process).await;
                return Err(self.with_last_words(what));
            }
            Err(_elapsed) => {
                *has_any = place.has_any();
                self.end(process).await;
                let within = limit(self.terms.start);
                return Err(self.with_last_words(format!("it did not answer within {within}")));
            }
        };
        let (client, (info, replied, ready)) = answer;
        Ok(Life {
            process,
            client,
            place,
            info,
            replied,
            ready,
        })
    }

    fn launch(&mut self, place: &Place) -> Result<Spawned, String> {
        drop(self.said().take());
        let (reader, writer) = output_pipe().map_err(|it| it.to_string())?;
        let stdio = || {
            Ok::<_, io::Error>(Stdio {
                stdin: OwnedFd::from(File::open("/dev/null")?),
                stdout: writer.try_clone()?,
                stderr: writer.try_clone()?,
            })
        };
        let stdio = stdio().map_err(|it| it.to_string())?;
        let environment = &self.environment;
        let process = launch(&self.kernel, &place.path, environment, &place.folder, stdio)
            .map_err(|what| format!("it {what}"))?;
        drop(writer);
        if let Ok(pidfd) = Pidfd::open(process.pid()) {
            self.started.push(pidfd);
        }
        self.readers.spawn(read(reader, Arc::clone(&self.said)));
        Ok(process)
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Tail> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a kernel that failed has printed last.
    fn with_last_words(&self, what: String) -> String {
        match self.said().take() {
            Some((said, _)) if !said.trim().is_empty() => {
                let last = said.trim().lines().next_back().unwrap_or_default();
                let (last, _) = Redactor::once(&Rules::default(), last);
                format!("{what}; it said: {}", shown(&last))
            }
            _ => what,
        }
    }

    /// Interrupts the cell that runs, as the kernelspec says: by a message, whose id this gives, or by a
    /// signal to the kernel's process group.
    pub(super) fn interrupt(&self, life: &mut Life) -> Option<String> {
        if !self.kernel.interrupted_by_message {
            life.process.interrupt(true);
            return None;
        }
        let content = Bytes::from_static(b"{}");
        let client = &mut life.client;
        Some(client.send(Channel::Control, "interrupt_request", content))
    }

    /// What is left of the kernels that were started, if it is not gone within this time.
    pub(super) async fn left(&self, patience: Duration) -> Vec<Leftover> {
        let deadline = Instant::now() + patience;
        left_by(deadline, self.terms.adopts, &self.markers).await
    }

    /// Ends a kernel at once, and everything that it leaves.
    pub(super) async fn end(&self, mut process: Spawned) {
        process.kill();
        drop(timeout(GONE, process.ended()).await);
        drop(process);
        drop(self.left(OWN_END).await);
        self.sweep().await;
    }

    /// Ends what kernels that have ended have left; how many cannot be ended.
    pub(super) async fn sweep(&self) -> usize {
        end_orphans(self.terms.adopts, &self.markers).await
    }

    /// Ends everything.
    pub(super) async fn close(mut self) {
        for kernel in &self.started {
            kernel.signal(Signal::Kill);
        }
        for kernel in &self.started {
            drop(timeout(GONE, kernel.ended()).await);
        }
        drop(self.left(OWN_END).await);
        self.sweep().await;
        self.readers.abort_all();
        let work = self.work;
        // If no thread can be had it is removed here.
        drop(in_a_thread(move || drop(work.close())).await);
    }
}

/// Takes what a kernel prints by itself, and keeps the end of it.
async fn read(reader: PipeReader, said: Arc<Mutex<Tail>>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        reader.readable().await;
        match reader.read(&mut buffer) {
            ReadOutcome::Bytes(count) => {
                let piece = buffer.get(..count).unwrap_or_default();
                said.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(piece);
                // A kernel that prints without end has no other task wait.
                tokio::task::yield_now().await;
            }
            ReadOutcome::Empty => {}
            ReadOutcome::End => return,
        }
    }
}

/// Asks a kernel who it is until it says so, and something is published with that: then its messages
/// arrive. When it has replied first, and when that was so.
async fn first_answer(
    client: &mut Client,
    began: Instant,
) -> Result<(KernelInfo, Duration, Duration), String> {
    let mut asked: Vec<String> = Vec::new();
    let mut first = None;
    loop {
        let content = Bytes::from_static(b"{}");
        asked.push(client.send(Channel::Shell, "kernel_info_request", content));
        let again = Instant::now() + ASK_AGAIN;
        loop {
            let of_all = || asked.iter().filter_map(|id| client.asked(id));
            if first.is_none()
                && let Some((content, _)) = of_all().find_map(|it| it.reply.as_ref())
            {
                let info = KernelInfo::parse(content).unwrap_or_default();
                first = Some((info, began.elapsed()));
            }
            if of_all().any(|it| it.is_heard)
                && let Some((info, replied)) = first.take()
            {
                for id in &asked {
                    client.forget(id);
                }
                return Ok((info, replied, began.elapsed()));
            }
            match timeout_at(again, client.hear()).await {
                Ok(true) => {}
                Ok(false) => {
                    return Err(match client.fault.take() {
                        Some(fault) => format!("it broke the protocol {fault}"),
                        None => "it closed its sockets".to_owned(),
                    });
                }
                Err(_elapsed) => break,
            }
        }
    }
}

/// Names of leftovers in a sentence.
pub(super) fn named(left: &[Leftover]) -> String {
    const MOST: usize = 5;
    let mut names: Vec<String> = left
        .iter()
        .take(MOST)
        .map(|it| format!("{} ({})", it.pid, shown(&it.command)))
        .collect();
    if left.len() > MOST {
        names.push(format!("{} more", left.len() - MOST));
    }
    names.join(", ")
}
