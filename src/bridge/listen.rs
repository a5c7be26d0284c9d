//! Listening sockets, over TCP and on Unix sockets.

use std::fs;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, RenameFlags, fchmod, renameat_with};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use super::error::BridgeError;
use crate::ids::random_hex;
use crate::jupyter::{Connection, Endpoint, SocketName, Transport};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1_024;
/// How often a name is tried that others have left or want too.
const TRIES: usize = 8;

/// A stream of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The five sockets of a kernel, listening.
#[derive(Debug)]
pub struct Listeners {
    pub(super) sockets: Vec<(SocketName, Listener)>,
    /// Of them, in the order of `SocketName::ALL`; for Unix sockets the numbers in their names.
    pub(super) ports: [u32; 5],
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
        let ports = connection.ports;
        Ok(Self { sockets, ports })
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
        let ports = connection.ports;
        Ok((Self { sockets, ports }, connection))
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

/// It gets its name when it listens already; it is private from the first moment. A name that a dead
/// kernel has left is taken over, one that somebody answers at is not, also if two come at once.
fn bind_ipc(path: &Path) -> io::Result<Listener> {
    let early = beside(path);
    let listener = private_listener(&early)?;
    let named = fs::symlink_metadata(&early).and_then(|found| {
        take_name(&early, path)?;
        Ok(found.ino())
    });
    match named {
        Ok(inode) => {
            let path = path.to_owned();
            Ok(Listener::Ipc(listener, SocketFile { path, inode }))
        }
        Err(error) => {
            drop(fs::remove_file(&early));
            Err(error)
        }
    }
}

/// A name in the same folder that nobody else has.
fn beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}", random_hex(4)))
}

fn private_listener(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Before it has a name: the file gets the mode of the socket.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

fn take_name(early: &Path, path: &Path) -> io::Result<()> {
    for _ in 0..TRIES {
        match rename_to_new(early, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => clear_of_the_dead(path)?,
            renamed => return renamed,
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrInUse))
}

/// Never over what is there.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems cannot do that.
        Err(Errno::INVAL | Errno::NOSYS) if !to.exists() => fs::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS) => Err(Errno::EXIST.into()),
        renamed => Ok(renamed?),
    }
}

/// Takes a socket away at which nobody answers.
fn clear_of_the_dead(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(_gone) => return Ok(()),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is something else of that name",
            ));
        }
        Ok(_) if is_alive(path) => return Err(io::Error::from(io::ErrorKind::AddrInUse)),
        Ok(_) => {}
    }
    // Looked at again under a name that nobody else has: meanwhile another kernel may have taken the
    // name over.
    let aside = beside(path);
    match fs::rename(path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        moved => moved?,
    }
    if is_alive(&aside) {
        rename_to_new(&aside, path)?;
        return Err(io::Error::from(io::ErrorKind::AddrInUse));
    }
    fs::remove_file(&aside)
}

/// Whether somebody listens there, also if it does not come to answer.
fn is_alive(path: &Path) -> bool {
    match StdUnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
    async fn of_those_who_come_at_once_one_has_the_sockets() {
        let temp = tempfile::tempdir().unwrap();
        let connection = ipc(&temp.path().join("k"));
        for _ in 0..50 {
            // What a dead kernel has left.
            for port in 1..6 {
                let left = temp.path().join(format!("k-{port}"));
                drop(std::os::unix::net::UnixListener::bind(left).unwrap());
            }
            let runtime = tokio::runtime::Handle::current();
            let bound: Vec<_> = std::thread::scope(|scope| {
                let come = || {
                    let _inside = runtime.enter();
                    Listeners::bind(&connection)
                };
                let threads: Vec<_> = (0..2).map(|_| scope.spawn(come)).collect();
                threads.into_iter().map(|it| it.join().unwrap()).collect()
            });
            let living: Vec<_> = bound.into_iter().flatten().collect();
            assert!(living.len() <= 1);
            if let [_one] = &living[..] {
                for port in 1..6 {
                    assert!(is_alive(&temp.path().join(format!("k-{port}"))));
                }
            }
            drop(living);
            assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        }
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
