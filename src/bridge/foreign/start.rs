//! The kernel's process, and its first answer.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::connection::{Connections, Event};
use super::launch::{failed, launch};
use super::python;
use super::reach::{Places, reach};
use super::serve::END_PATIENCE;
use crate::bridge::file::{OwnFile, make_connection};
use crate::config::KernelTransport;
use crate::ids::random_hex;
use crate::jupyter::{Channel, ExecuteReply, Header, KernelInfo, RawMessage, ReplyStatus, header};
use crate::kernel::Death;
use crate::process::{Spawned, Stdio, end_orphans};
use crate::provisioner::{BridgeSetup, KernelExit};

/// The part of a kernel's time by which one of its Unix sockets must be there: a third.
const FIRST_TRY: u32 = 3;
/// How long an answer is waited for before it is asked again: what is published before a subscription
/// has arrived is lost.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// How long a kernel that answers may take for what it is given.
const INSTALL: Duration = Duration::from_secs(15);
/// What a kernel says of itself is passed on up to so many bytes.
const MOST_INFO: usize = 1 << 20;

/// A kernel that answers.
#[derive(Debug)]
pub(super) struct Started {
    /// Its process.
    pub(super) process: Spawned,
    /// Its sockets.
    pub(super) connections: Connections,
    /// Its language is Python, and it has what it was given.
    pub(super) is_python: bool,
    /// The session of our messages.
    pub(super) session: String,
    /// For the first result.
    pub(super) warnings: Vec<String>,
    /// What it says of itself: the content of its `kernel_info_reply`.
    pub(super) info: Option<Box<RawValue>>,
    /// How it is reached.
    pub(super) transport: KernelTransport,
}

