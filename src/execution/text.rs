//! Makes the result of a cell: what became of it, of its kernel, and the text a reader sees.

use std::time::Duration;

use super::ended::Ended;
use super::hints::{Hint, Told, hint};
use super::losses::{earlier_loss_line, new_kernel_line};
use super::outcome::{HINT_BEGINS, REPEAT_BEGINS};
use super::{
    BackgroundOutput, BesideStreams, CellRun, ErrorClass, How, KernelReport, Loss, Outcome, Raised,
    Repeats, ReportedState, Setting, Status, Successor,
};
use crate::jupyter::ReplyStatus;
use crate::output::plain;
use crate::words::{agreeing, counted};

/// Characters of `result`.
pub(super) const RESULT_CHARS: usize = 2_000;
/// Characters of background output that `output` shows.
const BACKGROUND_CHARS: usize = 200;
/// What an empty success says.
const NO_OUTPUT: &str = "completed without output";

/// What the session knows beyond the run itself.
#[derive(Debug)]
pub struct Story<'a> {
    /// The cell's number in its kernel.
    pub execution_count: u64,
    /// Which kernel of the session.
    pub generation: u64,
    /// Whether the process was there before the cell.
    pub reused: bool,
    /// Whether it was the kernel's first cell.
    pub first_cell: bool,
    /// The time limit.
    pub timeout: Duration,
    /// Why the kernel is not the one the caller knew, and whether the caller was told what is gone.
    pub earlier_loss: Option<(Loss, bool)>,
    /// What this cell's end has cost.
    pub loss: Option<Loss>,
    /// What was seen of the next kernel, if this one is lost.
    pub successor: Successor,
    /// What was printed before the cell.
    pub background: Option<BackgroundOutput>,
    /// Sentences for the caller.
    pub warnings: Vec<String>,
    /// What is known around the cell.
    pub setting: Setting<'a>,
    /// The session's latest failure.
    pub repeats: &'a mut Repeats,
}

/// Makes the result.
pub fn outcome_of(run: CellRun, mut story: Story<'_>) -> Outcome {
    let ended = Ended::of(
        &run.how,
        story.timeout,
        story.loss.as_ref(),
        &story.successor,
    );
    let result = run.result.as_deref().map(plain);
    let result = result.as_deref();
    let mut text = Text::default();
    let mut notices = Vec::new();
    if let Some((loss, _)) = &story.earlier_loss {
        let line = if story.first_cell {
            new_kernel_line(loss)
        } else {
            earlier_loss_line(loss)
        };
        text.line(&line);
        notices.push(line);
    }
    text.block(&run.stdout.text);
    if let Some(result) = result {
        text.block(result);
    }
    let traceback = ended.traceback.as_deref().map(plain).unwrap_or_default();
    let traceback = traceback.as_str();
    if !run.stderr.text.is_empty() || !traceback.is_empty() {
        text.line("--- stderr ---");
        text.block(&run.stderr.text);
        text.block(traceback);
    }
    let hint = hint(
        &run,
        ended.status,
        ended.class,
        ended.line.as_deref(),
        &story.setting,
    );
    let repeat = story.repeats.count(
        story.setting.code,
        ended.status,
        ended.class,
        ended.error.as_deref(),
    );
    let background = story.background.as_ref().map(background_line);
    let end = ended.line.clone();
    if let Some(line) = ended.line {
        text.line(&line);
        notices.push(line);
    }
    let spill = run.kept.output_line(false, story.loss.is_none());
    if let Some(line) = spill.filter(|_| run.stdout.is_cut) {
        text.line(&line);
    }
    let lines = hint_line(hint.as_ref(), repeat)
        .into_iter()
        .chain(repeat_line(repeat, ended.class))
        .chain(run.kept.artifact_lines())
        .chain(background);
    for line in lines {
        text.line(&line);
        notices.push(line);
    }
    story.warnings.extend(run.kept.warnings());
    if ended.status == Status::Success && text.is_empty() {
        text.line(&nothing_shown(run.tool_use.made));
    }
    if let Some((count, why)) = &run.tool_use.refused {
        let (calls, were) = (
            counted(*count, "tool call"),
            agreeing(*count, "was", "were"),
        );
        story
            .warnings
            .push(format!("{calls} {were} refused: {why}"));
    }
    if run.dropped_messages > 0 {
        let count = run.dropped_messages;
        story.warnings.push(format!(
            "{} of the kernel made no sense and {} dropped",
            counted(count, "message"),
            agreeing(count, "was", "were")
        ));
    }
    let output = text.finish();
    Outcome {
        status: ended.status,
        output,
        exit_code: ended.exit_code,
        tool_calls_made: run.tool_use.made,
        duration_seconds: round_2(run.duration),
        kernel: kernel_report(&run.how, story.loss.as_ref(), &story),
        result: result.map(|result| result.chars().take(RESULT_CHARS).collect()),
        error: ended.error,
        error_class: ended.class,
        hint: hint.map(|hint| hint.text),
        repeat_of_previous: repeat,
        redacted: run.redacted,
        stdout_truncated: run.stdout.omitted > 0,
        stdout_bytes_total: run.stdout.total,
        stdout_bytes_captured: run.stdout.captured,
        stdout_bytes_omitted: run.stdout.omitted,
        stdout_spill_path: run.kept.path(),
        warning: (!story.warnings.is_empty()).then(|| story.warnings.join("; ")),
        tool_calls: run.tool_use.calls,
        artifacts: run.kept.artifacts,
        background_output: story.background,
        cell_id: None,
        beside_streams: BesideStreams {
            traceback: ended.traceback,
            notices,
            end,
            raised: raised(&run.how),
            asks_exit: asks_exit(&run.how),
            user_expressions: match run.how {
                How::Replied(reply) | How::Stopped(_, reply) => reply.user_expressions,
                _ => None,
            },
        },
    }
}

