//! A manager, as its clients see it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::cell::{JsonLines, RemoteCell, Watched};
use super::connection::{Connection, Question, accepted, escaped, whole};
use super::sight::Peer;
use super::start::{connect, connect_or_start};
use super::{ClientError, Results};
use crate::execution::Outcome;
use crate::folders::{SERVER_SOCKET, door_folders};
use crate::server::{CellOrder, InterruptAnswer, InterruptOrder, ManagerInfo};

/// How often a server that is ending is met before that is told: each time it has made room for the
/// next one first.
const ATTEMPTS: usize = 5;

/// A manager with a door.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

/// Where the managers of a home are found, and what a server that is started sees.
#[derive(Debug, Clone)]
pub struct Home {
    pub(super) folders: Vec<PathBuf>,
    environment: fn() -> Vec<(OsString, OsString)>,
}

/// What came of a cell that was handed to a manager.
#[derive(Debug)]
pub enum Taken {
    /// It runs, or waits for its turn.
    Cell(Box<RemoteCell>),
    /// It does not run: the result says why. Or nobody waits for it.
    Outcome(Box<Outcome>),
}

/// What goes with a manager that ends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stopped {
    /// How many sessions it had.
    pub sessions: u64,
    /// The results that nobody has received: `session`, `status`, and `cell` if it had begun.
    pub unreceived: Vec<Value>,
}

impl Home {
    /// The managers of a home. A server that is started sees this environment and no other, so it
    /// must hold no secret.
    pub fn new(
        runtime_dir: Option<&Path>,
        home: &Path,
        environment: fn() -> Vec<(OsString, OsString)>,
    ) -> Self {
        Self {
            folders: door_folders(runtime_dir, home),
            environment,
        }
    }

    /// Hands a cell to the background server, which is started if there is none. The same cell is
    /// never handed over twice: only a server that says that it has begun nothing is followed by
    /// another.
    ///
    /// # Errors
    ///
    /// If no server can be had, or it refuses, or the connection ends.
    pub async fn execute(&self, session: &str, order: &CellOrder) -> Result<Taken, ClientError> {
        let path = format!("/sessions/{}/cells", escaped(session));
        for attempt in 1.. {
            let connection = connect_or_start(&self.folders, self.environment).await?;
            let client = self.client_of_server();
            match client.begin(connection, &path, order).await {
                Err(ClientError::Refused(refused)) if refused.going && attempt < ATTEMPTS => {}
                taken => return taken,
            }
        }
        unreachable_attempts()
    }

    /// The server's folder is the first that has one.
    fn client_of_server(&self) -> Client {
        let sockets = self.folders.iter().map(|folder| folder.join(SERVER_SOCKET));
        let socket = sockets.clone().find(|socket| socket.exists());
        Client {
            socket: socket
                .or_else(|| sockets.clone().next())
                .unwrap_or_default(),
        }
    }

    /// The background server, if one is there; none is started.
    ///
    /// # Errors
    ///
    /// If it cannot be reached.
    pub async fn server(&self) -> Result<Option<Client>, ClientError> {
        let found = connect(&self.folders).await?;
        Ok(found.map(|_connection| self.client_of_server()))
    }
}

/// The loop above ends by itself.
fn unreachable_attempts() -> Result<Taken, ClientError> {
    Err(ClientError::NotStarted {
        reason: "servers come and go".to_owned(),
    })
}

impl Client {
    pub(super) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Hands a cell over. If the connection ends before an answer, that is the result: it is not known
    /// whether the cell was taken.
    async fn begin(
        self,
        connection: Connection,
        path: &str,
        order: &CellOrder,
    ) -> Result<Taken, ClientError> {
        let peer = Arc::new(connection.peer());
        match self.ask_for(connection, path, order, &peer).await {
            Err(ClientError::Lost { reason, .. }) => {
                let outcome = Watched::new(peer).cut_off(&reason, 0).await;
                Ok(Taken::Outcome(Box::new(outcome)))
            }
            taken => taken,
        }
    }

