//! What a cell has done so far, for whoever does not wait for its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::output::{CellOutput, Collected};
use super::text::{RESULT_CHARS, Text, round_2};
use super::{BesideStreams, CellAuthority, KernelReport, Outcome, Status, Turn};
use crate::tools::ToolUse;

/// The place where a cell that runs can be looked at from outside. Empty until it begins.
#[derive(Debug, Default)]
pub struct Progress {
    stage: Mutex<Stage>,
    turn: watch::Sender<Turn>,
}

#[derive(Debug, Default)]
struct Stage {
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    at: Instant,
    output: Arc<Mutex<CellOutput>>,
    authority: Arc<dyn CellAuthority>,
}

impl Progress {
    /// It has this number in its session, and is about to run.
    pub fn number(&self, cell: u64) {
        self.turn.send_modify(|turn| turn.number(cell));
    }

    /// It is about to run in this kernel.
    pub fn kernel(&self, report: KernelReport) {
        self.turn.send_modify(|turn| turn.begins(report));
    }

    /// When its turn comes, and under which number.
    pub fn turn(&self) -> watch::Receiver<Turn> {
        self.turn.subscribe()
    }

    pub(super) fn begin(
        &self,
        at: Instant,
        output: Arc<Mutex<CellOutput>>,
        authority: Arc<dyn CellAuthority>,
    ) {
        self.stage().begun = Some(Begun {
            at,
            output,
            authority,
        });
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.stage().begun.is_some()
    }

    /// What it has printed and called up to now, with status `running`; nothing if it waits for its
    /// turn or for its kernel: then that of its session is as it was.
    pub fn so_far(&self, untouched: KernelReport) -> Outcome {
        let stage = self.stage();
        let kernel = self.turn.borrow().kernel().cloned().unwrap_or(untouched);
        let Some(begun) = &stage.begun else {
            let line = "[the cell has not begun yet; it will run, and waiting for it later returns its result]";
            return running(Collected::default(), ToolUse::default(), None, kernel, line);
        };
        let output = begun
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .so_far();
        let elapsed = begun.at.elapsed();
        let line = format!(
            "[still running after {:.1} s; it goes on, and waiting for it later returns the rest]",
            elapsed.as_secs_f64()
        );
        let tools = begun.authority.so_far();
        running(output, tools, Some(elapsed), kernel, &line)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn running(
    output: Collected,
    tools: ToolUse,
    elapsed: Option<Duration>,
    kernel: KernelReport,
    line: &str,
) -> Outcome {
    let mut text = Text::default();
    text.block(&output.stdout.text);
    text.block(output.result.as_deref().unwrap_or_default());
    if !output.stderr.text.is_empty() {
        text.line("--- stderr ---");
        text.block(&output.stderr.text);
    }
    text.line(line);
    let spill = output.kept.output_line(true, true);
    let spill = spill.filter(|_| output.stdout.is_cut);
    for line in spill.into_iter().chain(output.kept.artifact_lines()) {
        text.line(&line);
    }
    Outcome {
        status: Status::Running,
        output: text.finish(),
        exit_code: Outcome::NO_EXIT_CODE,
        tool_calls_made: tools.made,
        duration_seconds: round_2(elapsed.unwrap_or_default()),
        kernel,
        result: output
            .result
            .map(|result| result.chars().take(RESULT_CHARS).collect()),
        error: None,
        error_class: None,
        hint: None,
        repeat_of_previous: 0,
        redacted: output.redacted,
        stdout_truncated: output.stdout.omitted > 0,
        stdout_bytes_total: output.stdout.total,
        stdout_bytes_captured: output.stdout.captured,
        stdout_bytes_omitted: output.stdout.omitted,
        stdout_spill_path: output.kept.path(),
        warning: None,
        tool_calls: tools.calls,
        artifacts: output.kept.artifacts,
        background_output: None,
        cell_id: None,
        beside_streams: BesideStreams {
            notices: vec![line.to_owned()],
            ..BesideStreams::default()
        },
    }
}
