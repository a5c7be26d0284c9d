//! Where the background server of a home says that it lives, whatever becomes of its files.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::doors::whole;

/// A name for sockets that no file stands for (Linux's abstract ones): it is there exactly as long as
/// the process that listens, so nothing that is removed, moved or mounted over hides who lives.
///
/// It is no door: whoever asks is told where the door is, and nothing else, so that what a sandbox
/// hides by hiding files stays hidden. It says nothing of who listens: any user can take the name
/// first, so both sides look at the other's user.
#[derive(Debug, Clone)]
pub struct ServerAddress(PathBuf);

impl ServerAddress {
    /// The address of a home's server. Where other files are seen, or other processes, it is another
    /// one: a server there could not be reached, nor named by its number.
    pub fn of(home: &Path) -> Self {
        let namespace = |name: &str| {
            let found = fs::metadata(Path::new("/proc/self/ns").join(name));
            found.map_or(0, |found| found.ino()).to_le_bytes()
        };
        let digest = Sha256::new()
            .chain_update(namespace("mnt"))
            .chain_update(namespace("pid"))
            .chain_update(whole(home).as_os_str().as_encoded_bytes())
            .finalize();
        let uid = rustix::process::getuid().as_raw();
        let mut name = format!("\0warmcell/{uid}/");
        name.extend(digest.iter().take(16).map(|byte| format!("{byte:02x}")));
        Self(OsString::from_vec(name.into_bytes()).into())
    }

    /// As sockets take it: it begins with a NUL.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_one_address_by_whatever_path_it_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let real = temp.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let address = ServerAddress::of(&real.join("home"));
        let bytes = address.as_path().as_os_str().as_encoded_bytes();
        assert!(bytes.starts_with(b"\0warmcell/") && bytes.len() < 100);
        let is = |other: &Path| ServerAddress::of(other).as_path() == address.as_path();
        assert!(is(&link.join("home")));
        fs::create_dir(real.join("home")).unwrap();
        assert!(is(&link.join("home")) && !is(&link.join("other")));
    }
}
