//! Commands of ZMTP: READY, subscriptions, pings.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::zmtp::{COMMAND, put_head};
use super::zmtp_error::ZmtpError;

/// The longest identity of a peer.
pub const MOST_IDENTITY_BYTES: usize = 255;

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZmtpCommand {
    /// The peer is there.
    Ready {
        /// What kind of socket it is: `DEALER`, `SUB`, ...
        socket_type: String,
        /// By which messages are addressed to it; empty where it has none.
        identity: Bytes,
    },
    /// It wants messages with this beginning.
    Subscribe(Bytes),
    /// It does not want them any more.
    Cancel(Bytes),
    /// It wants to know whether we are there; the context is to be sent back.
    Ping(Bytes),
    /// We were there.
    Pong,
    /// It has had enough.
    Error(Bytes),
    /// Another one, which may be ignored.
    Unknown,
}

/// The command READY, as a frame.
pub fn ready(socket_type: &str, identity: &[u8]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_slice(b"\x05READY");
    for (name, value) in [
        ("Socket-Type", socket_type.as_bytes()),
        ("Identity", identity),
    ] {
        body.put_u8(u8::try_from(name.len()).unwrap_or_default());
        body.put_slice(name.as_bytes());
        // No value of ours is that long.
        body.put_u32(u32::try_from(value.len()).unwrap_or_default());
        body.put_slice(value);
    }
    command(&body)
}

/// The answer to a ping, as a frame.
pub fn pong(context: &[u8]) -> Bytes {
    command(&[b"\x04PONG", context].concat())
}

pub(super) fn command(body: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    put_head(&mut frame, COMMAND, body.len());
    frame.put_slice(body);
    frame.freeze()
}

/// The body of a frame that is a command.
pub(super) fn parse_command(body: &Bytes) -> Result<ZmtpCommand, ZmtpError> {
    let senseless = ZmtpError::Command;
    let (length, rest) = body.split_first().ok_or(senseless.clone())?;
    let length = usize::from(*length);
    let name = rest.get(..length).ok_or(senseless.clone())?;
    let data = body.slice(1 + length..);
    Ok(match name {
        b"READY" => parse_ready(&data)?,
        b"SUBSCRIBE" => ZmtpCommand::Subscribe(data),
        b"CANCEL" => ZmtpCommand::Cancel(data),
        b"PING" => {
            // Behind two bytes of time.
            let context = data.get(2..).ok_or(senseless)?;
            ZmtpCommand::Ping(data.slice_ref(context))
        }
        b"PONG" => ZmtpCommand::Pong,
        b"ERROR" => ZmtpCommand::Error(data),
        _ => ZmtpCommand::Unknown,
    })
}

fn parse_ready(data: &Bytes) -> Result<ZmtpCommand, ZmtpError> {
    let mut rest = data.clone();
    let mut socket_type = String::new();
    let mut identity = Bytes::new();
    let part = |rest: &mut Bytes, length: usize| {
        (length <= rest.len())
            .then(|| rest.split_to(length))
            .ok_or(ZmtpError::Command)
    };
    while !rest.is_empty() {
        let length = usize::from(rest.get_u8());
        let name = part(&mut rest, length)?;
        let length = rest.try_get_u32().map_err(|_short| ZmtpError::Command)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let value = part(&mut rest, length)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            socket_type = String::from_utf8_lossy(&value).into_owned();
        } else if name.eq_ignore_ascii_case(b"Identity") {
            identity = value;
        }
    }
    if identity.len() > MOST_IDENTITY_BYTES {
        return Err(ZmtpError::Identity {
            length: identity.len(),
        });
    }
    Ok(ZmtpCommand::Ready {
        socket_type,
        identity,
    })
}
