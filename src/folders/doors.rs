//! Where managers publish their doors: one private folder for each user and home.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

use super::{is_private, private_folder};

/// The socket of the user's background server.
pub const SERVER_SOCKET: &str = "server.sock";
/// What the background server holds for as long as it lives; its number stands in it.
const SERVER_LOCK: &str = "server.lock";
/// How often a folder is opened anew because it was removed meanwhile.
const ATTEMPTS: usize = 64;

/// The folders in which managers of a home may have their doors, best first: below the runtime
/// folder, else in the home, else below the system's temporary folder. A caller without
/// `XDG_RUNTIME_DIR` (cron, ssh) looks where it usually is.
pub fn door_folders(runtime_dir: Option<&Path>, home: &Path) -> Vec<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let own = format!("d-{}", digest(home));
    let mut folders = Vec::new();
    let usual = PathBuf::from(format!("/run/user/{uid}"));
    let given = runtime_dir.filter(|path| path.is_absolute());
    folders.extend(given.map(|path| path.join("warmcell").join(&own)));
    if given != Some(usual.as_path()) && is_private(&usual).is_ok() {
        folders.push(usual.join("warmcell").join(&own));
    }
    folders.push(home.join("warmcell").join("run"));
    folders.push(Path::new("/tmp").join(format!("warmcell-{uid}")).join(own));
    folders
}

/// Eight hex digits that stand for a home, by whatever path it is named.
fn digest(home: &Path) -> String {
    let digest = Sha256::digest(whole(home).as_os_str().as_encoded_bytes());
    let [a, b, c, d, ..]: [u8; 32] = digest.into();
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// The one path of a home that has several. It need not be there yet.
pub(super) fn whole(home: &Path) -> PathBuf {
    for ancestor in home.ancestors() {
        if let Ok(real) = fs::canonicalize(ancestor) {
            let rest = home.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return real.components().chain(rest.components()).collect();
        }
    }
    home.to_owned()
}

/// Held by whoever starts or ends a background server, so that there is one at most.
///
/// It is an flock on the folder itself, and goes with its process, or with the last one that was
/// given [`FolderLock::share`].
#[derive(Debug)]
pub struct FolderLock {
    path: PathBuf,
    folder: File,
}

impl FolderLock {
    /// Makes the folder if it is not there, and waits for the lock. Blocks, for as long as another
    /// holds it.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made, is not private, or its file system does not lock.
    pub fn wait(path: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            if let Some(parent) = path.parent() {
                private_folder(parent)?;
            }
            match private_folder(path) {
                // It was removed as it was looked at.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                made => made?,
            }
            let Some(folder) = open(path)? else { continue };
            folder.lock()?;
            if is_same(path, &folder) {
                return Ok(Self {
                    path: path.to_owned(),
                    folder,
                });
            }
            // Removed while we waited: its server has ended.
        }
        Err(io::Error::other("other programs remove the folder"))
    }

    /// The lock that another process has taken and shared: on one of these folders.
    ///
    /// # Errors
    ///
    /// If the descriptor is that of none of them.
    pub fn from_holder(folder: File, folders: &[PathBuf]) -> io::Result<Self> {
        let path = folders.iter().find(|path| is_same(path, &folder));
        let path = path.cloned().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "it is on no folder of this home")
        })?;
        Ok(Self { path, folder })
    }

    /// As [`FolderLock::wait`], if the folder is there and nobody holds it.
    pub fn try_take(path: &Path) -> Option<Self> {
        is_private(path).ok()?;
        let folder = open(path).ok()??;
        folder.try_lock().ok()?;
        is_same(path, &folder).then(|| Self {
            path: path.to_owned(),
            folder,
        })
    }

    /// Another descriptor of the same lock, for a process that is started: it is let go when both
    /// are closed.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn share(&self) -> io::Result<File> {
        self.folder.try_clone()
    }

    /// Lets go of it, and removes the folder if nothing is in it.
    pub fn forget(self) {
        drop(fs::remove_dir(&self.path));
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => Ok(Some(File::from(folder))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn is_same(path: &Path, file: &File) -> bool {
    let now = fs::symlink_metadata(path);
    let (Ok(now), Ok(found)) = (now, file.metadata()) else {
        return false;
    };
    (now.dev(), now.ino()) == (found.dev(), found.ino())
}

/// What the one background server of a folder holds while it lives.
#[derive(Debug)]
pub struct ServerLock {
    path: PathBuf,
    file: File,
}

impl ServerLock {
    /// Takes it, unless a server lives; then the number of its process.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn take(folder: &FolderLock) -> io::Result<Result<Self, Option<u32>>> {
        let path = folder.path.join(SERVER_LOCK);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0))
            .open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(number(&mut file))),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let numbered = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        let lock = Self { path, file };
        if let Err(error) = numbered {
            lock.release(folder);
            return Err(error);
        }
        Ok(Ok(lock))
    }

    /// Whether the file is where others look for it, in this folder.
    pub fn is_in_place(&self, folder: &Path) -> bool {
        self.path.parent() == Some(folder) && is_same(&self.path, &self.file)
    }

    /// The number of the server that lives in a folder; `None` if none does.
    pub fn holder(folder: &Path) -> Option<u32> {
        is_private(folder).ok()?;
        let mut file = File::open(folder.join(SERVER_LOCK)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => number(&mut file),
            _ => None,
        }
    }

    /// Waits until the server of a folder is gone. Blocks.
    pub fn wait_until_free(folder: &Path) {
        if let Ok(file) = File::open(folder.join(SERVER_LOCK)) {
            file.lock_shared().ok();
        }
    }

    /// Ends it in good order: the file goes, and the folder if nothing else is in it. Whoever takes it
    /// next has another file.
    pub fn release(&self, folder: &FolderLock) {
        if is_same(&self.path, &self.file) {
            drop(fs::remove_file(&self.path));
        }
        // Other managers may have their doors there.
        drop(fs::remove_dir(&folder.path));
    }
}

