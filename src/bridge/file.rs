//! The connection file on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::BridgeError;
use crate::jupyter::{Connection, MOST_CONNECTION_BYTES};

/// Reads a connection file; `None` if there is none.
///
/// Blocking.
///
/// # Errors
///
/// If it is no file, cannot be read, or makes no sense.
pub fn read_connection(path: &Path) -> Result<Option<Connection>, BridgeError> {
    let refuse = |source| BridgeError::Read {
        path: path.to_owned(),
        source,
    };
    // Asked first: the opening of a pipe would wait for somebody to write.
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(refuse(io::Error::other("it is no file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refuse(error)),
    }
    let most = u64::try_from(MOST_CONNECTION_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .map_err(refuse)?;
    Connection::parse(&bytes)
        .map(Some)
        .map_err(|source| BridgeError::Connection {
            path: path.to_owned(),
            source,
        })
}

/// A connection file that was made here; removed when dropped.
#[derive(Debug)]
pub struct OwnFile(PathBuf);

impl Drop for OwnFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// Makes a connection file that only its owner can read; never one that is there.
///
/// Blocking.
///
/// # Errors
///
/// If there is something of that name, also a link, or it cannot be written.
pub fn make_connection(path: &Path, connection: &Connection) -> Result<OwnFile, BridgeError> {
    let refuse = |source| BridgeError::Write {
        path: path.to_owned(),
        source,
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(refuse)?;
    let own = OwnFile(path.to_owned());
    file.write_all(connection.to_json().as_bytes())
        .map_err(refuse)?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::jupyter::Transport;

    fn connection() -> Connection {
        Connection {
            transport: Transport::Tcp(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            ports: [1, 2, 3, 4, 5],
            key: "secret".to_owned(),
            kernel_name: Some("warmcell".to_owned()),
        }
    }

    #[test]
    fn it_is_made_for_its_owner_alone_and_never_over_another() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("k.json");
        let own = make_connection(&path, &connection()).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read_connection(&path).unwrap(), Some(connection()));
        assert!(make_connection(&path, &connection()).is_err());
        let link = temp.path().join("link");
        symlink(temp.path().join("target"), &link).unwrap();
        assert!(make_connection(&link, &connection()).is_err());
        assert!(!temp.path().join("target").exists());
        drop(own);
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_name() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(read_connection(&temp.path().join("no")).unwrap(), None);
        let error = read_connection(temp.path()).unwrap_err().to_string();
        assert!(error.contains("no file"), "{error}");
        let path = temp.path().join("k.json");
        fs::write(&path, r#"{"key":"","shell_port":0}"#).unwrap();
        let error = read_connection(&path).unwrap_err().to_string();
        assert!(
            error.contains("k.json cannot be used: shell_port is 0"),
            "{error}"
        );
        fs::write(&path, " ".repeat(1 << 20)).unwrap();
        let error = read_connection(&path).unwrap_err().to_string();
        assert!(error.contains("65537 bytes"), "{error}");
    }
}
