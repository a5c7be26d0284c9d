//! `warmcell serve`: the background server, and its end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::args_sessions::ServeArguments;
use super::{exit, sessions, streams, surroundings};
use crate::client::{Home, READY, Stopped};
use crate::config::{ConfigurationFile, ProcessLimits, Settings, Values};
use crate::execution::{ErrorClass, KernelReport, Outcome};
use crate::folders::FolderLock;
use crate::process::{
    Pidfd, Signal, hide_memory, in_a_thread, leave_limits_of_starter, leave_nice_value_of_starter,
    leave_session, let_go_of_standard_streams, own_limits, try_descriptors,
};
use crate::server::{BackgroundServer, Ended, ServerError, TcpDoor, Token};
use crate::telemetry::log_to_file;
use crate::words::counted;

/// How long a server stays without a kernel.
const IDLE_EXIT: Duration = Duration::from_secs(600);
/// How long a server that was told to end may take: it gives its kernels a second.
const STOP_DEADLINE: Duration = Duration::from_secs(5);
/// Descriptors for a door and a few kernels.
const DESCRIPTORS: usize = 64;
/// Threads that serve: what they do is short.
const THREADS: usize = 2;

/// Runs the command; its exit code.
pub(super) fn main(arguments: &ServeArguments) -> ExitCode {
    if arguments.started {
        leave_session();
    }
    // Whatever the configuration says, what runs can be stopped.
    let file = (!arguments.stop).then(surroundings::configuration);
    if let Some(file) = &file {
        if let Some(sentence) = surroundings::refusal(file) {
            return refuse(arguments, ErrorClass::Usage, &sentence);
        }
        // Kernels have their callers' environments: what is let through for them is not for this process.
        let unhidden = surroundings::hide_secrets();
        for sentence in unhidden.into_iter().chain(file.configuration().warnings()) {
            say(&sentence);
        }
    }
    // Whoever starts a server by hand may mean them for kernels whose callers send none.
    let given = (!arguments.started).then(own_limits);
    if !arguments.stop {
        leave_limits_of_starter();
    }
    if arguments.started {
        leave_nice_value_of_starter();
    }
    let built = runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => {
            let sentence = format!("cannot start: {error}");
            return refuse(arguments, ErrorClass::Unavailable, &sentence);
        }
    };
    let code = match file {
        None => {
            hide_memory();
            runtime.block_on(stop(arguments))
        }
        Some(file) => runtime.block_on(serve(arguments, file, given)),
    };
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}

/// A sentence of ours.
fn say(sentence: &str) {
    // With stderr closed there is nobody to tell.
    drop(writeln!(io::stderr(), "warmcell: {sentence}"));
}

/// One JSON object on stdout.
fn print(answer: &Value) -> io::Result<()> {
    let mut stdout = streams::stdout();
    writeln!(stdout, "{answer}").and_then(|()| stdout.flush())
}

/// Says why it does not serve, to whoever started it.
fn refuse(arguments: &ServeArguments, class: ErrorClass, sentence: &str) -> ExitCode {
    if arguments.started {
        drop(writeln!(streams::stdout(), "{sentence}"));
    }
    if arguments.json {
        // With stdout closed there is nobody to tell.
        drop(print(&json!({ "error": sentence, "error_class": class })));
    } else {
        say(sentence);
    }
    ExitCode::from(exit::of(&Outcome::not_run(
        class,
        sentence,
        KernelReport::none(),
    )))
}

/// What it is to listen on beside its socket.
struct Tcp {
    address: String,
    token: Token,
    /// Whether whoever starts it knows the token already.
    is_known: bool,
}

