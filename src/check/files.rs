//! Signs that a cell gives by making a file: they do not depend on what its kernel does with output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::time::{Instant, timeout_at};

use super::client::{Asked, Client};
use crate::process::PathWatch;

/// The longest that is read of one.
const MOST_BYTES: u64 = 64;

/// A file that is not there yet.
#[derive(Debug)]
pub(super) struct Sign {
    path: PathBuf,
    watch: PathWatch,
}

impl Sign {
    /// A new one in a folder.
    pub(super) fn new(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        // One of an earlier check would be taken for this.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let watch = PathWatch::on(&path)?;
        Ok(Self { path, watch })
    }

    /// Where it is to be, as Python writes it.
    pub(super) fn literal(&self) -> String {
        serde_json::to_string(&self.path.display().to_string()).unwrap_or_default()
    }

    fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// The number that stands in it.
    pub(super) fn number(&self) -> Option<u32> {
        let length = fs::metadata(&self.path).ok()?.len();
        let text = (length <= MOST_BYTES).then(|| fs::read_to_string(&self.path));
        text?.ok()?.trim().parse().ok()
    }

    /// Waits until it is there; false if the cell ends before, or time is up.
    pub(super) async fn given(&self, client: &mut Client, cell: &str, deadline: Instant) -> bool {
        loop {
            if self.is_there() {
                return true;
            }
            let is_over = |asked: &Asked| asked.reply.is_some();
            tokio::select! {
                changed = timeout_at(deadline, self.watch.changed()) => {
                    if !matches!(changed, Ok(Ok(()))) {
                        return self.is_there();
                    }
                }
                _ = client.until(cell, deadline, is_over) => return self.is_there(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_number_is_read_and_what_is_none_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("é");
        fs::write(&path, "from before").unwrap();
        let sign = Sign::new(temp.path(), "é").unwrap();
        assert!(!sign.is_there());
        assert!(sign.literal().ends_with("/é\""), "{}", sign.literal());
        assert_eq!(sign.number(), None);
        for (text, number) in [("12\n", Some(12)), ("", None), ("-1", None)] {
            fs::write(&path, text).unwrap();
            assert_eq!(sign.number(), number);
        }
        fs::write(&path, "1".repeat(100)).unwrap();
        assert_eq!(sign.number(), None);
        sign.watch.changed().await.unwrap();
        assert!(sign.is_there());
    }
}
