//! A manager, as its clients see it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::cell::{JsonLines, RemoteCell, Watched};
use super::connection::{Connection, DEADLINE, Peer, Question, accepted, escaped, whole};
use super::handing::Handing;
use super::sight::Process;
use super::start::{connect_or_start, found};
use super::{ClientError, Results};
use crate::execution::Outcome;
use crate::folders::{ServerAddress, door_folders};
use crate::server::{CellOrder, InterruptAnswer, InterruptOrder, ManagerInfo};

/// How often a server that is ending is met before that is told: each time it has made room for the
/// next one first.
const ATTEMPTS: usize = 5;

/// After so long without an answer that is to come soon the manager is asked whether it answers at all.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
/// So long may that take.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

/// A manager with a door.
#[derive(Debug, Clone)]
pub struct Client {
    pub(super) peer: Peer,
}

/// Where the managers of a home are found, and what a server that is started sees.
#[derive(Debug, Clone)]
pub struct Home {
    pub(super) folders: Vec<PathBuf>,
    pub(super) address: ServerAddress,
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
            address: ServerAddress::of(home),
            environment,
        }
    }

    /// Hands a cell to the manager that holds its session, if that is another than the background server
    /// (a kernel of Jupyter's, say); else to that, which is started if there is none. The same cell is
    /// never handed over twice: only a server that says that it has begun nothing, or that has ended
    /// before it got the cell, is followed by another. `handing` tells whether one has it.
    ///
    /// # Errors
    ///
    /// If no server can be had, or it refuses, does not answer, or the connection ends; if several
    /// managers hold the session.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the cell is interrupted, or was not handed over: see [`Handing::revoke`].
    pub async fn execute(
        &self,
        session: &str,
        order: &CellOrder,
        handing: &Handing,
    ) -> Result<Taken, ClientError> {
        let path = format!("/sessions/{}/cells", escaped(session));
        if let Some(holder) = self.elsewhere(session).await? {
            let connection = holder.connection().await?;
            return holder.begin(connection, &path, order, handing).await;
        }
        let mut attempt = 1;
        loop {
            let connection = connect_or_start(self, self.environment).await?;
            let client = Client::of(&connection);
            let taken = client.begin(connection, &path, order, handing).await;
            let again = match &taken {
                Err(ClientError::Refused(refused)) => refused.going,
                Err(ClientError::Lost { .. }) => handing.is_held(),
                _ => false,
            };
            if !again || attempt == ATTEMPTS {
                return taken;
            }
            handing.came_back();
            attempt += 1;
        }
    }

    /// The background server, if one is there; none is started.
    ///
    /// # Errors
    ///
    /// If it cannot be reached.
    pub async fn server(&self) -> Result<Option<Client>, ClientError> {
        let found = found(self).await?;
        Ok(found.map(|connection| Client::of(&connection)))
    }
}

impl Client {
    /// The one at the other end of a connection.
    pub(super) fn of(connection: &Connection) -> Self {
        Self {
            peer: connection.peer.clone(),
        }
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.peer.socket
    }

    /// The number of its process, if it is one that has a number here.
    pub fn pid(&self) -> Option<u32> {
        self.peer.pid
    }

