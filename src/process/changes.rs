//! What becomes of a file and of the folders on the way to it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::watch::watch;

/// How much is read of what has happened at once; only that something has is of interest.
const READ_BYTES: usize = 4_096;
/// How often at most, so that one who makes it happen without end holds nobody up.
const READS: usize = 256;

/// Tells when what a path names may be something else: from when it is made, without a gap.
///
/// It watches the folder that holds the file, for what happens in it, and each folder above for
/// what happens to it itself: a folder that is removed is emptied first, one that is moved or whose
/// mode is changed says so. What says nothing at all (something is mounted over it) is not seen.
#[derive(Debug)]
pub struct PathWatch {
    inotify: AsyncFd<OwnedFd>,
}

impl PathWatch {
    /// Watches a path; if its folder is not there, the nearest one above, for its coming.
    ///
    /// # Errors
    ///
    /// If the system gives no more of these, or nothing on the way can be watched.
    pub fn on(path: &Path) -> io::Result<Self> {
        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let itself = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        let inside =
            WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
        let mut lowest = true;
        let mut failed = None;
        for folder in path.ancestors().skip(1) {
            let mask = if lowest { itself | inside } else { itself };
            match add_watch(&inotify, folder, mask | WatchFlags::ONLYDIR) {
                Ok(_number) => lowest = false,
                Err(error) => failed = Some(error),
            }
        }
        if lowest {
            let error = failed.unwrap_or(rustix::io::Errno::NOENT);
            return Err(error.into());
        }
        Ok(Self {
            inotify: watch(inotify, Interest::READABLE)?,
        })
    }

    /// Waits until something has happened, and forgets what has happened so far.
    ///
    /// # Errors
    ///
    /// If the runtime is shutting down.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn changed(&self) -> io::Result<()> {
        let mut ready = self.inotify.readable().await?;
        for _ in 0..READS {
            let mut buffer = [MaybeUninit::<u8>::uninit(); READ_BYTES];
            match rustix::io::read(self.inotify.get_ref(), &mut buffer) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_none) => {
                    ready.clear_ready();
                    break;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SAFETY: Duration = Duration::from_secs(10);

    /// Whatever is done to a file or to a folder on the way to it is noticed, and what is done before
    /// it is asked for too.
    #[tokio::test]
    async fn what_is_done_on_the_way_to_a_file_is_noticed() {
        type Deed = fn(&Path);
        let deeds: [(&str, Deed); 7] = [
            ("removed", |top| {
                fs::remove_file(top.join("a/b/file")).unwrap();
            }),
            ("folder removed", |top| {
                fs::remove_dir_all(top.join("a/b")).unwrap();
            }),
            ("all removed", |top| fs::remove_dir_all(top).unwrap()),
            ("moved", |top| {
                fs::rename(top.join("a/b"), top.join("c")).unwrap();
            }),
            ("moved above", |top| {
                fs::rename(top, top.with_file_name("moved")).unwrap();
            }),
            ("replaced", |top| {
                fs::write(top.join("a/b/n"), "").unwrap();
                fs::rename(top.join("a/b/n"), top.join("a/b/file")).unwrap();
            }),
            ("mode", |top| {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                fs::set_permissions(top.join("a"), mode).unwrap();
            }),
        ];
        for (name, deed) in deeds {
            let temp = tempfile::tempdir().unwrap();
            let top = temp.path().join("top");
            fs::create_dir_all(top.join("a/b")).unwrap();
            let path = top.join("a/b/file");
            // Held open: then no folder tells of its own end.
            let _held = fs::File::create(&path).unwrap();
            let watch = PathWatch::on(&path).unwrap();
            assert!(
                timeout(Duration::from_millis(20), watch.changed())
                    .await
                    .is_err(),
                "{name}"
            );
            deed(&top);
            let noticed = timeout(SAFETY, watch.changed()).await;
            assert!(matches!(noticed, Ok(Ok(()))), "{name}: {noticed:?}");
        }
    }

    #[tokio::test]
    async fn the_coming_of_a_folder_is_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let watch = PathWatch::on(&temp.path().join("a/b/file")).unwrap();
        fs::create_dir(temp.path().join("a")).unwrap();
        let noticed = timeout(SAFETY, watch.changed()).await;
        assert!(matches!(noticed, Ok(Ok(()))), "{noticed:?}");
        // It is told once.
        let again = timeout(Duration::from_millis(20), watch.changed()).await;
        assert!(again.is_err(), "{again:?}");
    }
}
