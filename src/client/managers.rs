//! All managers of a home: which sessions there are, and in which of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::connection::{Connection, Peer, Question};
use super::living::Living;
use super::start::found;
use super::{Client, ClientError, Home};
use crate::folders::{FolderLock, SERVER_SOCKET, ServerLock, doors_in};
use crate::server::ManagerInfo;

/// How long a manager may take to say what it holds. All are asked at the same time.
const DEADLINE: Duration = Duration::from_secs(2);

/// A manager that was found.
#[derive(Debug)]
pub struct Found {
    /// With which it can be asked.
    pub client: Client,
    /// What it says of itself; or why it does not.
    pub info: Result<ManagerInfo, ClientError>,
    /// Its sessions, or why they are not known.
    pub sessions: Result<Vec<Value>, ClientError>,
}

impl Found {
    /// Whether it is the one of that name: the beginning of its id, or the number of its process.
    fn is(&self, wanted: &str) -> bool {
        let number = |pid: u32| pid.to_string() == wanted;
        self.client.pid().is_some_and(number)
            || self
                .info
                .as_ref()
                .is_ok_and(|info| info.id.starts_with(wanted) || number(info.pid))
    }
}

impl Home {
    /// The managers that live, the background server first; those that do not answer within 2 s, too.
    /// Sockets of those that were killed are removed.
    pub async fn managers(&self) -> Vec<Found> {
        let sockets = self.folders.iter().flat_map(|folder| doors_in(folder));
        let sockets: Vec<PathBuf> = sockets.collect();
        let mut asking = JoinSet::new();
        if !sockets.iter().any(|socket| socket.ends_with(SERVER_SOCKET)) {
            // It may live nevertheless.
            let home = self.clone();
            asking.spawn(async move { Some((0, home.unfound_server().await?)) });
        }
        for (order, socket) in sockets.into_iter().enumerate() {
            asking.spawn(async move { Some((order + 1, ask(&socket).await?)) });
        }
        let mut found = Vec::new();
        while let Some(one) = asking.join_next().await {
            found.extend(one.ok().flatten());
        }
        found.sort_by_key(|(order, _)| *order);
        found.into_iter().map(|(_, found)| found).collect()
    }

    /// The managers that live, or the one that is named, by the beginning of its id or the number of its
    /// process.
    ///
    /// # Errors
    ///
    /// If one is named and there is none of that name.
    pub async fn managers_named(&self, wanted: Option<&str>) -> Result<Vec<Found>, ClientError> {
        let mut managers = self.managers().await;
        if let Some(wanted) = wanted {
            if !managers.iter().any(|found| found.is(wanted)) {
                return Err(ClientError::no_manager(wanted, &managers));
            }
            managers.retain(|found| found.is(wanted));
        }
        Ok(managers)
    }

    /// The background server that stands in no folder, if it lives.
    async fn unfound_server(&self) -> Option<Found> {
        match found(self).await {
            Ok(Some(server)) => ask(&server.peer.socket).await,
            Ok(None) => None,
            Err(error) => {
                let pid = Living::find(&self.address).await?.pid;
                let socket = self.folders.first()?.join(SERVER_SOCKET);
                let reason = "its socket is gone".to_owned();
                Some(Found {
                    client: Client {
                        peer: Peer { socket, pid },
                    },
                    info: Err(ClientError::Unfound { pid, reason }),
                    sessions: Err(error),
                })
            }
        }
    }

