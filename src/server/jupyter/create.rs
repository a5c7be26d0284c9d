//! A kernel that a front end asks for: a new session, and on whose behalf.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::kernels::SPEC_NAME;
use crate::config::Caller;
use crate::environment::{UnknownKernel, named_kernel};
use crate::ids::random_hex;
use crate::process::in_a_thread;
use crate::server::Manager;
use crate::server::refusal::Refusal;
use crate::session::Session;

/// The variable in which a gateway's clients say where a kernel is to be.
const WORKING_DIR: &str = "KERNEL_WORKING_DIR";

/// What is asked for, as Jupyter Server takes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    /// The kernelspec; our own kernel, if none is named or `python3`, and for those of ours.
    name: Option<String>,
    /// A folder, or a file in it. Only an absolute one says something here.
    path: Option<PathBuf>,
    /// Variables beside those that the manager has for such kernels.
    env: BTreeMap<String, String>,
}

/// Makes a session, and starts its kernel.
pub(super) async fn create(manager: &Manager, wanted: &Wanted) -> Result<Session, Refusal> {
    let settings = manager.registry().settings();
    let mut environment: BTreeMap<String, String> =
        settings.kernel_environment.iter().cloned().collect();
    environment.extend(wanted.env.clone());
    let asked_for = [
        wanted.path.clone(),
        environment.get(WORKING_DIR).map(PathBuf::from),
    ];
    let home = environment.get("HOME").map(PathBuf::from);
    let last = settings.home.clone();
    let cwd = in_a_thread(move || directory(asked_for.into_iter().flatten(), home).unwrap_or(last));
    let mut caller = Caller {
        environment: environment.into_iter().collect(),
        cwd: cwd
            .await
            .map_err(|error| Refusal::unavailable(error.to_string()))?,
        umask: 0o022,
        limits: None,
        python: None,
        kernel: None,
        mode: None,
        named: Vec::new(),
    };
    let name = wanted.name.clone().unwrap_or_default();
    if !["", SPEC_NAME].contains(&name.as_str()) {
        let found = in_a_thread(move || {
            let found = named_kernel(&name, &caller)?;
            Ok::<_, UnknownKernel>(found.asked_for_by(caller))
        });
        let found = found
            .await
            .map_err(|error| Refusal::unavailable(error.to_string()))?;
        caller = found.map_err(|error| Refusal::usage(error.to_string()))?;
    }
    let session = manager
        .registry()
        .session(&format!("kernel-{}", random_hex(4)), &caller)
        .map_err(Refusal::from)?;
    if let Err(outcome) = session.start().await {
        drop(session.close().await);
        return Err(Refusal::unavailable(outcome.error.unwrap_or_default()));
    }
    Ok(session)
}

/// The first that is a folder, or stands in one.
fn directory(
    mut asked_for: impl Iterator<Item = PathBuf>,
    home: Option<PathBuf>,
) -> Option<PathBuf> {
    let folder_of = |path: PathBuf| {
        if !path.is_absolute() {
            return None;
        }
        let folder = path.ancestors().take(2).find(|path| path.is_dir());
        folder.map(Path::to_owned)
    };
    let is_folder = |path: &PathBuf| path.is_absolute() && path.is_dir();
    asked_for.find_map(folder_of).or(home.filter(is_folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_first_that_is_there() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().to_owned();
        let found = |asked: &[&str], home: Option<&str>| {
            let asked: Vec<PathBuf> = asked.iter().map(|it| folder.join(it)).collect();
            directory(asked.into_iter(), home.map(|it| folder.join(it)))
        };
        assert_eq!(found(&["book.ipynb"], None), Some(folder.clone()));
        assert_eq!(found(&["no/no/book.ipynb", ""], None), Some(folder.clone()));
        assert_eq!(found(&["a/b"], Some("")), Some(folder.clone()));
        assert_eq!(found(&[], Some("none")), None);
        let relative = std::iter::once(PathBuf::from("src"));
        assert_eq!(directory(relative, None), None);
    }
}
