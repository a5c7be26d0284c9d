//! What the tests of Jupyter's paths share: a manager with a door, plain requests, and a client of
//! WebSockets that knows nothing but the bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use warmcell::config::Settings;
use warmcell::folders::door_folders;
use warmcell::server::{Door, Manager};
use warmcell::session::{Registry, Session};

use crate::support::{Place, SAFETY, python};

pub const V1: &str = "v1.kernel.websocket.jupyter.org";

/// A manager with a door.
pub struct House {
    pub place: Place,
    pub manager: Arc<Manager>,
    door: Door,
}

impl House {
    pub async fn open() -> Self {
        Self::open_with(|_| {}).await
    }

    /// With settings that are changed a little.
    pub async fn open_with(change: impl FnOnce(&mut Settings)) -> Self {
        let place = Place::new();
        let mut settings = Settings {
            kernel_environment: environment(&place).into_iter().collect(),
            ..place.settings()
        };
        change(&mut settings);
        let folders = door_folders(settings.runtime_dir.as_deref(), &settings.home);
        let home = settings.home.clone();
        let registry = Arc::new(Registry::start(settings).await.unwrap());
        let manager = Manager::new(registry, "program", "a test", home);
        let door = Door::open(&manager, &folders).unwrap();
        Self {
            place,
            manager,
            door,
        }
    }

    pub fn session(&self, name: &str) -> Session {
        let caller = self.place.caller(python());
        self.manager.registry().session(name, &caller).unwrap()
    }

    pub async fn stream(&self) -> UnixStream {
        UnixStream::connect(self.door.path()).await.unwrap()
    }

    /// Asks; the status, and the body as JSON.
    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        ask(self.stream().await, method, path, "", body).await
    }

    /// A client of a session.
    pub async fn client(&self, session: &Session, form: Form) -> Client<UnixStream> {
        let path = format!("/api/kernels/{}/channels?session_id=x", session.id());
        Client::open(self.stream().await, &path, form)
            .await
            .unwrap()
    }

    /// Ends everything, and checks that nothing is left.
    pub async fn close(self) {
        self.manager.registry().shut_down().await;
        tokio::time::timeout(SAFETY, self.manager.quiet())
            .await
            .expect("a request does not end");
        drop(self.door);
        self.place.assert_no_survivors().await;
        let run = self.place.folder.path().join("run/warmcell");
        let left: Vec<_> = std::fs::read_dir(run).into_iter().flatten().collect();
        assert!(left.is_empty(), "left in the runtime folder: {left:?}");
    }
}

/// An environment in which `python3` is the Python of the tests.
pub fn environment(place: &Place) -> BTreeMap<String, String> {
    let mut environment = place.environment();
    let folder = python().parent().unwrap().display().to_string();
    let path = environment.get_mut("PATH").unwrap();
    *path = format!("{folder}:{path}");
    environment
}

