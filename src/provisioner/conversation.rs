//! The conversation with one forkserver: the tasks that send its orders and read its reports, and
//! what is done when it ends.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::forkserver::{Forkserver, Outgoing};
use super::forkserver_start::tail_of;
use super::messages::Order;
use crate::process::{
    ControlSocket, Marker, PipeReader, ProcessError, ReadOutcome, Spawned, end_orphans,
};

/// How long a forkserver may take to end everything and itself before it is killed.
const END_GRACE: Duration = Duration::from_secs(2);
/// How long a killed one may take: its memory is small, so longer means that the system is stuck.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// How long the last order may wait behind others.
const LEAVE_DEADLINE: Duration = Duration::from_millis(100);
/// How much is read at a time of what a forkserver prints.
const PRINTED_BYTES: usize = 4_096;

/// Sends the orders in turn, until nobody holds the forkserver any more; then lets it leave.
pub(super) fn write_orders(
    control: Arc<ControlSocket>,
    mut queue: mpsc::Receiver<Outgoing>,
    server: &Arc<Forkserver>,
) -> impl Future<Output = ()> + Send + 'static {
    let dropped = server.dropped().clone();
    let end = server.end().clone();
    let server = Arc::downgrade(server);
    async move {
        let sending = async {
            while let Some(outgoing) = queue.recv().await {
                let descriptors: Vec<_> = outgoing.descriptors.iter().map(AsFd::as_fd).collect();
                let Err(error) = control.send(&outgoing.message, &descriptors).await else {
                    continue;
                };
                if error.is_disconnected() {
                    // The reader sees the end of the socket and tells everyone.
                    return;
                }
                not_sent(error, outgoing.fork, &server, &end);
            }
        };
        tokio::select! {
            () = sending => {}
            // A forkserver that reads nothing must not hold this up.
            () = dropped.cancelled() => {}
        }
        if dropped.is_cancelled() {
            // The manager lives: its socket folder stays.
            let message = serde_json::to_vec(&Order::Leave {}).unwrap_or_default();
            drop(timeout(LEAVE_DEADLINE, control.send(&message, &[])).await);
            control.close();
        }
    }
}

fn not_sent(
    error: ProcessError,
    fork: Option<u64>,
    server: &Weak<Forkserver>,
    end: &CancellationToken,
) {
    tracing::warn!(%error, "an order to the forkserver was not sent");
    match (fork, server.upgrade()) {
        (Some(id), Some(server)) => server.fork_failed(id, error.into()),
        // It would wait for ever for an ack, or let a process live that was to be killed.
        _ => end.cancel(),
    }
}

/// What a library prints in a forkserver belongs to no cell.
pub(super) async fn log_printed(printed: PipeReader) {
    let mut buffer = vec![0; PRINTED_BYTES];
    loop {
        match printed.read(&mut buffer) {
            ReadOutcome::Bytes(count) => {
                let text = tail_of(buffer.get(..count).unwrap_or_default());
                tracing::debug!(bytes = count, %text, "a forkserver printed");
            }
            ReadOutcome::Empty => printed.readable().await,
            ReadOutcome::End => return,
        }
    }
}

/// Reads the reports.
pub(super) struct Reader {
    pub(super) server: Weak<Forkserver>,
    pub(super) process: Spawned,
    pub(super) marker: Marker,
    pub(super) adopts: bool,
    /// Whether it ends everything that it leaves behind, if it ends in good order.
    pub(super) supervises: bool,
    pub(super) end: CancellationToken,
    pub(super) dropped: CancellationToken,
}

impl Reader {
    pub(super) async fn run(self, control: Arc<ControlSocket>) {
        loop {
            let message = tokio::select! {
                message = control.receive() => message,
                () = self.end.cancelled() => {
                    self.process.kill();
                    break;
                }
                () = self.dropped.cancelled() => break,
            };
            let Ok(Some(message)) = message else { break };
            let Some(server) = self.server.upgrade() else {
                break;
            };
            match serde_json::from_slice(&message) {
                Ok(report) => server.handle(&report),
                Err(error) => tracing::warn!(%error, "a forkserver said something unknown"),
            }
        }
        drop(control);
        self.finish().await;
    }

    /// The socket has ended: the process is gone, or we are done with it and it ends by itself.
    async fn finish(mut self) {
        let status = match timeout(END_GRACE, self.process.ended()).await {
            Ok(status) => status,
            Err(_elapsed) => {
                self.process.kill();
                let killed = timeout(KILL_GRACE, self.process.ended()).await;
                killed.ok().flatten()
            }
        };
        let reason = in_words(status);
        tracing::debug!(%reason, "a forkserver is gone");
        let server = self.server.upgrade();
        if let Some(server) = &server {
            server.gone(&reason);
        }
        let in_good_order = status.is_some_and(|status| status.success()) && self.supervises;
        let left = if in_good_order {
            0
        } else {
            end_orphans(self.adopts, &[self.marker]).await
        };
        if left > 0 {
            tracing::error!(left, "processes of a dead forkserver could not be ended");
        }
        if let Some(server) = server {
            server.cleared(left);
        }
    }
}

fn in_words(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.signal(), status.code())) {
        Some((Some(signal), _)) => format!("was killed by signal {signal}"),
        Some((None, Some(code))) => format!("exited with code {code}"),
        Some((None, None)) | None => "is gone".to_owned(),
    }
}
