//! The background server of a user: one for each home, from its first client on until it is idle or
//! told to end.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::whereabouts::Whereabouts;
use super::{Door, Manager, ServerError};
use crate::config::Settings;
use crate::folders::{FolderLock, ServerLock, door_folders};
use crate::process::in_a_thread;
use crate::session::Registry;

/// How long to wait for another that starts or ends.
const LOCK_DEADLINE: Duration = Duration::from_secs(20);
/// How long, at its end, clients may take to fetch their results.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// A background server that has its door and serves.
#[derive(Debug)]
pub struct BackgroundServer {
    manager: Arc<Manager>,
    door: Door,
    /// `None` where there is no address to be had.
    whereabouts: Option<Whereabouts>,
    idle_exit: Duration,
}

impl BackgroundServer {
    /// Starts the server of a home. `started` is the lock on its folder if whoever started this
    /// process holds it already.
    ///
    /// # Errors
    ///
    /// If one is there already, or no folder will do, or no manager can be had.
    pub async fn start(
        settings: Settings,
        owner: &str,
        idle_exit: Duration,
    ) -> Result<Self, ServerError> {
        let folders = door_folders(settings.runtime_dir.as_deref(), &settings.home);
        let folder = lock(folders).await?;
        Self::start_locked(settings, owner, idle_exit, folder).await
    }

    /// As [`BackgroundServer::start`], under a lock that is held already; it is let go once the door
    /// is open.
    ///
    /// # Errors
    ///
    /// As [`BackgroundServer::start`].
    pub async fn start_locked(
        settings: Settings,
        owner: &str,
        idle_exit: Duration,
        folder: FolderLock,
    ) -> Result<Self, ServerError> {
        let what = "the lock of the background server cannot be taken";
        let lock = ServerLock::take(&folder)
            .map_err(|source| ServerError::System { what, source })?
            .map_err(|pid| ServerError::RunsAlready { pid })?;
        let lock = Arc::new(lock);
        let started = Self::open(settings, owner, &folder, &lock).await;
        let (manager, door, whereabouts) = match started {
            Ok(started) => started,
            Err(error) => {
                lock.release(&folder);
                return Err(error);
            }
        };
        tracing::info!(door = %door.path().display(), "the background server serves");
        Ok(Self {
            manager,
            door,
            whereabouts,
            idle_exit,
        })
    }

    async fn open(
        settings: Settings,
        owner: &str,
        folder: &FolderLock,
        lock: &Arc<ServerLock>,
    ) -> Result<(Arc<Manager>, Door, Option<Whereabouts>), ServerError> {
        let home = settings.home.clone();
        let folders = door_folders(settings.runtime_dir.as_deref(), &home);
        // Before anything of it is there: another may live that cannot be found.
        let (whereabouts, asked) = Whereabouts::take(&home).await?;
        let registry = match Registry::start(settings).await {
            Ok(registry) => Arc::new(registry),
            Err(error) => {
                end(whereabouts).await;
                return Err(error.into());
            }
        };
        let manager = Manager::new(registry, "server", owner, home);
        match Door::of_server(&manager, folder, folders, Arc::clone(lock), asked) {
            Ok(door) => Ok((manager, door, whereabouts)),
            Err(error) => {
                manager.registry().shut_down().await;
                end(whereabouts).await;
                Err(error)
            }
        }
    }

    /// The manager behind the door.
    pub fn manager(&self) -> &Arc<Manager> {
        &self.manager
    }

    /// Where the door is now.
    pub fn path(&self) -> PathBuf {
        self.door.path()
    }

    /// Serves until `end` resolves, a client wants the end, or there was no kernel and no request
    /// for the time of an idle exit; then ends everything in good order, and says why.
    pub async fn serve(self, end: impl Future<Output = ()>) -> Ended {
        let stop = self.manager.stop().clone();
        let why = {
            let mut end = std::pin::pin!(end);
            loop {
                tokio::select! {
                    () = &mut end => break Ended::Signal,
                    () = stop.cancelled() => break Ended::Asked,
                    () = self.idle() => {
                        let folder = FolderLock::try_take(&self.door.folder());
                        let is_there = self.door.folder().exists();
                        // Somebody is about to come in.
                        if (folder.is_none() && is_there) || self.is_busy() {
                            continue;
                        }
                        self.finish(folder).await;
                        return Ended::Idle;
                    }
                }
            }
        };
        // Under the lock nobody starts another before this one is gone.
        let folder = in_a_thread(self.door.folder_lock());
        let folder = timeout(LAST_ANSWERS, folder).await;
        self.finish(folder.ok().and_then(|taken| taken.ok()?.ok()))
            .await;
        why
    }

    fn is_busy(&self) -> bool {
        self.manager.registry().kernels() > 0 || *self.manager.requests.borrow() > 0
    }

    /// Waits until there was nothing to do for long enough.
    async fn idle(&self) {
        if self.idle_exit.is_zero() {
            return pending().await;
        }
        let mut requests = self.manager.requests.subscribe();
        loop {
            self.manager.quiet().await;
            let asked = async {
                // Its sender lives as long as the manager.
                drop(requests.wait_for(|count| *count > 0).await);
            };
            tokio::select! {
                () = self.manager.registry().quiet(self.idle_exit) => return,
                () = asked => {}
            }
        }
    }

    async fn finish(mut self, folder: Option<FolderLock>) {
        self.manager.refuse_new_work();
        // Nobody finds it any more; who is in already is told to ask the next one.
        self.door.hide();
        self.manager.registry().shut_down().await;
        drop(timeout(LAST_ANSWERS, self.manager.quiet()).await);
        drop(timeout(LAST_ANSWERS, self.door.empty()).await);
        let lock = self.door.close();
        end(self.whereabouts).await;
        if let (Some(folder), Some(lock)) = (folder, lock) {
            lock.release(&folder);
        }
        tracing::info!("the background server has ended");
    }
}

async fn end(whereabouts: Option<Whereabouts>) {
    if let Some(whereabouts) = whereabouts {
        whereabouts.end().await;
    }
}

/// Why a background server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A signal.
    Signal,
    /// A client.
    Asked,
    /// There was nothing to do.
    Idle,
}

async fn lock(folders: Vec<PathBuf>) -> Result<FolderLock, ServerError> {
    let mut tried = Vec::new();
    for folder in folders {
        let path = folder.clone();
        let waiting = in_a_thread(move || FolderLock::wait(&path));
        let reason = match timeout(LOCK_DEADLINE, waiting).await {
            Ok(Ok(Ok(lock))) => return Ok(lock),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => "another program holds its lock".to_owned(),
        };
        tried.push(format!("{}: {reason}", folder.display()));
    }
    Err(ServerError::NoFolder { tried })
}
