//! `warmcell kernel`: a kernel of Jupyter's to the outside, a session to the inside.

use std::future::{pending, poll_fn};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::args_kernel::KernelArguments;
use super::flags::in_flags;
use super::list::clean;
use super::{exit, surroundings};
use crate::bridge::{
    BridgeError, JupyterKernel, KernelEnd, Listeners, OwnFile, make_connection, read_connection,
};
use crate::client::ClientError;
use crate::config::{ConfigurationFile, Settings, Values};
use crate::environment::own_variables;
use crate::folders::door_folders;
use crate::frontends::BeforeCell;
use crate::jupyter::Signer;
use crate::process::{Pidfd, in_a_thread, own_limits};
use crate::server::{Door, Manager};
use crate::session::{Registry, Session, SessionName};
use crate::telemetry::log_to_file;

/// Threads that serve: what they do is short.
const THREADS: usize = 2;
/// By which plotly knows that it is in a notebook: it asks IPython's shell else.
const PLOTLY: (&str, &str) = ("PLOTLY_RENDERER", "plotly_mimetype");
/// The variable in which a front end says who it is.
const PARENT: &str = "JPY_PARENT_PID";

/// Runs the command; its exit code.
pub(super) fn main(arguments: &KernelArguments) -> ExitCode {
    let spec = arguments.kernelspec.as_deref();
    let file = surroundings::configuration();
    if let Some(sentence) = surroundings::refusal(&file) {
        say(&sentence);
        return ExitCode::from(exit::USAGE);
    }
    let mut passed = spec.map(own_variables).unwrap_or_default();
    let also = file.configuration().values.env_passthrough.iter();
    passed.extend(also.flatten().cloned());
    // How plotly shows a figure: it says nothing of its reader.
    passed.push(PLOTLY.0.to_owned());
    if let Some(sentence) = surroundings::hide_secrets_but(&[PARENT], &passed) {
        say(&sentence);
    }
    for sentence in file.configuration().warnings() {
        say(&sentence);
    }
    if let Some(spec) = spec
        && spec.as_os_str() != "{resource_dir}"
        && !spec.join("kernel.json").is_file()
    {
        say(&clean(&format!(
            "--kernelspec: there is no kernel.json in {}, so no variables of it reach cells",
            spec.display()
        )));
    }
    if !arguments.ignored.is_empty() {
        let words = arguments.ignored.iter();
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        say(&clean(&format!(
            "ignored, as a kernel of Jupyter's ignores what it does not know: {}",
            words.join(" ")
        )));
    }
    let built = runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build();
    let code = match built {
        Ok(runtime) => {
            let code = runtime.block_on(run(arguments, file, passed));
            runtime.shutdown_timeout(Duration::from_millis(100));
            code
        }
        Err(error) => Err((exit::UNAVAILABLE, format!("cannot start: {error}"))),
    };
    match code {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, sentence)) => {
            say(&in_flags(&sentence));
            ExitCode::from(code)
        }
    }
}

/// A sentence of ours.
fn say(sentence: &str) {
    // With stderr closed there is nobody to tell.
    drop(writeln!(io::stderr(), "warmcell: {sentence}"));
}

type Refused = (u8, String);

fn unavailable(error: impl std::fmt::Display) -> Refused {
    (exit::UNAVAILABLE, error.to_string())
}

