//! That a kernel does not hold more and more of what the system has.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::client::Client;
use super::figures::Figure;
use super::report::Judgement;
use super::subject::{Life, Subject};
use crate::bridge::foreign::{Connections, reach};
use crate::process::{Holdings, ProcessError, holdings, in_a_thread, usage};

/// Cells and connections between the two looks.
const ROUNDS: usize = 50;
/// The same before the first look: what is made once is there by then.
const WARM_UP: usize = 5;
/// How long a kernel may take to let go of a connection that is closed.
const CLOSE: Duration = Duration::from_secs(2);
/// How long it may take to look at a kernel's processes.
const LOOK: Duration = Duration::from_secs(5);
/// So many descriptors and threads more are no leak: a pool has grown, a process was forked ahead.
const SLACK: u64 = 8;

pub(super) fn expected() -> String {
    format!(
        "after {ROUNDS} cells and {ROUNDS} connections no more descriptors and threads than before"
    )
}

/// Runs cells and connects, and counts before and after.
pub(super) async fn look(
    subject: &Subject,
    life: &mut Life,
    is_python: bool,
) -> (Judgement, Vec<Figure>) {
    let rounds = async {
        turn(subject, life, is_python, WARM_UP).await?;
        let before = count(life).await.map_err(|it| it.to_string())?;
        let memory = usage(life.process.pid(), LOOK).await;
        let held = turn(subject, life, is_python, ROUNDS).await?;
        let after = count(life).await.map_err(|it| it.to_string())?;
        let memory = [memory, usage(life.process.pid(), LOOK).await];
        Ok((before, after, held, memory))
    };
    match rounds.await {
        Err(what) => (Err(what), Vec::new()),
        Ok((before, after, held, memory)) => {
            let mut figures = vec![
                Figure::count("descriptors_before", before.descriptors),
                Figure::count("descriptors_after", after.descriptors),
                Figure::count("threads_before", before.threads),
                Figure::count("threads_after", after.threads),
            ];
            for (name, used) in ["rss_before", "rss_after"].into_iter().zip(memory) {
                figures.extend(used.map(|it| Figure::mb(name, it.rss_bytes)));
            }
            (judge(before, after, held), figures)
        }
    }
}

async fn count(life: &Life) -> Result<Holdings, ProcessError> {
    let pid = life.process.pid();
    in_a_thread(move || holdings(pid)).await
}

/// Runs cells and connects so often; how many sockets the kernel has not let go of.
async fn turn(
    subject: &Subject,
    life: &mut Life,
    is_python: bool,
    rounds: usize,
) -> Result<usize, String> {
    let patience = subject.terms.patience;
    let mut held = 0;
    for round in 1..=rounds {
        if is_python {
            let asked = life.client.run("pass", patience).await;
            if !asked.is_ok() {
                return Err(format!("cell {round}: {}", asked.told()));
            }
        }
        let connection = life.place.connection();
        let signer = connection.signer().map_err(|it| it.to_string())?;
        let name = Client::name();
        let Ok(streams) = timeout(patience, reach(connection)).await else {
            return Err(format!("connection {round}: its sockets take none"));
        };
        let mut client = Client::new(Connections::new(streams, &name, &signer), name.clone());
        let answered = client.replies(Instant::now() + patience).await;
        held += client.leave(CLOSE.min(patience)).await;
        if !answered {
            return Err(format!("connection {round}: no reply came"));
        }
    }
    Ok(held)
}

fn judge(before: Holdings, after: Holdings, held: usize) -> Judgement {
    if held > 0 {
        return Err(format!(
            "it has not let go of {held} sockets that were closed"
        ));
    }
    let grown = |what: &str, before: u64, after: u64| {
        let more = after > before.saturating_add(SLACK);
        more.then(|| format!("{what} grew from {before} to {after}"))
    };
    let descriptors = grown("descriptors", before.descriptors, after.descriptors);
    let threads = grown("threads", before.threads, after.threads);
    let grown: Vec<String> = descriptors.into_iter().chain(threads).collect();
    if !grown.is_empty() {
        return Err(grown.join(", "));
    }
    let (hidden, all) = (after.hidden, after.processes);
    let note = if hidden == 0 {
        String::new()
    } else {
        format!(" (those of {hidden} of {all} processes cannot be counted by this user)")
    };
    Ok(format!("descriptors and threads are where they were{note}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_with_the_rounds_is_a_leak() {
        let holds = |descriptors, threads, hidden| Holdings {
            processes: 2,
            descriptors,
            threads,
            hidden,
        };
        let before = holds(40, 5, 0);
        assert!(judge(before, holds(42, 5, 0), 0).is_ok());
        assert!(judge(before, holds(20, 1, 0), 0).is_ok());
        let hidden = judge(before, holds(40, 5, 1), 0).unwrap();
        assert!(hidden.contains("1 of 2 processes"), "{hidden}");
        for (after, held, told) in [
            (holds(90, 5, 0), 0, "descriptors grew from 40 to 90"),
            (holds(40, 55, 0), 0, "threads grew from 5 to 55"),
            (holds(90, 55, 0), 0, "to 90, threads grew"),
            (holds(40, 5, 0), 3, "has not let go of 3 sockets"),
        ] {
            let error = judge(before, after, held).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