async fn serve(
    arguments: &ServeArguments,
    file: ConfigurationFile,
    given: Option<ProcessLimits>,
) -> ExitCode {
    let unavailable = |sentence: &str| refuse(arguments, ErrorClass::Unavailable, sentence);
    // Before anything is begun.
    let tcp = match wanted_tcp(arguments).await {
        Ok(tcp) => tcp,
        Err((class, sentence)) => return refuse(arguments, class, &sentence),
    };
    if let Err(error) = try_descriptors(DESCRIPTORS) {
        // It would be there for all, and of use to nobody.
        return unavailable(&error.to_string());
    }
    let own = given.clone().unwrap_or_else(own_limits);
    let configured = move |values: &Values| Settings {
        kernel_limits: surroundings::configured_limits(values, own.clone()).or(given.clone()),
        ..surroundings::server_settings(values)
    };
    let settings = configured(&file.configuration().values);
    // A home that cannot be written to costs the log, nothing else.
    let unlogged = log_to_file(&settings.home, settings.log_level).err();
    if let Some(error) = unlogged.filter(|_| !arguments.started) {
        say(&format!("no log is written: {error}"));
    }
    let idle_exit = arguments
        .idle_exit
        .map_or(IDLE_EXIT, |seconds| Duration::from_secs(seconds.into()));
    let owner = surroundings::user();
    let end = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return unavailable(&format!("cannot watch for signals: {error}")),
    };
    let started = if arguments.started {
        match held_lock(&settings) {
            Ok(folder) => BackgroundServer::start_locked(settings, &owner, idle_exit, folder).await,
            Err(source) => Err(ServerError::System {
                what: "the lock that the client holds",
                source,
            }),
        }
    } else {
        BackgroundServer::start(settings, &owner, idle_exit).await
    };
    let server = match started {
        Ok(server) => server,
        Err(error) => return unavailable(&error.to_string()),
    };
    server.manager().follow(file, configured);
    let door = match listen(&server, tcp.as_ref()).await {
        Ok(door) => door,
        Err(error) => {
            server.serve(std::future::ready(())).await;
            return unavailable(&error.to_string());
        }
    };
    if let Err(error) = announce(arguments, &server, tcp.as_ref().zip(door.as_ref())) {
        server.serve(std::future::ready(())).await;
        return unavailable(&format!("cannot say where it listens: {error}"));
    }
    let ended = server.serve(end.come()).await;
    drop(door);
    match ended {
        Ended::Idle if !arguments.started => say("ended: there was nothing to do"),
        _ => {}
    }
    ExitCode::SUCCESS
}

/// The address that was named, if one was, and its token.
async fn wanted_tcp(arguments: &ServeArguments) -> Result<Option<Tcp>, (ErrorClass, String)> {
    let Some(address) = arguments.tcp.clone() else {
        return Ok(None);
    };
    TcpDoor::check(&address).map_err(|error| (ErrorClass::Usage, format!("--tcp: {error}")))?;
    let unavailable = |error: &dyn std::error::Error| (ErrorClass::Unavailable, error.to_string());
    let file = arguments.token_file.clone();
    let is_known = file.is_some();
    let token = match file {
        None => Token::random(),
        Some(file) => in_a_thread(move || Token::from_file(&file))
            .await
            .map_err(|error| unavailable(&error))?
            .map_err(|error| unavailable(&error))?,
    };
    Ok(Some(Tcp {
        address,
        token,
        is_known,
    }))
}

async fn listen(
    server: &BackgroundServer,
    tcp: Option<&Tcp>,
) -> Result<Option<TcpDoor>, ServerError> {
    let Some(tcp) = tcp else {
        return Ok(None);
    };
    let door = TcpDoor::open(server.manager(), &tcp.address, tcp.token.clone());
    door.await.map(Some)
}

