//! The configuration of a manager, looked at before each cell that comes through its door: an edit counts
//! from the next cell on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

use super::Manager;
use super::refusal::Refusal;
use crate::config::{ConfigurationFile, Settings, Values};
use crate::process::in_a_thread;

/// How long the file system may take; then the cell runs by what was read before.
const LOOK: Duration = Duration::from_secs(1);

/// What makes settings of what a configuration says.
type MakeSettings = Arc<dyn Fn(&Values) -> Settings + Send + Sync>;

/// What is followed.
pub(super) struct Configured {
    state: Arc<Mutex<State>>,
    settings: MakeSettings,
}

struct State {
    file: ConfigurationFile,
    /// What callers who do not read it themselves are still to be told.
    untold: Vec<String>,
}

impl fmt::Debug for Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configured").finish_non_exhaustive()
    }
}

/// What a look has shown.
struct Seen {
    changed: Option<Values>,
    refusal: Option<String>,
    warnings: Vec<String>,
}

impl State {
    /// Blocks on the file system.
    fn look(&mut self, told: bool) -> Seen {
        let changed = self.file.look_again();
        let configuration = self.file.configuration();
        let refusal = configuration.refusal();
        if changed {
            self.untold = configuration.warnings();
            for problem in &configuration.problems {
                tracing::warn!(%problem, "the configuration has changed");
            }
        }
        let values = configuration.values.clone();
        Seen {
            changed: (changed && refusal.is_none()).then_some(values),
            refusal,
            warnings: if told {
                Vec::new()
            } else {
                std::mem::take(&mut self.untold)
            },
        }
    }
}

impl Manager {
    /// From now on looks at this file before each cell that comes through the door, and has what
    /// `settings` makes of it when it has changed ([`Registry::change_settings`]). As long as something in
    /// it is refused, so are cells; sessions keep what they have.
    ///
    /// Does nothing the second time.
    ///
    /// [`Registry::change_settings`]: crate::session::Registry::change_settings
    pub fn follow(
        &self,
        file: ConfigurationFile,
        settings: impl Fn(&Values) -> Settings + Send + Sync + 'static,
    ) {
        let untold = file.configuration().warnings();
        let configured = Configured {
            state: Arc::new(Mutex::new(State { file, untold })),
            settings: Arc::new(settings),
        };
        // One is enough.
        drop(self.configured.set(configured));
    }

    /// Looks at the configuration: what is to be told with the next result, unless the caller knows.
    pub(super) async fn look_at_configuration(&self, told: bool) -> Result<Vec<String>, Refusal> {
        let Some(configured) = self.configured.get() else {
            return Ok(Vec::new());
        };
        let state = Arc::clone(&configured.state);
        let looking = async move {
            // One at a time: a file system that hangs is not to hold a thread for each cell.
            let mut state = state.lock_owned().await;
            in_a_thread(move || state.look(told)).await
        };
        let seen = match timeout(LOOK, looking).await {
            Ok(Ok(seen)) => seen,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the configuration was not looked at");
                return Ok(Vec::new());
            }
            Err(_elapsed) => {
                tracing::warn!(
                    "the configuration cannot be looked at: its file system does not answer"
                );
                return Ok(Vec::new());
            }
        };
        if let Some(refusal) = seen.refusal {
            return Err(Refusal::usage(refusal));
        }
        if let Some(values) = seen.changed {
            tracing::info!("the configuration has changed");
            self.registry()
                .change_settings((configured.settings)(&values));
        }
        Ok(seen.warnings)
    }
}
