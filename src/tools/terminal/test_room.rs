//! A cell for tests of the tool, with jobs that the test drives over a real pipe.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Terminal;
use crate::provisioner::{Job, JobExit, JobRunner, JobSpec, ProvisionError};
use crate::tools::{Arguments, Tool, ToolContext, ToolResult};

/// What happened to a job.
#[derive(Debug, Default)]
pub(super) struct Fate {
    released: AtomicBool,
    ended: AtomicBool,
    dropped: AtomicBool,
}

impl Fate {
    pub(super) fn is(&self, released: bool, ended: bool) -> bool {
        self.dropped.load(Ordering::SeqCst)
            && self.released.load(Ordering::SeqCst) == released
            && self.ended.load(Ordering::SeqCst) == ended
    }
}

/// The test's side of a job.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) spec: JobSpec,
    pub(super) writer: OwnedFd,
    pub(super) exit: watch::Sender<Option<JobExit>>,
    pub(super) fate: Arc<Fate>,
}

impl Started {
    pub(super) fn print(&self, bytes: &[u8]) {
        File::from(self.writer.try_clone().unwrap())
            .write_all(bytes)
            .unwrap();
    }

    pub(super) fn exit(&self, exit: JobExit) {
        self.exit.send(Some(exit)).unwrap();
    }
}

#[derive(Debug)]
pub(super) struct FakeJob {
    output: Option<OwnedFd>,
    exit: watch::Receiver<Option<JobExit>>,
    fate: Arc<Fate>,
}

#[async_trait]
impl Job for FakeJob {
    fn take_output(&mut self) -> Option<OwnedFd> {
        self.output.take()
    }

    async fn exited(&mut self) -> JobExit {
        let exit = self.exit.wait_for(Option::is_some).await.unwrap();
        exit.unwrap()
    }

    fn release(&mut self) {
        self.fate.released.store(true, Ordering::SeqCst);
    }

    async fn end(&mut self) {
        self.fate.ended.store(true, Ordering::SeqCst);
    }
}

impl Drop for FakeJob {
    fn drop(&mut self) {
        self.fate.dropped.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(super) struct FakeRunner {
    started: mpsc::UnboundedSender<Started>,
    broken: bool,
}

#[async_trait]
impl JobRunner for FakeRunner {
    async fn start_job(&self, spec: JobSpec) -> Result<Box<dyn Job>, ProvisionError> {
        if self.broken {
            return Err(ProvisionError::ForkserverGone {
                reason: "signal 9".to_owned(),
            });
        }
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (exit, exited) = watch::channel(None);
        let fate = Arc::new(Fate::default());
        self.started
            .send(Started {
                spec,
                writer,
                exit,
                fate: Arc::clone(&fate),
            })
            .unwrap();
        Ok(Box::new(FakeJob {
            output: Some(reader),
            exit: exited,
            fate,
        }))
    }
}

/// A cell with its tool.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) context: ToolContext,
    pub(super) started: mpsc::UnboundedReceiver<Started>,
    pub(super) folder: tempfile::TempDir,
}

impl Room {
    pub(super) fn new() -> Self {
        Self::with(false)
    }

    pub(super) fn with(broken: bool) -> Self {
        let (sender, started) = mpsc::unbounded_channel();
        let folder = tempfile::tempdir().unwrap();
        let context = ToolContext {
            cwd: Some(folder.path().to_owned()),
            agent_home: folder.path().join("agent"),
            user_home: Some(folder.path().join("home")),
            deadline: None,
            cancelled: CancellationToken::new(),
            jobs: Arc::new(FakeRunner {
                started: sender,
                broken,
            }),
            environment: Arc::new(vec![
                ("PWD".to_owned(), "/elsewhere".to_owned()),
                ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ]),
            terminal_timeout: Duration::from_secs(180),
        };
        Self {
            context,
            started,
            folder,
        }
    }

    pub(super) fn call(&self, arguments: &Value) -> JoinHandle<ToolResult> {
        let arguments = Arguments::new("terminal", arguments.as_object().unwrap().clone());
        let context = self.context.clone();
        tokio::spawn(async move { Terminal.call(arguments, &context).await })
    }

    pub(super) async fn start(&mut self, arguments: &Value) -> (JoinHandle<ToolResult>, Started) {
        let call = self.call(arguments);
        (call, self.started.recv().await.unwrap())
    }

    /// A call that must not start anything.
    pub(super) async fn fails(&mut self, arguments: &Value, class: &str) -> String {
        let result = self.call(arguments).await.unwrap();
        assert!(self.started.try_recv().is_err(), "{arguments} was run");
        let keys: Vec<&String> = result.keys().collect();
        assert_eq!(
            keys,
            ["output", "exit_code", "truncated", "error", "error_class"]
        );
        assert_eq!(result["error_class"], class, "{result:?}");
        result["error"].as_str().unwrap().to_owned()
    }
}