/// One request on a connection of its own.
pub async fn ask(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> (u16, Value) {
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(SAFETY, stream.read_to_end(&mut answer))
        .await
        .expect("no answer")
        .unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    V1,
    Text,
}

/// A message, taken apart.
#[derive(Debug, Clone)]
pub struct Received {
    pub channel: String,
    pub header: Value,
    /// Byte for byte.
    pub parent: String,
    pub content: Value,
}

impl Received {
    pub fn kind(&self) -> &str {
        self.header["msg_type"].as_str().unwrap()
    }
}

/// What a client sees next.
pub type Seen = Result<Received, Option<CloseFrame>>;

pub struct Client<S> {
    pub socket: WebSocketStream<S>,
    form: Form,
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Client<S> {
    pub async fn open(stream: S, path: &str, form: Form) -> Result<Self, Error> {
        let mut request = format!("ws://x{path}").into_client_request().unwrap();
        if form == Form::V1 {
            let headers = request.headers_mut();
            headers.insert("sec-websocket-protocol", V1.parse().unwrap());
        }
        // As browsers have it: no limit.
        let limits = WebSocketConfig::default()
            .max_frame_size(None)
            .max_message_size(None);
        let (socket, answer) = client_async_with_config(request, stream, Some(limits)).await?;
        let protocol = answer.headers().get("sec-websocket-protocol");
        assert_eq!(protocol.is_some(), form == Form::V1);
        Ok(Self { socket, form })
    }

    /// Sends a request; its header, byte for byte.
    pub async fn send(&mut self, channel: &str, msg_type: &str, content: &Value) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let id = COUNT.fetch_add(1, Ordering::Relaxed);
        // No writer of ours would put it so.
        let header = format!(
            r#"{{ "msg_type":"{msg_type}","msg_id":"é{id}", "odd":[1.50,"\u00e9"],"version":"5.3"}}"#
        );
        let content = content.to_string();
        let message = match self.form {
            Form::V1 => {
                let parts = [channel, &header, "{}", "{}", &content];
                Message::binary(frame(&parts))
            }
            Form::Text => Message::text(format!(
                r#"{{"channel":"{channel}","header":{header},"parent_header":{{}},"metadata":{{}},"content":{content}}}"#
            )),
        };
        self.socket.send(message).await.unwrap();
        header
    }

    pub async fn execute(&mut self, code: &str) -> String {
        let content = json!({ "code": code, "silent": false });
        self.send("shell", "execute_request", &content).await
    }

    /// The next message; the reason if there is none any more.
    pub async fn next(&mut self) -> Seen {
        let message = tokio::time::timeout(SAFETY, self.socket.next())
            .await
            .expect("nothing comes");
        match message {
            Some(Ok(Message::Binary(bytes))) => Ok(taken_apart(&bytes)),
            Some(Ok(Message::Text(text))) => {
                assert_eq!(self.form, Form::Text);
                let mut message: Value = serde_json::from_str(&text).unwrap();
                let raw: BTreeMap<&str, Box<serde_json::value::RawValue>> =
                    serde_json::from_str(&text).unwrap();
                assert_eq!(message["msg_id"], message["header"]["msg_id"]);
                Ok(Received {
                    channel: message["channel"].as_str().unwrap().to_owned(),
                    header: message["header"].take(),
                    parent: raw["parent_header"].get().to_owned(),
                    content: message["content"].take(),
                })
            }
            Some(Ok(Message::Close(frame))) => Err(frame),
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(_)) | None => Err(None),
        }
    }

    /// All messages with this parent up to the last: `idle`, and for requests a reply.
    pub async fn all_of(&mut self, header: &str) -> Vec<Received> {
        let mut found = Vec::new();
        loop {
            let message = self.next().await.unwrap();
            if message.parent != header {
                continue;
            }
            let is_last = message.content["execution_state"] == "idle";
            found.push(message);
            if is_last {
                return found;
            }
        }
    }

    /// Reads up to the end of a cell, and looks at nothing else.
    pub async fn ends(&mut self, header: &str) {
        loop {
            let next = tokio::time::timeout(SAFETY, self.socket.next()).await;
            let message = next.expect("nothing comes").unwrap().unwrap().into_data();
            let text = String::from_utf8_lossy(message.get(..2_000).unwrap_or(&message));
            if text.contains(header) && text.ends_with(r#"{"execution_state":"idle"}"#) {
                return;
            }
        }
    }

    /// States that no request has caused, up to `idle`.
    pub async fn states(&mut self) -> Vec<String> {
        let mut states = Vec::new();
        while states.last().is_none_or(|state| state != "idle") {
            let message = self.next().await.unwrap();
            if message.parent == "{}" {
                states.extend(in_short(&[message]));
            }
        }
        states
    }

    /// Waits until a cell has printed this.
    pub async fn printed(&mut self, text: &str) {
        let mut printed = String::new();
        while !printed.ends_with(text) {
            let message = self.next().await.unwrap();
            printed.push_str(message.content["text"].as_str().unwrap_or_default());
        }
    }

    /// All messages of the cell that begins with this one.
    pub async fn all_of_after(&mut self, begin: &Received) -> Vec<Received> {
        self.all_of(&begin.parent.clone()).await
    }

    /// Runs a cell to its end; what was published and answered, shortened.
    pub async fn run(&mut self, code: &str) -> Vec<String> {
        let header = self.execute(code).await;
        in_short(&self.all_of(&header).await)
    }
}

/// The body of a frame, made by hand.
pub fn frame(parts: &[&str]) -> Vec<u8> {
    let count = parts.len() as u64 + 1;
    let mut offset = 8 * (count + 1);
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.extend(offset.to_le_bytes());
    for part in parts {
        offset += part.len() as u64;
        bytes.extend(offset.to_le_bytes());
    }
    bytes.extend(parts.concat().bytes());
    bytes
}

fn taken_apart(bytes: &[u8]) -> Received {
    let word = |at: usize| {
        let word = bytes[8 * at..8 * (at + 1)].try_into().unwrap();
        usize::try_from(u64::from_le_bytes(word)).unwrap()
    };
    assert_eq!(word(0), 6);
    let part = |at: usize| String::from_utf8(bytes[word(at)..word(at + 1)].to_vec()).unwrap();
    assert_eq!(word(6), bytes.len());
    Received {
        channel: part(1),
        header: serde_json::from_str(&part(2)).unwrap(),
        parent: part(3),
        content: serde_json::from_str(&part(5)).unwrap(),
    }
}

/// Messages in a word each; what follows one another on one stream is one.
pub fn in_short(messages: &[Received]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for message in messages {
        let content = &message.content;
        let text = |key: &str| content[key].as_str().unwrap_or_default().to_owned();
        let word = match message.kind() {
            "status" => text("execution_state"),
            "stream" => {
                let start = format!("{}: ", text("name"));
                match words.last_mut() {
                    Some(last) if last.starts_with(&start) => {
                        last.push_str(&text("text"));
                        continue;
                    }
                    _ => start + &text("text"),
                }
            }
            "execute_input" => format!("[{}] {}", content["execution_count"], text("code")),
            "execute_result" => format!(
                "[{}]: {}",
                content["execution_count"],
                content["data"]["text/plain"].as_str().unwrap()
            ),
            "error" => format!("{}: {}", text("ename"), text("evalue")),
            kind => format!("{kind} {}", text("status")),
        };
        words.push(word);
    }
    words
}