async fn run(
    arguments: &KernelArguments,
    file: ConfigurationFile,
    passed: Vec<String>,
) -> Result<(), Refused> {
    // From here on a signal does what it is to do.
    let signals = Signals::new().map_err(|error| {
        let sentence = format!("cannot watch for signals: {error}");
        (exit::UNAVAILABLE, sentence)
    })?;
    let front_end = surroundings::number(PARENT);
    let parent = front_end.map(watched).transpose().map_err(unavailable)?;
    let own = own_limits();
    let configured = move |values: &Values| Settings {
        // Somebody is always connected, or may be again.
        kernel_idle_timeout: None,
        passed_variables: passed.clone(),
        kernel_limits: surroundings::configured_limits(values, own.clone()),
        ..surroundings::configured_settings(values)
    };
    let settings = configured(&file.configuration().values);
    // A home that cannot be written to costs the log, nothing else.
    drop(log_to_file(&settings.home, settings.log_level));
    let connection = arguments.file.clone();
    let reached = in_a_thread(move || read_connection(&connection))
        .await
        .map_err(unavailable)?;
    let reached = match reached.map_err(|error| (exit::USAGE, error.to_string()))? {
        Some(connection) => {
            let listeners = Listeners::bind(&connection).map_err(unavailable)?;
            let signer = connection.signer().map_err(unavailable)?;
            Reached {
                listeners,
                signer,
                own_file: None,
            }
        }
        None => Reached::anywhere(&arguments.file).map_err(unavailable)?,
    };
    let folders = door_folders(settings.runtime_dir.as_deref(), &settings.home);
    let home = settings.home.clone();
    let python = arguments.python.as_ref().or(settings.python.as_ref());
    let mut caller = surroundings::kernel_caller(python, front_end)
        .map_err(|sentence| (exit::UNAVAILABLE, sentence))?;
    if caller.variable(PLOTLY.0).is_none() {
        let (name, value) = PLOTLY;
        caller.environment.push((name.to_owned(), value.to_owned()));
    }
    let registry = Arc::new(Registry::start(settings).await.map_err(unavailable)?);
    let mut name = session_name(&arguments.file);
    // A front end's files have names of their own; one that was named by hand may be taken.
    if reached.own_file.is_some() && is_taken(&name).await {
        let own = own_name();
        say(&format!(
            "its session is called {own}: another manager has one called {name}"
        ));
        name = own;
    }
    let served = match registry.session(&name, &caller) {
        Ok(session) => {
            let manager = Manager::new(Arc::clone(&registry), "kernel", surroundings::user(), home);
            manager.follow(file, configured);
            let door = Door::open(&manager, &folders);
            if let Err(error) = &door {
                tracing::warn!(%error, "nobody finds the session of this kernel");
            }
            let end = serve(arguments, reached, &session, &manager, signals, parent).await;
            drop(door);
            end
        }
        Err(error) => Err(unavailable(error)),
    };
    registry.shut_down().await;
    served
}

/// Where front ends reach the kernel.
struct Reached {
    listeners: Listeners,
    signer: Signer,
    /// The connection file, if it was made here.
    own_file: Option<OwnFile>,
}

impl Reached {
    fn anywhere(path: &Path) -> Result<Self, BridgeError> {
        let (listeners, connection) = Listeners::anywhere("warmcell")?;
        let own_file = make_connection(path, &connection)?;
        let signer = connection
            .signer()
            .map_err(|source| BridgeError::Connection {
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            listeners,
            signer,
            own_file: Some(own_file),
        })
    }
}

async fn serve(
    arguments: &KernelArguments,
    reached: Reached,
    session: &Session,
    manager: &Arc<Manager>,
    mut signals: Signals,
    parent: Option<Pidfd>,
) -> Result<(), Refused> {
    let Reached {
        listeners,
        signer,
        own_file,
    } = reached;
    if own_file.is_some() {
        // Nobody is connected yet: whoever has started this by hand is told here what is wrong.
        let started = tokio::select! {
            started = session.start() => started,
            () = signals.end(session) => return Ok(()),
        };
        started.map_err(|outcome| unavailable(outcome.error.unwrap_or_default()))?;
        say(&format!(
            "`jupyter console --existing {}` connects; SIGTERM or a shutdown_request ends it",
            arguments.file.display()
        ));
    } else {
        let starting = session.clone();
        // What is wrong with it the first cell says too: there a person reads it.
        tokio::spawn(async move {
            if let Err(outcome) = starting.start().await {
                say(&clean(&in_flags(&outcome.error.unwrap_or_default())));
            }
        });
    }
    if arguments.no_redact {
        manager.frontends().show_secrets();
    }
    let before_cell = signals.before_cell(session);
    let frontends = manager.frontends();
    let kernel = JupyterKernel::start(
        listeners,
        signer,
        session.clone(),
        frontends,
        Some(before_cell),
    );
    let stop = async {
        let parent_gone = async {
            match &parent {
                Some(parent) => parent.ended().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = signals.end(session) => {}
            () = parent_gone => tracing::info!("the front end is gone"),
            () = manager.stop().cancelled() => {}
        }
    };
    let end = kernel.serve(stop).await;
    drop(own_file);
    match end {
        KernelEnd::Failed(sentence) => Err((exit::UNAVAILABLE, sentence)),
        _ => Ok(()),
    }
}

/// Who has started this kernel.
fn watched(pid: u32) -> Result<Pidfd, String> {
    Pidfd::open(pid).map_err(|error| {
        format!("the front end, process {pid} ({PARENT}), cannot be watched ({error}): it is gone")
    })
}

/// The name of a connection file, if a session can have it.
fn session_name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if SessionName::parse(&stem).is_ok() && !stem.contains('/') {
        return stem.into_owned();
    }
    own_name()
}

