//! Levels by name.

use tracing::level_filters::LevelFilter;

use crate::config::LogLevel;

/// The level of the settings as `tracing` has it.
pub(super) fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// The names that are told to people.
pub const LEVELS: &str = "TRACE, DEBUG, INFO, WARNING, ERROR";

/// A level by name, in any case: also `WARN`, and `CRITICAL`, which is `ERROR` here.
pub fn level_named(name: &str) -> Option<LevelFilter> {
    Some(match name.trim().to_ascii_uppercase().as_str() {
        "TRACE" => LevelFilter::TRACE,
        "DEBUG" => LevelFilter::DEBUG,
        "INFO" => LevelFilter::INFO,
        "WARN" | "WARNING" => LevelFilter::WARN,
        "ERROR" | "CRITICAL" => LevelFilter::ERROR,
        _ => return None,
    })
}
