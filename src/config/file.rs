//! The file of the configuration, and when it is another one.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::Configuration;

/// The most bytes of a file that is read.
pub const MOST_CONFIGURATION_BYTES: u64 = 1 << 20;

/// The configuration of a home, and the state of its file.
#[derive(Debug, Clone)]
pub struct ConfigurationFile {
    path: PathBuf,
    variables: Vec<(String, String)>,
    stamp: Option<Stamp>,
    /// What it says, as it was read the last time.
    configuration: Configuration,
}

/// By what a file is known to be the same still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

impl ConfigurationFile {
    /// Reads `config.yaml` of a home, and these variables (name, value) over it: those that begin with
    /// `WARMCELL_`, others are not looked at. A file that is not there says nothing.
    ///
    /// Blocks on the file system: three system calls, and none but one where there is no file.
    pub fn read(home: &Path, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |(name, _): &(String, String)| name.starts_with("WARMCELL_");
        let mut file = Self {
            path: home.join("config.yaml"),
            variables: variables.into_iter().filter(ours).collect(),
            stamp: None,
            configuration: Configuration::default(),
        };
        file.read_again();
        file
    }

    /// What it says.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Reads it again if it is another file, or was written to; whether it was. Blocks on the file
    /// system, mostly for a single look.
    pub fn look_again(&mut self) -> bool {
        let stamp = fs::metadata(&self.path).map(|found| Stamp::of(&found));
        if stamp.ok() == self.stamp {
            return false;
        }
        self.read_again();
        true
    }

    fn read_again(&mut self) {
        let read = self.text();
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
        self.configuration = match read {
            Ok(text) => Configuration::parse(&self.path, &text, variables),
            Err(reason) => Configuration::without_file(&self.path, &reason, variables),
        };
    }

    fn text(&mut self) -> Result<Vec<u8>, String> {
        let unreadable = |error: io::Error| format!("cannot be read ({error})");
        // Without waiting for whoever would write to a pipe.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.stamp = None;
        let file = match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
                return if fs::symlink_metadata(&self.path).is_ok() {
                    Err("is a link to a file that is not there".to_owned())
                } else {
                    Ok(Vec::new())
                };
            }
            Err(error) => {
                // It may be another error the next time, or none.
                let found = fs::metadata(&self.path);
                self.stamp = found.ok().map(|found| Stamp::of(&found));
                return Err(unreadable(error.into()));
            }
        };
        let found = file.metadata().map_err(unreadable)?;
        self.stamp = Some(Stamp::of(&found));
        if !found.is_file() {
            return Err("is no file".to_owned());
        }
        let most = MOST_CONFIGURATION_BYTES;
        let too_long = |bytes: u64| format!("has {bytes} bytes, and {most} are read at most");
        if found.len() > most {
            return Err(too_long(found.len()));
        }
        let mut text = Vec::new();
        // It may be growing.
        file.take(most + 1)
            .read_to_end(&mut text)
            .map_err(unreadable)?;
        if text.len() as u64 > most {
            return Err(too_long(text.len() as u64));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn read(home: &Path) -> ConfigurationFile {
        ConfigurationFile::read(home, [])
    }

    #[test]
    fn a_file_that_is_not_there_says_nothing_and_one_that_cannot_be_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        assert_eq!(read(home).configuration(), &Configuration::default());
        assert_eq!(
            read(&home.join("nowhere")).configuration(),
            &Configuration::default()
        );
        let path = home.join("config.yaml");
        let refusal = || read(home).configuration().refusal().unwrap();
        fs::create_dir(&path).unwrap();
        assert!(refusal().starts_with(&path.display().to_string()));
        assert!(refusal().contains("is no file"), "{}", refusal());
        fs::remove_dir(&path).unwrap();
        symlink(home.join("dotfiles.yaml"), &path).unwrap();
        assert!(refusal().contains("a link to a file that is not there"));
        fs::write(home.join("dotfiles.yaml"), "code_execution: {timeout: 5}").unwrap();
        assert_eq!(
            read(home).configuration().values.timeout,
            Some(std::time::Duration::from_secs(5))
        );
        fs::remove_file(&path).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, Mode::RUSR, 0).unwrap();
        assert!(refusal().contains("is no file"), "{}", refusal());
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(50 << 20).unwrap();
        assert!(
            refusal().contains("has 52428800 bytes, and 1048576 are read at most"),
            "{}",
            refusal()
        );
        fs::write(&path, "code_execution: {mode: strict}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
        if !rustix::process::getuid().is_root() {
            assert!(refusal().contains("cannot be read ("), "{}", refusal());
        }
    }

    #[test]
    fn it_is_read_again_when_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        let mut file = read(folder.path());
        let mut looks = |text: Option<&str>| {
            match text {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let changed = file.look_again();
            assert!(!file.look_again());
            (changed, file.configuration().values.max_tool_calls)
        };
        assert_eq!(
            looks(Some("code_execution: {max_tool_calls: 7}")),
            (true, Some(7))
        );
        // As long as before.
        assert_eq!(
            looks(Some("code_execution: {max_tool_calls: 8}")),
            (true, Some(8))
        );
        assert_eq!(looks(None), (true, None));
        assert_eq!(looks(Some("[")), (true, None));
        assert!(file.configuration().refusal().is_some());
    }

    #[test]
    fn variables_win_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("config.yaml"),
            "code_execution: {max_tool_calls: 7, mode: strict}",
        )
        .unwrap();
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let file = ConfigurationFile::read(
            folder.path(),
            [
                variable("WARMCELL_CODE_EXECUTION_MAX_TOOL_CALLS", "9"),
                variable("CODE_EXECUTION_MAX_TOOL_CALLS", "1"),
            ],
        );
        let values = &file.configuration().values;
        assert_eq!(values.max_tool_calls, Some(9));
        assert_eq!(values.mode, Some(super::super::Mode::Strict));
    }
}