/// Why a kernel did not start, as it goes on after its name.
enum Failure {
    /// None of its sockets was there.
    NoSockets(String),
    Other(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl Failure {
    fn into_reason(self) -> String {
        let (Self::NoSockets(reason) | Self::Other(reason)) = self;
        reason
    }
}

/// Starts the kernel and waits until it answers; else why it does not, as it goes on after its name.
///
/// Unix sockets are better: nobody else reaches them, and their coming is told. Where a kernel does not
/// know them, it ends, or none comes: then it is started `again`, over TCP, which all know.
pub(super) async fn start(
    setup: &BridgeSetup,
    environment: &[(OsString, OsString)],
    again: impl FnOnce(),
) -> Result<Started, String> {
    let kernel = &setup.kernel;
    let patience = Duration::from_millis(setup.patience_ms);
    let deadline = Instant::now() + patience;
    let mut warnings = Vec::new();
    if kernel.transport != KernelTransport::Tcp {
        let places = Places::ipc(&setup.prefix, &kernel.name);
        let may_be_tcp = kernel.transport == KernelTransport::Any;
        let until = if may_be_tcp {
            Instant::now() + patience / FIRST_TRY
        } else {
            deadline
        };
        match attempt(setup, environment, &places, until, deadline).await {
            Err(Failure::NoSockets(_)) if may_be_tcp => {}
            started => return started.map_err(Failure::into_reason),
        }
        // What it has started itself must not outlive it.
        end_orphans(true, &[]).await;
        again();
        warnings.push(format!(
            "the kernel {} did not come up with Unix sockets and was started once more, over TCP; \
             \"metadata\": {{\"warmcell_transport\": \"tcp\"}} in its kernel.json saves the first try",
            kernel.name
        ));
    }
    let places = Places::tcp(&kernel.name).map_err(|error| failed(&error.to_string()))?;
    let started = attempt(setup, environment, &places, deadline, deadline).await;
    let mut started = started.map_err(Failure::into_reason)?;
    started.warnings.extend(warnings);
    started.transport = KernelTransport::Tcp;
    Ok(started)
}

/// Starts it with these sockets. One of them must be there, and answer, by the deadlines.
async fn attempt(
    setup: &BridgeSetup,
    environment: &[(OsString, OsString)],
    places: &Places,
    first_socket: Instant,
    deadline: Instant,
) -> Result<Started, Failure> {
    let connection = &places.connection;
    let signer = connection.signer().map_err(|error| error.to_string())?;
    let mut path = setup.prefix.as_os_str().to_owned();
    path.push(".json");
    let path = PathBuf::from(path);
    // Removed as soon as the kernel has read it, or could not be started.
    let file = make_connection(&path, connection).map_err(|error| failed(&error.to_string()))?;
    let stdio = stdio().map_err(|error| failed(&error.to_string()))?;
    let mut process = launch(&setup.kernel, &path, environment, &setup.cwd, stdio)?;
    let session = random_hex(8);
    let answered = async {
        let streams = reach(connection).await;
        let connections = Connections::new(streams, &session, &signer);
        Answering {
            connections,
            session: &session,
            serial: 0,
            asked: Vec::new(),
            ends_by: None,
        }
        .first(setup)
        .await
    };
    let none_came = async {
        sleep_until(first_socket).await;
        if places.has_any() || first_socket >= deadline {
            std::future::pending::<()>().await;
        }
    };
    let answer = tokio::select! {
        answer = timeout_at(deadline, answered) => answer,
        status = process.ended() => {
            let how = Death::Exited(exit_of(status));
            let reason = format!("did not start: it {how} before it answered");
            return Err(if places.has_any() {
                Failure::Other(reason)
            } else {
                Failure::NoSockets(reason)
            });
        }
        () = none_came => {
            process.kill();
            process.ended().await;
            return Err(Failure::NoSockets("made none of its sockets".to_owned()));
        }
    };
    drop::<OwnFile>(file);
    let (connections, language) = answer.map_err(|_elapsed| {
        let seconds = Duration::from_millis(setup.patience_ms).as_secs_f64();
        format!("did not answer within {seconds} s")
    })??;
    Ok(Started {
        process,
        connections,
        is_python: language.is_python,
        session,
        warnings: language.warnings,
        info: language.info,
        transport: KernelTransport::Ipc,
    })
}

fn stdio() -> io::Result<Stdio> {
    Ok(Stdio {
        stdin: OwnedFd::from(File::open("/dev/null")?),
        stdout: io::stdout().as_fd().try_clone_to_owned()?,
        stderr: io::stderr().as_fd().try_clone_to_owned()?,
    })
}

/// What is known of a kernel's language.
struct Language {
    is_python: bool,
    warnings: Vec<String>,
    info: Option<Box<RawValue>>,
}

/// A kernel that is asked until it answers.
struct Answering<'a> {
    connections: Connections,
    session: &'a str,
    serial: u64,
    /// The ids of what it was asked.
    asked: Vec<String>,
    /// It has closed a socket, and must have ended by then.
    ends_by: Option<Instant>,
}

impl Answering<'_> {
    /// Waits for the answer and for what is published with it; then gives the kernel what it is to
    /// have.
    async fn first(mut self, setup: &BridgeSetup) -> Result<(Connections, Language), String> {
        let mut language = None;
        let mut said = None;
        let mut is_heard = false;
        while language.is_none() || !is_heard {
            self.ask("kernel_info_request", Bytes::from_static(b"{}"));
            let until = Instant::now() + ASK_AGAIN;
            while language.is_none() || !is_heard {
                let Ok(message) = timeout_at(until, self.answer()).await else {
                    break;
                };
                let (header, message) = message?;
                match message.channel {
                    Channel::Shell if header.msg_type == "kernel_info_reply" => {
                        let info = KernelInfo::parse(&message.content).unwrap_or_default();
                        language = Some(info.language_info.name);
                        said = raw(&message.content);
                    }
                    Channel::Iopub => is_heard = true,
                    _ => {}
                }
            }
        }
        let named = language.unwrap_or_default();
        let is_python = setup.kernel.is_python() || named.eq_ignore_ascii_case("python");
        let mut language = Language {
            is_python,
            warnings: Vec::new(),
            info: said,
        };
        if is_python && let Err(reason) = self.install(setup).await {
            language.is_python = false;
            language.warnings.push(format!(
                "the kernel {} has no tools, and does not tell its variables: {reason}",
                setup.kernel.name
            ));
        }
        Ok((self.connections, language))
    }

