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
