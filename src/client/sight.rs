//! What a client can say of a session's kernel when no result has told it.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::Home;
use crate::execution::{KernelReport, LossReason};
use crate::process::Pidfd;

/// How long a manager may take to end after its connections have.
const ENDING: Duration = Duration::from_millis(500);
/// How long a look at a session may take.
const LOOK: Duration = Duration::from_millis(500);

/// The process at the other end of a connection.
#[derive(Debug)]
pub(super) enum Process {
    /// It is watched.
    There(Pidfd),
    /// It had ended before it could be watched.
    Gone,
    /// The system does not say.
    Unknown,
}

impl Process {
    /// The process of this number, which the system has just named.
    pub(super) fn of(pid: Option<u32>) -> Self {
        let Some(pid) = pid else {
            return Self::Unknown;
        };
        match Pidfd::open(pid) {
            Ok(process) => Self::There(process),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                Self::Gone
            }
            Err(_) => Self::Unknown,
        }
    }

    /// Why a kernel of it is lost or out of sight, when the connection has ended.
    pub(super) async fn loss(&self) -> LossReason {
        let has_ended = match self {
            Self::There(process) => timeout(ENDING, process.ended()).await.is_ok(),
            Self::Gone => true,
            Self::Unknown => false,
        };
        if has_ended {
            LossReason::ManagerRestarted
        } else {
            LossReason::ConnectionLost
        }
    }
}

impl Home {
    /// What is to be said of a session's kernel with a cell that was not handed over: the background
    /// server is asked, if there is one. State `lost`, reason `connection_lost`, if it does not answer.
    ///
    /// # Cancel safety
    ///
    /// May be dropped.
    pub async fn kernel(&self, session: &str) -> KernelReport {
        let look = async {
            let holder = match self.elsewhere(session).await {
                Ok(Some(holder)) => Some(holder),
                Ok(None) | Err(_) => self.server().await?,
            };
            let Some(holder) = holder else {
                return Ok(KernelReport::none());
            };
            let sessions = holder.sessions().await?;
            let found = sessions
                .iter()
                .find(|it| it.get("name").and_then(Value::as_str) == Some(session));
            Ok::<_, super::ClientError>(found.map_or_else(KernelReport::none, report))
        };
        match timeout(LOOK, look).await {
            Ok(Ok(report)) => report,
            Ok(Err(_)) | Err(_) => out_of_sight(),
        }
    }
}

/// Of a session whose manager does not say.
pub(super) fn out_of_sight() -> KernelReport {
    KernelReport::none().lost(LossReason::ConnectionLost)
}

fn report(session: &Value) -> KernelReport {
    let number = |key| session.get(key).and_then(Value::as_u64).unwrap_or_default();
    KernelReport::untouched(number("generation"), number("execution_count"))
}
