//! Listening sockets, over TCP and on Unix sockets.

use std::fs::{self, Permissions};
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use super::error::BridgeError;
use crate::ids::random_hex;
use crate::jupyter::{Connection, Endpoint, SocketName, Transport};

/// A stream of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The five sockets of a kernel, listening.
#[derive(Debug)]
pub struct Listeners {
    pub(super) sockets: Vec<(SocketName, Listener)>,
}

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    /// With its name, which goes with it.
    Ipc(UnixListener, SocketFile),
}

/// The name of a Unix socket; removed when dropped, if it is still ours.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The kernel that comes after this one may have its own there already.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            drop(fs::remove_file(&self.path));
        }
    }
}

impl Listeners {
    /// Listens where a connection says. To be called within a runtime of tokio.
    ///
    /// # Errors
    ///
    /// If one of the five places cannot be had; then none is kept.
    pub fn bind(connection: &Connection) -> Result<Self, BridgeError> {
        let mut sockets = Vec::new();
        for name in SocketName::ALL {
            let endpoint = connection.endpoint(name);
            let listener = Listener::bind(&endpoint).map_err(|source| BridgeError::Listen {
                endpoint: endpoint.to_string(),
                key: name.port_key(),
                source,
            })?;
            sockets.push((name, listener));
        }
        Ok(Self { sockets })
    }

    /// Listens at five free ports of 127.0.0.1, with a new key: nobody can take a port in between,
    /// and the connection file is written when everything listens already.
    ///
    /// # Errors
    ///
    /// If no port can be had.
    pub fn anywhere(kernel_name: &str) -> Result<(Self, Connection), BridgeError> {
        let ip = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
        let mut connection = Connection {
            transport: Transport::Tcp(ip),
            ports: [0; 5],
            key: random_hex(32),
            kernel_name: Some(kernel_name.to_owned()),
        };
        let mut sockets = Vec::new();
        for (port, name) in connection.ports.iter_mut().zip(SocketName::ALL) {
            let bound = Listener::bind(&Endpoint::Tcp(ip, 0)).and_then(|listener| match listener {
                Listener::Tcp(tcp) => Ok((u32::from(tcp.local_addr()?.port()), tcp)),
                Listener::Ipc(..) => Err(io::Error::other("another transport")),
            });
            let (chosen, tcp) = bound.map_err(|source| BridgeError::Listen {
                endpoint: Endpoint::Tcp(ip, 0).to_string(),
                key: name.port_key(),
                source,
            })?;
            *port = chosen;
            sockets.push((name, Listener::Tcp(tcp)));
        }
        Ok((Self { sockets }, connection))
    }
}

impl Listener {
    fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(ip, port) => {
                // The kernel before this one may have had connections there a moment ago: std lets
                // the address be used again.
                let listener = StdTcpListener::bind((*ip, *port))?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(TcpListener::from_std(listener)?))
            }
            Endpoint::Ipc(path) => bind_ipc(path),
        }
    }

    /// The next connection of somebody who may come in.
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Ipc(listener, file) => loop {
                let (stream, _) = listener.accept().await?;
                let own = rustix::process::getuid().as_raw();
                match stream.peer_cred() {
                    Ok(peer) if [own, 0].contains(&peer.uid()) => return Ok(Box::new(stream)),
                    peer => tracing::warn!(?peer, ?file.path, "another user was turned away"),
                }
            },
        }
    }
}

/// It gets its name when it listens already and is private; a name that a dead kernel has left is
/// taken over, one that somebody answers at is not.
fn bind_ipc(path: &Path) -> io::Result<Listener> {
    match fs::symlink_metadata(path) {
        Err(_missing) => {}
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is something else of that name",
            ));
        }
        Ok(_) => match StdUnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            _ => return Err(io::Error::from(io::ErrorKind::AddrInUse)),
        },
    }
    let early = path.with_file_name(format!(".{}", random_hex(4)));
    let listener = UnixListener::bind(&early)?;
    let named = fs::set_permissions(&early, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&early, path))
        .and_then(|()| fs::symlink_metadata(path));
    match named {
        Ok(found) => {
            let file = SocketFile {
                path: path.to_owned(),
                inode: found.ino(),
            };
            Ok(Listener::Ipc(listener, file))
        }
        Err(error) => {
            drop(fs::remove_file(&early));
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipc(prefix: &Path) -> Connection {
        Connection {
            transport: Transport::Ipc(prefix.to_str().unwrap().to_owned()),
            ports: [1, 2, 3, 4, 5],
            key: String::new(),
            kernel_name: None,
        }
    }

    #[tokio::test]
    async fn unix_sockets_are_private_taken_over_from_the_dead_and_removed() {
        let temp = tempfile::tempdir().unwrap();
        let prefix = temp.path().join("k");
        let first = temp.path().join("k-1");
        drop(std::os::unix::net::UnixListener::bind(&first).unwrap());
        let listeners = Listeners::bind(&ipc(&prefix)).unwrap();
        let mode = fs::metadata(&first).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = Listeners::bind(&ipc(&prefix)).unwrap_err().to_string();
        assert!(error.contains("k-1 for shell_port"), "{error}");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 5);
        drop(listeners);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        fs::write(&first, "").unwrap();
        assert!(Listeners::bind(&ipc(&prefix)).is_err());
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn free_ports_are_bound_before_they_are_told() {
        let (_listeners, connection) = Listeners::anywhere("warmcell").unwrap();
        assert_eq!(connection.key.len(), 64);
        let error = Listeners::bind(&connection).unwrap_err().to_string();
        assert!(error.contains("for shell_port"), "{error}");
        let read = Connection::parse(connection.to_json().as_bytes());
        assert_eq!(read, Ok(connection));
    }
}