    /// Hands a cell over. If the connection ends before an answer, that is the result: it is not known
    /// whether the cell was taken.
    async fn begin(
        self,
        connection: Connection,
        path: &str,
        order: &CellOrder,
        handing: &Handing,
    ) -> Result<Taken, ClientError> {
        let process = Arc::new(Process::of(connection.peer.pid));
        match self
            .ask_for(connection, path, order, handing, &process)
            .await
        {
            Err(ClientError::Lost { reason, .. }) if !handing.is_held() => {
                let outcome = Watched::new(process).cut_off(&reason, 0).await;
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
        handing: &Handing,
        process: &Arc<Process>,
    ) -> Result<Taken, ClientError> {
        // Without a stream, and without a limit, the answer comes when the cell has ended.
        let is_prompt = order.stream || order.patience().is_some_and(|it| it < FIRST_ANSWER);
        let client = self.clone();
        let taking = async move {
            let question = Question::post(path, order);
            let answer = connection.hand_over(question, handing).await?;
            self.taken(answer, process).await
        };
        let what = || {
            if handing.revoke() {
                "the cell was not handed over, and will not run"
            } else {
                "the cell has not begun and will not, or it is interrupted as soon as the server goes on"
            }
        };
        tokio::select! {
            biased;
            taken = taking => taken,
            error = client.silence(what), if is_prompt => Err(error),
        }
    }

    /// Resolves if the manager falls silent: for as long as something is to come from it soon. One that
    /// is only slow still answers the simplest question, which it is asked every 2 s; if it does not
    /// within 3 s, it is silent. `what` is what that means for what is to come.
    ///
    /// # Cancel safety
    ///
    /// May be dropped.
    pub async fn silence(&self, what: impl FnOnce() -> &'static str) -> ClientError {
        loop {
            sleep(FIRST_ANSWER).await;
            if !self.sign_of_life().await {
                return self.peer.silent(FIRST_ANSWER + SIGN_OF_LIFE, what());
            }
        }
    }

    /// Whether it answers at all, be it with a refusal.
    async fn sign_of_life(&self) -> bool {
        match Connection::open(self.socket()).await {
            Ok(asking) => timeout(SIGN_OF_LIFE, asking.ask(Question::get("")))
                .await
                .is_ok(),
            // Then the connection that waits ends, too.
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    async fn taken(
        self,
        answer: Response<Incoming>,
        process: &Arc<Process>,
    ) -> Result<Taken, ClientError> {
        let is_stream = answer
            .headers()
            .get("content-type")
            .is_some_and(|kind| kind == "application/x-ndjson");
        if is_stream {
            return Ok(Taken::Cell(Box::new(
                RemoteCell::begin(answer, self, Arc::clone(process)).await?,
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

    pub(super) async fn connection(&self) -> Result<Connection, ClientError> {
        let connection = Connection::open(self.socket()).await;
        connection.map_err(|source| ClientError::Unreachable { source })
    }

    async fn at_once<T: DeserializeOwned>(&self, question: Question) -> Result<T, ClientError> {
        self.within(question, DEADLINE).await
    }

    async fn within<T: DeserializeOwned>(
        &self,
        question: Question,
        deadline: Duration,
    ) -> Result<T, ClientError> {
        self.connection().await?.json(question, deadline).await
    }

    /// The beginning of an answer that comes as things happen.
    async fn stream(&self, question: Question) -> Result<Results, ClientError> {
        let asking = async {
            let answer = self.connection().await?.ask(question).await?;
            accepted(answer).await
        };
        match timeout(DEADLINE, asking).await {
            Ok(answer) => Ok(Results::new(JsonLines::new(answer?.into_body()))),
            Err(_elapsed) => Err(self.peer.silent(DEADLINE, "")),
        }
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
        self.sessions_within(DEADLINE).await
    }

    pub(super) async fn sessions_within(
        &self,
        deadline: Duration,
    ) -> Result<Vec<Value>, ClientError> {
        #[derive(Deserialize)]
        struct List {
            sessions: Vec<Value>,
        }
        let list: List = self.within(Question::get("/sessions"), deadline).await?;
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
        let question = Question::post(&path, &json!({}));
        let _answer: Value = self.within(question, SIGN_OF_LIFE).await?;
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
        self.stream(Question::get(&path)).await
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
        self.stream(Question::post(&path, &body)).await
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
    /// If it does not answer within 3 s.
    pub async fn stop(&self) -> Result<Stopped, ClientError> {
        self.within(Question::post("/stop", &json!({})), SIGN_OF_LIFE)
            .await
    }
}