fn number(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The names of the sockets that stand in a folder of doors, the server's first.
pub fn doors_in(folder: &Path) -> Vec<PathBuf> {
    /// More managers than anybody has.
    const MOST: usize = 1_024;
    if is_private(folder).is_err() {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().take(MOST);
    let mut names: Vec<OsString> = entries
        .flatten()
        .map(|entry| entry.file_name())
        .filter(is_door)
        .collect();
    names.sort_by_key(|name| (name != SERVER_SOCKET, name.clone()));
    names.into_iter().map(|name| folder.join(name)).collect()
}

fn is_door(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| {
        name == SERVER_SOCKET
            || (name.starts_with("m-")
                && Path::new(name).extension().is_some_and(|it| it == "sock"))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_home_has_its_folders_by_whatever_path_it_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let real = temp.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let runtime = temp.path().join("run");
        let first = door_folders(Some(&runtime), &real.join("home"));
        assert!(first[0].starts_with(runtime.join("warmcell")));
        assert_eq!(
            first[0],
            door_folders(Some(&runtime), &link.join("home"))[0]
        );
        fs::create_dir(real.join("home")).unwrap();
        assert_eq!(
            first[0],
            door_folders(Some(&runtime), &link.join("home"))[0]
        );
        assert_ne!(
            first[0],
            door_folders(Some(&runtime), &link.join("other"))[0]
        );
        assert!(first.contains(&real.join("home/warmcell/run")));
    }

    #[test]
    fn there_is_one_server_at_most_and_its_number_is_known() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("doors/d-1");
        let folder = FolderLock::wait(&path).unwrap();
        assert!(FolderLock::try_take(&path).is_none());
        assert_eq!(ServerLock::holder(&path), None);
        let server = ServerLock::take(&folder).unwrap().unwrap();
        let own = std::process::id();
        assert_eq!(ServerLock::take(&folder).unwrap().unwrap_err(), Some(own));
        assert_eq!(ServerLock::holder(&path), Some(own));
        server.release(&folder);
        assert!(!path.exists());
    }

    /// Whoever waited for a folder that was removed gets the one that is there now.
    #[test]
    fn a_lock_is_always_on_the_folder_that_is_there() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("doors/d-1");
        let holders = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let folder = FolderLock::wait(&path).unwrap();
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        let server = ServerLock::take(&folder).unwrap().unwrap();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        server.release(&folder);
                    }
                });
            }
        });
        assert!(!path.exists());
    }

    #[test]
    fn only_doors_are_listed_and_the_servers_comes_first() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("d");
        private_folder(&path).unwrap();
        for name in ["m-1-a.sock", "server.sock", "server.lock", "x.sock", "m-2"] {
            fs::write(path.join(name), "").unwrap();
        }
        let names: Vec<_> = doors_in(&path)
            .iter()
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["server.sock", "m-1-a.sock"]);
    }
}
