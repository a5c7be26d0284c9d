//! A second door, over TCP: only when it is asked for, and only for those who have the token.

use std::fs::File;
use std::future::pending;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::door::{Served, TOO_MANY};
use super::refusal::Refusal;
use super::{Manager, ServerError};
use crate::ids::random_hex;
use crate::process::until_worth_another_try;

/// Random bytes in a token.
const TOKEN_BYTES: usize = 32;
/// Characters that a token from a file must have.
const LEAST_CHARS: usize = 16;
/// The longest file with a token.
const MOST_BYTES: u64 = 4_096;
/// A peer that is silent for so long is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(30);
/// So often, at this distance, before it counts as gone.
const QUESTIONS: u32 = 4;
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(15);

/// What whoever comes over TCP has to know.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// A file that gives no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It cannot be read.
    #[error("cannot read the token in {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others can read it.
    #[error(
        "the file with the token, {}, is not yours alone; `chmod 600` it, or make a new one",
        path.display()
    )]
    Open {
        /// Which.
        path: PathBuf,
    },
    /// What it holds is no token.
    #[error(
        "{} holds no token: one line of 16 or more letters, digits, `-`, `_`, `.` or `~` is one",
        path.display()
    )]
    NoToken {
        /// Which.
        path: PathBuf,
    },
}

impl Token {
    /// One that nobody knows yet: 32 random bytes.
    pub fn random() -> Self {
        Self(random_hex(TOKEN_BYTES).into())
    }

    /// The one in a file that its owner alone can read. Blocks for a moment.
    ///
    /// # Errors
    ///
    /// If it cannot be read, others can read it, or what it holds would not do.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        let path = path.to_owned();
        // A FIFO would be waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let read = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|file| {
                let file = File::from(file);
                let found = file.metadata()?;
                let mut text = Vec::new();
                file.take(MOST_BYTES).read_to_end(&mut text)?;
                Ok((found, text))
            });
        let (found, text) = match read {
            Ok(read) => read,
            Err(source) => return Err(TokenError::Unreadable { path, source }),
        };
        let is_own = found.uid() == rustix::process::getuid().as_raw();
        if !found.is_file() || !is_own || found.mode() & 0o077 != 0 {
            return Err(TokenError::Open { path });
        }
        let text = String::from_utf8(text).unwrap_or_default();
        let text = text.trim();
        let may_be = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        if text.len() < LEAST_CHARS || !text.chars().all(may_be) {
            return Err(TokenError::NoToken { path });
        }
        Ok(Self(text.into()))
    }

    /// The token, as it stands in addresses.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in a time that tells nothing about the token.
    fn is(&self, given: &str) -> bool {
        let digest = |text: &str| Sha256::digest(text.as_bytes());
        let pairs = digest(&self.0).into_iter().zip(digest(given));
        pairs.fold(0, |differs, (own, other)| differs | (own ^ other)) == 0
    }
}

/// A door that anybody on the network may knock at. Dropping it closes it; who is in stays.
#[derive(Debug)]
pub struct TcpDoor {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl TcpDoor {
    /// Whether a text is an address of the form `HOST:PORT`; nothing is looked up.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub fn check(address: &str) -> Result<(), ServerError> {
        let may_be = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_named = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && host.chars().all(may_be) && port.parse::<u16>().is_ok()
        });
        if is_named || address.parse::<SocketAddr>().is_ok() {
            return Ok(());
        }
        let address = address.to_owned();
        Err(ServerError::Address { address })
    }

    /// Listens on an address: `127.0.0.1:8888`, `localhost:0` for any port.
    ///
    /// # Errors
    ///
    /// If it is no address, or cannot be listened on.
    pub async fn open(
        manager: &Arc<Manager>,
        address: &str,
        token: Token,
    ) -> Result<Self, ServerError> {
        Self::check(address)?;
        let failed = |source| ServerError::Listen {
            address: address.to_owned(),
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let served = Served::with_token(Arc::clone(manager), token);
        Ok(Self {
            address,
            accepting: tokio::spawn(accept(listener, served)),
        })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TcpDoor {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, served: Served) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => admit(stream, &served),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                until_worth_another_try(pending()).await;
            }
        }
    }
}

