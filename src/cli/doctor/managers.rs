//! The managers that live; none is started.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::finding::Finding;
use crate::cli::surroundings;
use crate::client::Found;
use crate::server::VERSION;
use crate::words::counted;

/// Each is given two seconds, all at once.
const DEADLINE: Duration = Duration::from_secs(5);

pub(super) async fn check() -> Finding {
    let home = surroundings::home();
    let Ok(found) = timeout(DEADLINE, home.managers()).await else {
        return Finding::failed(
            "managers",
            "those that live could not be asked in time",
            "warmcell serve --stop",
        );
    };
    if found.is_empty() {
        return Finding::ok("managers", "none runs; `exec -s` starts one")
            .with(Vec::new(), json!([]));
    }
    let lines = found.iter().map(line).collect();
    let data = found.iter().map(data).collect::<Vec<_>>().into();
    let count = counted(found.len() as u64, "manager");
    let silent = found.iter().find_map(|it| it.info.as_ref().err());
    let other = found
        .iter()
        .filter_map(|it| it.info.as_ref().ok())
        .find(|it| it.version != VERSION);
    let finding = if let Some(error) = silent {
        Finding::failed(
            "managers",
            format!("{count}; {error}"),
            "warmcell serve --stop",
        )
    } else if let Some(other) = other {
        Finding::failed(
            "managers",
            format!(
                "{count}; process {} is of version {}, this is {VERSION}",
                other.pid, other.version
            ),
            "warmcell serve --stop",
        )
    } else {
        Finding::ok("managers", count)
    };
    finding.with(lines, data)
}

fn line(found: &Found) -> String {
    match &found.info {
        Ok(info) => format!(
            "{} {} (version {}), {}",
            info.kind,
            info.pid,
            info.version,
            counted(info.sessions as u64, "session")
        ),
        Err(error) => error.to_string(),
    }
}

fn data(found: &Found) -> Value {
    match &found.info {
        Ok(info) => json!(info),
        Err(error) => json!({ "error": error.to_string(), "pid": found.client.pid() }),
    }
}
