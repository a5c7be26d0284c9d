//! The log of a manager: `<home>/logs/warmcell.log`, rotated by size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::config::LogLevel;
use crate::folders::private_folder;

/// The size at which a file is put aside, in bytes.
const MOST_BYTES: u64 = 5 << 20;
/// How many are kept beside the one that is written.
const BACKUPS: u32 = 3;

/// What is logged with this target is written whatever the level in force: the few lines without which
/// nobody finds out what was done to a kernel.
pub const ALWAYS: &str = "warmcell::always";

/// What is written at this level.
fn filter(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level)
        .with_target(ALWAYS, LevelFilter::TRACE)
}

/// Sends what this process logs to a file below the home, from this level on; never code, output or
/// values, which are logged at the level `trace` alone.
///
/// # Errors
///
/// If the file cannot be made; nothing is logged then.
pub fn log_to_file(home: &Path, level: LogLevel) -> io::Result<()> {
    let folder = home.join("logs");
    private_folder(&folder)?;
    let log = Log::open(folder.join("warmcell.log"))?;
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(Mutex::new(log))
        .with_filter(filter(level));
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)
}

/// A file that is put aside when it is too long.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Log {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
            .open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file, bytes })
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..=BACKUPS).rev() {
            let older = self.backup(number);
            let newer = match number {
                1 => self.path.clone(),
                _ => self.backup(number - 1),
            };
            if newer.exists() {
                fs::rename(newer, older)?;
            }
        }
        *self = Self::open(self.path.clone())?;
        Ok(())
    }

    fn backup(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes >= MOST_BYTES {
            // Where that fails the old one goes on.
            self.rotate().ok();
        }
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
    fn a_log_is_private_and_put_aside_when_it_is_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("warmcell.log");
        let mut log = Log::open(path.clone()).unwrap();
        let line = vec![b'x'; 1 << 20];
        for _ in 0..26 {
            log.write_all(&line).unwrap();
        }
        let mut sizes: Vec<(String, u64)> = fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .map(|entry| {
                let found = entry.metadata().unwrap();
                assert_eq!(found.permissions().mode() & 0o777, 0o600);
                let name = entry.file_name().into_string().unwrap();
                (name, found.len() >> 20)
            })
            .collect();
        sizes.sort();
        let expected = [
            ("warmcell.log", 1),
            ("warmcell.log.1", 5),
            ("warmcell.log.2", 5),
            ("warmcell.log.3", 5),
        ];
        assert_eq!(sizes, expected.map(|(name, size)| (name.to_owned(), size)));
    }
}
