//! Where a kernel is to have its sockets, and the way to them once they listen.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

use super::connection::connect;
use crate::bridge::listen::Stream;
use crate::ids::random_hex;
use crate::jupyter::{Connection, Endpoint, SocketName, Transport};
use crate::process::PathWatch;

/// Bytes of a random key.
const KEY_BYTES: usize = 32;
/// How long it is waited before a socket is tried again of which nobody tells that it listens now;
/// twice as long each time, up to the longest, as between the two sockets of `ZeroMQ` itself.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// The sockets that are connected to. The heartbeat is not: a process that is our own child is known
/// to live.
const SOCKETS: [SocketName; 4] = [
    SocketName::Iopub,
    SocketName::Shell,
    SocketName::Control,
    SocketName::Stdin,
];

/// The places of a kernel's sockets.
#[derive(Debug)]
pub(crate) struct Places {
    /// As its connection file says them.
    pub(crate) connection: Connection,
    /// Ports that are kept for the kernel: nobody else is given one of them, and it can have them
    /// nevertheless, as both sides allow the reuse of an address (`ZeroMQ` does) and this one does not
    /// listen.
    _kept: Vec<TcpSocket>,
}

impl Places {
    /// Unix sockets whose names begin with this path.
    pub(crate) fn ipc(prefix: &Path, kernel_name: &str) -> Self {
        Self {
            connection: Connection {
                transport: Transport::Ipc(prefix.display().to_string()),
                ports: [1, 2, 3, 4, 5],
                key: random_hex(KEY_BYTES),
                kernel_name: Some(kernel_name.to_owned()),
            },
            _kept: Vec::new(),
        }
    }

    /// Free ports of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// If there are none. To be called within a runtime of tokio.
    pub(crate) fn tcp(kernel_name: &str) -> io::Result<Self> {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut kept = Vec::new();
        let mut ports = [0; 5];
        for port in &mut ports {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind((ip, 0).into())?;
            *port = socket.local_addr()?.port().into();
            kept.push(socket);
        }
        let connection = Connection {
            transport: Transport::Tcp(ip),
            ports,
            key: random_hex(KEY_BYTES),
            kernel_name: Some(kernel_name.to_owned()),
        };
        Ok(Self {
            connection,
            _kept: kept,
        })
    }

    /// Whether one of its sockets is there already, as far as that can be seen: over TCP it cannot.
    pub(crate) fn has_any(&self) -> bool {
        let mut places = SocketName::ALL
            .into_iter()
            .flat_map(|name| places(&self.connection, name));
        places.any(|it| matches!(it, Endpoint::Ipc(path) if path.symlink_metadata().is_ok()))
    }
}

/// Connects to a kernel's sockets, each as soon as it listens; for ever, if it never does. Nobody else
/// may be able to listen there before the kernel.
///
/// # Cancel safety
///
/// May be dropped.
pub(crate) async fn reach(connection: &Connection) -> Vec<(SocketName, Box<dyn Stream>)> {
    // Before the first look, so nothing is missed; none if the system gives no more of these.
    let watch = match connection.endpoint(SocketName::Shell) {
        Endpoint::Ipc(path) => PathWatch::on(&path).ok(),
        Endpoint::Tcp(..) => None,
    };
    let mut streams = Vec::new();
    for name in SOCKETS {
        let stream = reach_one(&places(connection, name), watch.as_ref()).await;
        streams.push((name, stream));
    }
    streams
}

async fn reach_one(places: &[Endpoint], watch: Option<&PathWatch>) -> Box<dyn Stream> {
    let mut pause = PAUSE;
    loop {
        let mut is_there = false;
        for place in places {
            match connect(place).await {
                Ok(stream) => return stream,
                Err(error) => is_there |= error.kind() != io::ErrorKind::NotFound,
            }
        }
        match watch {
            // Its coming is told.
            Some(watch) if !is_there => happened(watch).await,
            // It has its name and does not listen yet: two calls of the kernel's, one right after the
            // other. Nobody tells of the second, nor of a port.
            Some(watch) => drop(timeout(pause, happened(watch)).await),
            None => sleep(pause).await,
        }
        if is_there || watch.is_none() {
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Where a socket may be. Many kernels name Unix sockets as if they were ports.
fn places(connection: &Connection, name: SocketName) -> Vec<Endpoint> {
    let mut places = vec![connection.endpoint(name)];
    let number = SocketName::ALL.iter().zip(connection.ports);
    let number = number.filter(|(known, _)| **known == name).map(|it| it.1);
    if let Transport::Ipc(prefix) = &connection.transport {
        places.extend(number.map(|port| Endpoint::Ipc(format!("{prefix}:{port}").into())));
    }
    places
}

/// Waits until a file has come or gone.
async fn happened(watch: &PathWatch) {
    if watch.changed().await.is_err() {
        // The end of the runtime; whoever waits has a deadline.
        std::future::pending::<()>().await;
    }
}
