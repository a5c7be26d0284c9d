//! What the tests of `warmcell kernel` share: a kernel in a place of its own, and front ends that
//! speak ZeroMQ byte by byte.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use serde_json::{Value, json};
use warmcell::bridge::read_connection;
use warmcell::jupyter::{
    Channel, Connection, Multipart, MultipartLimits, RawMessage, Signer, SocketName, Transport,
    ZmtpCommand, ZmtpItem, ZmtpLimits, ZmtpReader, greeting, ready, zmtp_message,
};

use crate::command_kit::Running;
use crate::kernel_stream::Stream;
use crate::lifecycle_support::{signal, until};
use crate::support::{Place, python};

/// A kernel that has made its connection file itself.
pub struct Kernel {
    pub place: Place,
    pub process: Running,
    pub connection: Connection,
    pub file: PathBuf,
}

impl Kernel {
    pub fn start() -> Self {
        Self::start_as(|_| {})
    }

    pub fn start_on(its_python: &Path) -> Self {
        Self::start_by(|place, file| command_on(place, file, its_python))
    }

    pub fn start_as(change: impl FnOnce(&mut Command)) -> Self {
        Self::start_by(|place, file| {
            let mut command = command(place, file);
            change(&mut command);
            command
        })
    }

    fn start_by(command: impl FnOnce(&Place, &Path) -> Command) -> Self {
        let place = Place::new();
        let file = place.work().join("k.json");
        let mut command = command(&place, &file);
        let mut child = command.spawn().unwrap();
        // Said once the file is there.
        let line = first_line(&mut child);
        assert!(line.contains("--existing"), "{line}");
        let connection = read_connection(&file).unwrap().unwrap();
        Self {
            place,
            process: Running(child),
            connection,
            file,
        }
    }

    /// With a connection file that is there already. Starts once its heart beats.
    pub async fn start_at(connection: &Value) -> Self {
        let place = Place::new();
        let file = place.work().join("k.json");
        std::fs::write(&file, connection.to_string()).unwrap();
        Self::start_from(place, file).await
    }

    /// The same, in a place where there was one before.
    pub async fn start_from(place: Place, file: PathBuf) -> Self {
        let process = Running::start(command(&place, &file).stderr(Stdio::inherit()));
        let mut connection = read_connection(&file).unwrap().unwrap();
        if let Transport::Ipc(prefix) = &mut connection.transport {
            // The kernel is there, and the test is not.
            *prefix = place.work().join(&prefix).display().to_string();
        }
        until("a kernel", || {
            Stream::connect(&connection, SocketName::Heartbeat).is_ok()
        })
        .await;
        Self {
            place,
            process,
            connection,
            file,
        }
    }

    pub fn front_end(&self) -> FrontEnd {
        FrontEnd::new(&self.connection, "front end")
    }

    pub fn signal(&self, number: rustix::process::Signal) {
        signal(self.process.pid(), number);
    }

    /// Waits for the end of the process, in good order, and looks that nothing is left.
    pub async fn ended(mut self) {
        assert_eq!(self.process.ended().await, Some(0));
        assert!(!self.file.exists(), "the connection file is left");
        self.left_nothing().await;
    }

    /// No process, nothing in the runtime folder.
    pub async fn left_nothing(&self) {
        self.place.assert_no_survivors().await;
        let run = self.place.folder.path().join("run/warmcell");
        let left: Vec<_> = std::fs::read_dir(run)
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        assert!(left.is_empty(), "left in the runtime folder: {left:?}");
    }

    /// Has it end.
    pub async fn close(self) {
        self.signal(rustix::process::Signal::TERM);
        self.ended().await;
    }
}

/// `warmcell kernel` with the default Python.
pub fn command(place: &Place, file: &Path) -> Command {
    command_on(place, file, python())
}

fn command_on(place: &Place, file: &Path, its_python: &Path) -> Command {
    let mut command = place.warmcell(&["kernel", "-f"]);
    command
        .arg(file)
        .arg("--python")
        .arg(its_python)
        .stderr(Stdio::piped());
    command
}

pub fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    line
}

/// A connection file of Jupyter's with sockets below a path.
pub fn ipc(prefix: &str) -> Value {
    json!({
        "transport": "ipc", "ip": prefix, "key": "a key", "signature_scheme": "hmac-sha256",
        "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5,
    })
}