    async fn install(&mut self, setup: &BridgeSetup) -> Result<(), String> {
        let content = silently(&python::installing(&setup.tools), None);
        let asked = self.ask("execute_request", content);
        let deadline = Instant::now() + INSTALL;
        loop {
            let answer = timeout_at(deadline, self.answer()).await;
            let (header, message) = answer.map_err(|_elapsed| "it took too long".to_owned())??;
            let is_reply = header.msg_type == "execute_reply" && message.channel == Channel::Shell;
            if !is_reply || parent_id(&message).as_deref() != Some(asked.as_str()) {
                continue;
            }
            let reply = ExecuteReply::parse(&message.content).map_err(|it| it.to_string())?;
            return if reply.status == ReplyStatus::Ok {
                Ok(())
            } else {
                let (name, what) = (reply.ename, reply.evalue);
                Err(format!("{name}: {what}").chars().take(300).collect())
            };
        }
    }

    fn ask(&mut self, msg_type: &str, content: Bytes) -> String {
        self.serial += 1;
        let id = format!("{}_start_{}", self.session, self.serial);
        let message = request(Channel::Shell, &id, msg_type, self.session, content);
        // If it takes none no answer comes, and that is seen.
        self.connections.send(message);
        self.asked.push(id.clone());
        id
    }

    /// The next message that was caused by what was asked.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    async fn answer(&mut self) -> Result<(Header, RawMessage), String> {
        loop {
            let next = self.connections.events.recv();
            let next = if let Some(by) = self.ends_by {
                let Ok(Some(event)) = timeout_at(by, next).await else {
                    // Most often its process ends before that, and how is told.
                    sleep_until(by).await;
                    let reason = "did not start: it closed a socket before it answered";
                    return Err(reason.to_owned());
                };
                Some(event)
            } else {
                next.await
            };
            match next {
                Some(Event::Message(message)) => {
                    let Ok(header) = message.parsed_header() else {
                        continue;
                    };
                    if parent_id(&message).is_some_and(|id| self.asked.contains(&id)) {
                        return Ok((header, message));
                    }
                }
                Some(Event::Unreadable(_) | Event::TooLong(_)) => {}
                Some(Event::Ended(Some(fault))) => {
                    return Err(format!("broke the protocol {fault}"));
                }
                Some(Event::Ended(None)) | None => {
                    self.ends_by
                        .get_or_insert_with(|| Instant::now() + END_PATIENCE);
                }
            }
        }
    }
}

/// An object that may be passed on.
fn raw(content: &[u8]) -> Option<Box<RawValue>> {
    let content = Some(content).filter(|it| it.len() <= MOST_INFO && it.starts_with(b"{"))?;
    serde_json::from_slice(content).ok()
}

/// How a kernel's own process has ended.
pub(super) fn exit_of(status: Option<ExitStatus>) -> KernelExit {
    let Some(status) = status else {
        return KernelExit::Unknown;
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => KernelExit::Code(code),
        (None, Some(signal)) => KernelExit::Signal(signal),
        (None, None) => KernelExit::Unknown,
    }
}

/// The id of the request that a message answers.
pub(crate) fn parent_id(message: &RawMessage) -> Option<String> {
    Header::parse(&message.parent_header)
        .ok()
        .map(|header| header.msg_id)
}

/// A request of ours.
pub(crate) fn request(
    channel: Channel,
    id: &str,
    msg_type: &str,
    session: &str,
    content: Bytes,
) -> RawMessage {
    let date = Timestamp::now().to_string();
    RawMessage::new(channel, header(id, msg_type, session, &date), content)
}

/// The content of an `execute_request` of which nobody is to see anything.
pub(crate) fn silently(code: &str, expression: Option<(&str, &str)>) -> Bytes {
    let mut expressions = serde_json::Map::new();
    if let Some((name, code)) = expression {
        expressions.insert(name.to_owned(), code.into());
    }
    let content = serde_json::json!({
        "code": code, "silent": true, "store_history": false, "user_expressions": expressions,
        "allow_stdin": false, "stop_on_error": false,
    });
    content.to_string().into()
}
