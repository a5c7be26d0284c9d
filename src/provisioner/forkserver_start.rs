//! How a forkserver is started, and why an interpreter would not become one.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::ProvisionError;
use super::conversation::{Reader, log_printed, write_orders};
use super::forkserver::Forkserver;
use super::messages::{PROTOCOL, Report};
use crate::environment::{Interpreter, Unusable};
use crate::ids::random_hex;
use crate::output::Tail;
use crate::process::{
    ControlSocket, Marker, PipeReader, ProcessError, Program, ReadOutcome, Spawned, Stdio,
    end_orphans, output_pipe, spawn,
};
use crate::python_source::{BOOT_FILE, TOO_OLD};

/// How long its last words are waited for when it ended before that.
const LAST_WORDS_DEADLINE: Duration = Duration::from_secs(1);
/// Orders that may wait to be sent.
const QUEUED_ORDERS: usize = 1_024;
/// How much of what the interpreter prints is kept to explain a failure.
const PRINTED_BYTES: usize = 4_096;
/// The mark of everything a forkserver starts.
const MARKER_NAME: &str = "WARMCELL_FORKSERVER";

/// How to start one.
#[derive(Debug, Clone)]
pub(super) struct ForkserverSpec {
    pub(super) program: PathBuf,
    /// How long it may take until its forkserver says hello.
    pub(super) patience: Duration,
    /// The part of the environment that only a fresh interpreter can take over.
    pub(super) environment: Vec<(String, String)>,
    /// The unpacked sources.
    pub(super) sources: PathBuf,
    /// The folder of sockets, and others, that it removes when the manager is gone.
    pub(super) folders: Vec<PathBuf>,
    /// Whether this process adopts its orphans.
    pub(super) adopts: bool,
}

/// Why an interpreter would not become a forkserver.
#[derive(Debug)]
pub(super) enum StartFailure {
    /// This interpreter will not do; the next may.
    Unusable(Unusable),
    /// It is not the interpreter's fault.
    Fault(ProvisionError),
}

impl From<ProvisionError> for StartFailure {
    fn from(error: ProvisionError) -> Self {
        Self::Fault(error)
    }
}

impl From<ProcessError> for StartFailure {
    fn from(error: ProcessError) -> Self {
        Self::Fault(error.into())
    }
}

/// A process that has not said hello yet. Dropping it ends it and whatever it has started: an
/// interpreter that hangs would never look at its socket.
struct Candidate {
    process: Option<Spawned>,
    marker: Marker,
    adopts: bool,
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        process.kill();
        let (adopts, marker) = (self.adopts, self.marker.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                process.ended().await;
                end_orphans(adopts, &[marker]).await;
            });
        }
    }
}

/// Starts one and waits for its hello.
///
/// # Cancel safety
///
/// If dropped, the process is ended.
pub(super) async fn start(spec: ForkserverSpec) -> Result<Arc<Forkserver>, StartFailure> {
    let (control, theirs) = ControlSocket::pair()?;
    let (printed, print_end) = output_pipe()?;
    let also = print_end
        .try_clone()
        .map_err(|source| ProcessError::Descriptor {
            what: "a pipe",
            source,
        })?;
    let marker = Marker {
        entry: format!("{MARKER_NAME}={}", random_hex(12)),
    };
    let mut environment: Vec<(OsString, OsString)> = spec
        .environment
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    if let Some((name, value)) = marker.entry.split_once('=') {
        environment.push((name.into(), value.into()));
    }
    let program = Program {
        program: spec.program.clone(),
        arguments: std::iter::once(spec.sources.join(BOOT_FILE))
            .chain(spec.folders.iter().cloned())
            .map(OsString::from)
            .collect(),
        environment,
        directory: spec.sources.clone(),
    };
    let process = spawn(
        program,
        Stdio {
            stdin: theirs,
            stdout: print_end,
            stderr: also,
        },
    )
    .map_err(|error| match error {
        ProcessError::Spawn { ref source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            let why = source.to_string();
            StartFailure::Unusable(Unusable::NotExecutable { why })
        }
        ProcessError::Spawn { .. } => broken(error.to_string()),
        // Another interpreter could not be started either.
        other => other.into(),
    })?;
    let mut printed = Printed::new(printed);
    let mut candidate = Candidate {
        process: Some(process),
        marker: marker.clone(),
        adopts: spec.adopts,
    };
    let (interpreter, supervises) =
        match timeout(spec.patience, hello(&control, &mut printed)).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(fault)) => {
                let told = explain(fault, candidate.process.as_mut(), &mut printed).await;
                let relocated = match told {
                    Unusable::Broken { .. } => Unusable::relocated(&spec.program),
                    _ => None,
                };
                return Err(StartFailure::Unusable(relocated.unwrap_or(told)));
            }
            Err(_elapsed) => {
                let seconds = spec.patience.as_secs();
                return Err(StartFailure::Unusable(Unusable::Hangs { seconds }));
            }
        };
    let interpreter = named(interpreter, &spec.program);
    let Some(process) = candidate.process.take() else {
        return Err(broken("is gone".to_owned()));
    };
    let (orders, queue) = mpsc::channel(QUEUED_ORDERS);
    let control = Arc::new(control);
    let server = Arc::new(Forkserver::new(
        interpreter,
        marker.clone(),
        orders,
        Arc::clone(&control),
    ));
    tokio::spawn(write_orders(Arc::clone(&control), queue, &server));
    tokio::spawn(log_printed(printed.pipe));
    let reader = Reader {
        server: Arc::downgrade(&server),
        process,
        marker,
        adopts: spec.adopts,
        supervises,
        end: server.end().clone(),
        dropped: server.dropped().clone(),
    };
    tokio::spawn(reader.run(control));
    Ok(server)
}

