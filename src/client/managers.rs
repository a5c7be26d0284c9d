//! All managers of a home: which sessions there are, and in which of them.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;
use tokio::task::JoinSet;

use super::connection::{Connection, Question};
use super::{Client, ClientError, Home};
use crate::folders::{FolderLock, SERVER_SOCKET, ServerLock, doors_in};
use crate::server::ManagerInfo;

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

impl Home {
    /// The managers that live, the background server first. Sockets of those that were killed are
    /// removed.
    pub async fn managers(&self) -> Vec<Found> {
        let mut asking = JoinSet::new();
        let sockets = self.folders.iter().flat_map(|folder| doors_in(folder));
        for (order, socket) in sockets.enumerate() {
            asking.spawn(async move {
                let client = Client::at(socket.clone());
                let connection = match Connection::open(&socket).await {
                    Ok(connection) => connection,
                    Err(error) => {
                        if error.kind() == io::ErrorKind::ConnectionRefused {
                            sweep(&socket);
                        }
                        return None;
                    }
                };
                let info = connection.json(Question::get(""), true).await;
                let sessions = client.sessions().await;
                let found = Found {
                    client,
                    info,
                    sessions,
                };
                Some((order, found))
            });
        }
        let mut found = Vec::new();
        while let Some(one) = asking.join_next().await {
            found.extend(one.ok().flatten());
        }
        found.sort_by_key(|(order, _)| *order);
        found.into_iter().map(|(_, found)| found).collect()
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
        for found in self.managers().await {
            let info = match found.info {
                Ok(info) => info,
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
            };
            let is_meant = manager
                .is_none_or(|wanted| info.id.starts_with(wanted) || info.pid.to_string() == wanted);
            match found.sessions {
                Ok(sessions) => {
                    let has = sessions
                        .iter()
                        .any(|session| session.get("name").is_some_and(|it| it == name));
                    if has && is_meant {
                        holders.push((found.client, info));
                    }
                }
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

    /// The number of the background server's process, whether or not it answers.
    pub fn server_pid(&self) -> Option<u32> {
        self.folders.iter().find_map(|it| ServerLock::holder(it))
    }

    /// Waits until no background server is left. Blocks.
    pub fn wait_until_stopped(&self) {
        for folder in &self.folders {
            ServerLock::wait_until_free(folder);
        }
    }
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