/// A name that no other process has.
fn own_name() -> String {
    format!("kernel-{}", std::process::id())
}

/// Whether another manager holds a session of this name.
async fn is_taken(name: &str) -> bool {
    let holder = surroundings::home().holder(name, None).await;
    matches!(holder, Ok(_) | Err(ClientError::Ambiguous { .. }))
}

/// What signals do: SIGINT interrupts the cell that runs, the others end the kernel.
struct Signals {
    interrupt: Arc<Interrupts>,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: Arc::new(Interrupts {
                signal: Mutex::new(signal(SignalKind::interrupt())?),
                looked: Notify::new(),
                line: UnixStream::pair()?.into(),
            }),
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// What has come by the time at which a cell is handed over was meant for the one before.
    fn before_cell(&self, session: &Session) -> BeforeCell {
        let (interrupt, session) = (Arc::clone(&self.interrupt), session.clone());
        BeforeCell::new(move || {
            let (interrupt, session) = (Arc::clone(&interrupt), session.clone());
            Box::pin(async move {
                if interrupt.has_come_by_now().await {
                    session.interrupt();
                }
            })
        })
    }

    async fn end(&mut self, session: &Session) {
        loop {
            tokio::select! {
                () = self.interrupt.come() => drop(session.interrupt()),
                _ = self.terminate.recv() => return,
                _ = self.hang_up.recv() => return,
            }
        }
    }
}

/// SIGINT, for which two look out: whoever waits for it, and each cell before it begins.
struct Interrupts {
    signal: Mutex<Signal>,
    /// Somebody has looked, so whoever waits has to look again to be told.
    looked: Notify,
    /// A line from here to here.
    line: tokio::sync::Mutex<(UnixStream, UnixStream)>,
}

impl Interrupts {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut signal = self.signal.lock().unwrap_or_else(PoisonError::into_inner);
        signal.poll_recv(context).map(drop)
    }

    /// Waits for one.
    async fn come(&self) {
        loop {
            tokio::select! {
                () = poll_fn(|context| self.poll(context)) => return,
                () = self.looked.notified() => {}
            }
        }
    }

    /// Whether one has come by now that nobody has heeded.
    ///
    /// The runtime hears of a signal as of bytes that come, and hands on one look at a time. So when two
    /// bytes have gone round one after the other it has handed on every signal from before the first.
    async fn has_come_by_now(&self) -> bool {
        let mut line = self.line.lock().await;
        let (near, far) = &mut *line;
        // More than comes, so that each time it is waited for the runtime.
        let mut bytes = [0; 8];
        for _ in 0..2 {
            if near.write_all(b".").await.is_err() || far.read(&mut bytes).await.is_err() {
                break;
            }
        }
        self.has_come()
    }

    fn has_come(&self) -> bool {
        let has_come = self
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready();
        self.looked.notify_one();
        has_come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_like_its_connection_file() {
        let name = |path: &str| session_name(Path::new(path));
        assert_eq!(name("/run/kernel-1f.json"), "kernel-1f");
        let own = format!("kernel-{}", std::process::id());
        for odd in ["a b.json", ".json", "/", &"x".repeat(100)] {
            assert_eq!(name(odd), own);
        }
    }
}
