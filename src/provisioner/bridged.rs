//! Kernels that are not ours: the forkserver forks a bridge in the place of the kernel, and the
//! bridge starts the kernel and translates.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::forked_job::ForkedJobs;
use super::forkserver_start::tail_of;
use super::local::{Ends, LocalProvisioner, ends};
use super::messages::{AnyPath, ForkOrder};
use super::{KernelExit, KernelProcess, KernelRequest, ProvisionError, ProvisionedKernel};
use crate::config::ForeignKernel;
use crate::ids::random_hex;
use crate::jupyter::{FrameReader, Limits, RawMessage};
use crate::output::Tail;
use crate::process::{PipeReader, ProcessError, ReadOutcome, StreamEnd, hand_over, memory_file};

/// What the bridge has beyond its kernel's time to say that it did not answer.
const BRIDGE_GRACE: Duration = Duration::from_secs(5);
/// Kept of what a kernel prints while it starts.
const PRINTED_BYTES: usize = 4_096;
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// What a bridge is told before anything else: JSON in a file that it is handed over its link,
/// behind the interrupt page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BridgeSetup {
    /// The version of whoever starts it; it must be the bridge's own.
    pub version: String,
    /// The kernel.
    pub kernel: ForeignKernel,
    /// Where it runs.
    pub cwd: PathBuf,
    /// The beginning of the names of its sockets and its connection file, in a private folder.
    pub prefix: PathBuf,
    /// The file of the tools for Python.
    pub tools: PathBuf,
    /// How long the kernel may take to answer, in milliseconds.
    pub patience_ms: u64,
}

impl BridgeSetup {
    /// The type of the message that says that the kernel is there. Its content is empty.
    pub const READY: &str = "warmcell_ready";
    /// The type of the message that says that it did not start; see [`BridgeFailure`].
    pub const FAILED: &str = "warmcell_failed";
}

/// Why there is no kernel behind a bridge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BridgeFailure {
    /// As it goes on after the name of the kernel.
    pub reason: String,
}

/// Files that a start leaves behind, whoever has made them.
struct Leftovers(PathBuf);

impl Drop for Leftovers {
    fn drop(&mut self) {
        let suffixes = ["-1", "-2", "-3", "-4", "-5", ".json"];
        for suffix in suffixes {
            drop(fs::remove_file(suffixed(&self.0, suffix)));
        }
    }
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

impl LocalProvisioner {
    /// Starts a bridge and waits until its kernel answers.
    pub(super) async fn start_foreign(
        &self,
        request: &KernelRequest,
        foreign: &ForeignKernel,
    ) -> Result<ProvisionedKernel, ProvisionError> {
        let options = &self.options;
        let bridge = options.bridge.clone().ok_or(ProvisionError::NoBridge {
            kernel: foreign.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
        })?;
        let served = self.server(request).await?;
        let mut ends = ends()?;
        let page = ends.theirs.pop();
        let prefix = options.sockets.join(format!("k-{}", random_hex(4)));
        let setup = BridgeSetup {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: foreign.clone(),
            cwd: request.cwd.clone(),
            prefix: prefix.clone(),
            tools: options.sources.folder().join("tools/hermes_tools.py"),
            patience_ms: u64::try_from(options.foreign_start.as_millis()).unwrap_or(u64::MAX),
        };
        let setup = serde_json::to_vec(&setup).map_err(|error| ProvisionError::Foreign {
            kernel: foreign.name.clone(),
            reason: format!("cannot be started: a path is not UTF-8 ({error})"),
        })?;
        let setup = memory_file(&setup)?;
        let order = ForkOrder {
            op: "exec",
            program: Some(AnyPath(bridge)),
            argv: vec!["warmcell".to_owned(), "bridge".to_owned()],
            ..self.order(request)
        };
        let _leftovers = Leftovers(prefix);
        let forked = served.server.fork(order, std::mem::take(&mut ends.theirs));
        // Dropped, it and its kernel are ended.
        let forked = Arc::new(forked.await?);
        if let Some(page) = page {
            let handed = hand_over(&ends.link, &[page.as_fd(), setup.as_fd()]);
            handed.map_err(|source| ProcessError::Descriptor {
                what: "a link",
                source,
            })?;
        }
        let started = Start {
            ends: &ends,
            printed: Tail::new(PRINTED_BYTES),
        };
        let patience = options.foreign_start + BRIDGE_GRACE;
        let failed = |reason: String| ProvisionError::Foreign {
            kernel: foreign.name.clone(),
            reason,
        };
        match timeout(patience, started.wait(&*forked)).await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => return Err(failed(reason)),
            Err(_elapsed) => {
                let seconds = patience.as_secs();
                return Err(failed(format!(
                    "has no bridge that answers within {seconds} s"
                )));
            }
        }
        let jobs = Arc::new(ForkedJobs::new(
            &forked,
            request.umask,
            self.limits_of(request),
        ));
        Ok(ProvisionedKernel {
            link: ends.link,
            stdout: ends.stdout,
            stderr: ends.stderr,
            page: ends.page,
            interpreter: served.server.interpreter().clone(),
            choice: served.choice,
            process: forked,
            jobs,
        })
    }
}

