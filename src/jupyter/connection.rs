//! Connection files: where the five sockets of a kernel are, and with which key messages are signed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::signature::{SIGNATURE_SCHEME, Signer};
use super::wire_error::ConnectionError;

/// The longest connection file, in bytes.
pub const MOST_CONNECTION_BYTES: usize = 64 << 10;
/// The longest key.
const MOST_KEY_BYTES: usize = 4 << 10;
/// The longest path of a Unix socket, its end included.
const MOST_PATH_BYTES: usize = 107;
/// What is shown of a value in a sentence.
const SHOWN_CHARACTERS: usize = 60;

/// One of a kernel's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketName {
    /// Requests and replies.
    Shell,
    /// What the kernel publishes.
    Iopub,
    /// Questions of the kernel, and the answers.
    Stdin,
    /// Requests that must not wait behind a cell.
    Control,
    /// Echoes what it gets.
    Heartbeat,
}

impl SocketName {
    /// All of them, in the order of the file.
    pub const ALL: [Self; 5] = [
        Self::Shell,
        Self::Iopub,
        Self::Stdin,
        Self::Control,
        Self::Heartbeat,
    ];

    /// The key of its port.
    pub const fn port_key(self) -> &'static str {
        match self {
            Self::Shell => "shell_port",
            Self::Iopub => "iopub_port",
            Self::Stdin => "stdin_port",
            Self::Control => "control_port",
            Self::Heartbeat => "hb_port",
        }
    }
}

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Over TCP.
    Tcp(IpAddr, u16),
    /// A Unix socket.
    Ipc(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(IpAddr::V6(ip), port) => write!(formatter, "tcp://[{ip}]:{port}"),
            Self::Tcp(ip, port) => write!(formatter, "tcp://{ip}:{port}"),
            Self::Ipc(path) => write!(formatter, "ipc://{}", path.display()),
        }
    }
}

/// How the sockets are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// TCP at an address.
    Tcp(IpAddr),
    /// Unix sockets, named by this and the number of a port: `PREFIX-1` and so on.
    Ipc(String),
}

/// What a connection file says.
#[derive(Clone, PartialEq, Eq)]
pub struct Connection {
    /// How the sockets are reached.
    pub transport: Transport,
    /// In the order of [`SocketName::ALL`].
    pub ports: [u32; 5],
    /// With which messages are signed; empty: they are not.
    pub key: String,
    /// Of which kernelspec the kernel is, where that is said.
    pub kernel_name: Option<String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        formatter
            .debug_struct("Connection")
            .field("transport", &self.transport)
            .field("ports", &self.ports)
            .field("kernel_name", &self.kernel_name)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads a connection file. Unknown keys are ignored.
    ///
    /// # Errors
    ///
    /// If it is too long, no JSON object, or a value cannot be used: the sentence names key and value,
    /// and never shows the key of the signatures.
    pub fn parse(bytes: &[u8]) -> Result<Self, ConnectionError> {
        if bytes.len() > MOST_CONNECTION_BYTES {
            return Err(ConnectionError::TooLong {
                length: bytes.len(),
                limit: MOST_CONNECTION_BYTES,
            });
        }
        let fields: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| ConnectionError::NotAnObject {
                // Not with what is there: it may be the key.
                reason: format!("line {}, column {}", error.line(), error.column()),
            })?;
        let fields = Fields(&fields);
        fields.refuse_curve()?;
        let scheme = fields.text("signature_scheme")?.unwrap_or(SIGNATURE_SCHEME);
        let key = fields.key()?;
        Signer::new(scheme, key.as_bytes())?;
        let transport = fields.transport()?;
        let mut ports = [0; 5];
        for (port, name) in ports.iter_mut().zip(SocketName::ALL) {
            *port = fields.port(name.port_key(), &transport)?;
        }
        let connection = Self {
            transport,
            ports,
            key: key.to_owned(),
            kernel_name: fields.text("kernel_name")?.map(str::to_owned),
        };
        connection.distinct()?;
        Ok(connection)
    }

    /// The file, as Jupyter writes it.
    pub fn to_json(&self) -> String {
        let (transport, ip) = match &self.transport {
            Transport::Tcp(ip) => ("tcp", ip.to_string()),
            Transport::Ipc(prefix) => ("ipc", prefix.clone()),
        };
        let mut file = Map::new();
        for (port, name) in self.ports.iter().zip(SocketName::ALL) {
            file.insert(name.port_key().to_owned(), json!(port));
        }
        file.insert("ip".to_owned(), json!(ip));
        file.insert("key".to_owned(), json!(self.key));
        file.insert("transport".to_owned(), json!(transport));
        file.insert("signature_scheme".to_owned(), json!(SIGNATURE_SCHEME));
        let name = self.kernel_name.as_deref().unwrap_or_default();
        file.insert("kernel_name".to_owned(), json!(name));
        // An object of texts and numbers can always be written.
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Where a socket listens.
    pub fn endpoint(&self, name: SocketName) -> Endpoint {
        let of = SocketName::ALL.iter().zip(self.ports);
        let port = of
            .filter(|(known, _)| **known == name)
            .map(|(_, port)| port)
            .next()
            .unwrap_or_default();
        match &self.transport {
            // What was read is within bounds.
            Transport::Tcp(ip) => Endpoint::Tcp(*ip, u16::try_from(port).unwrap_or_default()),
            Transport::Ipc(prefix) => Endpoint::Ipc(PathBuf::from(format!("{prefix}-{port}"))),
        }
    }

    /// What signs and verifies its messages.
    ///
    /// # Errors
    ///
    /// If the key cannot be used.
    pub fn signer(&self) -> Result<Signer, ConnectionError> {
        Ok(Signer::new(SIGNATURE_SCHEME, self.key.as_bytes())?)
    }

    fn distinct(&self) -> Result<(), ConnectionError> {
        let named = || SocketName::ALL.iter().zip(self.ports);
        for (place, (first, port)) in named().enumerate() {
            if let Some((second, _)) = named().skip(place + 1).find(|(_, other)| *other == port) {
                return Err(ConnectionError::SamePort {
                    first: first.port_key(),
                    second: second.port_key(),
                    port,
                });
            }
        }
        Ok(())
    }
}