/// One connection to a socket.
pub struct Wire {
    pub stream: Stream,
    reader: ZmtpReader,
}

impl Wire {
    /// Connects and shakes hands.
    pub fn connect(connection: &Connection, name: SocketName, identity: &str) -> Self {
        let mut wire = Self::open(connection, name);
        wire.shake_hands(name, identity);
        wire
    }

    pub fn shake_hands(&mut self, name: SocketName, identity: &str) {
        let own = match name {
            SocketName::Iopub => "SUB",
            SocketName::Heartbeat => "REQ",
            _ => "DEALER",
        };
        self.write(&greeting());
        assert_eq!(self.item(), Some(ZmtpItem::Greeting));
        self.write(&ready(own, identity.as_bytes()));
        let Some(ZmtpItem::Command(ZmtpCommand::Ready { socket_type, .. })) = self.item() else {
            panic!("no handshake");
        };
        let expected = match name {
            SocketName::Iopub => "XPUB",
            SocketName::Heartbeat => "REP",
            _ => "ROUTER",
        };
        assert_eq!(socket_type, expected);
    }

    /// Connects and says nothing.
    pub fn open(connection: &Connection, name: SocketName) -> Self {
        Self {
            stream: Stream::connect(connection, name).unwrap(),
            reader: ZmtpReader::new(ZmtpLimits {
                message: 100 << 20,
                frames: 100,
            }),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn send(&mut self, frames: &[Bytes]) {
        self.write(&zmtp_message(frames).concat());
    }

    /// The next thing that comes; `None` if the connection was closed.
    pub fn item(&mut self) -> Option<ZmtpItem> {
        let mut bytes = vec![0; 64 << 10];
        loop {
            if let Some(item) = self.reader.next_item().unwrap() {
                return Some(item);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                read => self
                    .reader
                    .buffer()
                    .extend_from_slice(&bytes[..read.unwrap()]),
            }
        }
    }

    /// The next message.
    pub fn frames(&mut self) -> Vec<Bytes> {
        match self.item() {
            Some(ZmtpItem::Message(frames)) => frames,
            other => panic!("no message: {other:?}"),
        }
    }
}

/// A message, taken apart.
#[derive(Debug)]
pub struct Message {
    pub header: Value,
    /// As it came.
    pub parent: String,
    pub metadata: Value,
    pub content: Value,
    pub buffers: Vec<Bytes>,
    pub identities: Vec<Bytes>,
}

impl Message {
    pub fn kind(&self) -> &str {
        self.header["msg_type"].as_str().unwrap()
    }

    /// Its type, or the state that it tells.
    pub fn word(&self) -> &str {
        match self.kind() {
            "status" => self.content["execution_state"].as_str().unwrap(),
            kind => kind,
        }
    }

    /// What it prints.
    pub fn text(&self) -> &str {
        match self.kind() {
            "stream" => self.content["text"].as_str().unwrap(),
            _ => "",
        }
    }
}

/// A front end: its connections to shell, control and iopub.
pub struct FrontEnd {
    pub signer: Signer,
    pub shell: Wire,
    pub control: Wire,
    pub iopub: Wire,
    count: usize,
    name: String,
    waiting: VecDeque<Message>,
}

impl FrontEnd {
    /// Subscribed to everything, and welcomed.
    pub fn new(connection: &Connection, name: &str) -> Self {
        let mut front_end = Self {
            signer: connection.signer().unwrap(),
            shell: Wire::connect(connection, SocketName::Shell, name),
            control: Wire::connect(connection, SocketName::Control, name),
            iopub: Wire::connect(connection, SocketName::Iopub, ""),
            count: 0,
            name: name.to_owned(),
            waiting: VecDeque::new(),
        };
        front_end.iopub.send(&[Bytes::from_static(b"\x01")]);
        let welcome = front_end.published();
        assert_eq!(welcome.kind(), "iopub_welcome");
        assert_eq!(welcome.content, json!({ "subscription": "" }));
        front_end
    }

    /// A header of a type.
    pub fn header(&mut self, kind: &str) -> String {
        self.count += 1;
        let name = self.name.replace(' ', "-");
        format!(
            r#"{{"msg_id": "{name}-{}", "msg_type": "{kind}", "session": "s", "username": "é", "date": "2026-01-01T00:00:00.000000Z", "version": "5.5"}}"#,
            self.count
        )
    }

    /// The frames of a request, signed.
    pub fn frames(&self, header: &str, content: &Value) -> Vec<Bytes> {
        self.frames_with(header, content, &json!({}), &[])
    }

    /// The same with metadata and buffers.
    pub fn frames_with(
        &self,
        header: &str,
        content: &Value,
        metadata: &Value,
        buffers: &[Bytes],
    ) -> Vec<Bytes> {
        let message = RawMessage {
            metadata: Bytes::from(metadata.to_string()),
            buffers: buffers.to_vec(),
            ..RawMessage::new(
                Channel::Shell,
                Bytes::copy_from_slice(header.as_bytes()),
                Bytes::from(content.to_string()),
            )
        };
        Multipart {
            identities: Vec::new(),
            message,
        }
        .encode(&self.signer)
    }

    /// Sends a request to the shell; its header.
    pub fn request(&mut self, kind: &str, content: &Value) -> String {
        let header = self.header(kind);
        let frames = self.frames(&header, content);
        self.shell.send(&frames);
        header
    }

    /// The same to the control channel.
    pub fn order(&mut self, kind: &str, content: &Value) -> String {
        let header = self.header(kind);
        let frames = self.frames(&header, content);
        self.control.send(&frames);
        header
    }

    pub fn execute(&mut self, code: &str) -> String {
        self.request("execute_request", &json!({ "code": code }))
    }

    /// Takes a message apart, whose signature must be right.
    pub fn read(&self, frames: Vec<Bytes>) -> Message {
        let limits = MultipartLimits {
            content: 100 << 20,
            ..MultipartLimits::from_front_end()
        };
        let (multipart, _) =
            Multipart::decode(Channel::Shell, frames, &self.signer, &limits).unwrap();
        let message = multipart.message;
        Message {
            header: serde_json::from_slice(&message.header).unwrap(),
            parent: String::from_utf8(message.parent_header.to_vec()).unwrap(),
            metadata: serde_json::from_slice(&message.metadata).unwrap(),
            content: serde_json::from_slice(&message.content).unwrap(),
            buffers: message.buffers,
            identities: multipart.identities,
        }
    }

    /// The next reply of the shell.
    pub fn reply(&mut self) -> Message {
        let frames = self.shell.frames();
        self.read(frames)
    }

    /// The next reply of the control channel.
    pub fn answer(&mut self) -> Message {
        let frames = self.control.frames();
        self.read(frames)
    }

    /// The next message that is published.
    pub fn published(&mut self) -> Message {
        if let Some(message) = self.waiting.pop_front() {
            return message;
        }
        let frames = self.iopub.frames();
        self.read(frames)
    }

    /// Until a cell runs.
    pub fn all_started(&mut self, header: &str) {
        loop {
            let message = self.published();
            if message.parent == header && message.kind() == "execute_input" {
                return;
            }
        }
    }

    /// Everything that is published because of a request, up to `idle`; the rest is skipped.
    pub fn all_of(&mut self, header: &str) -> Vec<Message> {
        let mut all = Vec::new();
        loop {
            let message = self.published();
            if message.parent != header {
                continue;
            }
            let is_last = message.content["execution_state"] == "idle";
            all.push(message);
            if is_last {
                return all;
            }
        }
    }

    /// The reply to a request; others are skipped.
    pub fn reply_to(&mut self, header: &str) -> Message {
        loop {
            let reply = self.reply();
            if reply.parent == header {
                return reply;
            }
        }
    }

    /// Waits until a cell has printed something.
    pub fn begun(&mut self, header: &str) {
        loop {
            let message = self.published();
            if message.parent == header && message.kind() == "stream" {
                return;
            }
        }
    }

    /// The process of the Python.
    pub fn python(&mut self) -> u32 {
        let (text, _) = self.run("import os; print(os.getpid())");
        text.trim().parse().unwrap()
    }

    /// Runs a cell: what it has printed, and the status of its reply.
    pub fn run(&mut self, code: &str) -> (String, String) {
        let header = self.execute(code);
        let reply = self.reply_to(&header);
        let text = self.all_of(&header).iter().map(Message::text).collect();
        (text, reply.content["status"].as_str().unwrap().to_owned())
    }
}