    async fn ask_for(
        self,
        connection: Connection,
        path: &str,
        order: &CellOrder,
        peer: &Arc<Peer>,
    ) -> Result<Taken, ClientError> {
        let answer = connection.ask(Question::post(path, order), false).await?;
        let is_stream = answer
            .headers()
            .get("content-type")
            .is_some_and(|kind| kind == "application/x-ndjson");
        if is_stream {
            return Ok(Taken::Cell(Box::new(
                RemoteCell::begin(answer, self, Arc::clone(peer)).await?,
            )));
        }
        let status = answer.status();
        let bytes = whole(answer).await?;
        if let Ok(mut outcome) = serde_json::from_slice::<Outcome>(&bytes) {
            // It has printed nothing here, so all of it is told.
            outcome.beside_streams.notices = vec![outcome.output.clone()];
            return Ok(Taken::Outcome(Box::new(outcome)));
        }
        match serde_json::from_slice(&bytes) {
            Ok(refused) => Err(ClientError::Refused(Box::new(refused))),
            Err(error) => Err(ClientError::Senseless {
                what: format!("{status}: {error}"),
            }),
        }
    }

    async fn connection(&self) -> Result<Connection, ClientError> {
        let connection = Connection::open(&self.socket).await;
        connection.map_err(|source| ClientError::Unreachable { source })
    }

    async fn at_once<T: for<'a> Deserialize<'a>>(
        &self,
        question: Question,
    ) -> Result<T, ClientError> {
        self.connection().await?.json(question, true).await
    }

    /// What the manager says of itself.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub async fn info(&self) -> Result<ManagerInfo, ClientError> {
        self.at_once(Question::get("")).await
    }

    /// Its sessions, as it describes them.
    ///
    /// # Errors
    ///
    /// If it does not answer, or is of another version.
    pub async fn sessions(&self) -> Result<Vec<Value>, ClientError> {
        #[derive(Deserialize)]
        struct List {
            sessions: Vec<Value>,
        }
        let list: List = self.at_once(Question::get("/sessions")).await?;
        Ok(list.sessions)
    }

    /// One session, with its variables.
    ///
    /// # Errors
    ///
    /// If it does not answer, or has none of that name.
    pub async fn show(&self, name: &str) -> Result<Value, ClientError> {
        let path = format!("/sessions/{}", escaped(name));
        self.at_once(Question::get(&path)).await
    }

    /// Interrupts the cell of a session that runs, and waits a few seconds for what comes of it.
    ///
    /// # Errors
    ///
    /// As [`Client::show`].
    pub async fn interrupt(
        &self,
        name: &str,
        order: InterruptOrder,
    ) -> Result<InterruptAnswer, ClientError> {
        let path = format!("/sessions/{}/interrupt", escaped(name));
        self.at_once(Question::post(&path, &order)).await
    }

    /// Interrupts one cell and no other; nothing happens if it has ended.
    ///
    /// # Errors
    ///
    /// If the manager does not answer.
    pub async fn interrupt_cell(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("/cells/{}/interrupt", escaped(id));
        let _answer: Value = self.at_once(Question::post(&path, &json!({}))).await?;
        Ok(())
    }

    /// Ends a session; how its kernel took it.
    ///
    /// # Errors
    ///
    /// As [`Client::show`].
    pub async fn close(&self, name: &str) -> Result<Value, ClientError> {
        let path = format!("/sessions/{}", escaped(name));
        self.at_once(Question::delete(&path)).await
    }

    /// What happens in a session from now on: one event a line, as JSON.
    ///
    /// # Errors
    ///
    /// As [`Client::show`].
    pub async fn events(&self, name: &str) -> Result<Results, ClientError> {
        let path = format!("/sessions/{}/events", escaped(name));
        let answer = self.connection().await?.ask(Question::get(&path), true);
        let answer = accepted(answer.await?).await?;
        Ok(Results::new(JsonLines::new(answer.into_body())))
    }

    /// The results of a session's cells that nobody has received, as they come; ends when none runs
    /// or waits, or after a time.
    ///
    /// # Errors
    ///
    /// As [`Client::show`].
    pub async fn wait(
        &self,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Results, ClientError> {
        let path = format!("/sessions/{}/wait", escaped(name));
        let body = json!({ "timeout": timeout.map(|timeout| timeout.as_secs_f64()) });
        let answer = self
            .connection()
            .await?
            .ask(Question::post(&path, &body), true);
        let answer = accepted(answer.await?).await?;
        Ok(Results::new(JsonLines::new(answer.into_body())))
    }

    /// Discards the state of a session's kernel; what was discarded, and whether there is a fresh one.
    ///
    /// # Errors
    ///
    /// As [`Client::show`].
    pub async fn reset(&self, name: &str) -> Result<Value, ClientError> {
        let path = format!("/sessions/{}/reset", escaped(name));
        self.at_once(Question::post(&path, &json!({}))).await
    }

    /// Asks the manager to end, with all its sessions.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub async fn stop(&self) -> Result<Stopped, ClientError> {
        self.at_once(Question::post("/stop", &json!({}))).await
    }
}
