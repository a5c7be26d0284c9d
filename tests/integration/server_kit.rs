//! What the tests of the background server share.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::lifecycle_support::{signal, until};
use crate::support::{Place, finish, python, text};

/// A home with a background server of its own, which ends with the test.
pub struct Home {
    pub place: Place,
}

impl Home {
    pub fn new() -> Self {
        Self {
            place: Place::new(),
        }
    }

    /// `warmcell ARGUMENTS`, with the default Python first on the PATH.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.warmcell(arguments);
        let path = format!(
            "{}:{}",
            python().parent().unwrap().display(),
            self.place.environment().get("PATH").unwrap()
        );
        command.env("PATH", path);
        command
    }

    /// `warmcell ARGUMENTS`, run to its end: code, stdout, stderr.
    pub fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        parts(&finish(&mut self.command(arguments)))
    }

    /// The result of `warmcell exec -s SESSION --json CODE`.
    pub fn json(&self, session: &str, code: &str) -> Value {
        let (_, out, err) = self.run(&["exec", "-s", session, "--json", code]);
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("no result: {out:?} {err:?}"))
    }

    /// A command that goes on.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Whether the server's door is there.
    pub fn has_door(&self) -> bool {
        let run = self.place.folder.path().join("run");
        warmcell::folders::door_folders(Some(&run), &self.place.home())
            .iter()
            .any(|folder| folder.join("server.sock").exists())
    }

    /// The folder of the doors.
    pub fn doors(&self) -> PathBuf {
        let run = self.place.folder.path().join("run");
        warmcell::folders::door_folders(Some(&run), &self.place.home())
            .into_iter()
            .find(|folder| folder.exists())
            .expect("no folder of doors")
    }

    pub fn socket(&self) -> PathBuf {
        self.doors().join("server.sock")
    }

    /// The number of the server's process.
    pub fn server(&self) -> u32 {
        warmcell::folders::ServerLock::holder(&self.doors()).expect("no server")
    }

    /// Waits until a session does this.
    pub async fn state(&self, session: &str, state: &str) {
        until(state, || {
            let (_, out, _) = self.run(&["sessions", "--json"]);
            let all: Value = serde_json::from_str(&out).unwrap_or_default();
            all.as_array().is_some_and(|all| {
                all.iter()
                    .any(|it| it["name"] == session && it["state"] == state)
            })
        })
        .await;
    }

    /// Asks the server by bare HTTP; the whole answer.
    pub fn http(&self, request: &str) -> String {
        http(&self.socket(), request.as_bytes())
    }

    /// Asks the server for something, with a body in JSON: the head of the answer, and its body.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.say(method, path, "", &body.to_string())
    }

    /// As [`Home::ask`], with headers and any body.
    pub fn say(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        Answer::read(&self.http(&format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        )))
    }

    /// Hands a cell to a session.
    pub fn order(&self, session: &str, order: &Value) -> Answer {
        self.ask(
            "POST",
            &format!("/warmcell/v1/sessions/{session}/cells"),
            order,
        )
    }

    /// A caller of cells, in the working directory of this place.
    pub fn caller(&self) -> Value {
        let mut environment = self.place.environment();
        let path = environment.get_mut("PATH").unwrap();
        *path = format!("{}:{path}", python().parent().unwrap().display());
        serde_json::json!({ "environment": environment, "cwd": self.place.work() })
    }

    /// Ends the server by a signal, and waits until its process is gone. One that ends has no environment any
    /// more, by which it would be found, and its first thread may be gone, while its socket is still there.
    pub async fn ended_by(&self, kind: rustix::process::Signal) {
        let server = self.server();
        let process = warmcell::process::Pidfd::open(server).unwrap();
        signal(server, kind);
        let ended = tokio::time::timeout(crate::support::SAFETY, process.ended());
        ended.await.expect("the server does not end");
    }

    /// Ends the server; nothing is left.
    pub async fn end(self) {
        let (code, _, err) = self.run(&["serve", "--stop"]);
        assert_eq!(code, 0, "{err}");
        self.assert_nothing_left().await;
    }

    /// Nothing is left: no process, no socket, no folder of doors.
    pub async fn assert_nothing_left(&self) {
        crate::command_kit::assert_nothing_left(&self.place).await;
    }
}

/// What a server has answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn read(text: &str) -> Self {
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer: {text:?}"));
        let head = head.to_ascii_lowercase();
        let body = if head.contains("transfer-encoding: chunked") {
            whole(body)
        } else {
            body.to_owned()
        };
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        Self {
            status: status.unwrap_or_else(|| panic!("no status: {head:?}")),
            head,
            body,
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The lines of a stream.
    pub fn lines(&self) -> Vec<Value> {
        let lines = self.body.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }

    /// A refusal: its status, and its sentence with the class `usage`.
    pub fn usage(&self) -> (u16, String) {
        assert!(
            self.head.contains("content-type: application/json"),
            "{self:?}"
        );
        let refused = self.json();
        assert_eq!(refused["error_class"], "usage", "{self:?}");
        (self.status, refused["error"].as_str().unwrap().to_owned())
    }
}

/// A body without its chunks.
fn whole(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, more)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body.push_str(more.get(..length).unwrap());
        rest = more.get(length + 2..).unwrap_or_default();
    }
    body
}

impl Drop for Home {
    fn drop(&mut self) {
        // A test that failed leaves no server behind.
        for (pid, _) in self.place.survivors() {
            signal(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Code, stdout, stderr.
pub fn parts(output: &Output) -> (i32, String, String) {
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// The end of a command that goes on.
pub fn ended(child: Child) -> (i32, String, String) {
    parts(&child.wait_with_output().unwrap())
}

/// Sends bytes to a socket, and reads until the other side closes.
pub fn http(socket: &Path, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    // It may close early.
    stream.write_all(request).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    text(&answer)
}