    /// The manager that holds a session; of one that is named, by the beginning of its id or the
    /// number of its process.
    ///
    /// # Errors
    ///
    /// If none holds it, or several do and none is named.
    pub async fn holder(&self, name: &str, manager: Option<&str>) -> Result<Client, ClientError> {
        let mut holders = Vec::new();
        let mut failed = None;
        for found in self.managers_named(manager).await? {
            let info = match found.info {
                Ok(info) => info,
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
            };
            match found.sessions {
                Ok(sessions) if holds(&sessions, name) => {
                    holders.push((found.client, info));
                }
                Ok(_) => {}
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        let several = holders.len() > 1;
        match holders.pop() {
            Some((client, _)) if !several => Ok(client),
            Some(last) => {
                holders.push(last);
                Err(ClientError::Ambiguous {
                    name: name.to_owned(),
                    managers: holders.into_iter().map(|(_, info)| info).collect(),
                })
            }
            // One that cannot be asked may hold it.
            None => Err(failed.unwrap_or_else(|| ClientError::NoSession {
                name: name.to_owned(),
            })),
        }
    }

    /// The manager other than the background server that holds a session, if one does: its cells run
    /// there, and no second one of that name is opened. Where there are no other managers this costs a
    /// look into a folder.
    ///
    /// # Errors
    ///
    /// If several hold it, the server among them; or if one does not answer and the server does not hold
    /// it.
    pub(super) async fn elsewhere(&self, name: &str) -> Result<Option<Client>, ClientError> {
        let sockets = self.folders.iter().flat_map(|folder| doors_in(folder));
        let mut asking = JoinSet::new();
        for socket in sockets.filter(|socket| !socket.ends_with(SERVER_SOCKET)) {
            asking.spawn(async move { ask(&socket).await });
        }
        let mut holders = Vec::new();
        let mut silent = None;
        while let Some(one) = asking.join_next().await {
            match one.ok().flatten() {
                Some(Found {
                    client,
                    info: Ok(info),
                    sessions: Ok(sessions),
                }) if holds(&sessions, name) => holders.push((client, info)),
                Some(Found {
                    sessions: Err(error @ ClientError::Silent { .. }),
                    ..
                }) => silent = Some(error),
                _ => {}
            }
        }
        if holders.is_empty() && silent.is_none() {
            return Ok(None);
        }
        if let Some(server) = self.server().await?
            && let Ok(sessions) = server.sessions_within(DEADLINE).await
            && holds(&sessions, name)
        {
            if holders.is_empty() {
                return Ok(None);
            }
            let info = server.info().await?;
            holders.push((server, info));
        }
        match (holders.pop(), silent) {
            (Some((client, _)), _) if holders.is_empty() => Ok(Some(client)),
            (
                None,
                Some(ClientError::Silent {
                    pid,
                    socket,
                    seconds,
                    ..
                }),
            ) => Err(ClientError::Silent {
                pid,
                socket,
                seconds,
                what: "whether it has this session is not known, so no other one is opened",
            }),
            (last, _) => {
                holders.extend(last);
                Err(ClientError::Ambiguous {
                    name: name.to_owned(),
                    managers: holders.into_iter().map(|(_, info)| info).collect(),
                })
            }
        }
    }

    /// The number of the background server's process, whether or not it answers or can be found.
    pub async fn server_pid(&self) -> Option<u32> {
        let living = Living::find(&self.address).await;
        living
            .and_then(|living| living.pid)
            .or_else(|| self.folders.iter().find_map(|it| ServerLock::holder(it)))
    }

    /// Waits until no background server is left. Blocks.
    pub fn wait_until_stopped(&self) {
        for folder in &self.folders {
            ServerLock::wait_until_free(folder);
        }
    }
}

fn holds(sessions: &[Value], name: &str) -> bool {
    let mut names = sessions.iter().filter_map(|session| session.get("name"));
    names.any(|it| it == name)
}

/// Asks one manager; `None` if it is gone.
async fn ask(socket: &Path) -> Option<Found> {
    let connection = match Connection::open(socket).await {
        Ok(connection) => connection,
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                sweep(socket);
            }
            return None;
        }
    };
    let client = Client::of(&connection);
    let info = connection.json(Question::get(""), DEADLINE);
    let (info, sessions) = tokio::join!(info, client.sessions_within(DEADLINE));
    Some(Found {
        client,
        info,
        sessions,
    })
}

/// Removes the socket of a manager that is gone.
fn sweep(socket: &Path) {
    let Some(folder) = socket.parent() else {
        return;
    };
    if socket.file_name().is_some_and(|name| name == SERVER_SOCKET) {
        // The next server may be about to take its name.
        let Some(lock) = FolderLock::try_take(folder) else {
            return;
        };
        if let Ok(Ok(server)) = ServerLock::take(&lock) {
            drop(fs::remove_file(socket));
            server.release(&lock);
        }
        return;
    }
    // Nobody else is ever given such a name.
    drop(fs::remove_file(socket));
    drop(fs::remove_dir(folder));
}
