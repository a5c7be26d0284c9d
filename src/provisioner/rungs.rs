//! The ladder of Pythons, looked at rung by rung.

use super::ProvisionError;
use super::forkserver_start::StartFailure;
use super::local::LocalProvisioner;
use super::start_environment::start_environment;
use crate::environment::{Candidate, Rung, TriedRung, Verdict};

impl LocalProvisioner {
    /// Looks at every rung, as it would be for a kernel with this environment: each Python is started
    /// that is not running yet, one after the other.
    ///
    /// # Errors
    ///
    /// If no Python at all could be started, through no fault of theirs.
    pub async fn try_rungs(
        &self,
        rungs: Vec<Rung>,
        environment: &[(String, String)],
    ) -> Result<Vec<TriedRung>, ProvisionError> {
        let environment = start_environment(environment);
        let mut tried = Vec::new();
        for Rung { source, path } in rungs {
            let verdict = match path.clone() {
                None => Verdict::Empty,
                Some(path) => {
                    let candidate = Candidate { path, source };
                    match self.server_for(&candidate, &environment).await {
                        Ok(server) => Verdict::Usable(server.interpreter().clone()),
                        Err(StartFailure::Unusable(reason)) => Verdict::Unusable(reason),
                        Err(StartFailure::Fault(error)) => return Err(error),
                    }
                }
            };
            tried.push(TriedRung {
                source,
                path,
                verdict,
            });
        }
        Ok(tried)
    }
}