fn broken(how: String) -> StartFailure {
    StartFailure::Unusable(Unusable::Broken { how })
}

/// One that does not know its own program is known by the one that was started.
fn named(mut interpreter: Interpreter, program: &Path) -> Interpreter {
    if interpreter.executable.as_os_str().is_empty() {
        program.clone_into(&mut interpreter.executable);
    }
    interpreter
}

/// Waits for the first message. What the interpreter prints meanwhile is taken: one that prints
/// more than a pipe holds would never come to its hello.
async fn hello(
    control: &ControlSocket,
    printed: &mut Printed,
) -> Result<(Interpreter, bool), Option<String>> {
    let message = tokio::select! {
        biased;
        message = control.receive() => message,
        never = printed.collect() => match never {},
    };
    let message = match message {
        Ok(Some(message)) => message,
        Ok(None) => return Err(None),
        Err(error) => return Err(Some(error.to_string())),
    };
    match serde_json::from_slice(&message) {
        Ok(Report::Hello {
            protocol: PROTOCOL,
            version,
            executable,
            prefix,
            supervises,
            pid,
        }) => {
            if !supervises {
                tracing::warn!(
                    pid,
                    "this Python has no _ctypes: daemons that a cell starts may survive its kernel"
                );
            }
            let interpreter = Interpreter {
                executable,
                version,
                prefix,
            };
            Ok((interpreter, supervises))
        }
        Ok(other) => Err(Some(format!("said {other:?} instead of hello"))),
        Err(error) => Err(Some(format!("said something else than hello: {error}"))),
    }
}

/// Why there was no hello, from how the process ended and what it printed.
async fn explain(
    fault: Option<String>,
    process: Option<&mut Spawned>,
    printed: &mut Printed,
) -> Unusable {
    if let Some(how) = fault {
        return Unusable::Broken { how };
    }
    let ended = async {
        match process {
            Some(process) => process.ended().await,
            None => None,
        }
    };
    let status = tokio::select! {
        status = timeout(LAST_WORDS_DEADLINE, ended) => status.ok().flatten(),
        never = printed.collect() => match never {},
    };
    let words = printed.last_words();
    let code = status.and_then(|status| status.code());
    if code == Some(TOO_OLD) {
        let version = words.trim().to_owned();
        return Unusable::TooOld { version };
    }
    let ended = status.map_or_else(|| "closed its socket".to_owned(), |it| it.to_string());
    let how = match words.trim() {
        "" => format!("did not start: {ended}"),
        words => format!("did not start: {ended}; it said: {words}"),
    };
    Unusable::Broken { how }
}

/// What an interpreter prints before its forkserver says hello.
struct Printed {
    pipe: PipeReader,
    kept: Tail,
    buffer: [u8; PRINTED_BYTES],
}

impl Printed {
    fn new(pipe: PipeReader) -> Self {
        Self {
            pipe,
            kept: Tail::new(PRINTED_BYTES),
            buffer: [0; PRINTED_BYTES],
        }
    }

    /// Takes what is there now; whether more may come.
    fn take(&mut self) -> bool {
        loop {
            match self.pipe.read(&mut self.buffer) {
                ReadOutcome::Bytes(count) => {
                    self.kept.push(self.buffer.get(..count).unwrap_or_default());
                }
                ReadOutcome::Empty => return true,
                ReadOutcome::End => return false,
            }
        }
    }

    /// Takes what comes, until it is dropped.
    async fn collect(&mut self) -> Infallible {
        while self.take() {
            self.pipe.readable().await;
        }
        std::future::pending().await
    }

    fn last_words(&mut self) -> String {
        self.take();
        let kept = self.kept.take();
        kept.map_or_else(String::new, |(text, _)| tail_of(text.as_bytes()))
    }
}

/// The last lines of what was printed, for a message.
pub(super) fn tail_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines
        .iter()
        .rev()
        .take(3)
        .rev()
        .copied()
        .collect::<Vec<_>>()
        .join(" | ");
    last.chars().take(500).collect()
}
