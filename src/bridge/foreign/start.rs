//! The kernel's process, and its first answer.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::{Connections, Event, connect};
use super::launch::{failed, launch};
use super::python;
use crate::bridge::file::{OwnFile, make_connection};
use crate::bridge::listen::Stream;
use crate::ids::random_hex;
use crate::jupyter::{
    Channel, Connection, Endpoint, ExecuteReply, Header, KernelInfo, RawMessage, ReplyStatus,
    SocketName, Transport, header,
};
use crate::process::{Spawned, Stdio};
use crate::provisioner::BridgeSetup;

/// How long it is waited before a socket is tried again that does not listen yet: nobody tells when
/// it does.
const AGAIN: Duration = Duration::from_millis(10);
/// How long an answer is waited for before it is asked again: what is published before a subscription
/// has arrived is lost.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// How long a kernel that answers may take for what it is given.
const INSTALL: Duration = Duration::from_secs(15);
/// Bytes of a random key.
const KEY_BYTES: usize = 32;

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
}

/// Starts the kernel and waits until it answers; else why it does not, as it goes on after its name.
pub(super) async fn start(
    setup: &BridgeSetup,
    environment: &[(OsString, OsString)],
) -> Result<Started, String> {
    let deadline = Instant::now() + Duration::from_millis(setup.patience_ms);
    let connection = Connection {
        transport: Transport::Ipc(setup.prefix.display().to_string()),
        ports: [1, 2, 3, 4, 5],
        key: random_hex(KEY_BYTES),
        kernel_name: Some(setup.kernel.name.clone()),
    };
    let signer = connection.signer().map_err(|error| error.to_string())?;
    let mut path = setup.prefix.as_os_str().to_owned();
    path.push(".json");
    let path = PathBuf::from(path);
    // Removed as soon as the kernel has read it, or could not be started.
    let file = make_connection(&path, &connection).map_err(|error| failed(&error.to_string()))?;
    let stdio = stdio().map_err(|error| failed(&error.to_string()))?;
    let mut process = launch(&setup.kernel, &path, environment, &setup.cwd, stdio)?;
    let session = random_hex(8);
    let answered = async {
        let streams = reach(&connection).await;
        let connections = Connections::new(streams, &session, &signer);
        Answering {
            connections,
            session: &session,
            serial: 0,
            asked: Vec::new(),
        }
        .first(setup)
        .await
    };
    let answer = tokio::select! {
        answer = timeout_at(deadline, answered) => answer,
        status = process.ended() => {
            let how = status.map_or_else(|| "is gone".to_owned(), |status| status.to_string());
            return Err(format!("did not start: it ended ({how}) before it answered"));
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
    })
}

fn stdio() -> io::Result<Stdio> {
    Ok(Stdio {
        stdin: OwnedFd::from(File::open("/dev/null")?),
        stdout: io::stdout().as_fd().try_clone_to_owned()?,
        stderr: io::stderr().as_fd().try_clone_to_owned()?,
    })
}

/// Connects to all sockets, as soon as they listen.
pub(crate) async fn reach(connection: &Connection) -> Vec<(SocketName, Box<dyn Stream>)> {
    let mut streams = Vec::new();
    for name in [
        SocketName::Iopub,
        SocketName::Shell,
        SocketName::Control,
        SocketName::Stdin,
    ] {
        let endpoint: Endpoint = connection.endpoint(name);
        let stream = loop {
            match connect(&endpoint).await {
                Ok(stream) => break stream,
                Err(_not_yet) => sleep(AGAIN).await,
            }
        };
        streams.push((name, stream));
    }
    streams
}

/// What is known of a kernel's language.
struct Language {
    is_python: bool,
    warnings: Vec<String>,
}

/// A kernel that is asked until it answers.
struct Answering<'a> {
    connections: Connections,
    session: &'a str,
    serial: u64,
    /// The ids of what it was asked.
    asked: Vec<String>,
}

impl Answering<'_> {
    /// Waits for the answer and for what is published with it; then gives the kernel what it is to
    /// have.
    async fn first(mut self, setup: &BridgeSetup) -> Result<(Connections, Language), String> {
        let mut language = None;
        let mut is_heard = false;
        while language.is_none() || !is_heard {
            self.ask("kernel_info_request", Bytes::from_static(b"{}"))?;
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
        let asked = self.ask("execute_request", content)?;
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

    fn ask(&mut self, msg_type: &str, content: Bytes) -> Result<String, String> {
        self.serial += 1;
        let id = format!("{}_start_{}", self.session, self.serial);
        let message = request(Channel::Shell, &id, msg_type, self.session, content);
        if !self.connections.send(message) {
            return Err("did not start: it takes no requests".to_owned());
        }
        self.asked.push(id.clone());
        Ok(id)
    }

    /// The next message that was caused by what was asked.
    async fn answer(&mut self) -> Result<(Header, RawMessage), String> {
        loop {
            match self.connections.events.recv().await {
                Some(Event::Message(message)) => {
                    let Ok(header) = message.parsed_header() else {
                        continue;
                    };
                    if parent_id(&message).is_some_and(|id| self.asked.contains(&id)) {
                        return Ok((header, message));
                    }
                }
                Some(Event::Unreadable(_)) => {}
                Some(Event::Ended(Some(fault))) => {
                    return Err(format!("broke the protocol {fault}"));
                }
                Some(Event::Ended(None)) | None => {
                    // Its process ends, and how is told.
                    self.connections.open = self.connections.open.saturating_sub(1);
                    if self.connections.open == 0 {
                        return std::future::pending().await;
                    }
                }
            }
        }
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
