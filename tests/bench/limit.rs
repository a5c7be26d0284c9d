//! Drives a limit program over a socket that it inherits as descriptor 0.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::python;
use crate::support::Place;

/// A limit program that runs. Dropping it ends it.
pub struct Limit {
    child: Child,
    stream: UnixStream,
    stdout: ChildStdout,
}

/// Where the limit programs are.
pub fn program(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/bench/programs")
        .join(name)
}

impl Limit {
    pub fn start(place: &Place, name: &str, arguments: &[&str]) -> Self {
        let (stream, theirs) = UnixStream::pair().unwrap();
        let mut child = place
            .command(python().to_str().unwrap())
            .arg(program(name))
            .args(arguments)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        Self {
            child,
            stream,
            stdout,
        }
    }

    pub fn ask(&mut self, request: &Value) -> Value {
        self.send(request);
        self.receive()
    }

    pub fn send(&mut self, message: &Value) {
        self.stream.write_all(&frame(message)).unwrap();
    }

    pub fn receive(&mut self) -> Value {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).unwrap();
        let mut body = vec![0; usize::try_from(u32::from_le_bytes(size)).unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// Our ends, for a task of the runtime that is entered.
    pub fn ends(&self) -> Ends {
        let stream = self.stream.try_clone().unwrap();
        stream.set_nonblocking(true).unwrap();
        let stdout = self.stdout.as_fd().try_clone_to_owned().unwrap();
        Ends {
            stream: tokio::net::UnixStream::from_std(stream).unwrap(),
            stdout: pipe::Receiver::from_owned_fd(stdout).unwrap(),
        }
    }
}

/// The ends of a limit program, as a task uses them.
pub struct Ends {
    stream: tokio::net::UnixStream,
    stdout: pipe::Receiver,
}

impl Ends {
    pub async fn ask(&mut self, request: &Value) -> Value {
        self.stream.write_all(&frame(request)).await.unwrap();
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).await.unwrap();
        let mut body = vec![0; usize::try_from(u32::from_le_bytes(size)).unwrap()];
        self.stream.read_exact(&mut body).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// What it has printed, if it has.
    pub async fn read_stdout(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 4096];
        let count = self.stdout.read(&mut buffer).await.unwrap();
        buffer.truncate(count);
        buffer
    }
}

fn frame(message: &Value) -> Vec<u8> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).unwrap();
    let size = u32::try_from(frame.len() - 4).unwrap().to_le_bytes();
    frame[..4].copy_from_slice(&size);
    frame
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.stream.shutdown(Shutdown::Both).ok();
        self.child.wait().ok();
    }
}