/// The keys of a file.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// A text; `None` if it is null or not there.
    fn text(&self, key: &'static str) -> Result<Option<&'a str>, ConnectionError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(refused(key, other, "it must be a string")),
        }
    }

    fn key(&self) -> Result<&'a str, ConnectionError> {
        let key = match self.0.get("key") {
            None => return Err(ConnectionError::Missing { key: "key" }),
            Some(Value::String(key)) if key.len() <= MOST_KEY_BYTES => key,
            Some(_secret) => {
                return Err(ConnectionError::Value {
                    key: "key",
                    value: "not shown".to_owned(),
                    wanted: "it must be a string of at most 4096 bytes, empty for no signatures",
                });
            }
        };
        Ok(key)
    }

    /// Encryption that was asked for is not silently left out.
    fn refuse_curve(&self) -> Result<(), ConnectionError> {
        for key in ["curve_publickey", "curve_secretkey"] {
            if self.0.get(key).is_some_and(|value| !value.is_null()) {
                return Err(ConnectionError::Value {
                    key,
                    value: "set".to_owned(),
                    wanted: "Warmcell does not encrypt ZeroMQ: take the curve keys out, or tunnel the ports",
                });
            }
        }
        Ok(())
    }

    fn transport(&self) -> Result<Transport, ConnectionError> {
        let ip = self.text("ip")?;
        match self.text("transport")?.unwrap_or("tcp") {
            "tcp" => {
                let text = ip.unwrap_or("127.0.0.1");
                let ip = match text {
                    "*" => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                    "localhost" | "" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                    text => text.trim_matches(['[', ']']).parse().ok(),
                };
                let wanted =
                    "it must be an address of this machine (127.0.0.1, ::1, ...), localhost or *";
                ip.map(Transport::Tcp)
                    .ok_or_else(|| refused("ip", &json!(text), wanted))
            }
            "ipc" => {
                let prefix = ip.unwrap_or("kernel-ipc");
                // With a dash and the number of a port.
                let fits = prefix.len() + 1 + 10 <= MOST_PATH_BYTES;
                if !fits || prefix.is_empty() || prefix.contains('\0') || prefix.starts_with('@') {
                    let wanted = "with transport ipc it must be a path of 1 to 96 bytes, without NUL and not \
                                  beginning with @";
                    return Err(refused("ip", &json!(prefix), wanted));
                }
                Ok(Transport::Ipc(prefix.to_owned()))
            }
            other => Err(refused(
                "transport",
                &json!(other),
                "it must be \"tcp\" or \"ipc\"",
            )),
        }
    }

    fn port(&self, key: &'static str, transport: &Transport) -> Result<u32, ConnectionError> {
        let value = self.0.get(key).ok_or(ConnectionError::Missing { key })?;
        let (most, wanted) = match transport {
            Transport::Tcp(_) => (65_535, "it must be a port, 1 to 65535"),
            Transport::Ipc(_) => (u32::MAX, "it must be a number, 1 to 4294967295"),
        };
        value
            .as_u64()
            .and_then(|port| u32::try_from(port).ok())
            .filter(|port| (1..=most).contains(port))
            .ok_or_else(|| refused(key, value, wanted))
    }
}

fn refused(key: &'static str, value: &Value, wanted: &'static str) -> ConnectionError {
    ConnectionError::Value {
        key,
        value: shown(value),
        wanted,
    }
}

/// A value in a sentence.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        plain => {
            let text = plain.to_string();
            match text.char_indices().nth(SHOWN_CHARACTERS) {
                None => text,
                Some((end, _)) => format!("{}...", text.split_at(end).0),
            }
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