/// Says that it serves, and where.
fn announce(
    arguments: &ServeArguments,
    server: &BackgroundServer,
    tcp: Option<(&Tcp, &TcpDoor)>,
) -> io::Result<()> {
    if arguments.started {
        // The client reads to the end of the pipe. If it is gone there is nobody to tell.
        drop(
            streams::stdout()
                .write_all(READY)
                .and_then(|()| streams::stdout().flush()),
        );
        if let Err(error) = let_go_of_standard_streams() {
            tracing::warn!(%error, "the client may wait for ever");
        }
        return Ok(());
    }
    let path = server.path().display().to_string();
    say(&format!(
        "serving at {path}; Ctrl-C or `warmcell serve --stop` ends it"
    ));
    if let Some((_, door)) = tcp
        && !door.address().ip().is_loopback()
    {
        let address = door.address();
        say(&format!(
            "WARNING: {address} can be reached from other machines, and nothing is encrypted: whoever \
             sees the token runs code as you"
        ));
    }
    let address = tcp.map(|(tcp, door)| {
        let token = if tcp.is_known {
            String::new()
        } else {
            format!("?token={}", tcp.token.as_str())
        };
        format!("http://{}/{token}", door.address())
    });
    if arguments.json {
        let info = server.manager().info();
        let mut said = json!({
            "socket": path,
            "pid": info.pid,
            "version": info.version,
            "id": info.id,
            "home": info.home,
        });
        if let (Some(address), Some(said)) = (address, said.as_object_mut()) {
            said.insert("tcp".to_owned(), address.into());
        }
        return print(&said);
    }
    let Some(address) = address else {
        return Ok(());
    };
    let mut stdout = streams::stdout();
    writeln!(stdout, "{address}").and_then(|()| stdout.flush())
}

/// The lock that came as stdin.
fn held_lock(settings: &Settings) -> io::Result<FolderLock> {
    let folder = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let folders = crate::folders::door_folders(settings.runtime_dir.as_deref(), &settings.home);
    FolderLock::from_holder(folder, &folders)
}

/// What ends the server.
struct Signals([tokio::signal::unix::Signal; 3]);

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn come(mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

/// Ends the server that runs, by its door or else by a signal.
async fn stop(arguments: &ServeArguments) -> ExitCode {
    let told = |stopped: bool, had: Option<&Stopped>, sentence: &str| {
        if arguments.json {
            let sessions = had.map(|had| had.sessions);
            let unreceived = had.map(|had| &had.unreceived);
            // With stdout closed there is nobody to tell.
            drop(print(&json!({
                "stopped": stopped, "sessions": sessions, "unreceived": unreceived,
            })));
        } else {
            say(sentence);
        }
        ExitCode::SUCCESS
    };
    let home = surroundings::home();
    let Some((pid, process)) = named(&home).await else {
        return told(
            false,
            Some(&Stopped::default()),
            "no background server runs",
        );
    };
    let asked = match home.server().await {
        Ok(Some(server)) => server.stop().await.ok(),
        _ => None,
    };
    let signal = |signal| {
        if let Some(process) = &process {
            process.signal(signal);
        }
    };
    let mut how = "";
    if asked.is_none() {
        how = " did not answer; it was ended by a signal, and";
        signal(Signal::Terminate);
        // One that is stopped ends in good order, too.
        signal(Signal::Continue);
    }
    if !stopped(&home, process.as_ref()).await {
        how = " did not end by itself; it was killed, and";
        signal(Signal::Kill);
        if !stopped(&home, process.as_ref()).await {
            let sentence = format!("the background server (process {pid}) does not end");
            return refuse(arguments, ErrorClass::Unavailable, &sentence);
        }
    }
    let which = if how.is_empty() {
        String::new()
    } else {
        format!(" (process {pid}){how}")
    };
    let and = match asked.as_ref().map_or(0, |had| had.sessions) {
        0 => " has ended".to_owned(),
        1 => " and its session have ended".to_owned(),
        count => format!(" and its {} have ended", counted(count, "session")),
    };
    let dropped = sessions::dropped(asked.as_ref().map_or(&[][..], |had| &had.unreceived));
    told(
        true,
        asked.as_ref(),
        &format!("the background server{which}{and}{dropped}"),
    )
}

/// The number of the server, and its process as long as that is its number.
async fn named(home: &Home) -> Option<(u32, Option<Pidfd>)> {
    loop {
        let pid = home.server_pid().await?;
        let process = Pidfd::open(pid).ok();
        if home.server_pid().await == Some(pid) {
            return Some((pid, process));
        }
        // It has ended just now, and its number may be another's. There may be a next one.
    }
}

async fn stopped(home: &Home, process: Option<&Pidfd>) -> bool {
    let Some(process) = process else {
        let home = home.clone();
        let waiting = in_a_thread(move || home.wait_until_stopped());
        return timeout(STOP_DEADLINE, waiting).await.is_ok();
    };
    timeout(STOP_DEADLINE, process.ended()).await.is_ok()
}
