//! The file, which several processes write: each line in one piece, and whoever finds the file too long
//! puts it aside.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::folders::own_folder;

/// The size at which a file is put aside, in bytes.
const MOST_BYTES: u64 = 5 << 20;
/// How many are kept beside the one that is written.
pub(super) const BACKUPS: u32 = 3;
/// The file whose lock holds who puts the log aside.
const LOCK: &str = ".warmcell.log.lock";

/// The name of the log that is written.
pub const LOG_FILE: &str = "warmcell.log";

/// The folder of logs in a home.
pub fn log_folder(home: &Path) -> PathBuf {
    home.join("logs")
}

/// A log file; opened when it is needed, and again when another process has put it aside.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    open: Option<(File, Identity)>,
}

/// Which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    fn of(found: &fs::Metadata) -> Self {
        Self(found.dev(), found.ino())
    }
}

impl LogFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Has it be open, and be the one that bears its name.
    pub(super) fn stand(&mut self) -> io::Result<()> {
        let there = fs::symlink_metadata(&self.path).ok();
        let there = there.as_ref().map(Identity::of);
        if there.is_some() && self.open.as_ref().map(|(_, own)| *own) == there {
            return Ok(());
        }
        self.open = None;
        if let Some(folder) = self.path.parent() {
            own_folder(folder)?;
        }
        let file = open(&self.path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("the log is not a file"));
        }
        if found.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        self.open = Some((file, Identity::of(&found)));
        Ok(())
    }

    /// Writes a line, in one piece.
    pub(super) fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.stand()?;
        if self.is_too_long(line.len() as u64) {
            // Where that fails the old one goes on.
            drop(self.put_aside());
            self.stand()?;
        }
        match &mut self.open {
            Some((file, _)) => file.write_all(line),
            None => Ok(()),
        }
    }

    fn is_too_long(&self, more: u64) -> bool {
        let length = |(file, _): &(File, Identity)| Some(file.metadata().ok()?.len());
        let length = self.open.as_ref().and_then(length).unwrap_or(0);
        length > 0 && length + more > MOST_BYTES
    }

    /// Puts it aside, unless another process does so at this moment, or has done so.
    fn put_aside(&self) -> io::Result<()> {
        let lock = open(&self.path.with_file_name(LOCK))?;
        if lock.try_lock().is_err() {
            return Ok(());
        }
        let Some((_, own)) = &self.open else {
            return Ok(());
        };
        if Identity::of(&fs::symlink_metadata(&self.path)?) != *own {
            return Ok(());
        }
        for number in (1..=BACKUPS).rev() {
            let newer = match number {
                1 => self.path.clone(),
                _ => backup(&self.path, number - 1),
            };
            if fs::symlink_metadata(&newer).is_ok() {
                fs::rename(newer, backup(&self.path, number))?;
            }
        }
        Ok(())
    }
}

/// An older one; the higher the number, the older.
pub(super) fn backup(path: &Path, number: u32) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".{number}"));
    name.into()
}

/// Opens it to write at its end. What is no file is not waited for, and a link not followed.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(folder: &Path) -> Vec<(String, u64)> {
        let mut sizes: Vec<(String, u64)> = fs::read_dir(folder)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name() != LOCK)
            .map(|entry| {
                let found = entry.metadata().unwrap();
                assert_eq!(found.permissions().mode() & 0o777, 0o600);
                (entry.file_name().into_string().unwrap(), found.len() >> 20)
            })
            .collect();
        sizes.sort();
        sizes
    }

    #[test]
    fn a_log_is_private_and_put_aside_when_it_is_long() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("logs");
        let mut log = LogFile::new(folder.join("warmcell.log"));
        let line = vec![b'x'; 1 << 20];
        for _ in 0..26 {
            log.write_line(&line).unwrap();
        }
        let expected = [
            ("warmcell.log", 1),
            ("warmcell.log.1", 5),
            ("warmcell.log.2", 5),
            ("warmcell.log.3", 5),
        ];
        let expected = expected.map(|(name, size)| (name.to_owned(), size));
        assert_eq!(sizes(&folder), expected);
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    /// As several managers do: each with a file of its own that it has opened.
    #[test]
    fn many_that_write_lose_no_line_and_cut_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("warmcell.log");
        let line =
            |writer: usize, number: usize| format!("{writer} {number} {}\n", "x".repeat(1_000));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let mut log = LogFile::new(path.clone());
                scope.spawn(move || {
                    for number in 0..3_000 {
                        log.write_line(line(writer, number).as_bytes()).unwrap();
                    }
                });
            }
        });
        let mut written = String::new();
        for number in (1..=BACKUPS).rev() {
            written += &fs::read_to_string(backup(&path, number)).unwrap_or_default();
        }
        written += &fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = written.split_inclusive('\n').collect();
        let mut expected: Vec<String> = (0..4)
            .flat_map(|writer| (0..3_000).map(move |number| line(writer, number)))
            .collect();
        lines.sort_unstable();
        expected.sort_unstable();
        assert!(lines == expected, "{} lines of 12,000", lines.len());
    }

    /// The other system has its logs there too, and may have made it.
    #[test]
    fn a_folder_that_others_can_read_will_do_and_one_that_they_can_write_will_not() {
        let folder = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode));
        let path = folder.path().join(LOG_FILE);
        set(0o755).unwrap();
        LogFile::new(path.clone()).write_line(b"a\n").unwrap();
        for mode in [0o777, 0o775, 0o757] {
            set(mode).unwrap();
            let error = LogFile::new(path.clone()).write_line(b"b\n").unwrap_err();
            assert!(error.to_string().contains("chmod go-w"), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"a\n");
    }

    #[test]
    fn links_are_not_followed_and_what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (
            folder.path().join("warmcell.log"),
            folder.path().join("other"),
        );
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(LogFile::new(path.clone()).write_line(b"a\n").is_err());
        assert_eq!(fs::read(&other).unwrap(), b"");
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(LogFile::new(path.clone()).write_line(b"a\n").is_err());
        // One that anybody could read is nobody else's from now on; one that is removed comes back.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut log = LogFile::new(path.clone());
        log.write_line(b"a\n").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::remove_file(&path).unwrap();
        log.write_line(b"b\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"b\n");
    }
}
