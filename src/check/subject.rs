//! The kernel that is checked: its process, where it is, and whoever it leaves behind.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::client::{Client, shown};
use super::figures::limit;
use crate::bridge::foreign::{Connections, launch, reach};
use crate::bridge::{BridgeError, OwnFile, make_connection};
use crate::config::ForeignKernel;
use crate::folders::{FolderError, OwnFolder, socket_folder};
use crate::ids::random_hex;
use crate::jupyter::{Channel, Connection, KernelInfo, Transport};
use crate::output::Tail;
use crate::process::{
    Leftover, Marker, Pidfd, PipeReader, ProcessError, ReadOutcome, Signal, Spawned, Stdio,
    end_orphans, in_a_thread, left_by, output_pipe,
};

/// By which everything is known again that a kernel starts. Kernels of ours drop variables that they do not
/// know, but for those of this family.
const MARK: &str = "XDG_WARMCELL_CHECK";
/// How long a kernel that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);
/// How long an answer is waited for before it is asked again: what is published before a subscription
/// has arrived is lost.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Bytes of what a kernel prints by itself that are kept.
const SAID_BYTES: usize = 2_000;
/// Bytes of a random key.
const KEY_BYTES: usize = 32;
/// The random part of a file's name.
const NAME_BYTES: usize = 4;

/// On what terms a kernel is checked.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The environment of the kernel, as it is.
    pub environment: Vec<(OsString, OsString)>,
    /// Where a private folder for sockets may be, best first
    /// ([`private_bases`](crate::folders::private_bases)).
    pub bases: Vec<PathBuf>,
    /// Where a folder for the kernel to work in may be.
    pub temp_dir: PathBuf,
    /// This process adopts orphans ([`adopt_orphans`](crate::process::adopt_orphans)), and starts nothing
    /// else meanwhile: what falls to it is the kernel's. Otherwise that is found by a mark in its
    /// environment, where it has kept it.
    pub adopts: bool,
    /// The names of the checks that are wanted beside `start`; all of them, if none is named
    /// ([`names`](super::names)).
    pub only: Vec<String>,
    /// How long the kernel may take to start; 30 s by default.
    pub start: Duration,
    /// How long anything may take that is over at once in a kernel that works; 10 s by default.
    pub patience: Duration,
}

impl Terms {
    /// The usual ones.
    pub fn new(
        environment: Vec<(OsString, OsString)>,
        bases: Vec<PathBuf>,
        temp_dir: PathBuf,
    ) -> Self {
        Self {
            environment,
            bases,
            temp_dir,
            adopts: false,
            only: Vec::new(),
            start: Duration::from_secs(30),
            patience: Duration::from_secs(10),
        }
    }

    /// Whether a check is wanted.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|it| it == name)
    }

    /// A limit of the contract, or as long as anything may take.
    pub(super) fn within(&self, limit: Duration) -> Duration {
        limit.min(self.patience)
    }
}

/// Why a kernel could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// It was asked to stop; what it had started is gone.
    #[error("the check was stopped")]
    Stopped,
    /// No folder for sockets.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// No folder to work in.
    #[error(
        "no folder can be made in {folder} for the kernel to work in ({source}); set TMPDIR to one that you \
         can write to"
    )]
    Work {
        /// Where.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system has no more of something.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// A place for a kernel: where its sockets are, and where it works.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) connection: Connection,
    prefix: PathBuf,
    path: PathBuf,
    pub(super) folder: PathBuf,
    _file: OwnFile,
}

impl Drop for Place {
    fn drop(&mut self) {
        // A kernel that was killed leaves them.
        for port in self.connection.ports {
            drop(fs::remove_file(format!("{}-{port}", self.prefix.display())));
        }
    }
}

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
            started: Vec::new(),
            readers: JoinSet::new(),
            said: Arc::new(Mutex::new(Tail::new(SAID_BYTES))),
        })
    }

    /// A fresh place.
    pub(super) fn place(&self) -> Result<Place, String> {
        let name = format!("k-{}", random_hex(NAME_BYTES));
        let prefix = self.sockets.path().join(&name);
        let connection = Connection {
            transport: Transport::Ipc(prefix.display().to_string()),
            ports: [1, 2, 3, 4, 5],
            key: random_hex(KEY_BYTES),
            kernel_name: Some(self.kernel.name.clone()),
        };
        let path = self.sockets.path().join(format!("{name}.json"));
        let file = make_connection(&path, &connection).map_err(|it: BridgeError| it.to_string())?;
        let folder = self.work.path().join(&name);
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Place {
            connection,
            prefix,
            path,
            folder,
            _file: file,
        })
    }

    /// Starts the kernel in a place and waits until it answers.
    pub(super) async fn start(&mut self, place: Place) -> Result<Life, String> {
        let began = Instant::now();
        let mut process = self.launch(&place)?;
        let signer = place.connection.signer().map_err(|it| it.to_string())?;
        let name = Client::name();
        let deadline = began + self.terms.start;
        let answered = async {
            let streams = reach(&place.connection).await;
            let mut client = Client::new(Connections::new(streams, &name, &signer), name.clone());
            first_answer(&mut client, began)
                .await
                .map(|it| (client, it))
        };
        let answer = tokio::select! {
            answer = timeout_at(deadline, answered) => answer,
            status = process.ended() => {
                let how = status.map_or_else(|| "is gone".to_owned(), |it| it.to_string());
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
                format!("{what}; it said: {}", shown(last))
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
