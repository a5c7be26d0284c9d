//! A cell that runs elsewhere, and whose end was not seen: what was, up to then.

use std::time::Duration;

use super::live::LiveEvent;
use super::output::{CellOutput, Collected};
use super::text::{RESULT_CHARS, Text, round_2};
use super::{BesideStreams, Caps, ErrorClass, KernelReport, Outcome, Status};
use crate::jupyter::{Published, PublishedKind};
use crate::kernel::CellSink;

/// What has come of a cell.
#[derive(Debug)]
pub struct Seen {
    output: CellOutput,
    result: Option<String>,
}

impl Seen {
    /// Nothing yet; so much of its output is kept.
    pub fn new(caps: Caps) -> Self {
        Self {
            output: CellOutput::new(caps, None, None, None, None),
            result: None,
        }
    }

    /// It has printed or shown something.
    pub fn take(&mut self, event: &LiveEvent) {
        match event {
            LiveEvent::Stdout(bytes) => self.output.stdout(bytes),
            LiveEvent::Stderr(bytes) => self.output.stderr(bytes),
            LiveEvent::Result(text) => self.result = Some(text.clone()),
            LiveEvent::Published(shown) if shown.kind == PublishedKind::Result => {
                self.result = shown.text();
            }
            LiveEvent::Published(shown) => self.output.publish(Published::clone(shown)),
        }
    }

    /// Its result, as far as it is known: it ran in this kernel for so long, and why no more is known
    /// stands in a sentence. Bytes are those that have come.
    pub fn cut_off(mut self, sentence: &str, kernel: KernelReport, time: Duration) -> Outcome {
        let Collected { stdout, stderr, .. } = self.output.take();
        let mut text = Text::default();
        text.block(&stdout.text);
        text.block(self.result.as_deref().unwrap_or_default());
        if !stderr.text.is_empty() {
            text.line("--- stderr ---");
            text.block(&stderr.text);
        }
        let line = format!("[{sentence}]");
        text.line(&line);
        Outcome {
            output: text.finish(),
            duration_seconds: round_2(time),
            result: self
                .result
                .map(|result| result.chars().take(RESULT_CHARS).collect()),
            stdout_truncated: stdout.omitted > 0,
            stdout_bytes_total: stdout.total,
            stdout_bytes_captured: stdout.captured,
            stdout_bytes_omitted: stdout.omitted,
            beside_streams: BesideStreams {
                notices: vec![line],
                ..BesideStreams::default()
            },
            status: Status::Error,
            ..Outcome::not_run(ErrorClass::Unavailable, sentence, kernel)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::LossReason;

    #[test]
    fn what_has_come_is_told_and_counted() {
        let mut seen = Seen::new(Caps {
            stdout: 10,
            stderr: 10,
        });
        seen.take(&LiveEvent::Stdout("é".repeat(20).into()));
        seen.take(&LiveEvent::Stderr("e".into()));
        let kernel = KernelReport {
            execution_count: 2,
            ..KernelReport::untouched(1, 1).lost(LossReason::ConnectionLost)
        };
        let told = seen.cut_off("it is gone", kernel.clone(), Duration::from_millis(1_234));
        assert!(told.output.starts_with("éé\n"), "{}", told.output);
        assert!(
            told.output.ends_with("--- stderr ---\ne\n[it is gone]"),
            "{}",
            told.output
        );
        assert_eq!(told.stdout_bytes_total, 40);
        assert_eq!(told.stdout_bytes_captured + told.stdout_bytes_omitted, 40);
        assert!(told.stdout_truncated);
        assert_eq!(told.kernel, kernel);
        assert_eq!((told.status, told.exit_code), (Status::Error, -1));
        assert!((told.duration_seconds - 1.23).abs() < 0.001);
    }
}
