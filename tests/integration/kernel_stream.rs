//! A connection to one of a kernel's sockets, whatever carries it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

use warmcell::jupyter::{Connection, Endpoint, SocketName};

use crate::support::SAFETY;

/// A connection of either transport.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub fn connect(connection: &Connection, name: SocketName) -> io::Result<Self> {
        Ok(match connection.endpoint(name) {
            Endpoint::Tcp(ip, port) => {
                let stream = TcpStream::connect((ip, port))?;
                stream.set_read_timeout(Some(SAFETY))?;
                stream.set_write_timeout(Some(SAFETY))?;
                Self::Tcp(stream)
            }
            Endpoint::Ipc(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(SAFETY))?;
                stream.set_write_timeout(Some(SAFETY))?;
                Self::Unix(stream)
            }
        })
    }

    pub fn shutdown(&self, how: Shutdown) {
        let done = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        };
        done.unwrap();
    }

    pub fn another(&self) -> Self {
        match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone().unwrap()),
            Self::Unix(stream) => Self::Unix(stream.try_clone().unwrap()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
