//! Starts the process of a kernel, as its kernelspec says it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::ForeignKernel;
use crate::jupyter::substitute;
use crate::process::{Program, Spawned, Stdio, spawn};

/// Starts a kernel in a process group of its own. It gets this environment, with what its kernelspec
/// says, and is told whom it must not outlive.
///
/// # Errors
///
/// If it cannot be started; the sentence goes on after its name.
pub(crate) fn launch(
    kernel: &ForeignKernel,
    file: &Path,
    environment: &[(OsString, OsString)],
    directory: &Path,
    stdio: Stdio,
) -> Result<Spawned, String> {
    let file = file.display().to_string();
    let folder = kernel.folder.display().to_string();
    let mut words = kernel.argv.iter().map(|word| {
        word.replace("{connection_file}", &file)
            .replace("{resource_dir}", &folder)
    });
    let program = words.next().unwrap_or_default();
    let program = Program {
        program: PathBuf::from(&program),
        arguments: words.map(OsString::from).collect(),
        environment: variables(&kernel.env, environment)?,
        directory: directory.to_owned(),
    };
    spawn(program, stdio).map_err(|error| failed(&error.to_string()))
}

/// Why a kernel is not there, as it goes on after its name.
pub(super) fn failed(what: &str) -> String {
    format!("cannot be started: {what}")
}

/// An environment, with what the kernelspec says.
fn variables(
    wanted: &[(String, String)],
    environment: &[(OsString, OsString)],
) -> Result<Vec<(OsString, OsString)>, String> {
    let mut variables = environment.to_vec();
    for (name, template) in wanted {
        let known = |asked: &str| {
            let found = environment.iter().find(|(known, _)| known == asked);
            found.and_then(|(_, value)| value.to_str())
        };
        let value = substitute(template, known)
            .ok_or_else(|| failed(&format!("its variable {name} is too long")))?;
        variables.retain(|(known, _)| known != name.as_str());
        variables.push((name.into(), value.into()));
    }
    // By this a kernel knows whom it must not outlive.
    variables.push((
        "JPY_PARENT_PID".into(),
        std::process::id().to_string().into(),
    ));
    Ok(variables)
}