/// A bridge that starts its kernel.
struct Start<'a> {
    ends: &'a Ends,
    printed: Tail,
}

impl Start<'_> {
    /// Waits for the first message; why there is no kernel, if there is none. What the kernel prints
    /// meanwhile belongs to no cell.
    async fn wait(mut self, process: &dyn KernelProcess) -> Result<(), String> {
        let ends = self.ends;
        let broken = |error: std::io::Error| format!("has a link that cannot be read ({error})");
        let stream = StreamEnd::new(ends.link.try_clone().map_err(broken)?).map_err(broken)?;
        let mut reader = FrameReader::new(Limits::from_kernel());
        let mut buffer = vec![0; READ_BYTES];
        let mut open = [true; 2];
        loop {
            tokio::select! {
                () = stream.readable() => {
                    match stream.try_read(&mut buffer) {
                        Ok(0) => return Err(self.gone(process, &mut buffer).await),
                        Ok(count) => reader.feed(buffer.get(..count).unwrap_or_default()),
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(broken(error)),
                    }
                    let message = reader.next_message();
                    match message {
                        Ok(Some(message)) => {
                            self.print(&mut buffer, &mut open);
                            return self.told(&message);
                        }
                        Ok(None) => {}
                        Err(error) => return Err(format!("has a bridge that broke the protocol: {error}")),
                    }
                }
                () = ends.stdout.readable(), if open[0] => self.print(&mut buffer, &mut open),
                () = ends.stderr.readable(), if open[1] => self.print(&mut buffer, &mut open),
            }
        }
    }

    /// Takes what is in the pipes now; the last of what was printed as an error is kept.
    fn print(&mut self, buffer: &mut [u8], open: &mut [bool; 2]) {
        let pipes: [&PipeReader; 2] = [&self.ends.stdout, &self.ends.stderr];
        for (which, (pipe, open)) in pipes.into_iter().zip(open).enumerate() {
            // No more than is there: who prints without end is not to hold this up.
            match pipe.read(buffer) {
                ReadOutcome::Bytes(count) if which == 1 => {
                    self.printed.push(buffer.get(..count).unwrap_or_default());
                }
                ReadOutcome::Bytes(_) | ReadOutcome::Empty => {}
                ReadOutcome::End => *open = false,
            }
        }
    }

    fn told(mut self, message: &RawMessage) -> Result<(), String> {
        let header = message.parsed_header().map_err(|error| error.to_string())?;
        if header.msg_type == BridgeSetup::READY {
            if let Some((text, _)) = self.printed.take() {
                tracing::debug!(%text, "a kernel printed while it started");
            }
            return Ok(());
        }
        let failure: Result<BridgeFailure, _> = serde_json::from_slice(&message.content);
        let reason = failure.map_or_else(|error| error.to_string(), |failure| failure.reason);
        Err(self.with_last_words(reason))
    }

    /// The link has ended before the bridge has said anything.
    async fn gone(mut self, process: &dyn KernelProcess, buffer: &mut [u8]) -> String {
        self.print(buffer, &mut [true; 2]);
        let how = match process.exit().await {
            KernelExit::Code(code) => format!("exited with code {code}"),
            KernelExit::Signal(signal) => format!("was killed by signal {signal}"),
            KernelExit::ForkserverGone { reason } => format!("ended: its forkserver {reason}"),
            KernelExit::Unknown => "is gone".to_owned(),
        };
        self.with_last_words(format!("did not start: its bridge {how}"))
    }

    fn with_last_words(&mut self, reason: String) -> String {
        let words = self
            .printed
            .take()
            .map(|(text, _)| tail_of(text.as_bytes()));
        match words.filter(|words| !words.trim().is_empty()) {
            Some(words) => format!("{reason}; it said: {}", words.trim()),
            None => reason,
        }
    }
}
