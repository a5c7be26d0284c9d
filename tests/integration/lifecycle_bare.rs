//! A kernel without a session, for what only the kernel itself can be asked.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use warmcell::environment::{Candidate, Source};
use warmcell::jupyter::{ExecuteReply, RawMessage};
use warmcell::kernel::{CellEnd, CellRequest, CellSink, Ending, FrameBudget, Kernel, LateSink};
use warmcell::provisioner::{KernelRequest, LocalOptions, LocalProvisioner, Provisioner};
use warmcell::python_source::Sources;
use warmcell::tools::{ToolTable, hermes_tools};

use crate::lifecycle_support::is_alive;
use crate::support::{Place, SAFETY};

pub const GRACE: Duration = Duration::from_secs(3);

/// Keeps what a cell prints.
#[derive(Debug, Default)]
pub struct Kept {
    pub text: String,
}

/// Nobody hears what is printed between cells.
#[derive(Debug)]
struct Unheard;

impl LateSink for Unheard {
    fn printed(&self, _is_stderr: bool, _chunk: &[u8]) {}
}

impl CellSink for Kept {
    fn stdout(&mut self, chunk: &[u8]) {
        self.text.push_str(&String::from_utf8_lossy(chunk));
    }
    fn stderr(&mut self, chunk: &[u8]) {
        self.stdout(chunk);
    }
    fn message(&mut self, _msg_type: &str, _message: RawMessage) {}
}

/// A kernel without a session.
pub struct Bare {
    pub place: Place,
    pub provisioner: LocalProvisioner,
    pub kernel: Kernel,
    pub cells: u64,
}

impl Bare {
    pub async fn start(python: &Path) -> Self {
        let place = Place::new();
        let shim = hermes_tools(&ToolTable::standard());
        let sources = Sources::unpack(vec![place.home().join("cache")], &shim).unwrap();
        let provisioner = LocalProvisioner::new(LocalOptions {
            bridge: None,
            foreign_start: SAFETY,
            sources: Arc::new(sources),
            sockets: place.folder.path().join("run/sockets"),
            scratch: Vec::new(),
            adopt_orphans: false,
            nofile: [1_024, 4_096],
        });
        let request = KernelRequest {
            foreign: None,
            candidates: vec![Candidate {
                path: python.to_owned(),
                source: Source::Named,
            }],
            environment: Arc::new(place.environment().into_iter().collect()),
            own_variables: Arc::default(),
            cwd: place.work(),
            umask: 0o022,
            limits: None,
            argv: vec![String::new()],
        };
        let started = provisioner.start(&request).await.unwrap();
        let kernel = Kernel::new(started, FrameBudget::new(1 << 28), Arc::new(Unheard)).unwrap();
        Self {
            place,
            provisioner,
            kernel,
            cells: 0,
        }
    }

    /// Runs a cell and interrupts it after a while.
    pub async fn interrupted(&mut self, code: &str, delay: Duration) -> Ended {
        self.cells += 1;
        let (kernel, cell) = (self.kernel.clone(), self.cells);
        let interrupting = async {
            tokio::time::sleep(delay).await;
            kernel.interrupt(cell, GRACE).await;
            Instant::now()
        };
        let (ended, at) = tokio::join!(self.execute(code), interrupting);
        Ended {
            after: at.elapsed(),
            ..ended
        }
    }

    pub async fn run(&mut self, code: &str) -> Ended {
        self.cells += 1;
        self.execute(code).await
    }

    async fn execute(&self, code: &str) -> Ended {
        let sink = Arc::new(Mutex::new(Kept::default()));
        let request = CellRequest {
            code,
            cell: self.cells,
            cwd: None,
            msg_id: &format!("m{}", self.cells),
            session: "s",
            date: "2026-01-01T00:00:00Z",
            sink: Arc::clone(&sink) as _,
            silent: false,
            store_history: true,
            user_expressions: None,
            origin: None,
            input: None,
        };
        let executing = tokio::time::timeout(SAFETY, self.kernel.execute(request));
        let CellEnd { ending, .. } = executing.await.expect("no end").unwrap();
        let Ending::Replied(reply) = ending else {
            panic!("the kernel was not kept: {ending:?} in {code}")
        };
        let text = sink.lock().unwrap().text.clone();
        Ended {
            reply,
            text,
            after: Duration::ZERO,
        }
    }

    pub async fn end(self) {
        let pid = self.kernel.pid();
        self.kernel.shut_down(Duration::from_secs(1), None).await;
        assert!(!is_alive(pid));
        self.provisioner.shut_down().await;
        self.place.assert_no_survivors().await;
    }
}

pub struct Ended {
    pub reply: Box<ExecuteReply>,
    pub text: String,
    pub after: Duration,
}

impl Ended {
    pub fn is_interrupted(&self) -> bool {
        let class = self
            .reply
            .warmcell
            .as_ref()
            .and_then(|own| own.error.as_ref());
        class.is_some_and(|error| error.class == "interrupted")
            && self.reply.ename == "KeyboardInterrupt"
    }
}