fn admit(stream: TcpStream, served: &Served) {
    let Some(place) = served.place() else {
        tracing::warn!("a connection over TCP was turned away: too many are open");
        // As much as fits at once: nobody is waited for here.
        drop(stream.try_write(TOO_MANY));
        return;
    };
    // A host that is gone says nothing: without questions it would be waited for.
    let asked = set_socket_keepalive(&stream, true)
        .and_then(|()| set_tcp_keepidle(&stream, SILENCE))
        .and_then(|()| set_tcp_keepintvl(&stream, BETWEEN_QUESTIONS))
        .and_then(|()| set_tcp_keepcnt(&stream, QUESTIONS));
    if let Err(error) = asked {
        tracing::debug!(%error, "a host that goes will not be noticed");
    }
    drop(stream.set_nodelay(true));
    tokio::spawn(served.clone().serve(stream, None, place));
}

/// Lets through who has the token: in `Authorization`, or in the address.
///
/// A browser sends it for no page but one that has it, so no page of another origin gets in.
pub(super) async fn authorised(
    State(token): State<Token>,
    request: Request,
    next: Next,
) -> Response {
    match given(&request) {
        Some(given) if token.is(&given) => next.run(request).await,
        Some(_) => Refusal::forbidden("this is not the token").into_response(),
        None => Refusal::unauthorized(
            "the token is missing: `Authorization: token TOKEN`, or `?token=TOKEN`",
        )
        .into_response(),
    }
}

fn given(request: &Request) -> Option<String> {
    let header = request.headers().get(AUTHORIZATION);
    let header = header.and_then(|header| {
        let (scheme, token) = header.to_str().ok()?.trim().split_once(' ')?;
        let is_known = ["token", "bearer"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known));
        is_known.then(|| token.trim().to_owned())
    });
    header.or_else(|| {
        let query = request.uri().query()?;
        // A token has no character that is escaped in an address.
        let token = query
            .split('&')
            .find_map(|part| part.strip_prefix("token="))?;
        Some(token.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use axum::body::Body;

    use super::*;

    #[test]
    fn a_token_is_taken_from_a_private_file_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("token");
        let read = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Token::from_file(&path)
        };
        let good = read("0123456789abcdef\n", 0o600).unwrap();
        assert_eq!(good.as_str(), "0123456789abcdef");
        assert!(matches!(
            read("0123456789abcdef", 0o640),
            Err(TokenError::Open { .. })
        ));
        for bad in ["", "short", "0123456789abcdef&x", "0123456789\n0123456789"] {
            assert!(
                matches!(read(bad, 0o600), Err(TokenError::NoToken { .. })),
                "{bad}"
            );
        }
        let folder = Token::from_file(place.path());
        assert!(folder.is_err(), "{folder:?}");
        let none = Token::from_file(&place.path().join("none"));
        assert!(matches!(none, Err(TokenError::Unreadable { .. })));
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in [
            "127.0.0.1:8888",
            "localhost:0",
            "[::1]:1",
            "a-b.example:65535",
        ] {
            assert!(TcpDoor::check(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "8888",
            ":8888",
            "localhost",
            "localhost:",
            "localhost:65536",
            "localhost:-1",
            "::1:80:x",
            "http://localhost:80",
            "local host:80",
            "[::1]",
            "a:b:1",
        ] {
            let fault = TcpDoor::check(bad).unwrap_err().to_string();
            assert!(fault.contains(&format!("{bad:?}")), "{fault}");
        }
    }

    #[test]
    fn a_token_is_found_where_clients_put_it() {
        let found = |uri: &str, header: Option<&str>| {
            let mut request = Request::builder().uri(uri);
            if let Some(header) = header {
                request = request.header(AUTHORIZATION, header);
            }
            given(&request.body(Body::empty()).unwrap())
        };
        assert_eq!(found("/", None), None);
        assert_eq!(found("/?a=b&token=x", None).unwrap(), "x");
        assert_eq!(found("/?xtoken=x", None), None);
        assert_eq!(found("/?token=x", Some("Token y")).unwrap(), "y");
        assert_eq!(found("/", Some("bearer  y ")).unwrap(), "y");
        assert_eq!(found("/", Some("Basic y")), None);
        let token = Token::random();
        assert!(token.is(token.as_str()));
        assert!(!token.is("") && !token.is(&format!("{}0", token.as_str())));
        assert_eq!(format!("{token:?}"), "Token");
    }
}
