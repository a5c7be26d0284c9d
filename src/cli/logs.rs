//! `warmcell logs`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use tracing::level_filters::LevelFilter;

use super::{exit, streams, surroundings};
use crate::output::strip;
use crate::process::in_words;
use crate::session::SessionName;
use crate::telemetry::{LEVELS, LOG_FILE, LogFiles, Query, follow, level_named, log_folder};

const HELP: &str = "\
A line is `TIME LEVEL [session] target: message field=value`, in UTC; one that begins otherwise belongs to the line before it. \
What was not written is not shown: managers write from INFO on, or from `logging.level`.

Examples:
  warmcell logs
  warmcell logs --level WARNING --since 1h
  warmcell logs -f --session work";

/// The most lines that can be asked for.
const MOST_LINES: u64 = 1_000_000;

/// The arguments of `warmcell logs`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct LogsArguments {
    /// From this level on: TRACE, DEBUG, INFO, WARNING, ERROR.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<LevelFilter>,

    /// How many lines, the latest.
    #[arg(short = 'n', long = "lines", value_name = "N", default_value = "50", value_parser = lines, allow_negative_numbers = true)]
    lines: usize,

    /// Go on with those that come, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,

    /// Of this session alone.
    #[arg(long, value_name = "NAME", value_parser = session)]
    session: Option<String>,

    /// Not older than this: 90s, 10m, 2h, 3d.
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true)]
    since: Option<Duration>,
}

fn level(text: &str) -> Result<LevelFilter, String> {
    level_named(text).ok_or_else(|| format!("there is no such level; there are {LEVELS}"))
}

fn lines(text: &str) -> Result<usize, String> {
    let number = text
        .trim()
        .parse::<u64>()
        .ok()
        .filter(|it| *it <= MOST_LINES);
    let number = number.and_then(|it| usize::try_from(it).ok());
    number.ok_or_else(|| format!("a number of lines is from 0 to {MOST_LINES}"))
}

fn session(text: &str) -> Result<String, String> {
    match SessionName::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A time such as `10m`.
fn span(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit = text.chars().next_back().unwrap_or(' ');
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => 0,
    };
    let number = text
        .strip_suffix(unit)
        .and_then(|it| it.parse::<u64>().ok());
    // A century is longer than any log.
    let whole = number
        .and_then(|it| it.checked_mul(seconds))
        .filter(|it| *it <= 3_200_000_000);
    match whole {
        Some(whole) if seconds > 0 => Ok(Duration::from_secs(whole)),
        _ => Err("a time is a whole number and a unit: 90s, 10m, 2h, 3d".to_owned()),
    }
}

/// Runs it; the exit code.
pub(super) fn main(arguments: &LogsArguments) -> ExitCode {
    let folder = log_folder(&surroundings::settings().home);
    let path = folder.join(LOG_FILE);
    let query = Query {
        entries: arguments.lines,
        level: arguments.level,
        session: arguments.session.clone(),
        since: arguments
            .since
            .and_then(|span| Timestamp::now().checked_sub(span).ok()),
    };
    let files = match LogFiles::open(&path) {
        Ok(Some(files)) => files,
        Ok(None) => {
            return fail(&format!(
                "there is no log yet at {}: managers write it (warmcell exec -s, serve, kernel)",
                path.display()
            ));
        }
        Err(error) => {
            return fail(&format!(
                "{} cannot be read: {}",
                path.display(),
                in_words(&error)
            ));
        }
    };
    let mut show = |piece: &[u8]| {
        if streams::is_stdout_closed() {
            return Err(streams::closed());
        }
        let mut stdout = streams::stdout();
        stdout.write_all(&strip(piece))?;
        stdout.flush()
    };
    let shown = files.tail(&query, &mut show).and_then(|()| {
        if arguments.follow {
            follow(&files, &query, rustix::stdio::stdout(), &mut show)
                .and_then(|()| Err(io::ErrorKind::BrokenPipe.into()))
        } else {
            Ok(())
        }
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(exit::unwritten(&error)),
    }
}

fn fail(sentence: &str) -> ExitCode {
    // With stderr closed there is nobody to tell.
    drop(writeln!(io::stderr(), "warmcell: {sentence}"));
    ExitCode::from(1)
}