impl Outcome {
    /// The result of a cell that did not run, with what is known of its session's kernel.
    pub fn not_run(class: ErrorClass, sentence: impl Into<String>, kernel: KernelReport) -> Self {
        let error = sentence.into();
        let status = if class == ErrorClass::Interrupted {
            Status::Interrupted
        } else {
            Status::Error
        };
        Self {
            status,
            beside_streams: BesideStreams {
                notices: vec![format!("[{error}]")],
                end: Some(format!("[{error}]")),
                ..BesideStreams::default()
            },
            output: format!("[{error}]"),
            exit_code: -1,
            tool_calls_made: 0,
            duration_seconds: 0.0,
            kernel,
            result: None,
            error: Some(error),
            error_class: Some(class),
            hint: None,
            repeat_of_previous: 0,
            redacted: 0,
            stdout_truncated: false,
            stdout_bytes_total: 0,
            stdout_bytes_captured: 0,
            stdout_bytes_omitted: 0,
            stdout_spill_path: None,
            warning: None,
            tool_calls: Vec::new(),
            artifacts: Vec::new(),
            background_output: None,
            cell_id: None,
        }
    }
}

/// Whether it ended by `exit()` or `quit()`, without an error.
fn asks_exit(how: &How) -> bool {
    match how {
        How::Replied(reply) => reply.warmcell.as_ref().is_some_and(|own| own.asks_exit),
        _ => false,
    }
}

/// The exception that ended a cell; none if it did not end by one.
fn raised(how: &How) -> Option<Raised> {
    match how {
        How::Replied(reply) | How::Stopped(_, reply) if reply.status != ReplyStatus::Ok => {
            Some(Raised {
                ename: reply.ename.clone(),
                evalue: reply.evalue.clone(),
                traceback: reply.traceback.clone(),
            })
        }
        _ => None,
    }
}

/// The line of an empty success. Results of tools that nobody has looked at would be asked for again.
fn nothing_shown(calls: u64) -> String {
    if calls == 0 {
        return format!("[{NO_OUTPUT}]");
    }
    format!(
        "[{NO_OUTPUT}; {} {} produced and none was shown: print what you need of {}]",
        counted(calls, "tool result"),
        agreeing(calls, "was", "were"),
        agreeing(calls, "it", "them")
    )
}

fn hint_line(hint: Option<&Hint>, repeat: u64) -> Option<String> {
    let hint = hint.filter(|hint| match hint.told {
        Told::No => true,
        Told::InShort => repeat > 0,
        Told::Whole => false,
    })?;
    Some(format!("{HINT_BEGINS}{}]", hint.text))
}

fn repeat_line(repeat: u64, class: Option<ErrorClass>) -> Option<String> {
    let how = match class {
        Some(ErrorClass::Timeout) => "run out of time",
        _ => "failed the same way",
    };
    let times = repeat + 1;
    (repeat > 0).then(|| {
        format!(
            "{REPEAT_BEGINS}{how} {times} times in a row: change it, or what it depends on, before you run \
             it again]"
        )
    })
}

fn kernel_report(how: &How, loss: Option<&Loss>, story: &Story<'_>) -> KernelReport {
    let earlier = story.earlier_loss.as_ref();
    let untold = earlier
        .filter(|(_, told)| !told)
        .map(|(loss, _)| &loss.lost);
    let (state, reason, lost) = match (how, loss) {
        (How::Replied(_) | How::Stopped(..), None) if story.first_cell => (
            ReportedState::Fresh,
            earlier.map(|(loss, _)| loss.reason),
            untold.cloned(),
        ),
        // An earlier loss is none of this kernel's: `output` alone tells it.
        (How::Replied(_) | How::Stopped(..), None) => (ReportedState::Kept, None, None),
        (_, loss) => {
            let own = loss.map(|loss| loss.lost.clone()).unwrap_or_default();
            let lost = untold.map_or_else(|| own.clone(), |untold| untold.clone().and_then(&own));
            (
                ReportedState::Lost,
                loss.map(|loss| loss.reason),
                Some(lost),
            )
        }
    };
    KernelReport {
        execution_count: story.execution_count,
        generation: story.generation,
        reused: story.reused,
        state,
        reason,
        lost,
    }
}

fn background_line(background: &BackgroundOutput) -> String {
    let text: String = background
        .text
        .trim_end()
        .chars()
        .rev()
        .take(BACKGROUND_CHARS)
        .collect();
    let text: String = text.chars().rev().collect();
    let cut = if text.len() < background.text.trim_end().len() {
        "..."
    } else {
        ""
    };
    let beginning = background.line_begins();
    format!("{beginning}{cut}{text}]")
}

pub(super) fn round_2(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100.0).round() / 100.0
}

/// Pieces of text, each on a line of its own.
#[derive(Default)]
pub(super) struct Text {
    text: String,
}

impl Text {
    pub(super) fn block(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    pub(super) fn line(&mut self, line: &str) {
        self.block(line);
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
