//! Sends what this process logs to the file.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

use super::file::{LOG_FILE, LogFile, log_folder};
use super::level::filter_of;
use super::line::{Fields, Line};
use crate::config::LogLevel;
use crate::output::redact::{Hidden, Redactor, Rules};

/// What is logged with this target is written whatever the level in force: the few lines without which
/// nobody finds out what was done to a kernel.
pub const ALWAYS: &str = "warmcell::always";

/// Environments whose values are masked, the latest.
const MOST_HIDDEN: usize = 16;
/// The longest line, in bytes.
const LONGEST: usize = 16_384;

/// What is masked beside what looks like a secret.
static HIDDEN: Mutex<VecDeque<Hidden>> = Mutex::new(VecDeque::new());

/// Has the values behind these fingerprints masked in all that is logged from now on. The latest 16 are
/// kept.
pub fn hide(hidden: Hidden) {
    if hidden.is_empty() {
        return;
    }
    let mut known = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() == MOST_HIDDEN {
        known.pop_front();
    }
    known.push_back(hidden);
}

/// Sends what this process logs to the file of a home, from this level on.
///
/// # Errors
///
/// If the file cannot be made, or the process logs already; nothing is logged then.
pub fn log_to_file(home: &Path, level: LogLevel) -> io::Result<()> {
    let mut file = LogFile::new(log_folder(home).join(LOG_FILE));
    file.stand()?;
    install(file, level)
}

/// The same, and the file is made with the first line: for processes that mostly have nothing to say. One
/// that cannot be made costs the lines.
///
/// # Errors
///
/// If the process logs already.
pub fn log_when_needed(home: &Path, level: LogLevel) -> io::Result<()> {
    install(LogFile::new(log_folder(home).join(LOG_FILE)), level)
}

fn install(file: LogFile, level: LogLevel) -> io::Result<()> {
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .fmt_fields(Fields)
        .event_format(Line)
        .log_internal_errors(false)
        .with_writer(Writer(Mutex::new(file)))
        .with_filter(filter(filter_of(level)));
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)
}

/// What is written at this level.
fn filter(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level)
        .with_target(ALWAYS, LevelFilter::TRACE)
}

struct Writer(Mutex<LogFile>);

/// For one line.
struct LineWriter<'a>(&'a Mutex<LogFile>);

impl<'a> MakeWriter<'a> for Writer {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter(&self.0)
    }
}

impl Write for LineWriter<'_> {
    /// Takes a whole line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = masked(bytes);
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written costs its lines, nothing else.
        drop(file.write_line(line.as_bytes()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn masked(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let hidden: Vec<Hidden> = {
        let known = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().cloned().collect()
    };
    let (mut masked, _count) = Redactor::once(&Rules::new(hidden), text.trim_end_matches('\n'));
    if masked.len() > LONGEST {
        let at = (0..=LONGEST).rev().find(|at| masked.is_char_boundary(*at));
        masked.truncate(at.unwrap_or(0));
        masked.push_str("...");
    }
    masked.push('\n');
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_always_logged_passes_at_any_level() {
        for level in [LevelFilter::OFF, LevelFilter::ERROR, LevelFilter::INFO] {
            let filter = filter(level);
            assert!(
                filter.would_enable(ALWAYS, &tracing::Level::DEBUG),
                "{level}"
            );
            let other = filter.would_enable("warmcell::session", &tracing::Level::DEBUG);
            assert!(!other, "{level}");
        }
    }

    #[test]
    fn lines_are_masked_and_cut() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        hide(Hidden::of(
            [7; 16],
            [("MY_PASSWORD", "correct-horse-battery-9f8e7d")],
        ));
        let line = format!("INFO a: {token} and correct-horse-battery-9f8e7d\n");
        let told = masked(line.as_bytes());
        assert!(!told.contains(&token), "{told}");
        assert!(!told.contains("correct-horse"), "{told}");
        assert!(told.ends_with('\n'), "{told}");
        let told = masked("é".repeat(20_000).as_bytes());
        assert_eq!(told.len(), LONGEST + 4);
    }

    /// A subscriber of its own, so that no other test's lines come here.
    #[test]
    fn lines_have_time_level_session_target_message_and_fields() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOG_FILE);
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .fmt_fields(Fields)
            .event_format(Line)
            .with_writer(Writer(Mutex::new(LogFile::new(path.clone()))))
            .with_filter(filter(LevelFilter::INFO));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "a::b", count = 3, text = "two\nwords", "it has begun");
            let session = tracing::info_span!("session", session_id = "lead/worker");
            let _in_session = session.enter();
            let kernel = tracing::info_span!("kernel", generation = 2);
            let _in_kernel = kernel.enter();
            tracing::warn!(target: "a::b", path = %"/a b", empty = "", "multi\nline\u{1b}");
            tracing::debug!(target: "a::b", "too low");
            tracing::debug!(target: ALWAYS, names = "A, B", "dropped");
            tracing::info!(target: "a", session = "other", "named");
        });
        let log = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = log.lines().map(|line| line.split_at(24).1).collect();
        assert_eq!(
            lines,
            [
                " INFO [-] a::b: it has begun count=3 text=\"two\\nwords\"",
                " WARN [lead/worker] a::b: multi\\nline\\u{1b} path=\"/a b\" empty=\"\" kernel.generation=2",
                " DEBUG [lead/worker] warmcell::always: dropped names=\"A, B\" kernel.generation=2",
                " INFO [other] a: named kernel.generation=2",
            ]
        );
        let time: jiff::Timestamp = log.split_at(24).0.parse().unwrap();
        assert!(jiff::Timestamp::now().as_second() - time.as_second() < 60);
    }
}
